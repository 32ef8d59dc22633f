"""Weights of training rows: the user's, and those of classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.label_names import without_column
from keras_selfattn.models.heads import Head
from keras_selfattn.models.raw_inputs import Rows


def checked_weights(weights: Any) -> np.ndarray | None:
    """Return weights of all rows as float32, or None.

    Raises:
        DataError: as for `batch_weights`; or if all are 0.
    """
    found = batch_weights(weights)
    if found is not None and len(found) and not found.any():
        raise DataError(
            "All rows weigh 0: with all sample weights zero there is nothing to learn from. Give some row or "
            "class a weight."
        )
    return found


def batch_weights(weights: Any) -> np.ndarray | None:
    """Return weights of the rows of a batch as float32, or None; all may be 0.

    Raises:
        DataError: if they are not one number for each row, in one axis or as a column, finite and at least 0,
            with the first wrong row.
    """
    if weights is None:
        return None
    try:
        found = without_column(np.asarray(weights, dtype="float32"))
    except (TypeError, ValueError) as error:
        raise DataError(
            "Sample weights are one number a row; those of classes are `class_weight`. "
            f"Received {weights!r:.80}."
        ) from error
    if found.ndim != 1:
        raise DataError(f"Sample weights are one number a row. Received shape {found.shape}.")
    wrong = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if len(wrong):
        raise DataError(
            "Sample weights must be finite and at least 0. "
            f"Row {wrong[0]} (counted from 0) has {found[wrong[0]]!s}."
        )
    return found


def weighted(rows: Rows, head: Head, class_weight: Any) -> Rows:
    """Return rows with their weights multiplied by the weights of their classes, if there are any.

    Raises:
        ConfigError: for weights of classes that the head does not take.
        DataError: if all resulting weights are 0.
    """
    by_place = head.class_weights(class_weight, rows.targets)
    if by_place is None:
        return rows
    of_classes = weights_of(rows.targets, head, by_place)
    weights = of_classes if rows.weights is None else of_classes * rows.weights
    return rows._replace(weights=checked_weights(weights))


def weights_of(targets: Sequence[Any], head: Head, by_place: dict[int, float]) -> np.ndarray:
    """Return the weights of rows with one label each, float32, by the indices of their classes."""
    return np.array([by_place[place] for place in head.encoded(targets).tolist()], "float32")
