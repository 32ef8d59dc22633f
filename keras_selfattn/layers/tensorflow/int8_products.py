"""Products with kernels that a graph of TensorFlow holds as int8 constants, by oneDNN on a CPU.

Activations are rounded to 8 bits, each token with a factor of its own, so that no token of a batch changes
the answer to another. Kernels are rounded to 7 bits, each column with a factor of its own: processors without
VNNI add up two products in 16 bits, where 2 * 255 * 64 fits and 2 * 255 * 127 is cut off, without a word.

A kernel must be a constant: oneDNN then puts it in order once, and not in each call.

Axes: N (tokens), D (features), W (width of a projection).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from keras_selfattn.layers.tensorflow import tf

Tensor = Any

# Levels on either side of 0.
OF_TOKENS, OF_KERNELS = 127, 64
_ZERO = 128  # the unsigned number of a token's 0
_VECTORS = 32  # floats, in two of the longest vectors
# A token whose largest number is below this is zero, nearly; its factor stays finite.
_LEAST = 1e-30

# Of the graph that is being built; None if it holds none. A plain call of a layer reads it, and passes no
# function of this module.
constant_kernels: ContextVar["ConstantKernels | None"] = ContextVar("constant kernels", default=None)


class ConstantKernels:
    """Kernels that graphs, traced while it is used, hold as int8 constants.

    Args:
        kernels: float32 variables `[D, W]`; a graph does not read them.

    Attributes:
        size: bytes of the constants.
    """

    def __init__(self, kernels: Iterable[Any]) -> None:
        self._kernels = {id(kernel): kernel for kernel in kernels}
        self._products: dict[int, Callable[[Tensor], Tensor]] = {}
        # int8 numbers; a factor and a sum, of four bytes, for each column.
        self.size = sum(int(np.prod(each.shape)) + 8 * each.shape[-1] for each in self._kernels.values())

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let the layers multiply by the constants in the block."""
        token = constant_kernels.set(self)
        try:
            yield
        finally:
            constant_kernels.reset(token)

    def holds(self, kernel: Any) -> bool:
        """Return True if a kernel is one of them."""
        return id(kernel) in self._kernels

    def product(self, x: Tensor, kernel: Any) -> Tensor:
        """Return float32 `[..., D]` times a kernel, `[..., W]`.

        All signatures of a model call one function, so that a file has each constant once. It is not inlined:
        each branch of a graph would hold the constant, as oneDNN orders it, too.
        """
        if id(kernel) not in self._products:
            with tf.init_scope():  # numbers, also while a graph is built
                numbers, factors = rounded_kernel(np.asarray(kernel))
            whole = tf.function(
                lambda unsigned: whole_product(unsigned, numbers),
                input_signature=[tf.TensorSpec([None, numbers.shape[0]], tf.uint8)],
                autograph=False,
                experimental_attributes={"_noinline": True},
            )
            self._products[id(kernel)] = lambda x: int8_product(x, whole, factors)
        if len(x.shape) == 2:
            return self._products[id(kernel)](x)
        found = self._products[id(kernel)](tf.reshape(x, [-1, kernel.shape[0]]))
        return tf.reshape(found, tf.concat([tf.shape(x)[:-1], [kernel.shape[1]]], 0))


def rounded_kernel(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a kernel `[D, W]` as int8, and the float32 factors `[W]` that its columns are multiplied by."""
    factors = np.abs(kernel).max(axis=0).astype(np.float32) / np.float32(OF_KERNELS)
    factors = np.where(factors > 0, factors, np.float32(1))
    return np.rint(kernel / factors).astype(np.int8), factors


def int8_product(x: Tensor, whole: Callable[[Tensor], Tensor], factors: np.ndarray) -> Tensor:
    """Return float32 `[N, D]`, its rows rounded to int8, times int8 `[D, W]` and a factor for each column.

    Args:
        x: `[N, D]`.
        whole: the `whole_product` with int8 `[D, W]`.
        factors: float32 `[W]`.
    """
    # Two reductions: the largest absolute number would take a matrix of absolute numbers first.
    top = tf.maximum(tf.reduce_max(x, -1, keepdims=True), -tf.reduce_min(x, -1, keepdims=True))
    top = tf.maximum(top, _LEAST)  # [N, 1]
    # The cast cuts off, so this rounds. A round of its own would be one more pass over the numbers.
    unsigned = tf.cast(x * (OF_TOKENS / top) + (_ZERO + 0.5), tf.uint8)
    # Graph optimisation changes the order of factors that are written in another way, and so the last bit, in
    # one branch of a graph and not in the other.
    product = whole(unsigned) * (top * (1 / OF_TOKENS)) * factors
    # Without a shape that it can follow, it fuses no normalisation behind.
    return tf.reshape(product, [-1, len(factors)])


def whole_product(unsigned: Tensor, numbers: np.ndarray) -> Tensor:
    """Return uint8 `[N, D]`, minus 128, times int8 `[D, W]`, as float32.

    Sums up to 2^24 are exact, which those of 518 features are; larger ones are rounded once.

    In another mode than "SCALED", with a range that is not from 0, TensorFlow's kernel shifts the numbers.
    """
    of_zero = -_ZERO * numbers.sum(axis=0, dtype=np.int32)
    return tf.raw_ops.QuantizedMatMulWithBiasAndDequantize(
        a=tf.bitcast(unsigned, tf.quint8),
        b=_typed(numbers, tf.qint8),
        bias=_typed(of_zero, tf.qint32),
        # The ranges that make each factor 1.
        min_a=0.0,
        max_a=255.0,
        min_b=-127.0,
        max_b=127.0,
        min_freezed_output=0.0,  # unused for floats
        max_freezed_output=1.0,
        Toutput=tf.float32,
        input_quant_mode="SCALED",
    )


def steady_softmax(logits: Tensor) -> Tensor:
    """Return the softmax over the last axis of `[..., S]`, with the same bits however far S is padded.

    oneDNN adds up what is left of a row beyond whole vectors before all others. Up to two vectors, the order
    changes nothing.
    """
    length = tf.shape(logits)[-1]
    missing = tf.where(length > _VECTORS, -length % _VECTORS, 0)
    paddings = [[0, 0]] * (len(logits.shape) - 1) + [[0, missing]]
    whole = tf.nn.softmax(tf.pad(logits, paddings, constant_values=logits.dtype.min))
    return tf.reshape(whole[..., :length], tf.shape(logits))


def runs_int8_products() -> bool:
    """Return True if this process' TensorFlow multiplies int8 numbers as it should.

    Without oneDNN's kernels it has an operation without a result. A processor that cuts off sums would show
    here as well.
    """
    numbers = np.array([[OF_KERNELS, -OF_KERNELS]] * 6, np.int8)
    unsigned = np.array([[255] * 6, [0] * 6], np.uint8)

    @tf.function(autograph=False)
    def product() -> Tensor:
        return whole_product(tf.constant(unsigned), numbers)

    try:
        found = product().numpy()
    except tf.errors.OpError:
        return False
    return np.array_equal(found, (unsigned.astype(np.int32) - _ZERO) @ numbers.astype(np.int32))


def _typed(numbers: np.ndarray, dtype: Any) -> Tensor:
    """Return a constant of a quantized type, which NumPy has as a record."""
    return tf.constant(numbers.view(dtype.as_numpy_dtype).reshape(numbers.shape))
