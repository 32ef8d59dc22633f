"""What a user gives a model to train with, sorted: validation data, weights."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.models.heads import Head
from keras_selfattn.models.rows import Rows


def columns_of(data: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Returns inputs, targets and weights, or None, of validation data."""
    if len(data) not in (2, 3):
        raise DataError(f"`validation_data` must be rows, targets and, if any, weights. It has {len(data)}.")
    return data[0], data[1], data[2] if len(data) == 3 else None


def weights_of_rows(by_place: dict[int, float] | None, head: Head, rows: Rows) -> np.ndarray | None:
    """Returns the weights of rows, those of their classes included, or None if all are the same."""
    if by_place is None:
        return rows.weights
    of_classes = np.array([by_place[place] for place in head.encoded(rows.targets).tolist()])
    return of_classes if rows.weights is None else of_classes * rows.weights
