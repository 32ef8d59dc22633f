"""The head of a model whose outputs are vectors of texts; targets are scores, or what belongs together."""

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from keras import ops

from keras_selfattn.errors import DataError
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.pretrained.vector_losses import ScoreLoss, VectorLoss
from keras_selfattn.rows.containers import ordered_rows, refuse_table
from keras_selfattn.rows.label_names import is_missing
from keras_selfattn.rows.targets import SIMILARITY
from keras_selfattn.rows.text_groups import TextNumbers

Tensor = Any


class VectorHead(Head):
    """The head of a model whose outputs are vectors.

    A target is the score of a pair, a float, or the `TextNumbers` of texts that belong together.

    Args:
        score_loss: the loss of scores, as `VectorLoss` has it.
    """

    task: ClassVar[str] = "embedding"
    target_kind = SIMILARITY

    def __init__(self, score_loss: ScoreLoss = "order") -> None:
        self.score_loss: ScoreLoss = score_loss

    @property
    def state(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_targets(cls, targets: Sequence[float | TextNumbers]) -> "VectorHead":
        """Return the head, which learns nothing from targets, once they are such that vectors can be learned.

        Raises:
            DataError: as `check_learnable` does.
        """
        check_learnable(targets)
        return cls()

    @staticmethod
    def read(y: Any) -> list[Any]:
        """Return scores as floats; or a list of None, as many, where there are none."""
        y = ordered_rows(y)
        refuse_table("The scores", y)
        given = list(np.asarray(y).reshape(-1) if isinstance(y, np.ndarray) else y)
        without = [isinstance(score, TextNumbers) or is_missing(score) for score in given]
        if all(without):
            return [None] * len(given)
        if any(without):
            row, with_score = without.index(True), without.index(False)
            raise DataError(
                f"Row {row} (counted from 0) has no score, and row {with_score} has {given[with_score]!r}. "
                "Give each row a score, or none any: texts without scores belong together."
            )
        return [_score(row, score) for row, score in enumerate(given)]

    @staticmethod
    def check_validation(targets: Sequence[Any], held_out: Sequence[Any]) -> None:
        scored, measured = (SIMILARITY.is_score(each[0]) for each in (targets, held_out))
        if scored != measured:
            have, lack = ("training", "validation") if scored else ("validation", "training")
            raise DataError(
                f"The {have} rows have scores and the {lack} rows have none, so another loss would choose "
                f"the epoch. Name the column of scores (--label) of the {lack} rows, or leave out all scores "
                "(--label ''), or the validation rows: some of those to train on are then held out."
            )

    def encoded(self, targets: Sequence[float | TextNumbers]) -> np.ndarray:
        """Return scores, float32 `[rows, 1]`; or the numbers of texts, int32 `[rows, K]`, padded with -1."""
        if targets and SIMILARITY.is_score(targets[0]):
            return np.array(targets, np.float32)[:, None]
        groups: Sequence[Any] = targets
        found = np.full((len(groups), max(map(len, groups), default=2)), -1, np.int32)
        for row, numbers in enumerate(groups):
            found[row, : len(numbers)] = numbers
        return found

    def outputs(self, x: Any, wide: Any = None, first: Any = None) -> Tensor:
        return ops.cast(x, "float32")

    def loss(self, label_smoothing: float = 0.0) -> Any:
        return VectorLoss(self.score_loss)

    def metrics(self) -> list[Any]:
        return []


def check_learnable(targets: Sequence[Any]) -> None:
    """Raise DataError for targets that say nothing of which texts are more alike than others.

    Args:
        targets: floats, or `TextNumbers`.
    """
    if SIMILARITY.is_score(targets[0]):
        if len(np.unique(np.array(targets, np.float32))) == 1:
            if len(targets) == 1:
                raise DataError("One pair with a score is less alike than no other. Give several pairs.")
            raise DataError(
                f"All {len(targets)} scores are {targets[0]:g} in float32, so no pair is more alike than "
                "another. Give scores that differ, or leave them out: texts without scores belong together."
            )
        return
    documents = {number for numbers in targets for number in numbers[1:]}
    no_errors: dict[int, set[int]] = {}
    for query, document, *_ in targets:
        no_errors.setdefault(query, {query, -1}).add(document)
    if not any(documents - of_query for of_query in no_errors.values()):
        raise DataError(
            f"In the {len(targets)} groups of texts, each second text belongs to each first one, so there is "
            "none to tell it from. Give groups with different first and second texts, or with negatives."
        )


def _score(row: int, given: Any) -> float:
    number = given.item() if isinstance(given, np.generic | np.ndarray) and given.size == 1 else given
    with np.errstate(over="ignore"):
        if isinstance(number, Real) and np.isfinite(np.float32(number)):
            return float(number)
    raise DataError(
        f"Score {row} (counted from 0) must be a number, finite in float32. Received {given!r:.80}."
    )
