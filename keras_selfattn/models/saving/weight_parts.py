"""Large tables of vectors, read and set by parts: each whole copy would take as much memory again.

A table that is looked up (`tf.gather`) is copied by TensorFlow whenever it is read as a whole; `numpy()`
copies that, and `np.array` copies it again.
"""

import math
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

# The end of the path of the table of tokens of `PretrainedEmbedding`.
TABLE = "/tokens"
_PART = 2**21  # numbers, 8 MB


def assign(weight: Any, value: Any) -> None:
    """Set a weight, a large one of TensorFlow by parts, unless several devices have it.

    Args:
        weight: a variable of Keras.
        value: an array of its shape, or what has `shape` and returns the array of some rows, `value[a:b]`.
    """
    shape = tuple(value.shape)
    rows = _rows(shape)
    large = keras.backend.backend() == "tensorflow" and 0 < rows < shape[0]
    large = large and not hasattr(weight.value, "values")  # of a strategy: the handle would be one device's
    if not large or shape != tuple(weight.shape):  # of which Keras raises its error
        weight.assign(value if isinstance(value, np.ndarray) else value[:])
        return
    for start in range(0, shape[0], rows):
        part = np.asarray(value[start : start + rows], weight.dtype)
        # Python's own way to assign a slice reads the variable first, and so copies all of it.
        tf.raw_ops.ResourceStridedSliceAssign(
            ref=weight.value.handle,
            begin=[start],
            end=[start + len(part)],
            strides=[1],
            value=tf.constant(part),
        )


def parts_of(weight: Any) -> Iterator[np.ndarray]:
    """Yield the value of a weight: of a table of tokens on TensorFlow rows by rows, otherwise all at once."""
    if keras.backend.backend() != "tensorflow" or not weight.path.endswith(TABLE):
        yield np.asarray(keras.ops.convert_to_numpy(weight))
        return
    shape = tuple(weight.shape)
    rows = _rows(shape)
    for start in range(0, shape[0], rows):
        yield tf.gather(weight.value, tf.range(start, min(start + rows, shape[0]))).numpy()


def array_of(weight: Any) -> np.ndarray:
    """Return the value of a weight, of which there are no more copies on the way."""
    found, place = np.empty(weight.shape, weight.dtype), 0
    for part in parts_of(weight):
        if part.shape == found.shape:
            return part
        found[place : place + len(part)] = part
        place += len(part)
    return found


def save(store: Any, name: str, weight: Any) -> None:
    """Put a weight into a store of Keras, as `store[name] = weight` does, a table of tokens by parts.

    Args:
        store: what `save_own_variables` is given.
        name: of the weight there.
        weight: a variable of Keras.
    """
    # Keras copies what it is given, and so does NumPy.
    by_parts = keras.backend.backend() == "tensorflow" and weight.path.endswith(TABLE)
    if not by_parts or not _is_of_hdf5(store) or weight.dtype == "bfloat16":
        store[name] = weight
        return
    store[name] = np.zeros(0, weight.dtype)  # so that Keras makes the group
    del store[name]
    dataset, place = store._h5_entry_group.create_dataset(name, weight.shape, weight.dtype), 0
    for part in parts_of(weight):
        dataset[place : place + len(part)] = part
        place += len(part)


def _is_of_hdf5(store: Any) -> bool:
    """Return True for one file; Keras' store of several counts what is in each."""
    return type(store).__name__ == "H5IOStore" and hasattr(store, "_h5_entry_group")


def _rows(shape: tuple[int, ...]) -> int:
    """Return how many rows are a part; 0 for what has no rows of several numbers."""
    return max(_PART // max(math.prod(shape[1:]), 1), 1) if len(shape) > 1 else 0
