"""Columns of raw rows as a model has read them: inputs, targets and weights of equal length."""

from typing import Any, NamedTuple

import numpy as np

from keras_selfattn.errors import DataError

# Of rows, float32 `[rows]`, or of the positions of each row, float32 `[T]`.
Weights = np.ndarray | list[np.ndarray]


class Rows(NamedTuple):
    """Columns of equal length: raw inputs, targets as the head reads them, and weights or None.

    The weights have the form of the targets: one number a row or, with a target at each position, one a
    position.

    The models work on `Rows`; files and `training` have rows as `data.LabelledRows`, with source and lines.
    """

    inputs: list[Any]
    targets: list[Any]
    weights: Weights | None = None

    @property
    def weights_of_rows(self) -> np.ndarray | None:
        """The weights of rows with one target each."""
        return None if self.weights is None else np.asarray(self.weights)

    def part(self, place: slice) -> "Rows":
        """Return a slice of the rows."""
        weights = None if self.weights is None else self.weights[place]
        return Rows(self.inputs[place], self.targets[place], weights)


def check_columns(what: str, rows: Rows, targets: str = "labels") -> None:
    """Raise DataError for no rows, or columns of unequal length.

    Args:
        what: the name of the inputs, in the plural.
        rows: the columns.
        targets: the name of the targets, in the plural.
    """
    if not rows.inputs:
        raise DataError("There are no rows. Give at least one.")
    for name, column in ((targets, rows.targets), ("sample weights", rows.weights)):
        if column is not None and len(column) != len(rows.inputs):
            raise DataError(
                f"{what} and {name} differ in number. Received {len(rows.inputs)} and {len(column)}."
            )


def split_end(rows: Rows, share: float) -> tuple[Rows, Rows]:
    """Split a share off the end, like Keras' `validation_split`; at least one row."""
    kept = len(rows.inputs) - max(1, int(len(rows.inputs) * share))
    return rows.part(slice(kept)), rows.part(slice(kept, None))
