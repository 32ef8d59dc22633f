"""Transformer decoder: a stack of blocks, all positions at once or step by step with a cache.

Axes: B (batch), T (query positions, or tokens of a step), S (positions of the memory), D (features), N
(tokens).
"""

from typing import Any

import keras
from keras import ops
from keras.src.backend import get_keras_mask  # Keras exports no way to read the mask of a tensor

from keras_selfattn.layers.argument_checks import checked_sequence
from keras_selfattn.layers.attention_paths import GivenMemory, PaddedTokens, on_tokens
from keras_selfattn.layers.decoding.cache import (
    as_position,
    check_step,
    checked_max_length,
    first_position,
    is_cache,
    is_growing,
    most_tokens,
    valid_rows,
)
from keras_selfattn.layers.decoding.cross_attention import with_mask_of_inputs
from keras_selfattn.layers.decoding.decoder_block import DecoderBlock, refuse_causal
from keras_selfattn.layers.encoder import StackBase
from keras_selfattn.layers.masks import PairMask, token_mask
from keras_selfattn.layers.norm import normalised
from keras_selfattn.layers.weights.policy_maps import computing

Tensor = Any
Cache = dict[str, Any]


@keras.saving.register_keras_serializable(package="keras_selfattn")
class Decoder(StackBase):
    """A stack of decoder blocks (`DecoderBlock`), with a last normalisation if they are pre-norm.

    It computes all positions of known sequences at once, as in training, or a few more tokens at a time with
    a cache: `start`, then `step` after `step`. A decoder that is built without a memory is a causal language
    model.

    Args:
        num_layers: number of blocks.
        num_heads, feed_forward_dim, dropout, activation: as for `DecoderBlock`.
        settings: the other arguments of `Encoder` but `causal`: `stochastic_depth`, `norm`, `norm_first`,
            `norm_epsilon`, `block_settings`, `seed`, and those of all blocks.

    Call arguments:
        inputs: float `[batch, length, features]`.
        memory: float `[batch, memory length, memory features]`, such as the outputs of an `Encoder`, which
            every block attends to; or None, always or never.
        mask, memory_mask, valid_lens, memory_lens, attention_mask, memory_attention_mask, training: as for
            `DecoderBlock`.
        return_weights: if True, returns every block's attention weights as well.

    Returns:
        float `[batch, length, features]`, exactly zero at masked positions; with `return_weights` also a list
        of the weights of each block's self-attention, and with a memory a list of those of the memory.

    Raises:
        ValueError: as `DecoderBlock` does.

    Example:

        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(3, 5, 8)).astype("float32")
        >>> memory = np.ones((3, 7, 6), "float32")
        >>> decoder = Decoder(num_layers=2, num_heads=2, position="rotary")
        >>> outputs = decoder(x, memory)
        >>> tuple(outputs.shape)
        (3, 5, 8)

    The same, token by token:

        >>> cache = decoder.start(memory, max_length=5)
        >>> steps = []
        >>> for position in range(5):
        ...     output, cache = decoder.step(x[:, position : position + 1], cache)
        ...     steps.append(np.asarray(output))
        >>> bool(abs(np.concatenate(steps, axis=1) - np.asarray(outputs)).max() < 1e-5)
        True

    Reference: Vaswani et al. 2017, "Attention Is All You Need", section 3.1.
    """

    _block = DecoderBlock
    _settings = tuple(name for name in StackBase._settings if name != "causal")

    def __init__(
        self,
        num_layers: int,
        num_heads: int,
        feed_forward_dim: int | None = None,
        dropout: float = 0.0,
        activation: Any = "gelu",
        **settings: Any,
    ) -> None:
        refuse_causal(settings)
        super().__init__(num_layers, num_heads, feed_forward_dim, dropout, activation, **settings)

    def build(self, inputs_shape: tuple, memory_shape: tuple | None = None) -> None:
        for block in self._blocks:
            if not block.built:
                block.build(inputs_shape, memory_shape)
        super().build(inputs_shape)

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
        pairs = self._pairs(inputs, mask, valid_lens, attention_mask)
        block = self._blocks[0]
        given = block.given_memory(inputs, memory, memory_mask, memory_lens, memory_attention_mask)
        found = on_tokens(self, inputs, pairs, training, return_weights, memory=given)
        if given is None or not return_weights:
            return found
        outputs, weights = found
        return outputs, *(list(of_kind) for of_kind in zip(*weights, strict=True))

    def compute_output_shape(self, inputs_shape: tuple, memory_shape: tuple | None = None) -> tuple:
        return tuple(inputs_shape)

    def compute_output_spec(
        self, inputs: Tensor, *args: Any, return_weights: bool = False, **options: Any
    ) -> Any:
        specs = [
            block.compute_output_spec(inputs, *args, return_weights=return_weights, **options)
            for block in self._blocks
        ]
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if not return_weights:
            return outputs
        return outputs, *(list(of_kind) for of_kind in zip(*(each[1:] for each in specs), strict=True))

    def start(
        self,
        memory: Tensor | None = None,
        *,
        memory_mask: Tensor | None = None,
        memory_lens: Tensor | None = None,
        max_length: Tensor | int | None = None,
        batch_size: Tensor | None = None,
    ) -> Cache:
        """Return the cache before the first token, with the keys and values of the memory, computed once.

        A cache is a value: a dict of tensors, which `tf.while_loop`, `jax.lax.scan` and `tf.nest` take as it
        is. The first axis of each of them is the batch, so rows are chosen, repeated and put into another
        order by the same gather of all. A block with a `window` keeps the keys of the window alone.

        Args:
            memory: float `[batch, memory length, memory features]`, if the decoder was built with one.
            memory_mask: bool `[batch, memory length]`, True = a real token; propagated by Keras.
            memory_lens: int `[batch]`, the number of leading real tokens of the memory.
            max_length: the most tokens that steps may come to, an int or int scalar tensor. A graph of
                TensorFlow may learn it when it runs, outside XLA: then a block with a window has places for
                the whole window. None, with the same places for a window, lets the others grow: a step costs
                what tokens so far cost, and the shapes of the cache change. `tf.while_loop` takes that with
                `shape_invariants`; XLA and `jax.lax.scan` do not.
            batch_size: number of rows, without a memory alone.

        Returns:
            The cache: `position`, int32 `[batch]`, the number of tokens so far; `blocks`, a dict for each
            block of `key` and `value`, `[batch, key-value heads, positions, head_dim]`, and with a memory
            `memory_key` and `memory_value`; with a memory also `memory_mask`, bool `[batch, memory length]`.
            Keys and values that grow are `growing_key` and `growing_value`.

        Raises:
            ValueError: for a decoder that is not built, a memory that is missing or not expected, or a
                `max_length` or `batch_size` that is missing or out of range.
        """
        if not self.built:
            raise ValueError(
                "`start` needs a built decoder: call it on inputs, or `build` it. Received "
                f"{self.name}, not built."
            )
        masks = {"memory_mask": memory_mask, "memory_lens": memory_lens}
        self._blocks[0].check_memory(memory, masks)
        if memory_mask is None and memory is not None:
            memory_mask = get_keras_mask(memory)  # Keras hands it to calls alone
        places = checked_max_length(max_length)
        if (memory is None) == (batch_size is None):
            raise ValueError(
                "`batch_size` must be given without a memory, and only then: it is that of the memory. "
                f"Received {batch_size!r}."
            )
        with computing(self):
            if memory is None:
                return self._cache(batch_size, places, None)
            sequence: Any = self._as_inputs(memory)
            checked_sequence(tuple(sequence.shape))
            real = token_mask(sequence, memory_mask, memory_lens, ("memory_mask", "memory_lens"))  # [B, S]
            given = GivenMemory(sequence, PairMask(real, None, None, (None, None), of_one_sequence=False))
            return self._cache(ops.shape(sequence)[0], places, given)

    def _as_inputs(self, x: Any) -> Any:
        return ops.cast(ops.convert_to_tensor(x), self.compute_dtype)

    def _cache(self, batch: Tensor, max_length: Tensor | int | None, memory: GivenMemory | None) -> Cache:
        tokens = None
        cache: Cache = {"position": as_position(batch)}
        if memory is not None:
            real = memory.pairs.real
            if real is None:
                real = ops.ones(ops.shape(memory.inputs)[:2], dtype="bool")
            cache["memory_mask"] = real
            tokens = memory.beside(PaddedTokens(memory.inputs, None))
        cache["blocks"] = [block.new_cache(batch, max_length, tokens) for block in self._blocks]
        return cache

    def step(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Return the outputs of the next tokens, and the cache after them.

        It equals a call on all tokens so far, without dropout, at the place of these. All rows are at the
        same position; rows that have ended are left out of the cache, or go on and are ignored.

        Args:
            tokens: float `[batch, length, features]`, one token or several, such as a forced prefix.
            cache: as `start` or `step` returned it, or with other rows of it. It stays as it is. Those of the
                memory may have fewer rows, for hypotheses that share one: row r reads memory
                `r // (rows / memories)`.

        Returns:
            Outputs, float `[batch, length, features]`, and the next cache.

        Raises:
            ValueError: for tokens of another shape, something else than a cache, rows at different positions,
                and more tokens than the cache has places for. In a graph the last two cannot be raised on
                every backend: the outputs are NaN, or the graph of TensorFlow fails.
        """
        if not (is_cache(cache, self.num_layers) and self._may_read(cache)):
            raise ValueError(
                "`cache` must be what `start` or `step` of this decoder returned. Received "
                f"{type(cache).__name__}."
            )
        with computing(self):
            inputs = self._as_inputs(tokens)
            if checked_sequence(tuple(inputs.shape)) != self._features:
                raise ValueError(
                    f"`tokens` must have {self._features} features. Received shape {tuple(inputs.shape)}."
                )
            rows = inputs.shape[0], cache["position"].shape[0]
            if None not in rows and rows[0] != rows[1]:
                raise ValueError(
                    f"`tokens` must have as many rows as `cache`, {rows[1]}. Received {rows[0]}."
                )
            return self._step(inputs, cache)

    def _may_read(self, cache: Cache) -> bool:
        of_memory = self._blocks[0].reads_memory
        fits = (block.fits(each) for block, each in zip(self._blocks, cache["blocks"], strict=True))
        return ("memory_mask" in cache) == of_memory and all(fits)

    def _step(self, inputs: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        position, count = cache["position"], ops.shape(inputs)[1]
        fixed = [each for each in zip(cache["blocks"], self._blocks, strict=True) if not is_growing(each[0])]
        keys = [(cached["key"], block) for cached, block in fixed]
        most = most_tokens([key for key, block in keys if not block.slides(key.shape[2])])
        check_step(cache, inputs.shape[1], most)
        first = first_position(position)
        tokens = PaddedTokens(inputs, None, first=first)
        x = tokens.gather(inputs)  # [N, D]
        after = []
        for block, cached in zip(self._blocks, cache["blocks"], strict=True):
            x, found = block.step_tokens(x, tokens, cached, cache.get("memory_mask"))
            after.append(found)
        outputs = tokens.scatter(normalised(self._norm, x, tokens))
        valid = valid_rows(position, first, count, most)[:, None, None]
        outputs = ops.where(valid, ops.cast(outputs, self.compute_dtype), float("nan"))
        return outputs, {**cache, "position": position + count, "blocks": after}
