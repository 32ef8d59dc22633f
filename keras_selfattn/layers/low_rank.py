"""Low-rank adaptation (LoRA): frozen kernels, and small trained products beside them.

Axes: N (tokens), D (features), W (width of a projection), R (rank).

Reference: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from keras_selfattn.layers.argument_checks import checked_count, checked_positive
from keras_selfattn.layers.attention_math import split
from keras_selfattn.layers.seeds import split_seed

Tensor = Any


@dataclass(frozen=True)
class Kernel:
    """A kernel `[D, W]`: a weight, or some columns of one.

    Args:
        weight: of the layer that owns it.
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
    with their updates added, for layers without any, and A and B, with which a training goes on.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._started = _Started()
        self._down: dict[str, Any] = {}
        self._up: dict[str, Any] = {}

    def start(
        self, kernels: Mapping[str, Kernel], rank: int, alpha: float, downs: Iterable[Any], up: Any = "zeros"
    ) -> None:
        """Make the factors A `[D, R]` and B `[R, W]` of each kernel.

        Args:
            kernels: by the name of their projection.
            rank: R.
            alpha: the factor of each update is `alpha / rank`.
            downs: initializers of A, in the order of the kernels.
            up: initializer of B.
        """
        dtype = "float64" if self.variable_dtype == "float64" else "float32"  # updates are small
        for (name, kernel), down in zip(kernels.items(), downs, strict=True):
            features = kernel.weight.shape[0]
            self._down[name] = self.add_weight(
                name=f"{name}_a", shape=(features, rank), initializer=down, dtype=dtype
            )
            self._up[name] = self.add_weight(
                name=f"{name}_b", shape=(rank, kernel.width), initializer=up, dtype=dtype
            )
        self._started = _Started(dict(kernels), alpha / rank)

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
        return part + update * self._started.scale

    @contextmanager
    def merged(self) -> Iterator[None]:
        """Add the updates to the kernels in the block."""
        kept = [(each.weight, ops.convert_to_numpy(each.weight)) for each in self._started.kernels.values()]
        self._add_to_kernels(1.0)
        try:
            yield
        finally:
            for weight, value in kept:
                weight.assign(value)

    def load_own_variables(self, store: Any) -> None:
        """Take A and B, whose updates the kernels of the file have; without them begin with no update."""
        if not self._started.kernels:
            return
        if store.keys():
            super().load_own_variables(store)
            self._add_to_kernels(-1.0)
        else:
            for up in self._up.values():
                up.assign(np.zeros(up.shape, "float32"))

    def _add_to_kernels(self, sign: float) -> None:
        for name, kernel in self._started.kernels.items():
            down, up = (np.asarray(ops.convert_to_numpy(each[name])) for each in (self._down, self._up))
            kernel.plus(sign * self._started.scale * np.matmul(down, up))


class LowRankLayer(keras.layers.Layer):
    """Base of layers that take low-rank updates.

    A subclass gives `lora_parts`, `check_lora` and `start_lora`. Its `build` ends with `_go_on_with_lora`, so
    that a layer made from a config has its updates before weights are loaded.
    """

    _lora: tuple[int, float, tuple[str, ...]] | None = None
    _lora_of_config: Mapping[str, Any] | None = None

    def enable_lora(
        self, rank: int, lora_alpha: float | None = None, parts: Sequence[str] | None = None
    ) -> None:
        """Freeze the layer, and train a low-rank update of the kernel of each chosen projection instead.

        A model is compiled after it. Saved files hold the kernels with their updates added. A layer without
        LoRA loads them, and one of the same rank and parts goes on training with the updates.

        Args:
            rank: rank of the updates, from 1 to the smaller side of each kernel.
            lora_alpha: the factor of an update is `lora_alpha / rank`; by default 1, as in Keras.
            parts: projections that are updated: "query", "key", "value", "output"; in a block also
                "feed_forward". By default query and value, which the paper found best for few parameters
                (section 7.1), of those that the layer has.

        Raises:
            ValueError: for a rank or part out of range, a layer that is not built or has LoRA already, or a
                kernel with a constraint, which an update would violate.

        Example:

            >>> from keras_selfattn import layers
            >>> encoder = layers.Encoder(num_layers=2, num_heads=4)
            >>> encoder.build((None, None, 64))
            >>> encoder.enable_lora(4)
            >>> sum(weight.shape[0] * weight.shape[1] for weight in encoder.trainable_variables)
            2048
        """
        if not self.built:
            raise ValueError("LoRA needs a built layer: call it on inputs, or `build` it.")
        if self._lora is not None:
            raise ValueError(
                f"LoRA is enabled already, with rank {self._lora[0]}. It can be enabled once: make the layer "
                "anew, and load the weights, for another rank."
            )
        rank = checked_count("rank", rank)
        alpha = rank if lora_alpha is None else checked_positive("lora_alpha", lora_alpha)
        self._begin_lora(rank, alpha, self._checked_parts(parts))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Return the layer of a config, whose LoRA begins when it is built."""
        lora = config.get("lora")
        layer = super().from_config({name: value for name, value in config.items() if name != "lora"})
        layer._lora_of_config = lora
        return layer

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if self._lora is not None:
            rank, alpha, parts = self._lora
            config["lora"] = {"rank": rank, "lora_alpha": alpha, "parts": list(parts)}
        return config

    def _go_on_with_lora(self) -> None:
        if (lora := self._lora_of_config) is not None:
            self._begin_lora(lora["rank"], lora["lora_alpha"], tuple(lora["parts"]))

    def _begin_lora(self, rank: int, alpha: float, parts: tuple[str, ...]) -> None:
        self.check_lora(rank, parts)
        for variable in self.trainable_variables:
            variable.trainable = False
        self.start_lora(rank, alpha, parts)
        self._lora = (rank, alpha, parts)

    def _checked_parts(self, parts: Sequence[str] | None) -> tuple[str, ...]:
        has = self.lora_parts()
        chosen = [name for name in ("query", "value") if name in has] if parts is None else parts
        if isinstance(chosen, str) or not chosen or not set(chosen) <= set(has):
            raise ValueError(f"`parts` must be some of {', '.join(has)}. Received {parts!r}.")
        return tuple(name for name in has if name in chosen)

    def lora_parts(self) -> tuple[str, ...]:
        """Return the names of the projections that can be updated."""
        raise NotImplementedError

    def check_lora(self, rank: int, parts: tuple[str, ...]) -> None:
        """Raise ValueError if a kernel is too small or has a constraint."""
        raise NotImplementedError

    def start_lora(self, rank: int, alpha: float, parts: tuple[str, ...]) -> None:
        """Make the updates of the parts."""
        raise NotImplementedError


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
