"""Graphs for other runtimes: of operations alone that ONNX Runtime and LiteRT have, too.

The fast paths of TensorFlow loop over the real tokens of a batch, which no converter translates.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_asked: ContextVar[bool] = ContextVar("graphs for other runtimes", default=False)
# Keras does not tell a layer the format that `model.export` writes.
_CONVERTERS = ("keras.src.export.onnx", "keras.src.export.litert")


@contextmanager
def portable() -> Iterator[None]:
    """Let the layers build graphs that other runtimes run, in the block.

    `model.export(path, format="onnx")`, and "litert", need no block: the layers see that Keras converts. A
    converter of your own does. Results are those of the other graphs, but for rounding; padded batches take
    more time.

    Example:

        >>> import keras, numpy as np, tensorflow as tf
        >>> from keras_selfattn import layers
        >>> encoder = layers.Encoder(num_layers=1, num_heads=2)
        >>> model = keras.Sequential([keras.Input((None, 8)), encoder])
        >>> with layers.portable():
        ...     graph = tf.function(model).get_concrete_function(tf.TensorSpec([None, None, 8])).graph
        >>> any("While" in node.op for node in graph.as_graph_def().node)
        False
    """
    token = _asked.set(True)
    try:
        yield
    finally:
        _asked.reset(token)


def is_portable() -> bool:
    """Return True if the graph that is being built is for another runtime."""
    return _asked.get() or _keras_converts()


def _keras_converts() -> bool:
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") in _CONVERTERS:
            return True
        frame = frame.f_back
    return False
