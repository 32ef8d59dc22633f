"""Transformer encoder: a stack of blocks; and the base that it shares with the decoder.

Axes: B (batch), T (query positions), S (key positions), H (heads), D (features).
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import keras

from keras_selfattn.layers.argument_checks import (
    RENAMED_IN_CALLS,
    checked_count,
    checked_rate,
    checked_seed,
    checked_sequence,
    refuse_renamed,
    sequence_spec,
)
from keras_selfattn.layers.attention_paths import Memory, Tokens, on_tokens
from keras_selfattn.layers.encoder_block import BlockBase, EncoderBlock, serialized_settings
from keras_selfattn.layers.masks import PairMask
from keras_selfattn.layers.norm import make_norm, normalised
from keras_selfattn.layers.remat import call_of_part
from keras_selfattn.layers.seeds import split_seed
from keras_selfattn.layers.weights.low_rank import begin_lora
from keras_selfattn.layers.weights.policy_maps import call_tokens
from keras_selfattn.layers.weights.quantized import refuse_quantized_policy
from keras_selfattn.layers.weights.saved_state import arguments, restore_state, state_config, take_state
from keras_selfattn.layers.weights.settings import WEIGHT_SETTINGS, WeightSettings

Tensor = Any

_BLOCK_SETTINGS = tuple(inspect.signature(BlockBase.__init__).parameters)[1:-1]  # without the weights'
_BY_DEPTH = ("stochastic_depth", "seed")
# Masks of heads and the last normalisation need these to be the same.
_THE_SAME = ("num_heads", "norm_first", *_BY_DEPTH)


class StackBase(keras.layers.Layer):
    """Base of stacks of blocks: the blocks, a last normalisation if they are pre-norm, config, LoRA.

    A subclass defines `call` and `compute_output_spec`.
    """

    _block: ClassVar[type[Any]]
    _settings: ClassVar[tuple[str, ...]] = _BLOCK_SETTINGS

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
        block_settings: Sequence[Mapping[str, Any]] | None = None,
        seed: int | None = None,
        **settings: Any,
    ) -> None:
        weights, others = WeightSettings.taken_from(settings)
        of_block = {name: value for name, value in others.items() if name in self._settings}
        super().__init__(**{name: value for name, value in others.items() if name not in of_block})
        refuse_quantized_policy(self)
        weights.store_on(self)
        self.num_layers = checked_count("num_layers", num_layers)
        self.stochastic_depth = checked_rate("stochastic_depth", stochastic_depth)
        self.seed = checked_seed(seed)
        self.lora: dict[str, Any] | None = None
        self.supports_masking = True
        of_block |= {
            "num_heads": num_heads,
            "feed_forward_dim": feed_forward_dim,
            "dropout": dropout,
            "activation": activation,
            "norm": norm,
            "norm_first": norm_first,
            "norm_epsilon": norm_epsilon,
        }
        differences = _checked_differences(block_settings, self.num_layers, self._settings)
        self._blocks: list[Any] = [
            self._block(
                **{**of_block, **weights.part("block", index).arguments(), **different},
                stochastic_depth=self.stochastic_depth * (index + 1) / num_layers,
                seed=block_seed,
                dtype=self.dtype_policy,
                name=f"block_{index}",
            )
            for index, (different, block_seed) in enumerate(
                zip(differences, split_seed(self.seed, self.num_layers), strict=True)
            )
        ]
        for block in self._blocks:
            block.around = (self.name,)
        shared = self._block(**of_block) if differences[0] else self._blocks[0]
        for name in self._settings:  # each argument under its own name, as a block checked it
            if name not in _BY_DEPTH:
                setattr(self, name, getattr(shared, name))
        self.block_settings = None
        if block_settings is not None:
            self.block_settings = [
                {name: _setting(block, name) for name in different}
                for block, different in zip(self._blocks, differences, strict=True)
            ]
        self._norm = make_norm(norm, self.dtype_policy, "norm", self.norm_epsilon) if norm_first else None

    @property
    def blocks(self) -> tuple[Any, ...]:
        """The blocks, first to last; `trainable = False` freezes one."""
        return tuple(self._blocks)

    def build(self, input_shape: tuple) -> None:
        self._features = checked_sequence(input_shape)
        self.input_spec = sequence_spec(self._features)
        for block in self._blocks:
            if not block.built:  # a decoder's are, with the shape of the memory
                block.build(input_shape)
        if self._norm is not None:
            self._norm.build(input_shape)
        restore_state(self)

    def __call__(self, *args: Any, **options: Any) -> Any:
        refuse_renamed(options, RENAMED_IN_CALLS)
        return super().__call__(*args, **options)

    def rematerialized_call(self, layer_call: Callable, *args: Any, **kwargs: Any) -> Callable:
        """Return `layer_call`; Keras calls it."""
        return call_of_part(self, super().rematerialized_call, layer_call, *args, **kwargs)

    def call_tokens(
        self,
        x: Tensor,
        tokens: Tokens,
        pairs: PairMask,
        training: bool | None,
        return_weights: bool,
        memory: Memory | None = None,
    ) -> tuple[Tensor, list[Any] | None]:
        """Return outputs `[N, features]` of tokens `[N, features]`, and each block's weights or None."""
        weights, others = [], () if memory is None else (memory,)
        for block in self._blocks:
            x, found = call_tokens(block, x, tokens, pairs, training, return_weights, *others)  # [N, D]
            weights.append(found)
        return normalised(self._norm, x, tokens), weights if return_weights else None

    def _pairs(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        valid_lens: Tensor | None,
        attention_mask: Tensor | None,
        distances: Tensor | None = None,
    ) -> PairMask:
        """Return the rules of all blocks: each has its own window, and some may read `distances`."""
        checks = next((block for block in self._blocks if block.reads_distances), self._blocks[0])
        pairs = checks.pairs(inputs, mask, valid_lens, attention_mask, distances)
        return pairs._replace(sees_distance=any(block.sees_distance for block in self._blocks))

    def enable_lora(
        self, rank: int, lora_alpha: float | None = None, parts: Sequence[str] | None = None
    ) -> None:
        """Train low-rank updates in all blocks, as `EncoderBlock.enable_lora` does in one."""
        begin_lora(self, rank, lora_alpha, parts)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Return the layer of a config; LoRA, of all or some blocks, and quantization begin at its build."""
        layer = super().from_config(arguments(config))
        lora = config.get("lora")
        if isinstance(lora, list | tuple):
            for block, of_block in zip(layer.blocks, lora, strict=True):
                block.lora = of_block
            config = {**config, "lora": None}
        take_state(layer, config)
        return layer

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        names = ("num_layers", *self._settings)
        config = serialized_settings({name: getattr(self, name) for name in names})
        differences = self.block_settings and [serialized_settings(each) for each in self.block_settings]
        config |= {**self.weight_settings.config(), "block_settings": differences}
        of_blocks = [block.lora for block in self._blocks]
        config |= {"lora": of_blocks} if any(of_blocks) else {}
        return {**super().get_config(), **config, **state_config(self)}

    def lora_parts(self) -> tuple[str, ...]:
        """Return the names of the projections that can be updated."""
        return self._blocks[0].lora_parts()

    def check_lora(self, rank: int, parts: Sequence[str]) -> None:
        """Raise ValueError if a kernel is too small or has a constraint."""
        for block in self._blocks:
            block.check_lora(rank, parts)

    def start_lora(self, rank: int, lora_alpha: float, parts: Sequence[str]) -> None:
        """Make the updates of the parts, whose kernels are frozen."""
        for block in self._blocks:
            block.start_lora(rank, lora_alpha, parts)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class Encoder(StackBase):
    """A stack of blocks (`EncoderBlock`), with a last normalisation if they are pre-norm. Keeps the mask.

    Args:
        num_layers: number of blocks.
        num_heads, feed_forward_dim, dropout, activation: as for `EncoderBlock`.
        stochastic_depth: probability in [0, 1] of the last block; the probabilities of the blocks before it
            grow evenly with depth (Huang et al. 2016, section 3).
        norm, norm_first, norm_epsilon: as for `EncoderBlock`.
        block_settings: how blocks differ: a dict for each block, first to last, of the arguments of
            `EncoderBlock` that are others there, such as `{"window": 64}`; all but `num_heads`, `norm_first`,
            `stochastic_depth` and `seed`. None if they do not.
        seed: int for initial weights and dropout; None draws one.
        settings: the other arguments of `EncoderBlock`, for all blocks: also `kernel_initializer` and its
            like. One initializer with a seed gives every projection of every block its own values.

    Call arguments:
        inputs: float `[batch, length, features]`.
        mask, valid_lens, attention_mask, training: as for `MultiHeadSelfAttention`.
        return_weights: if True, returns every block's attention weights as well.
        distances: as for `MultiHeadSelfAttention`; the blocks whose `position` reads them get them.

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

    Each third block sees all tokens, the others near ones, and each kind has its own rotary positions:

        >>> from keras_selfattn import layers
        >>> near = {"window": 64, "position": layers.RotaryPositions()}
        >>> far = {"position": layers.RotaryPositions(base=160_000.0)}
        >>> encoder = Encoder(num_layers=6, num_heads=4, block_settings=[far, near, near] * 2)
        >>> [block.window for block in encoder.blocks]
        [None, 64, 64, None, 64, 64]

    References: Vaswani et al. 2017, "Attention Is All You Need", section 3.1. Warner et al. 2024, "Smarter,
    Better, Faster, Longer", section 2.1.2 (blocks that differ in window and position).
    """

    _block = EncoderBlock

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
        distances: Tensor | None = None,
    ) -> Tensor:
        pairs = self._pairs(inputs, mask, valid_lens, attention_mask, distances)
        return on_tokens(self, inputs, pairs, training, return_weights)

    def compute_output_spec(
        self,
        inputs: Tensor,
        *args: Any,
        return_weights: bool = False,
        distances: Tensor | None = None,
        **options: Any,
    ) -> Any:
        some_read = any(block.reads_distances for block in self._blocks)
        specs = [
            block.compute_output_spec(
                inputs,
                *args,
                return_weights=return_weights,
                distances=distances if block.reads_distances or not some_read else None,
                **options,
            )
            for block in self._blocks
        ]
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        return (outputs, [weights for _, weights in specs]) if return_weights else outputs


def _setting(block: BlockBase, name: str) -> Any:
    return getattr(block.weight_settings if name in WEIGHT_SETTINGS else block, name)


def _checked_differences(
    block_settings: Any, num_layers: int, settings: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Return how each block differs, or raise ValueError if `block_settings` is not a dict for each block."""
    if block_settings is None:
        return [{} for _ in range(num_layers)]
    of_blocks = list(block_settings) if isinstance(block_settings, Sequence) else []
    if len(of_blocks) != num_layers or not all(isinstance(each, Mapping) for each in of_blocks):
        raise ValueError(
            "`block_settings` must be a list of dicts, one for each block, here "
            f"{num_layers}; an empty one for a block that does not differ. Received {block_settings!r}."
        )
    may_differ = [name for name in (*settings, *WEIGHT_SETTINGS) if name not in _THE_SAME]
    unknown = sorted({str(name) for each in of_blocks for name in each if name not in may_differ})
    if unknown:
        raise ValueError(f"`block_settings` may hold {', '.join(may_differ)}. Received {', '.join(unknown)}.")
    return [dict(each) for each in of_blocks]
