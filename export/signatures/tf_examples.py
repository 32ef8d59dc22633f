"""Inputs of signatures as serialized tf.Examples, which TensorFlow Serving's Classify and Regress calls send.

Axes: B (rows), T (positions).
"""

from typing import Any

import numpy as np
import tensorflow as tf

from .trial_requests import Request

Tensor = Any


def can_parse(specs: dict[str, Any]) -> bool:
    """Return True if Examples can hold the inputs: at most the first axis after the batch is unknown."""
    return all(
        spec.shape.rank is not None
        and all(size is not None for size in spec.shape[2:])
        and (spec.dtype == tf.string or spec.dtype.is_floating or spec.dtype.is_integer)
        for spec in specs.values()
    )


def parsed(serialized: Tensor, specs: dict[str, Any], padding: float | str = 0) -> list[Tensor]:
    """Return the inputs held by Examples `[B]`, each a feature under its input's name.

    An input of unknown length is a flat list of its numbers; rows are padded to the longest, with zeros
    unless the model has another `padding`.
    """
    features = {name: _feature(spec) for name, spec in specs.items()}
    found = tf.io.parse_example(serialized, features)
    return [_shaped(found[name], spec, padding) for name, spec in specs.items()]


def serialized_examples(request: Request) -> np.ndarray:
    """Return the rows of a request as serialized Examples, bytes `[B]`."""
    rows = len(next(iter(request.values())))
    found = np.empty(rows, dtype=object)
    found[:] = [example(request, row).SerializeToString(deterministic=True) for row in range(rows)]
    return found


def example(request: Request, row: int) -> Any:
    """Return one row of a request as a `tf.train.Example`."""
    return tf.train.Example(
        features=tf.train.Features(feature={name: _values(array[row]) for name, array in request.items()})
    )


def _wire_dtype(dtype: Any) -> Any:
    return tf.string if dtype == tf.string else tf.float32 if dtype.is_floating else tf.int64


def _feature(spec: Any) -> Any:
    dtype, shape = _wire_dtype(spec.dtype), spec.shape[1:]
    if None in shape.as_list():
        return tf.io.RaggedFeature(dtype)
    return tf.io.FixedLenFeature(shape, dtype)


def _shaped(value: Tensor, spec: Any, padding: float | str) -> Tensor:
    if isinstance(value, tf.RaggedTensor):
        rest = spec.shape[2:].as_list()
        width = int(np.prod(rest))
        whole = tf.debugging.assert_equal(
            value.row_lengths() % width,
            0,
            f"{spec.name}: not {width} numbers a position",
        )
        with tf.control_dependencies([whole]):
            dense = value.to_tensor(padding or None)  # [B, T width]
        value = tf.reshape(dense, [tf.shape(dense)[0], tf.shape(dense)[1] // width, *rest])
    return tf.cast(value, spec.dtype) if value.dtype != spec.dtype else value


def _values(value: Any) -> Any:
    # As an object: NumPy strips NULs from the end of bytes.
    flat = np.asarray(value, object if isinstance(value, bytes | str) else None).reshape(-1)
    if flat.dtype.kind in "OSU":
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=list(flat)))
    if flat.dtype.kind in "iub":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=flat.astype(np.int64)))
    return tf.train.Feature(float_list=tf.train.FloatList(value=flat.astype(np.float32)))
