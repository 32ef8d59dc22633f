"""A model's weights in the file: unchanged, or in a narrower type and widened once when it is loaded."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager.context import anonymous_name

from keras_selfattn.errors import ExportError
from keras_selfattn.layers.tensorflow.int8_products import ConstantKernels, runs_int8_products
from keras_selfattn.layers.weights.quantized import multiplied_kernels
from keras_selfattn.models.pretrained.embedding import PretrainedEmbedding
from keras_selfattn.models.saving.weight_parts import array_of
from keras_selfattn.user_warnings import warn_user

from .signatures.preprocessing import layer_resources

Tensor = Any

# Weights below this size, such as biases and scales of normalisation, are a tiny share of the file.
_LEAST_NARROWED = 1024  # numbers
_LEVELS = 127  # of int8, on either side of 0
# Features of a product from which on int8 saves more than rounding costs.
_WORTH_ROUNDING = 256


class Weights:
    """The unchanged weights of a model.

    Args:
        model: the owner of the weights.

    Attributes:
        tracked: the saved variables and tables.
    """

    def __init__(self, model: keras.Model) -> None:
        self.tracked: list[Any] = layer_resources(model)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let the model compute with these weights while the block runs."""
        yield

    def read_beside(self, graphs: Iterable[Any]) -> list[Any]:
        """Return variables to save as well, because functions of signatures read them in spite of `used`."""
        return []

    @property
    def size(self) -> int:
        """Bytes of the saved weights."""
        return sum(_bytes(item) for item in self.tracked if isinstance(item, tf.Variable))


class Int8Weights(Weights):
    """Weights whose kernels the graph holds as int8 constants, and multiplies in int8; others are unchanged.

    Args:
        model: the owner of the weights; it computes in float32.

    Raises:
        ExportError: if it has no such kernel.
    """

    def __init__(self, model: keras.Model) -> None:
        super().__init__(model)
        kernels = multiplied_kernels(model)
        if not kernels:
            raise ExportError(
                '`precision="int8"` is for the kernels of attention and feed-forward layers of this library, '
                f"and {model.name} has none. Choose another precision, such as int8-weights."
            )
        widest = max(min(kernel.shape) for kernel in kernels)
        if widest < _WORTH_ROUNDING:
            warn_user(
                f'`precision="int8"` makes a model smaller, but not faster, whose kernels have fewer than '
                f"{_WORTH_ROUNDING} features; those of {model.name} have {widest} at most. With int8-weights "
                "it is as fast as in float32."
            )
        self._constants = ConstantKernels(kernels)
        self._held = {id(kernel.value): kernel.value for kernel in kernels}
        self.tracked = [item for item in self.tracked if id(item) not in self._held]

    def read_beside(self, graphs: Iterable[Any]) -> list[Any]:
        # Such as weights that are tied by hand. A graph has more variables than it reads.
        read = {id(outside) for graph in graphs for outside, _ in graph.captures}
        return [variable for variable in self._held.values() if id(variable.handle) in read]

    @contextmanager
    def used(self) -> Iterator[None]:
        with self._constants.used():
            yield

    @property
    def size(self) -> int:
        return super().size + self._constants.size


def check_int8_products() -> None:
    """Raise ExportError if this process cannot run, and so cannot check, products of int8 kernels."""
    if not runs_int8_products():
        raise ExportError(
            '`precision="int8"` needs the kernels of oneDNN, which TensorFlow does not run in this process. '
            "Set TF_ENABLE_ONEDNN_OPTS=1 in the environment before TensorFlow is imported, on an x86 "
            "processor, or choose another precision, such as int8-weights."
        )


class NarrowWeights(Weights):
    """Weights stored in a narrower type than the one they are computed in.

    They are widened once, when the SavedModel is loaded: a request costs as much as before, and the server
    holds both forms in memory. Of a pretrained model's table of tokens, which is most of a multilingual one,
    only the vectors of a request are widened, and the server holds the narrow form alone.

    Args:
        model: the owner of the weights.
        dtype: "float16"; or "int8" with a float32 scale for each row or each column, whichever fits better.
    """

    def __init__(self, model: keras.Model, dtype: str) -> None:
        super().__init__(model)
        narrow = _Float16 if dtype == "float16" else _Int8
        below = model._flatten_layers(include_self=True, recursive=True)
        tables = [
            layer
            for layer in below
            if isinstance(layer, PretrainedEmbedding) and layer.built and _is_worth_it(layer.vectors)
        ]
        self._tables = [(layer, _Rows(narrow.narrowed(array_of(layer.vectors)))) for layer in tables]
        looked_up = {id(layer.vectors) for layer in tables}
        wide = [weight for weight in model.weights if _is_worth_it(weight) and id(weight) not in looked_up]
        kept = {id(weight.value) for weight in (*wide, *(layer.vectors for layer in tables))}
        self._widened = [
            (weight, narrow(np.asarray(weight.value), place)) for place, weight in enumerate(wide)
        ]
        self.tracked = [item for item in self.tracked if id(item) not in kept]
        for _, widened in self._widened:
            self.tracked += [widened, *widened.stored]
        for _, rows in self._tables:
            self.tracked += rows.stored

    @contextmanager
    def used(self) -> Iterator[None]:
        mapping = [(weight, widened.read()) for weight, widened in self._widened]
        for layer, rows in self._tables:
            layer.stored = rows
        try:
            with keras.StatelessScope(state_mapping=mapping):
                yield
        finally:
            for layer, _ in self._tables:
                layer.stored = None


