"""Low-rank adaptation (LoRA): frozen kernels, and small trained products beside them.

Axes: N (tokens), D (features), W (width of a projection), R (rank).

Reference: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_selfattn.layers.argument_checks import checked_count, checked_positive
from keras_selfattn.layers.attention_math import split
from keras_selfattn.layers.seeds import split_seed

Tensor = Any

# Ends the names of factors in a file whose kernels do not have their updates.
_APART = "_apart"


@dataclass(frozen=True)
class Kernel:
    """A kernel `[D, W]`: a weight, or some columns of one.

    Args:
        weight: of the layer that owns it; or a `QuantizedKernel`.
        start: its first column.
        width: the number of its columns.
    """

    weight: Any
    start: int
    width: int

    def plus(self, update: np.ndarray) -> None:
        """Add an update `[D, W]` to the weight."""
        whole = np.array(ops.convert_to_numpy(self.weight))
        whole[:, self.start : self.start + self.width] += update
        self.weight.assign(whole)


@dataclass
class _Started:
    """Kernels by the name of their projection, and the factor of their updates; no state of the layer."""

    kernels: dict[str, Kernel] = field(default_factory=dict)
    scale: float = 1.0


class LowRankUpdates(keras.layers.Layer):
    """Updates `alpha / rank` A B of kernels of the layer that has these; none until `start`.

    The update is added to the product, so no gradient of a frozen kernel is formed. A file holds the kernels
    with their updates added, for layers without any, and A and B, with which a training goes on. Beside
    quantized kernels, which an update cannot be added to, a file holds A and B alone.

    Attributes:
        started: True if there are updates.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.started = False
        self._started = _Started()
        self._down: dict[str, Any] = {}
        self._up: dict[str, Any] = {}

    def build(self, input_shape: tuple) -> None:
        """Make no weights yet; from its build on, a layer knows the path of its weights."""

    def start(self, kernels: Mapping[str, Kernel], rank: int, alpha: float, downs: Iterable[Any]) -> None:
        """Make the factors A `[D, R]` and B `[R, W]` of each kernel.

        Args:
            kernels: by the name of their projection.
            rank: R.
            alpha: the factor of each update is `alpha / rank`.
            downs: initializers of A, in the order of the kernels; B begins with zeros.
        """
        dtype = "float64" if self.variable_dtype == "float64" else "float32"  # updates are small
        self._tracker.unlock()
        for (name, kernel), down in zip(kernels.items(), downs, strict=True):
            features = kernel.weight.shape[0]
            self._down[name] = self.add_weight(
                name=f"{name}_a", shape=(features, rank), initializer=down, dtype=dtype
            )
            self._up[name] = self.add_weight(
                name=f"{name}_b", shape=(rank, kernel.width), initializer="zeros", dtype=dtype
            )
        self._tracker.lock()
        self._started = _Started(dict(kernels), alpha / rank)
        self.started = True

    def added(self, names: Sequence[str], widths: Sequence[int], product: Tensor, x: Tensor) -> Tensor:
        """Return products `[N, sum(widths)]` of x `[N, D]` with named kernels, plus their updates."""
        if self._started.kernels.keys().isdisjoint(names):
            return product
        parts = split(product, list(widths)) if len(names) > 1 else [product]
        parts = [self._plus(name, part, x) for name, part in zip(names, parts, strict=True)]
        return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=-1)

    def _plus(self, name: str, part: Tensor, x: Tensor) -> Tensor:
        if name not in self._started.kernels:
            return part
        update: Any = ops.matmul(ops.matmul(x, self._down[name]), self._up[name])
        return part + ops.cast(update * self._started.scale, part.dtype)

    def quantize(self, mode: str | None = None, type_check: bool = True, config: Any = None) -> None:
        """Change nothing, without the warning of Keras: updates are small, and are trained on as floats."""

    def hold_apart(self, kernels: Mapping[str, Kernel]) -> None:
        """Take the quantized kernels in place of the floats; updates stay apart from them."""
        self._started.kernels = {name: kernels[name] for name in self._started.kernels}

    @property
    def _are_apart(self) -> bool:
        return any(kernel.weight.dtype == "int8" for kernel in self._started.kernels.values())

    @contextmanager
    def merged(self) -> Iterator[None]:
        """Add the updates to the kernels in the block; to quantized ones none."""
        if self._are_apart:
            yield
            return
        kept = [(each.weight, ops.convert_to_numpy(each.weight)) for each in self._started.kernels.values()]
        try:
            for name in self._started.kernels:
                self._add_to_kernel(name, 1.0)
            yield
        finally:
            for weight, value in kept:
                weight.assign(value)

    def save_own_variables(self, store: Any) -> None:
        for factor in self.weights:
            store[factor.name + (_APART if self._are_apart else "")] = factor

    def load_own_variables(self, store: Any) -> None:
        """Take A and B, whose updates the kernels of the file have; without them begin with no update."""
        stored = set(store.keys())
        if any(name.endswith(_APART) for name in stored):
            self._load_apart(store)
            return
        for name in self._started.kernels:
            factors = {f"{name}_a": self._down[name], f"{name}_b": self._up[name]}
            if all(key in stored and store[key].shape == factor.shape for key, factor in factors.items()):
                for key, factor in factors.items():
                    factor.assign(store[key])
                self._add_to_kernel(name, -1.0)
            else:
                self._up[name].assign(np.zeros(self._up[name].shape, "float32"))

    def _load_apart(self, store: Any) -> None:
        """Take A and B, whose updates the kernels of the file do not have."""
        stored = set(store.keys())
        shapes = {name.removesuffix(_APART): tuple(store[name].shape) for name in stored}
        own = {factor.name: tuple(factor.shape) for factor in self.weights}
        if shapes != own:
            raise ValueError(
                "The quantized kernels of the file are without their LoRA, so the layer must have the same: "
                f"{shapes}. It has {own or 'none'}. Call `enable_lora` with the same rank and parts."
            )
        for factor in self.weights:
            factor.assign(store[factor.name + _APART])

    def _add_to_kernel(self, name: str, sign: float) -> None:
        down, up = (np.asarray(ops.convert_to_numpy(each[name])) for each in (self._down, self._up))
        self._started.kernels[name].plus(sign * self._started.scale * np.matmul(down, up))


