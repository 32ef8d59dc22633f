"""Dropout in training: ours, Keras', TensorFlow's and PyTorch's, uncompiled and compiled."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.prepared import Prepared


def ours(fields: dict[str, Any]) -> Prepared:
    """Build our layer."""
    from keras_selfattn.layers.dropout import Dropout

    layer = Dropout(fields["rate"], seed=0)
    return _on_tensorflow(fields, lambda x: layer(x, training=True))


def keras_layer(fields: dict[str, Any]) -> Prepared:
    """Build `keras.layers.Dropout`."""
    import keras

    layer = keras.layers.Dropout(fields["rate"], seed=0)
    return _on_tensorflow(fields, lambda x: layer(x, training=True))


def tensorflow(fields: dict[str, Any]) -> Prepared:
    """Build `tf.nn.dropout`."""
    import tensorflow as tf

    return _on_tensorflow(fields, lambda x: tf.nn.dropout(x, fields["rate"]))


def pytorch(fields: dict[str, Any]) -> Prepared:
    """Build `torch.nn.functional.dropout`."""
    import torch  # pyright: ignore[reportMissingImports]

    def drop(x: Any) -> Any:
        return torch.nn.functional.dropout(x, fields["rate"], training=True)

    call = torch.compile(drop, dynamic=True) if fields["compiled"] else drop
    ones = torch.ones(fields["shape"])

    def run() -> Any:
        with torch.no_grad():
            return call(ones)

    return Prepared(run=run, warm=lambda: call(ones[:1]), figures=lambda: _statistics(run().numpy()))


def _on_tensorflow(fields: dict[str, Any], drop: Callable[[Any], Any]) -> Prepared:
    import tensorflow as tf

    # A graph of any batch size, as in training, where the last batch is smaller; XLA compiles each shape.
    signature = [tf.TensorSpec([None, *fields["shape"][1:]])]
    call = tf.function(drop, input_signature=signature, jit_compile=fields["compiled"])
    ones = tf.ones(fields["shape"])
    return Prepared(
        run=lambda: call(ones),
        warm=lambda: call(ones[:1]),
        figures=lambda: _statistics(call(ones).numpy()),
    )


def _statistics(dropped_ones: np.ndarray) -> dict[str, float]:
    """Return the share of zeros and the variance of ones after dropout: at rate r, r and r / (1 - r)."""
    zeros = 1.0 - np.count_nonzero(dropped_ones) / dropped_ones.size
    return {"rate": zeros, "variance": float(dropped_ones.var(dtype="float64"))}
