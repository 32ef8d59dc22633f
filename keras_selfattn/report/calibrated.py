"""The section of a report about how often answers of each probability are right."""

from typing import TYPE_CHECKING, Any

import numpy as np

from keras_selfattn.drawing.builders import reliability_figure
from keras_selfattn.metrics.reliability import Reliability, reliability
from keras_selfattn.models.heads.class_heads import MultiLabelHead
from keras_selfattn.models.tokens.position_head import PositionHead
from keras_selfattn.report.sections import Named, Section, Table

if TYPE_CHECKING:
    from keras_selfattn.metrics.evaluation import Evaluation
    from keras_selfattn.training.calibration import CalibrationEffect


def reliability_section(
    found: "Evaluation", split: str, effect: "CalibrationEffect | None", *, of_kept_model: bool = False
) -> Section:
    """Return how often answers of each probability are right, before and after the calibration.

    Args:
        found: the answers, of a head with probabilities.
        split: the name of the answered rows.
        effect: of the calibration, on the validation rows; None if there was none.
        of_kept_model: True if the answers are of another model than the calibrated one, trained after it.
    """
    curves: dict[str, Reliability] = {}
    if effect is not None:
        curves = {"before calibration": effect.before, "after calibration": effect.after}
    if effect is None or split != "validation" or of_kept_model:
        curves[f"{split} rows"] = reliability(*_decisions(found.head, found))
    what = (
        "probability of each label"
        if isinstance(found.head, MultiLabelHead)
        else "probability of each answer"
    )
    said = [f"The {what} beside the share that is right: on the dotted line the probabilities are true."]
    if effect is not None:
        said.append(
            "The curves before and after the calibration are of the validation rows, which it was fitted to "
            f"by their likelihood; the calibration error there was {effect.before.error:.1%} before and "
            f"{effect.after.error:.1%} after."
        )
        if of_kept_model:
            said.append("They are of the model whose epochs were measured; the kept one has its calibration.")
    if f"{split} rows" in curves:
        said.append(f"On the {split} rows the calibration error is {curves[f'{split} rows'].error:.1%}.")
    if effect is None:
        said.append("There was no calibration in this run, or it is not in the run folder.")
    rows = [[name, *cells] for name, each in curves.items() for cells in _bins(each)]
    header = ["rows", "from", "to", "answers", "mean probability", "share that is right"]
    table = Table("The bins of the curves", header, rows, folded=True)
    return Section("Reliability", [*said, Named("reliability", reliability_figure(curves)), table])


def _bins(found: Reliability) -> list[tuple[float, float, int, float, float]]:
    size = len(found.counts)
    return [
        (
            place / size,
            (place + 1) / size,
            int(count),
            float(found.confidence[place]),
            float(found.accuracy[place]),
        )
        for place, count in enumerate(found.counts)
        if count
    ]


def _decisions(head: Any, found: "Evaluation") -> tuple[Any, Any]:
    """Return whether each answer is right, and its probability; of several labels a row, of each label."""
    if isinstance(head, PositionHead):
        chosen = head.chosen(found.outputs)
        pairs = list(zip(found.outputs, chosen, strict=True))
        probability = np.concatenate([row[np.arange(len(row)), places] for row, places in pairs])
        right = [
            head.labels[place] == label
            for places, labels in zip(chosen, found.rows.targets, strict=True)
            for place, label in zip(places.tolist(), labels, strict=True)
        ]
        return np.array(right, bool), probability
    outputs = np.asarray(found.outputs)
    if isinstance(head, MultiLabelHead):
        borne = np.array([np.isin(head.labels, list(target)) for target in found.rows.targets])
        return borne.ravel(), outputs.ravel()
    answers = [head.labels[place] for place in outputs.argmax(axis=-1)]
    right = [answer == label for answer, label in zip(answers, found.rows.targets, strict=True)]
    return np.array(right, bool), outputs.max(axis=-1)
