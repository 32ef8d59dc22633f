"""Transformer encoder: a stack of blocks.

Axes: B (batch), T (query positions), S (key positions), H (heads), D (features).
"""

import inspect
from typing import Any

import keras

from keras_selfattn.layers.argument_checks import (
    checked_count,
    checked_rate,
    checked_seed,
    checked_sequence,
    sequence_spec,
)
from keras_selfattn.layers.attention_paths import Tokens, on_tokens
from keras_selfattn.layers.encoder_block import EncoderBlock
from keras_selfattn.layers.masks import PairMask
from keras_selfattn.layers.norm import make_norm, normalised
from keras_selfattn.layers.seeds import split_seed

Tensor = Any

_BLOCK_SETTINGS = set(inspect.signature(EncoderBlock.__init__).parameters) - {"self", "kwargs"}


@keras.saving.register_keras_serializable(package="keras_selfattn")
class Encoder(keras.layers.Layer):
    """A stack of `EncoderBlock`s, with a last normalisation if they are pre-norm. Keeps the mask.

    Args:
        num_layers: number of blocks.
        num_heads, feed_forward_dim, dropout, activation: as for `EncoderBlock`.
        stochastic_depth: probability in [0, 1] of the last block; the probabilities of the blocks before it
            grow evenly with depth (Huang et al. 2016, section 3).
        norm, norm_first, norm_epsilon: as for `EncoderBlock`.
        seed: int for initial weights and dropout; None draws one.
        settings: the other arguments of `EncoderBlock`, the same for all blocks.

    Call arguments:
        inputs: float `[batch, length, features]`.
        mask, valid_lens, attention_mask, training: as for `MultiHeadSelfAttention`.
        return_weights: if True, returns every block's attention weights as well.

    Returns:
        float `[batch, length, features]`, exactly zero at masked positions; with `return_weights` also a list
        of float `[batch, heads, query, key]`, one for each block, first to last.

    Raises:
        ValueError: as `MultiHeadSelfAttention` does.

    Example:

        >>> import numpy as np
        >>> outputs, weights = Encoder(num_layers=2, num_heads=4)(np.ones((3, 5, 8)), return_weights=True)
        >>> tuple(outputs.shape), [tuple(w.shape) for w in weights]
        ((3, 5, 8), [(3, 4, 5, 5), (3, 4, 5, 5)])

    Reference: Vaswani et al. 2017, "Attention Is All You Need", section 3.1.
    """

    def __init__(
        self,
        num_layers: int,
        num_heads: int,
        feed_forward_dim: int | None = None,
        dropout: float = 0.0,
        activation: Any = "gelu",
        *,
        stochastic_depth: float = 0.0,
        norm: str = "layer",
        norm_first: bool = True,
        norm_epsilon: float | None = None,
        seed: int | None = None,
        **settings: Any,
    ) -> None:
        of_block = {name: value for name, value in settings.items() if name in _BLOCK_SETTINGS}
        super().__init__(**{name: value for name, value in settings.items() if name not in of_block})
        self.num_layers = checked_count("num_layers", num_layers)
        self.stochastic_depth = checked_rate("stochastic_depth", stochastic_depth)
        self.seed = checked_seed(seed)
        self.supports_masking = True
        self._blocks = [
            EncoderBlock(
                num_heads,
                feed_forward_dim,
                dropout,
                activation,
                stochastic_depth=self.stochastic_depth * (index + 1) / num_layers,
                norm=norm,
                norm_first=norm_first,
                norm_epsilon=norm_epsilon,
                seed=block_seed,
                dtype=self.dtype_policy,
                name=f"block_{index}",
                **of_block,
            )
            for index, block_seed in enumerate(split_seed(self.seed, self.num_layers))
        ]
        for name in _BLOCK_SETTINGS - {"stochastic_depth", "seed"}:
            setattr(self, name, getattr(self._blocks[0], name))
        self._norm = make_norm(norm, self.dtype_policy, "norm", self.norm_epsilon) if norm_first else None

    @property
    def blocks(self) -> tuple[EncoderBlock, ...]:
        """The blocks, first to last; `trainable = False` freezes one."""
        return tuple(self._blocks)

    def build(self, input_shape: tuple) -> None:
        self.input_spec = sequence_spec(checked_sequence(input_shape))
        for block in self._blocks:
            block.build(input_shape)
        if self._norm is not None:
            self._norm.build(input_shape)

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
    ) -> Tensor:
        pairs = self._blocks[0].pairs(inputs, mask, valid_lens, attention_mask)
        return on_tokens(self.call_tokens, inputs, pairs, training, return_weights)

    def call_tokens(
        self, x: Tensor, tokens: Tokens, pairs: PairMask, training: bool | None, return_weights: bool
    ) -> tuple[Tensor, list[Tensor] | None]:
        """Return outputs `[N, features]` of tokens `[N, features]`, and each block's weights or None."""
        weights = []
        for block in self._blocks:
            x, found = block.call_tokens(x, tokens, pairs, training, return_weights)  # [N, D]
            weights.append(found)
        x = x if self._norm is None else normalised(self._norm, x, tokens)
        return x, weights if return_weights else None

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def compute_output_spec(
        self, inputs: Tensor, *args: Any, return_weights: bool = False, **options: Any
    ) -> Any:
        specs = [
            block.compute_output_spec(inputs, *args, return_weights=return_weights, **options)
            for block in self._blocks
        ]
        return (specs[-1][0], [weights for _, weights in specs]) if return_weights else specs[-1]

    def get_config(self) -> dict[str, Any]:
        of_block = self._blocks[0].get_config()
        settings = {name: value for name, value in of_block.items() if name in _BLOCK_SETTINGS}
        names = ("num_layers", "stochastic_depth", "seed")
        return {**super().get_config(), **settings, **{name: getattr(self, name) for name in names}}
