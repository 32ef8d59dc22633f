"""The heads of scores of texts: numbers in their own units, or in [0, 1], with a wide path or without.

Axes: B (batch), D (features), N (numbers of a row).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.models.core.ensemble import logits_of
from keras_selfattn.models.heads.class_heads import SmoothedBinaryCrossentropy
from keras_selfattn.models.heads.number_head import InUnits, NumbersHead, as_numbers, names_of
from keras_selfattn.models.heads.probabilities import FIRST_SHARES, Mixture, Probabilities, Shares

Tensor = Any


class ScoreHead(NumbersHead):
    """One score for a row, or several, of any size: learned by squared error.

    Attention and the wide path both predict deviations from the mean. The answer is a weighted mean of both.

    Args:
        mean: of each score in the training rows.
        deviation: standard deviation of each.
        names: of several scores, in their order; None if nobody has named them.
        unscaled: True if the answers are the output layer's own numbers, as of an imported model. None, as
            files of earlier versions have it, for what the numbers say: all means are 0, all deviations 1.
    """

    def __init__(
        self,
        mean: Sequence[float],
        deviation: Sequence[float],
        names: Sequence[str] | None = None,
        *,
        unscaled: bool | None = None,
    ) -> None:
        super().__init__(mean, deviation, names)
        plain = not any(self.mean) and set(self.deviation) == {1.0}
        self.unscaled = plain if unscaled is None else unscaled

    @property
    def state(self) -> dict[str, Any]:
        return {**super().state, "unscaled": self.unscaled}

    @classmethod
    def from_targets(cls, targets: Sequence[np.ndarray]) -> "ScoreHead":
        """Return the head with the mean and deviation of targets `[N]`, and with the names of a table.

        Raises:
            DataError: if a score has one value only in all rows.
        """
        values, names = np.stack(targets), names_of(targets)  # [rows, N]
        for place, column in enumerate(values.T):
            if (column == column[0]).all():
                which = "score" if values.shape[1] == 1 else f"score {place + 1} of {values.shape[1]}"
                which = which if names is None else f"score {names[place]!r}"
                raise DataError(
                    f"The {which} has one value only: it is {column[0]:g} in all {len(values)} rows, from "
                    "which nothing is learned. Is it the right column?"
                )
        # Their mean may be 0 and their deviation 1, as of the scores 1 and -1.
        return cls(values.mean(axis=0).tolist(), values.std(axis=0).tolist(), names, unscaled=False)

    def outputs(
        self, x: Tensor | list[Tensor], wide: Tensor | None = None, first: Shares = FIRST_SHARES
    ) -> Tensor:
        return InUnits(self.mean, self.deviation, name="numbers")(self._mixed(x, wide, first))

    def _mixed(self, x: Tensor | list[Tensor], wide: Tensor | None, first: Shares) -> Tensor:
        """Return the numbers of attention and of the wide path together, `[B, N]`."""
        # Attention begins with the mean: the loss of other first guesses is several times that of the mean.
        found = logits_of(x, len(self.mean), exclusive=False, kernel="zeros")
        if wide is None:
            return found
        # Log-probabilities may be added; two predictions of one number are averaged.
        both = first.deep + first.wide
        shares = Shares(first.deep / both, first.wide / both, first.rows)
        return Mixture(False, shares, dtype="float32", name="mixture")([found, wide])


class BoundedScoreHead(ScoreHead):
    """One score for a row, or several, each in [0, 1]: learned by cross-entropy, as a probability is."""

    @staticmethod
    def read(y: Any) -> list[np.ndarray]:
        found = as_numbers(y)
        for row, numbers in enumerate(found):
            if numbers.min() < 0 or numbers.max() > 1:
                raise DataError(
                    f"Target {row} (counted from 0) must be in [0, 1], because the model is `bounded` "
                    f"(--bounded). Received {_plain(numbers)}. Scale the scores, or leave it out."
                )
        return found

    def outputs(
        self, x: Tensor | list[Tensor], wide: Tensor | None = None, first: Shares = FIRST_SHARES
    ) -> Tensor:
        logits = self._mixed(x, wide, first)
        return Probabilities("sigmoid", dtype="float32", name="probabilities")(logits)

    def loss(self, label_smoothing: float = 0.0) -> Any:
        return SmoothedBinaryCrossentropy()


def _plain(numbers: np.ndarray) -> Any:
    return numbers.tolist() if len(numbers) > 1 else numbers.item()