class _Rows:
    """The rows of a table that is stored in a narrower type, widened when they are looked up.

    Args:
        stored: the numbers, and the factors of int8, one for each row or each column.
    """

    def __init__(self, stored: Sequence[np.ndarray]) -> None:
        self.stored = [tf.Variable(tf.constant(each), trainable=False) for each in stored]

    def __call__(self, ids: Tensor) -> Tensor:
        numbers, *scales = self.stored
        found = tf.cast(tf.gather(numbers, ids), tf.float32)
        for scale in scales:
            found *= scale if scale.shape[0] == 1 else tf.gather(scale, ids)
        return found


class _Widened(tf.saved_model.experimental.TrackableResource):
    """A float32 variable that is not in the checkpoint, but computed from narrower ones when loaded."""

    def __init__(self, stored: Sequence[np.ndarray], shape: tuple[int, ...], place: int) -> None:
        super().__init__()
        self.stored: list[Any] = [tf.Variable(tf.constant(each), trainable=False) for each in stored]
        self._shape = shape
        self._name = f"widened_{place}"
        self._initialize()

    def widened(self) -> Tensor:
        """Return the stored numbers as float32."""
        raise NotImplementedError

    def read(self) -> Tensor:
        """Return the variable's value."""
        value = tf.raw_ops.ReadVariableOp(resource=self.resource_handle, dtype=tf.float32)
        return tf.ensure_shape(value, self._shape)

    # TensorFlow calls these two: when the resource is made, and after the checkpoint has been read.

    def _create_resource(self) -> Tensor:
        # Another name would share it with every other export of this process.
        name = anonymous_name() if tf.executing_eagerly() else self._name
        return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=self._shape, shared_name=name, container="")

    def _initialize(self) -> None:
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=self.widened())


class _Float16(_Widened):
    def __init__(self, weight: np.ndarray, place: int) -> None:
        super().__init__(self.narrowed(weight), weight.shape, place)

    @staticmethod
    def narrowed(weight: np.ndarray) -> list[np.ndarray]:
        """Return what is stored: numbers beyond float16's range are clipped, instead of becoming infinite."""
        most = np.finfo(np.float16).max
        return [weight.clip(-most, most).astype(np.float16)]

    def widened(self) -> Tensor:
        return tf.cast(self.stored[0].read_value(), tf.float32)


class _Int8(_Widened):
    def __init__(self, weight: np.ndarray, place: int) -> None:
        super().__init__(self.narrowed(weight), weight.shape, place)

    @staticmethod
    def narrowed(weight: np.ndarray) -> list[np.ndarray]:
        """Return what is stored: int8 numbers, and the factors of rows or columns."""
        both = (_quantized(weight, axis) for axis in (0, -1))
        return list(min(both, key=lambda found: _error(weight, *found)))

    def widened(self) -> Tensor:
        quantized, scale = (variable.read_value() for variable in self.stored)
        return tf.cast(quantized, tf.float32) * scale


def _quantized(weight: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return int8 numbers and the float32 scales to multiply them by, one for each place along `axis`."""
    others = tuple(place for place in range(weight.ndim) if place != axis % weight.ndim)
    scale = np.abs(weight).max(axis=others, keepdims=True).astype(np.float32) / _LEVELS
    return np.rint(weight / np.where(scale, scale, 1)).astype(np.int8), scale


def _error(weight: np.ndarray, quantized: np.ndarray, scale: np.ndarray) -> float:
    return float(np.square(weight - quantized * scale).sum())


def _is_worth_it(weight: Any) -> bool:
    return len(weight.shape) >= 2 and weight.dtype == "float32" and np.prod(weight.shape) >= _LEAST_NARROWED


def _bytes(variable: Any) -> int:
    return int(np.prod(variable.shape)) * variable.dtype.size
