"""Weights of training rows, of their tokens and of their classes, and their place beside the losses.

Axes: B (batch), T (positions), C (classes or numbers).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_selfattn.errors import DataError
from keras_selfattn.models.batches.rows import Rows, Weights
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.rows.containers import columns_of, ordered_rows, refuse_table
from keras_selfattn.rows.label_names import without_column

Tensor = Any


def row_weights(weights: Any) -> np.ndarray | None:
    """Return weights of rows as float32 `[rows]`, or None; all may be 0.

    Raises:
        DataError: if they are not one number for each row, in one axis or as a column, finite and at least 0,
            with the first wrong row.
    """
    if weights is None:
        return None
    weights = ordered_rows(weights)
    if isinstance(weights, Mapping):  # NumPy would read the keys of some
        raise _no_numbers(weights)
    if not hasattr(weights, "__array__"):
        refuse_table("The sample weights", weights)
    try:
        found = without_column(np.asarray(weights, dtype="float32"))
    except (TypeError, ValueError) as error:
        raise _no_numbers(weights) from error
    if found.ndim != 1:
        raise DataError(f"Sample weights are one number a row. Received shape {found.shape}.")
    _check_values(found, "Row {} (counted from 0)")
    return found


def position_weights(weights: Any) -> Weights | None:
    """Return weights of rows, float32 `[rows]`, or of their tokens, float32 `[T]` for each; or None.

    Args:
        weights: one number a row, in one axis or as a column; or for each row one number a token: a list of
            them, or an array `[rows, T]` or `[rows, T, 1]`.

    Raises:
        DataError: as for `row_weights`, with the token where each has a weight.

    Example:

        >>> position_weights([1.0, 2.0]).tolist(), [row.tolist() for row in position_weights([[1, 0], [2]])]
        ([1.0, 2.0], [[1.0, 0.0], [2.0]])
    """
    if isinstance(weights, str | bytes | Mapping) or columns_of(weights) or not np.iterable(weights):
        return row_weights(weights)  # None, or an error
    rows = list(map(ordered_rows, weights))
    if all(np.ndim(row) == 0 or np.shape(row) == (1,) for row in rows):
        return row_weights(rows)
    return [_token_weights(number, row) for number, row in enumerate(rows)]


def at_positions(weights: Weights | None, rows: Sequence[Sequence[Any]]) -> list[np.ndarray] | None:
    """Return one weight for each token of as many rows, float32 `[T]` each; that of a row is its tokens'.

    Raises:
        DataError: if a row has other numbers of tokens and weights.
    """
    if weights is None:
        return None
    if isinstance(weights, np.ndarray):
        return [np.full(len(row), weight, "float32") for row, weight in zip(rows, weights, strict=True)]
    for number, (row, found) in enumerate(zip(rows, weights, strict=True)):
        if len(row) != len(found):
            raise DataError(
                f"Row {number} (counted from 0) has {len(row)} tokens and {len(found)} sample weights. Give "
                "one weight for each token, or one for the row."
            )
    return weights


def check_some_weight(weights: Weights | None) -> None:
    """Raise DataError if there are weights of all rows of a training or measurement, and all are 0."""
    if weights is not None and len(weights) and not any(np.any(each) for each in weights):
        raise DataError(
            "All rows weigh 0: with all sample weights zero there is nothing to learn from. Give some row or "
            "class a weight."
        )


def weighted(rows: Rows, head: Head, class_weight: Any) -> Rows:
    """Return rows with their weights multiplied by the weights of their classes, if there are any.

    Raises:
        ConfigError: for weights of classes that the head does not take.
        DataError: if all resulting weights are 0.
    """
    rows = with_classes(rows, head, head.class_weights(class_weight, rows.targets))
    check_some_weight(rows.weights)
    return rows


def with_classes(rows: Rows, head: Head, by_place: dict[int, float] | None) -> Rows:
    """Return rows with their weights multiplied by those of their classes by index, if there are any."""
    if by_place is None:
        return rows
    of_classes = weights_of(rows.targets, head, by_place)
    given = rows.weights_of_rows
    return rows._replace(weights=of_classes if given is None else of_classes * given)


def weights_of(targets: Sequence[Any], head: Head, by_place: dict[int, float]) -> np.ndarray:
    """Return the weights of rows with one label each, float32, by the indices of their classes."""
    return np.array([by_place[place] for place in head.encoded(targets).tolist()], "float32")


def aligned(weights: Tensor, outputs: Tensor) -> Tensor:
    """Return weights of a batch with the axes of its outputs before the last one, whose sizes may be 1.

    Keras aligns weights with the last axes of the losses, `[B]` with the positions of losses `[B, T]`: the
    weight of row k would be that of position k of all rows.

    Args:
        weights: float `[B]` or `[B, 1]`; at positions also `[B, T]` or `[B, T, 1]`.
        outputs: float `[B, C]`, or at positions `[B, T, C]`.

    Returns:
        float `[B, 1]` or, for weights of positions, `[B, T]`.

    Raises:
        DataError: for other shapes, as far as they are known before the step.

    Example:

        >>> tuple(aligned(np.array([1.0, 2.0]), np.zeros((2, 3, 5))).shape)
        (2, 1)
    """
    weights, rows = ops.convert_to_tensor(weights), ops.shape(outputs)[0]
    has_positions = len(outputs.shape) > 2
    if getattr(weights.shape, "rank", 0) is None:  # TensorFlow's, after batches with weights of several ranks
        return ops.reshape(weights, (rows, -1 if has_positions else 1))
    shape = tuple(weights.shape)
    if has_positions and len(shape) == 3 and shape[-1] == 1:
        shape = shape[:-1]
    if not _fits(shape, tuple(outputs.shape)):
        raise DataError(_refusal(tuple(weights.shape), tuple(outputs.shape)))
    of_positions = has_positions and len(shape) == 2 and shape[1] != 1
    # The reshaping fails for another number of weights than rows, where both are unknown until the step.
    return ops.reshape(weights, (rows, ops.shape(weights)[1] if of_positions else 1))


def _fits(weights: tuple, outputs: tuple) -> bool:
    """Return True if a shape of weights may be that of the rows of outputs, or of their positions."""
    sizes = [(1, *outputs[1:-1]) if axis else outputs[:1] for axis in range(len(weights))]
    known = [size is None or None in fit or size in fit for size, fit in zip(weights, sizes, strict=True)]
    return len(weights) in (1, 2) and all(known)


def _refusal(weights: tuple, outputs: tuple) -> str:
    *sizes, _ = zip(outputs, ("rows", "tokens", ""), strict=False)
    received = " and ".join(f"{'any' if size is None else size} {name}" for size, name in sizes)
    of_tokens = ", or one a token, `[rows, tokens]`" if len(sizes) > 1 else ""
    return (
        f"Sample weights are one number a row, `[rows]` or `[rows, 1]`{of_tokens}. Received shape {weights} "
        f"for a batch of {received}."
    )


def _no_numbers(weights: Any) -> DataError:
    return DataError(
        f"Sample weights are one number a row; those of classes are `class_weight`. Received {weights!r:.80}."
    )


def _token_weights(number: int, row: Any) -> np.ndarray:
    """Return the weights of the tokens of a row as float32 `[T]`."""
    try:
        found = without_column(np.asarray(row, dtype="float32"))
    except (TypeError, ValueError):
        found = np.empty(())
    if found.ndim != 1:
        raise DataError(
            f"Row {number} (counted from 0) of the sample weights must be a list with a number for each "
            f"token, as other rows are. Received {row!r:.80}."
        )
    _check_values(found, f"Token {{}} of row {number} (counted from 0)")
    return found


def _check_values(weights: np.ndarray, place: str) -> None:
    """Raise DataError for the first weight that is negative or not finite; `place` names it."""
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise DataError(
            "Sample weights must be finite and at least 0. "
            f"{place.format(wrong[0])} has {weights[wrong[0]]!s}."
        )