def begin_lora(layer: Any, rank: int, lora_alpha: float | None, parts: Sequence[str] | None) -> None:
    """Freeze a layer and make the updates of the chosen parts; see `MultiHeadSelfAttention.enable_lora`.

    The layer has `lora_parts`, `check_lora` and `start_lora`. Its build ends with `restore_lora`, so that
    a layer made from a config has its updates before weights are loaded.
    """
    if not layer.built:
        raise ValueError("LoRA needs a built layer: call it on inputs, or `build` it.")
    enabled = [each for each in layer._flatten_layers() if isinstance(each, LowRankUpdates) and each.weights]
    if enabled:
        rank = enabled[0].weights[0].shape[1]
        raise ValueError(
            f"LoRA is enabled already, with rank {rank}. It can be enabled once: make the layer anew, and "
            "load the weights, for another rank."
        )
    rank = checked_count("rank", rank)
    alpha = float(rank) if lora_alpha is None else checked_positive("lora_alpha", lora_alpha)
    has = layer.lora_parts()
    chosen = [name for name in ("query", "value") if name in has] if parts is None else parts
    if isinstance(chosen, str) or not chosen or not set(chosen) <= set(has):
        raise ValueError(f"`parts` must be some of {', '.join(has)}. Received {parts!r}.")
    _start(layer, {"rank": rank, "lora_alpha": alpha, "parts": [name for name in has if name in chosen]})
    if not layer.trainable:  # frozen as a whole: now its updates are trained
        layer.trainable = True


def restore_lora(layer: Any) -> None:
    """Make the updates that the config of a layer has, as it is built."""
    if layer.lora is not None:
        _start(layer, dict(layer.lora))


def _start(layer: Any, lora: dict[str, Any]) -> None:
    layer.check_lora(lora["rank"], lora["parts"])
    for each in layer._flatten_layers():
        _freeze_own_weights(each)
    layer.start_lora(**lora)
    layer.lora = lora


def _freeze_own_weights(layer: Any) -> None:
    """Freeze a layer's own weights so that `trainable = True`, set later, trains the updates alone."""
    tracker = layer._tracker
    locked, tracker.locked = tracker.locked, False
    for weight in list(layer._trainable_variables):
        layer._untrack_variable(weight)
        weight.trainable = False
        layer._track_variable(weight)
    tracker.locked = locked


def check_kernels(kernels: Mapping[str, Kernel], rank: int) -> None:
    """Raise ValueError if the rank is too large for a kernel, or if one has a constraint."""
    for name, kernel in kernels.items():
        sides = (kernel.weight.shape[0], kernel.width)
        if rank > min(sides):
            raise ValueError(
                f"`rank` must be at most the smaller side of each kernel: {name} has {sides[0]} x "
                f"{sides[1]}. Received {rank}."
            )
        if kernel.weight.constraint is not None:
            raise ValueError(
                f"LoRA would violate the constraint of the {name} kernel: leave `kernel_constraint` out. "
                f"Received {kernel.weight.constraint!r}."
            )


def he_uniform(seed: int | None, count: int) -> list[Any]:
    """Return initializers of A, as Keras' layers have, each with a seed of its own."""
    return [keras.initializers.HeUniform(each) for each in split_seed(seed, count)]
