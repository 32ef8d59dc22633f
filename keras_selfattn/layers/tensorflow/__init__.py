"""The only module of the layers that names TensorFlow: `tf`, or None where Keras runs on another backend."""

from typing import Any

import keras
from keras import ops

Tensor = Any

tf: Any = None
_control_flow: Any = None
if keras.backend.backend() == "tensorflow":
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util as _control_flow


def runs_kernels(tensor: Tensor) -> bool:
    """Return True if TensorFlow's own kernels compute with `tensor`, not XLA or another backend."""
    if tf is None or not tf.is_tensor(tensor):
        return False
    # Public TensorFlow does not say whether a function is being traced for XLA.
    return not _control_flow.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def as_tensor(x: Tensor) -> Tensor:
    """Return `x` as a tensor.

    TensorFlow loses gradients of variables in loops, and requires custom gradients to return them separately.
    """
    return ops.convert_to_tensor(x) if tf is None else tf.convert_to_tensor(x)
