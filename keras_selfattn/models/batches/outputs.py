"""The outputs of batches of similar length, in the order of the rows.

Axes: B (batch), T (positions), C (classes).
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_selfattn.models.batches.length_sorted import LengthSortedBatches


def in_order(outputs: Any, order: np.ndarray) -> np.ndarray:
    """Return outputs in the order of the rows, whose places `order` has; what follows them are copies.

    Example:

        >>> in_order(np.array([5.0, 6.0, 7.0, 7.0]), np.array([2, 0, 1])).tolist()
        [6.0, 7.0, 5.0]
    """
    found = np.asarray(outputs)[: len(order)]
    ordered = np.empty_like(found)
    ordered[order] = found
    return ordered


def outputs_at_positions(
    model: keras.Model,
    predict_on_batch: Callable[[Any], Any],
    batches: LengthSortedBatches,
    verbose: str | int = "auto",
    callbacks: Any = None,
) -> list[np.ndarray]:
    """Return the outputs at the positions of each row, `[T, C]`, in the order of the rows.

    Args:
        model: whose outputs they are, for callbacks.
        predict_on_batch: Keras' own, from features `[B, T, ...]` to outputs `[B, T, C]`.
        batches: of the rows.
        verbose, callbacks: as in `keras.Model.predict`.
    """
    found: list[np.ndarray] = [np.empty(0)] * len(batches.order)
    places = iter(batches.order)
    told = keras.callbacks.CallbackList(
        callbacks, add_progbar=verbose != 0, verbose=verbose, epochs=1, steps=len(batches), model=model
    )
    told.on_predict_begin()
    for step, (features,) in enumerate(batches):
        told.on_predict_batch_begin(step)
        outputs = np.asarray(predict_on_batch(features))
        told.on_predict_batch_end(step, {"outputs": outputs})
        for row, place in zip(outputs, places, strict=False):  # the last rows may be copies
            found[place] = row[: batches.lengths[place]]
    told.on_predict_end()
    return found
