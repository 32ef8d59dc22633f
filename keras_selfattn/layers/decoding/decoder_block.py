"""One block of a Transformer decoder.

Axes: B (batch), T (query positions), S (positions of the memory), H (heads), D (features), N (tokens).
"""

from typing import Any

import keras

from keras_selfattn.layers.argument_checks import checked_sequence
from keras_selfattn.layers.attention_paths import GivenMemory, Memory, Tokens, on_tokens
from keras_selfattn.layers.decoding.cache import GROWING, OF_MEMORY, Cached
from keras_selfattn.layers.decoding.cross_attention import MultiHeadCrossAttention, with_mask_of_inputs
from keras_selfattn.layers.encoder_block import BlockBase
from keras_selfattn.layers.norm import make_norm
from keras_selfattn.layers.seeds import split_seed
from keras_selfattn.layers.weights.policy_maps import call_in_policy

Tensor = Any

_OF_MEMORY = "memory_attention_mask"


@keras.saving.register_keras_serializable(package="keras_selfattn")
class DecoderBlock(BlockBase):
    """Causal self-attention, attention to a memory, then a feed-forward network, each normalised and added.

    A block that is built without a memory has no attention to one: it is a block of a causal language model.
    Outputs at masked positions are exactly zero.

    Args:
        num_heads: number of attention heads, of both attentions.
        feed_forward_dim, dropout, activation: as for `EncoderBlock`.
        settings: the other arguments of `EncoderBlock` but `causal`, which every block of a decoder is.
            `position` and `window` are of self-attention alone; `head_dim`, `num_kv_heads`, `scale`,
            `qk_norm`, `logit_cap`, `use_bias` and `attention_dropout` of both attentions. `attention_norm` is
            the normalisation of self-attention.

    Call arguments:
        inputs: float `[batch, length, features]`.
        memory: float `[batch, memory length, memory features]`, such as the outputs of an `Encoder`; or None,
            always or never.
        mask, valid_lens, attention_mask, training: as for `MultiHeadSelfAttention`.
        memory_mask: bool `[batch, memory length]`, True = a real token of the memory; propagated by Keras.
        memory_lens: int `[batch]`, the number of leading real tokens of the memory.
        memory_attention_mask: which token may attend to which of the memory, as `attention_mask` of
            `MultiHeadCrossAttention`.
        return_weights: if True, returns the attention weights as well.

    Returns:
        float `[batch, length, features]`; with `return_weights` also the weights of self-attention, float
        `[batch, heads, query, key]`, and with a memory those of the memory, float `[batch, heads, query,
        token of the memory]`.

    Raises:
        ValueError: as `MultiHeadCrossAttention` does, and for a memory that is missing, or is given to a
            block that was built without one.

    Example:

        >>> import numpy as np
        >>> x, memory = np.ones((3, 5, 8), "float32"), np.ones((3, 7, 6), "float32")
        >>> tuple(DecoderBlock(num_heads=2)(x, memory).shape)
        (3, 5, 8)

    Reference: Vaswani et al. 2017, "Attention Is All You Need", section 3.1.
    """

    _settings_of_attention = tuple(name for name in BlockBase._settings_of_attention if name != "causal")

    def __init__(
        self,
        num_heads: int,
        feed_forward_dim: int | None = None,
        dropout: float = 0.0,
        activation: Any = "gelu",
        **settings: Any,
    ) -> None:
        refuse_causal(settings)
        super().__init__(num_heads, feed_forward_dim, dropout, activation, causal=True, **settings)

    def build(self, inputs_shape: tuple, memory_shape: tuple | None = None) -> None:
        if memory_shape is not None:
            self._add_cross_attention(inputs_shape, memory_shape)
        super().build(inputs_shape)

    def _add_cross_attention(self, inputs_shape: tuple, memory_shape: tuple) -> None:
        checked_sequence(memory_shape)
        seeds = split_seed(self.seed, 9)[6:]
        self._cross_attention = MultiHeadCrossAttention(
            self.num_heads,
            self.head_dim,
            num_kv_heads=self.num_kv_heads,
            scale=self.scale,
            dropout=self.dropout if self.attention_dropout is None else self.attention_dropout,
            use_bias=self.use_bias,
            qk_norm=self.qk_norm,
            logit_cap=self.logit_cap,
            **self.weight_settings.part("sublayer", 2).arguments(),
            seed=seeds[0],
            dtype=self.dtype_policy,
            name="cross_attention",
        )
        policy, epsilon = self.dtype_policy, self.norm_epsilon
        self._cross_attention_norm = make_norm(self.norm, policy, "cross_attention_norm", epsilon)
        self._cross_attention_dropouts = self._branch_dropouts(seeds[1:], "cross_attention")
        self._cross_attention.build(inputs_shape, memory_shape)
        self._cross_attention_norm.build(inputs_shape)

    def __call__(self, *args: Any, **options: Any) -> Any:
        args, options = with_mask_of_inputs(args, options)
        return super().__call__(*args, **options)

    def call(
        self,
        inputs: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        memory_lens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        memory_attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
    ) -> Any:
        pairs = self.pairs(inputs, mask, valid_lens, attention_mask)
        given = self.given_memory(inputs, memory, memory_mask, memory_lens, memory_attention_mask)
        found = on_tokens(self, inputs, pairs, training, return_weights, memory=given)
        return (found[0], *found[1]) if given is not None and return_weights else found

    def given_memory(
        self,
        inputs: Tensor,
        memory: Tensor | None,
        memory_mask: Tensor | None,
        memory_lens: Tensor | None,
        memory_attention_mask: Tensor | None,
    ) -> GivenMemory | None:
        """Return the checked memory and its masks, or None without one."""
        masks = {"memory_mask": memory_mask, "memory_lens": memory_lens, _OF_MEMORY: memory_attention_mask}
        self.check_memory(memory, masks)
        if memory is None:
            return None
        pairs = self._cross_attention.memory_pairs(inputs, memory, *masks.values(), name=_OF_MEMORY)
        return GivenMemory(memory, pairs)

    def check_memory(self, memory: Tensor | None, masks: dict[str, Any]) -> None:
        """Raise ValueError for a memory that is missing, is not expected, or has a mask alone."""
        if (memory is None) != (self._cross_attention is None):
            built, step = (
                ("with", "pass it") if memory is None else ("without", "leave it out, or make another")
            )
            raise ValueError(
                f"{self.name} was built {built} a `memory`: {step}. Received "
                f"{'none' if memory is None else f'one of shape {tuple(memory.shape)}'}."
            )
        if memory is None:
            for name in (name for name, mask in masks.items() if mask is not None):
                raise ValueError(f"`{name}` is of the memory: pass `memory`, too. Received none.")

    def compute_output_shape(self, inputs_shape: tuple, memory_shape: tuple | None = None) -> tuple:
        return tuple(inputs_shape)

    def compute_output_spec(
        self,
        inputs: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        memory_lens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        memory_attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
    ) -> Any:
        masks = {"memory_mask": memory_mask, "memory_lens": memory_lens, _OF_MEMORY: memory_attention_mask}
        self.check_memory(memory, masks)
        found = self._attention.compute_output_spec(
            inputs, mask, valid_lens, attention_mask, return_weights=return_weights
        )
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        weights = list(found[1:]) if return_weights else []
        if memory is not None:
            of_memory = self._cross_attention.compute_output_spec(
                inputs,
                memory,
                memory_mask=memory_mask,
                memory_lens=memory_lens,
                attention_mask=memory_attention_mask,
                return_weights=return_weights,
            )
            weights += list(of_memory[1:]) if return_weights else []
        return (outputs, *weights) if weights else outputs

    def new_cache(self, batch: Tensor, max_length: Tensor | int | None, memory: Memory | None) -> Cached:
        """Return the cache of the block before the first token; see `Decoder.start`."""
        cached = self._attention.new_cache(batch, max_length)
        if memory is None:
            return cached
        cross = self._cross_attention
        key, value = call_in_policy(cross, cross.keys_and_values, memory.x, memory.tokens)
        return {**cached, "memory_key": key, "memory_value": value}

    def step_tokens(
        self, x: Tensor, tokens: Tokens, cached: Cached, memory_mask: Tensor | None
    ) -> tuple[Tensor, Cached]:
        """Return outputs `[N, features]` of a step's tokens `[N, features]`, and the cache after it."""

        def attend(x: Tensor) -> tuple[Tensor, Cached]:
            return call_in_policy(self._attention, self._attention.step_tokens, x, tokens, cached)

        def attend_to_memory(x: Tensor) -> tuple[Tensor, None]:
            cross, heads = self._cross_attention, (cached["memory_key"], cached["memory_value"])
            return call_in_policy(cross, cross.step_tokens, x, tokens, heads, memory_mask), None

        to_memory = None if self._cross_attention is None else attend_to_memory
        x, after, _ = self._sublayers(x, tokens, False, attend, to_memory)
        return x, {**cached, **after}

    def fits(self, cached: Any) -> bool:
        """Return True if `cached` has the names and sizes of a cache of this block."""
        of_memory = OF_MEMORY[:2] if self.reads_memory else ()
        wanted = [{*keys, *of_memory} for keys in (("key", "value"), GROWING)]
        named = isinstance(cached, dict) and cached.keys() in wanted
        return named and all(map(self._attention.is_cached, cached.values()))

    @property
    def reads_memory(self) -> bool:
        """True if the block was built with a memory."""
        return self._cross_attention is not None

    @property
    def bounds_cache(self) -> bool:
        """True if a window bounds the keys that a step needs."""
        return self.window is not None

    def slides(self, size: int | None) -> bool:
        """Return True if a cache of so many keys, None if unknown, holds those of the window and no more."""
        if size is None and self.bounds_cache:
            raise ValueError(
                f"`cache` must have a known number of positions for {self.name}, which has a window: its "
                f"keys move on if that is {self._attention.reach[0]}. Received keys whose shape does not say."
            )
        return self.bounds_cache and self._attention.reach[0] == size


def refuse_causal(settings: dict[str, Any]) -> None:
    """Raise TypeError for `causal` among the arguments of a decoder."""
    if "causal" in settings:
        raise TypeError(
            "A decoder is always causal: leave `causal` out, or use an encoder. Received "
            f"causal={settings['causal']!r}."
        )
