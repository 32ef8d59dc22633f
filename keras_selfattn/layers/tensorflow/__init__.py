"""The only module of the layers that names TensorFlow: `tf`, or None where Keras runs on another backend."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import keras
from keras import ops

from keras_selfattn.layers.tensorflow.portable import is_portable

Tensor = Any

tf: Any = None
gradient_registry: Any = None
_control_flow: Any = None
_port: Any = None
_kernels: Any = None
if keras.backend.backend() == "tensorflow":
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util as _control_flow

    with suppress(ImportError):  # a matter of speed alone
        from tensorflow.python.util import _pywrap_util_port as _port
        from tensorflow.python.util import _pywrap_utils as _kernels
    with suppress(ImportError, AttributeError):  # a matter of memory alone
        from tensorflow.python.framework import ops as _framework

        gradient_registry = _framework.gradient_registry


def runs_kernels(tensor: Tensor) -> bool:
    """Return True if TensorFlow's own kernels compute with `tensor`, not XLA, another backend or runtime."""
    if tf is None or not tf.is_tensor(tensor) or builds_portable_graph():
        return False
    return not _traces_for_xla()


def builds_portable_graph() -> bool:
    """Return True while a graph of TensorFlow is built for another runtime."""
    return tf is not None and not tf.executing_eagerly() and is_portable()


def computes_whole_numbers_as_floats() -> bool:
    """Return True if products of int8 matrices are fastest as products of the same numbers in float32.

    TensorFlow's own kernel for int8 is 5 times slower than that, XLA's 4 times faster. Converters to other
    runtimes know float32.
    """
    return tf is not None and not _traces_for_xla()


def _traces_for_xla() -> bool:
    # Public TensorFlow does not say.
    return _control_flow.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def fuses_norms() -> bool:
    """Return True if TensorFlow runs oneDNN's kernels on this machine.

    By default it does where the processor has AVX-512 VNNI or newer instructions, or AVX-VNNI
    (`TF_ENABLE_ONEDNN_OPTS` decides otherwise). Public TensorFlow does not say.
    """
    return _port is not None and _port.IsMklEnabled()


def fuses_biases(dtype: Any) -> bool:
    """Return True if `norm_and_bias.affine` is the fastest product with a bias: in bfloat16, by oneDNN.

    In float32 a product with a bias is as fast as without in either form.
    """
    if tf is None or tf.executing_eagerly() or dtype != "bfloat16" or not fuses_norms():
        return False
    known = getattr(_kernels, "IsDataTypeSupportedByOneDNNOnThisCPU", None)
    return known is not None and known(tf.bfloat16)


def map_in_turn(function: Callable[[Any], Tensor], elements: Any, shape: tuple, dtype: str) -> Tensor:
    """Return the results of a function of each element, one after the other: `ops.map`, but on TensorFlow.

    There Keras calls the function once more, on the first element, to learn the shape of its result: the
    graph then holds it twice, and runs both. And it lets ten elements be computed at a time, in their memory.

    Args:
        function: from an element to a tensor.
        elements: tensors `[N, ...]`.
        shape: of a result; None for what is unknown.
        dtype: of a result.
    """
    if tf is None:
        return ops.map(function, elements)
    signature = tf.TensorSpec(shape, dtype)
    return tf.map_fn(function, elements, fn_output_signature=signature, parallel_iterations=1)


def as_tensor(x: Tensor) -> Tensor:
    """Return `x` as a tensor.

    TensorFlow loses gradients of variables in loops, and requires custom gradients to return them separately.
    """
    return ops.convert_to_tensor(x) if tf is None else tf.convert_to_tensor(x)
