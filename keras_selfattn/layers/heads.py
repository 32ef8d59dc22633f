"""Shared parts of the self-attention layers: the contract for masks, shapes and outputs, and the heads.

Axes: B (batch), T (query positions), S (key positions, S = T here), H (heads), D (features).
"""

import itertools
import math
import random
from typing import Any, cast

import keras
from keras import ops

from keras_selfattn.layers.affine import affine
from keras_selfattn.layers.arguments import check_masks
from keras_selfattn.layers.checks import (
    checked_count,
    checked_flag,
    checked_seed,
    checked_sequence,
    sequence_spec,
)
from keras_selfattn.layers.masks import Pairs, pair_rules
from keras_selfattn.layers.seeds import split_seed
from keras_selfattn.layers.shapes import sizes
from keras_selfattn.layers.token_layer import TokenLayer, Tokens

Tensor = Any


class SelfAttentionBase(TokenLayer):
    """Heads between a projection of the inputs and a projection to the outputs.

    A subclass gives `_build_heads` (weights of queries, keys and values), `_project`, and `_attend`.
    """

    def __init__(
        self,
        num_heads: int,
        head_dim: int | None = None,
        *,
        causal: bool = False,
        use_bias: bool = True,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = checked_count("num_heads", num_heads)
        self.head_dim = None if head_dim is None else checked_count("head_dim", head_dim)
        self.causal = checked_flag("causal", causal)
        self.use_bias = checked_flag("use_bias", use_bias)
        self.seed = checked_seed(seed)
        self.supports_masking = True

    @property
    def _reach(self) -> tuple[int | None, int | None]:
        return (None, 0) if self.causal else (None, None)

    def build(self, input_shape: tuple) -> None:
        features = checked_sequence(input_shape)
        self.input_spec = sequence_spec(features)
        if self.head_dim is None and features % self.num_heads:
            raise ValueError(
                "The feature width must be divisible by `num_heads` unless `head_dim` is given. "
                f"Received width {features}, num_heads={self.num_heads}."
            )
        self._head_dim = self.head_dim or features // self.num_heads
        heads_seed, output_seed = split_seed(self.seed, 2)
        self._build_heads(features, heads_seed)
        self._output_kernel = self.add_weight(
            name="output_kernel",
            shape=(self.num_heads * self._head_dim, features),
            initializer=keras.initializers.GlorotUniform(output_seed),
        )
        self._output_bias = self._add_bias("output_bias", features)

    def attention_layer(self) -> "SelfAttentionBase":
        return self

    def can_pack(self) -> bool:
        """Return whether packed tokens can be attended to."""
        return False

    def pairs(
        self, inputs: Tensor, real: Tensor | None, valid_lens: Tensor | None, attention_mask: Tensor | None
    ) -> Pairs:
        """Return the checked rules of which token may attend to which."""
        return pair_rules(
            inputs,
            real,
            valid_lens=valid_lens,
            attention_mask=attention_mask,
            reach=self._reach,
            num_heads=self.num_heads,
        )

    def call_tokens(
        self, x: Tensor, tokens: Tokens, pairs: Pairs, training: bool | None, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        heads = self._transposed_heads(tokens.sequences(x), tokens.positions)
        context, weights = self._attend(heads, pairs, training, return_weights)  # [B, H, T, D], [B, H, T, S]
        joined = ops.reshape(_transpose_heads(context), (-1, self.num_heads * self._head_dim))
        return affine(joined, self._output_kernel, self._output_bias), weights

    def compute_output_spec(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
    ) -> Any:
        check_masks(inputs, mask, valid_lens, attention_mask, self.num_heads)
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if not return_weights:
            return outputs
        batch, length, _features = inputs.shape
        weights = keras.KerasTensor((batch, self.num_heads, length, length), dtype=self.compute_dtype)
        return outputs, weights

    def get_config(self) -> dict[str, Any]:
        names = ("num_heads", "head_dim", "causal", "use_bias", "seed")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    def _build_heads(self, features: int, seed: int | None) -> None:
        raise NotImplementedError

    def _project(self, inputs: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values `[B, T, heads, D]` of tokens at `positions`, int32 `[T]`."""
        raise NotImplementedError

    def _transposed_heads(self, inputs: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what `_project` does as `[B, heads, T, D]`."""
        query, key, value = self._project(inputs, positions)
        return _transpose_heads(query), _transpose_heads(key), _transpose_heads(value)

    def _attend(
        self, heads: tuple[Tensor, Tensor, Tensor], pairs: Pairs, training: bool | None, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        raise NotImplementedError

    def _add_fused(self, name: str, features: int, widths: list[int], seed: int | None) -> None:
        """Add kernel `[features, sum(widths)]` and bias of several projections side by side."""
        # Glorot for each projection, drawn once for all: each gets its own numbers under one seed.
        limits = [math.sqrt(6 / (features + width)) for width in widths for _ in range(width)]

        # As Keras' own initializers draw theirs: its global generator may not be made inside a model's call.
        drawn = random.randint(1, 2**31 - 1) if seed is None else seed

        def initial(shape: tuple, dtype: Any = None) -> Tensor:
            draws = keras.random.uniform(shape, -1.0, 1.0, dtype="float32", seed=drawn)
            return ops.cast(draws * ops.convert_to_tensor(limits, dtype="float32"), dtype)

        kernel = self.add_weight(name=f"{name}_kernel", shape=(features, sum(widths)), initializer=initial)
        self._fused = (kernel, self._add_bias(f"{name}_bias", sum(widths)))
        self._widths = widths

    def _add_bias(self, name: str, width: int) -> Any:
        return self.add_weight(name=name, shape=(width,), initializer="zeros") if self.use_bias else None

    def _project_fused(self, inputs: Tensor) -> list[Tensor]:
        """Return the heads of each projection, `[B, T, heads, D]`."""
        batch, length, features = sizes(inputs)
        kernel, bias = self._fused
        # Kernel or product is split, whichever has fewer rows, as far as is known.
        rows = inputs.shape[1] if inputs.shape[0] == 1 else 0
        if rows is not None and rows <= features:
            fused = _split(affine(inputs, kernel, bias), self._widths)
        else:
            biases = [None] * len(self._widths) if bias is None else _split(bias, self._widths)
            kernels = _split(kernel, self._widths)
            fused = [affine(inputs, *weights) for weights in zip(kernels, biases, strict=True)]
        return [
            ops.reshape(part, (batch, length, width // self._head_dim, self._head_dim))
            for part, width in zip(fused, self._widths, strict=True)
        ]

    def _transposed_fused(self, inputs: Tensor) -> list[Tensor]:
        """Return what `_project_fused` does as `[B, heads, T, D]`, turned before it is split."""
        batch, length, _ = sizes(inputs)
        heads = [width // self._head_dim for width in self._widths]
        fused = ops.reshape(affine(inputs, *self._fused), (batch, length, sum(heads), self._head_dim))
        return _split(_transpose_heads(fused), heads, axis=1)


def _transpose_heads(x: Tensor) -> Tensor:
    """`[B, T, H, D]` to `[B, H, T, D]`, or back."""
    return ops.transpose(x, (0, 2, 1, 3))


def _split(x: Tensor, widths: list[int], axis: int = -1) -> list[Tensor]:
    """Cut an axis, the last by default, into parts of the given widths."""
    if len(widths) == 1:
        return [ops.convert_to_tensor(x)]
    bounds = list(itertools.accumulate(widths[:-1]))
    return cast(list, ops.split(ops.convert_to_tensor(x), bounds, axis=axis))
