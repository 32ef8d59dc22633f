"""Kernels as int8, in Keras' scheme: whole numbers, and a factor for each column and each token.

Axes: N (tokens), D (features), W (width of a projection).
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import keras
from keras import ops

from keras_selfattn.layers.tensorflow import computes_whole_numbers_as_floats
from keras_selfattn.layers.tensorflow.custom_gradients import custom_gradient
from keras_selfattn.layers.weights.policy_maps import has_policy_map, own_policy, settle_leaves, settle_policy

Tensor = Any

# The sum of so many products of int8 numbers is a whole number that float32 holds.
_EXACT = 2**24 // 2**14


class QuantizedKernel:
    """A kernel `[D, W]` as int8, its columns multiplied by `scale` before they were rounded.

    Args:
        values: int8 variable `[D, W]`.
        scale: float variable `[W]`.
        inputs_quantizer: makes int8 `[..., D]` and factors `[..., 1]` of tokens; None leaves them floats.
    """

    dtype = "int8"
    constraint = None

    def __init__(self, values: Any, scale: Any, inputs_quantizer: Callable | None) -> None:
        self._values, self._scale, self._inputs_quantizer = values, scale, inputs_quantizer
        self.shape = values.shape

    def product(self, x: Tensor) -> Tensor:
        """Return `x` times the kernel, of the dtype of x: `[..., D]` to `[..., W]`.

        The gradient by x is that of the kernel's rounded numbers; the kernel itself has none.
        """

        @custom_gradient
        def product(x: Tensor, values: Tensor, scale: Tensor) -> tuple[Tensor, Callable]:
            dtype = keras.backend.standardize_dtype(x.dtype)

            def gradient(*args: Any, upstream: Any = None) -> tuple[Tensor, None, None]:
                upstream = args[0] if upstream is None else upstream  # as Keras' backends differ
                kernel = ops.cast(values, dtype) / scale
                return ops.matmul(upstream, ops.transpose(kernel)), None, None

            numbers, factor = x, scale
            if self._inputs_quantizer is not None:
                numbers, of_tokens = self._inputs_quantizer(x, axis=-1)
                factor = scale * of_tokens  # [..., W]
            return ops.cast(_whole_product(numbers, values), dtype) / factor, gradient

        values = ops.convert_to_tensor(self._values)
        if x.shape[0] == 0:  # Keras has no largest number of an empty tensor
            return ops.matmul(x, ops.cast(values, x.dtype))
        return product(x, values, ops.cast(ops.convert_to_tensor(self._scale), x.dtype))


def _whole_product(numbers: Tensor, values: Tensor) -> Tensor:
    """Return int8 `[..., D]` times int8 `[D, W]`, exactly: int32, or float32 where that is faster."""
    if keras.backend.standardize_dtype(numbers.dtype) != "int8":  # no quantizer of inputs, or one's own
        return ops.matmul(numbers, ops.cast(values, numbers.dtype))
    if not computes_whole_numbers_as_floats():
        return ops.matmul(numbers, values)
    width = values.shape[0]
    parts: list[Any] = [
        ops.matmul(
            ops.cast(numbers[..., start : start + _EXACT], "float32"),
            ops.cast(values[start : start + _EXACT], "float32"),
        )
        for start in range(0, width, _EXACT)
    ]
    if len(parts) == 1:
        return parts[0]
    whole: list[Any] = [ops.cast(part, "int32") for part in parts]
    return sum(whole[1:], whole[0])


class QuantizationHook(keras.layers.Layer):
    """Leaf that `keras.Model.quantize` finds in a layer with kernels: it visits only layers without others.

    Args:
        quantize_owner: `quantize` of the layer.
        kernels: returns the layer's kernels, once it is built.
        name: by which `filters` of `keras.Model.quantize` choose.
    """

    def __init__(
        self, quantize_owner: Callable[..., None], kernels: Callable[[], list[Any]], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._quantize_owner = quantize_owner
        self.kernels = kernels

    def build(self, input_shape: tuple) -> None:
        """Make no weights; from its build on, a layer has a path."""

    def quantize(self, mode: str | None = None, type_check: bool = True, config: Any = None) -> None:
        self._quantize_owner(mode, config=config)


def multiplied_kernels(model: Any) -> list[Any]:
    """Return the kernels of the attention and feed-forward layers of a model, and of other projections."""
    hooks = [each for each in model._flatten_layers() if isinstance(each, QuantizationHook) and each.built]
    found = {id(kernel): kernel for hook in hooks for kernel in hook.kernels()}
    return list(found.values())


def check_mode(layer: keras.layers.Layer, mode: str | None) -> None:
    """Raise NotImplementedError, which `keras.Model.quantize` makes a warning, for another mode than int8."""
    if mode != "int8":
        raise NotImplementedError(
            f'{type(layer).__name__} can be quantized to "int8" alone; its kernels stay as they are. '
            f"Received mode={mode!r}."
        )


def quantize_kernels(layer: Any, places: Iterable[tuple[Any, str]], config: Any) -> None:
    """Replace the kernels of a layer by quantized ones.

    Args:
        layer: the owner of the weights.
        places: of each kernel, the object and the name of its attribute.
        config: a `keras.quantizers.Int8QuantizationConfig`; None is its default.
    """
    for holder, name in places:
        setattr(holder, name, _quantized(layer, _taken(layer, holder, name), config))
    layer.quantization_config = config
    layer._is_quantized = True  # before the policy, which would quantize the layer
    # Keras' setter of `dtype_policy` calls `quantize` after it has set one of int8.
    layer._policy_before = layer.dtype_policy if has_policy_map(layer) else _floats(layer.dtype_policy)
    settle_policy(layer)  # or the user's map would get an entry
    layer.dtype_policy = keras.dtype_policies.get(f"int8_from_{_floats(layer.dtype_policy).name}")


def _floats(policy: Any) -> Any:
    return keras.dtype_policies.get(policy.name.rpartition("_from_")[2])


def inputs_quantizer(config: Any) -> Callable | None:
    """Return the quantizer of tokens of a `keras.quantizers.Int8QuantizationConfig`; of None the default."""
    return keras.quantizers.abs_max_quantize if config is None else config.activation_quantizer


def refuse_quantized_policy(layer: keras.layers.Layer) -> None:
    """Raise ValueError for a layer that would be quantized from its start, before it has kernels to round."""
    policy: Any = layer.dtype_policy
    policies = {"": own_policy(layer), **(dict(policy) if has_policy_map(layer) else {})}
    for path, each in policies.items():
        if each.quantization_mode is not None:
            raise ValueError(
                f"`dtype` must be a policy of floats. Received {each.name!r}{path and f' for {path!r}'}. "
                'Build the model with floats, then call its `quantize("int8")`.'
            )


def float_policy(layer: keras.layers.Layer) -> Any:
    """Return the policy of a layer, if it is quantized the one that it had before."""
    return getattr(layer, "_policy_before", layer.dtype_policy)


def quantized_parts(layer: Any) -> dict[str, Any]:
    """Return which parts of a layer or model `quantize` has changed, for its config.

    The config of an encoder, and of any functional model, has them. A class of your own adds them to its own,
    and calls `quantize_parts` once it is built again: Keras cannot load it otherwise.

    Returns:
        The serialized `keras.quantizers` config of each part, by the names of the layers on the way to it,
        joined by "/"; by "" if it is the layer itself.

    Example:

        >>> from keras_selfattn import layers
        >>> block = layers.EncoderBlock(num_heads=2)
        >>> block.build((None, None, 8))
        >>> layers.quantize_parts(block, {"attention": None})
        >>> list(layers.quantized_parts(block))
        ['attention']
    """
    found: dict[str, Any] = {}
    _find_parts(layer, "", found)
    return found


def quantize_parts(layer: Any, parts: Mapping[str, Any]) -> None:
    """Quantize parts of a layer to int8: those that `quantized_parts` found in another one.

    Args:
        layer: built, and not quantized.
        parts: as `quantized_parts` returns them; a config of None is Keras' default.

    Raises:
        ValueError: if the layer has no such part, or it is quantized already.

    Example:

        >>> from keras_selfattn import layers
        >>> block, other = layers.EncoderBlock(2), layers.EncoderBlock(2)
        >>> block.build((None, None, 8)), other.build((None, None, 8))
        (None, None)
        >>> layers.quantize_parts(block, {"feed_forward/hidden": None})
        >>> layers.quantize_parts(other, layers.quantized_parts(block))
        >>> layers.quantized_parts(other) == layers.quantized_parts(block)
        True
    """
    for place, serialized in parts.items():
        part = _part(layer, place)
        settle_leaves(part)
        config = keras.saving.deserialize_keras_object(serialized)
        part.quantize("int8", type_check=False, **({} if config is None else {"config": config}))


def _taken(layer: Any, holder: Any, name: str) -> Any:
    """Return a weight, which the layer then no longer has."""
    weight = getattr(holder, name)
    if holder is layer:
        delattr(layer, name)
    else:
        layer._untrack_variable(weight)
    return weight


def _quantized(layer: Any, weight: Any, config: Any) -> QuantizedKernel:
    if (quantizer := getattr(config, "weight_quantizer", None)) is None:
        quantizer = partial(keras.quantizers.abs_max_quantize, axis=0)
    values, scale = quantizer(weight, to_numpy=True)
    rounded = layer.add_weight(
        name=weight.name, shape=weight.shape, initializer="zeros", dtype="int8", trainable=False
    )
    of_columns = layer.add_weight(
        name=f"{weight.name}_scale", shape=weight.shape[1:], initializer="ones", trainable=False
    )
    rounded.assign(values)
    of_columns.assign(ops.squeeze(scale, axis=0))
    return QuantizedKernel(rounded, of_columns, inputs_quantizer(config))


def _part(layer: Any, place: str) -> Any:
    part = layer
    for name in place.split("/") if place else ():
        named = {each.name: each for each in _children(part)}
        if name not in named:
            has = ", ".join(sorted(named)) or "none"
            raise ValueError(f"{layer.name} has no part {place!r} to quantize: those of {part.name}: {has}.")
        part = named[name]
    return part


def _children(layer: Any) -> list[Any]:
    return layer._flatten_layers(include_self=False, recursive=False)


def _find_parts(layer: Any, place: str, found: dict[str, Any]) -> None:
    if getattr(layer, "_is_quantized", False):
        config = getattr(layer, "quantization_config", None)
        found[place] = keras.saving.serialize_keras_object(config)
        return
    for each in _children(layer):
        _find_parts(each, f"{place}/{each.name}" if place else each.name, found)
