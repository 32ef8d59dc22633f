"""Evaluation on rows with known targets: they are read, labels unknown to the model set apart, and measured.

Training and evaluation handle `LabelledRows` (of data: inputs, targets, source); models work on `Rows` (of
models.batches.rows).
"""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from keras_selfattn.data.labelled import LabelledRows, as_rows
from keras_selfattn.errors import DataError
from keras_selfattn.metrics.mistakes import mistakes_of
from keras_selfattn.metrics.reliability import Reliability, reliability
from keras_selfattn.metrics.report import Columns, Report
from keras_selfattn.metrics.report_of_model import head_metrics, report_of
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.user_warnings import warn_user

# Rows at once when predicting: enough to fill the cores, few enough to bound memory.
_PREDICT_BATCH = 64
# Of which an example is chosen.
_FIRST = 256
# Labels in a message, and places for each.
_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Outputs and figures of a model on rows with known targets.

    Args:
        head: the head of the model.
        rows: the evaluated rows, as the model reads them.
        outputs: the model's prediction for each.
        figures: of all rows together.
        baselines: the answers of baselines of numbers, by name.
    """

    head: Head
    rows: LabelledRows
    outputs: Any
    figures: Report
    baselines: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def reliability(self) -> Reliability | None:
        """Return how often answers of each probability are right; None of a head without probabilities."""
        decisions = head_metrics(self.head).decisions(self.rows.targets, self.outputs)
        return None if decisions is None else reliability(*decisions)

    def mistakes(self) -> Columns:
        """Return the wrongly predicted rows, the worst first; see `mistakes_of`."""
        return mistakes_of(self.head, self.rows, self.outputs)

    def example(self) -> dict[str, Any] | None:
        """Return the first short row with a right prediction among the first 256, as JSON types.

        Of labels at each position it has one that is not outside, if any such row does; the check of an
        export asks it. If no prediction is right, it is the first short row; if none is short, None.
        """
        first = self.rows.take(range(min(_FIRST, len(self.rows))))
        wrong = {line[0] for line in mistakes_of(self.head, first, self.outputs[: len(first)]).rows}
        short = [row for row, given in enumerate(first.inputs) if first.kind.is_short(given)]
        right = [row for row in short if first.place(row) not in wrong]
        if not short:
            return None
        telling = (
            [row for row in rows if first.target_kind.is_telling(first.targets[row])]
            for rows in (right, short)
        )
        row = next(rows for rows in (*telling, right, short) if rows)[0]
        given, target = first.kind.as_json(first.inputs[row]), first.target_kind.as_json(first.targets[row])
        return {"input": given, "target": target, "where": first.place(row)}


def evaluate(
    model: RawModel, rows: LabelledRows | tuple[Any, Any], *, skip_unknown_labels: bool = False
) -> Report:
    """Return the figures of a model on rows with known targets; see `examine`.

    Example:

        >>> from keras_selfattn import models
        >>> model = models.TextClassifier(vocabulary=["good", "bad"], labels=["+", "-"])
        >>> evaluate(model, (["good", "bad"], ["+", "-"])).rows
        2
    """
    return examine(model, rows, skip_unknown_labels=skip_unknown_labels).figures


def examine(
    model: RawModel, rows: LabelledRows | tuple[Any, Any], *, skip_unknown_labels: bool = False
) -> Evaluation:
    """Return figures and mistakes of a model on rows with known targets.

    A row with an unknown label counts as wrong; a warning gives the number of such rows, their labels and
    places.

    Args:
        model: trained.
        rows: `LabelledRows`, or a pair of inputs and targets, in any containers.
        skip_unknown_labels: leave such rows out instead.

    Raises:
        DataError: for rows or targets of another kind than the model's, or if it knows no label of any row.
    """
    rows = read_labelled_rows(model, as_rows(rows, "rows", model.row_kind), type(model.head))
    known, unknown = split_unknown_labels(rows, getattr(model.head, "labels", ()))
    if unknown and skip_unknown_labels:
        if not len(known):
            raise DataError(f"{unknown} None is left without.")
        warn_user(f"{unknown} These rows are left out.")
        rows = known
    elif unknown:
        flag = "`skip_unknown_labels` (--skip-unknown-labels) leaves them out"
        warn_user(f"{unknown} They count as wrong; {flag}.")
    warn_of_out_of_reach(model, rows)
    return measured(model, rows)


def warn_of_out_of_reach(model: RawModel, rows: LabelledRows, split: str = "") -> None:
    """Warn of rows, such as those of a split, whose target no answer of a model can equal."""
    if said := model.head.out_of_reach(rows.targets, f"{split} rows".strip()):
        warn_user(f"{rows.source}: {said} They count as wrong.")


def read_labelled_rows(model: RawModel, rows: LabelledRows, kind: type[Head]) -> LabelledRows:
    """Return rows as the model reads them, with targets as its kind of head reads them; their kinds too."""
    if not len(rows):
        raise DataError(f"{rows.source} has no rows. Give at least one.")
    with source_named(rows.source):
        read = model.read_rows(rows.inputs, rows.targets, None, kind)
    # `replace` keeps the class, which defines the split of its rows.
    return dataclasses.replace(
        rows,
        inputs=read.inputs,
        targets=read.targets,
        kind=model.row_kind_of(read.inputs),
        target_kind=kind.target_kind,
    )


@contextmanager
def source_named(source: str) -> Iterator[None]:
    """Add the source of the rows to errors of rows."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{source}: {error}") from error


def split_unknown_labels(
    rows: LabelledRows, labels: Collection[str], what: str = "rows"
) -> tuple[LabelledRows, str]:
    """Return the rows whose labels are all known, and a message about the others, or "".

    Args:
        rows: as a model reads them.
        labels: the known labels.
        what: the name of the rows in the message.

    Raises:
        DataError: if there are labels, and none of them is known.
    """
    known = set(labels)
    unknown: dict[str, list[int]] = {}
    wrong = set()
    for row, target in enumerate(rows.targets):
        for name in set(rows.target_kind.labels(target)) - known:
            unknown.setdefault(name, []).append(row)
            wrong.add(row)
    if not unknown:
        return rows, ""
    said = f"{rows.source}: {len(wrong):,} of {len(rows):,} {what} have a label that was not in training"
    if len(wrong) == len(rows) and not rows.labels() & known:
        names = sorted(known)
        raise DataError(
            f"{said}, such as {min(unknown)!r}. Known are {', '.join(names[:20])}"
            f"{', …' if len(names) > 20 else ''}. Is it the right column of labels?"
        )
    commonest = sorted(unknown, key=lambda name: (-len(unknown[name]), name))
    named = [f"{name!r} ({_places(rows, unknown[name])})" for name in commonest[:_SHOWN]]
    named += [f"{len(unknown) - _SHOWN} more labels"] if len(unknown) > _SHOWN else []
    return rows.take([row for row in range(len(rows)) if row not in wrong]), f"{said}: {', '.join(named)}."


def _places(rows: LabelledRows, found: list[int]) -> str:
    """Return the places of rows: "lines 3, 7" or names."""
    places = [rows.place(row) for row in found[:_SHOWN]]
    more = [f"{len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    lines = all(isinstance(place, int) for place in places)
    begin = ("line " if len(found) == 1 else "lines ") if lines else ""
    return begin + ", ".join([*map(str, places), *more])


def measured(model: RawModel, rows: LabelledRows) -> Evaluation:
    """Return figures and mistakes of a model on preprocessed rows; unknown labels count as wrong."""
    outputs = model.measured_outputs(rows.inputs, _PREDICT_BATCH)
    baselines = model.baselines(rows.inputs)
    figures = report_of(model.head, rows.targets, outputs, baselines)
    return Evaluation(model.head, rows, outputs, figures, baselines)
