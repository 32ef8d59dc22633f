"""One block of a Transformer encoder, and the base that it shares with the decoder's.

Axes: B (batch), T (query positions), S (key positions), H (heads), D (features).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self, Unpack

import keras
from keras import ops

from keras_selfattn.layers.argument_checks import (
    RENAMED_IN_CALLS,
    checked_choice,
    checked_count,
    checked_flag,
    checked_positive,
    checked_rate,
    checked_seed,
    checked_sequence,
    or_none,
    refuse_renamed,
    sequence_spec,
)
from keras_selfattn.layers.attention_paths import Memory, Tokens, on_tokens
from keras_selfattn.layers.dropout import Dropout
from keras_selfattn.layers.feed_forward import FeedForward
from keras_selfattn.layers.masks import PairMask
from keras_selfattn.layers.norm import NORMS, make_norm, normalised
from keras_selfattn.layers.positions.strategy import PositionStrategy
from keras_selfattn.layers.remat import call_of_part, is_chosen, outputs_and_losses, rematerialise
from keras_selfattn.layers.seeds import split_seed
from keras_selfattn.layers.self_attention import MultiHeadSelfAttention
from keras_selfattn.layers.weights.low_rank import begin_lora, check_kernels
from keras_selfattn.layers.weights.policy_maps import call_tokens
from keras_selfattn.layers.weights.quantized import refuse_quantized_policy
from keras_selfattn.layers.weights.saved_state import arguments, restore_state, state_config, take_state
from keras_selfattn.layers.weights.settings import (
    WEIGHT_SETTINGS,
    LayerArguments,
    WeightSettings,
    serialized_setting,
)

Tensor = Any

_ATTENTION = (
    "num_heads",
    "head_dim",
    "num_kv_heads",
    "scale",
    "position",
    "causal",
    "window",
    "qk_norm",
    "logit_cap",
    "use_bias",
)


class BlockBase(keras.layers.Layer):
    """Base of the blocks: sublayers, each normalised and added to its input.

    A subclass defines `call` and `compute_output_spec`. That of a decoder makes `_cross_attention`, its norm
    and its dropouts when it is built with a memory.
    """

    _settings_of_attention: ClassVar[tuple[str, ...]] = _ATTENTION

    def __init__(
        self,
        num_heads: int,
        feed_forward_dim: int | None = None,
        dropout: float = 0.0,
        activation: Any = "gelu",
        *,
        attention_dropout: float | None = None,
        feed_forward_dropout: float = 0.0,
        stochastic_depth: float = 0.0,
        norm: str = "layer",
        norm_first: bool = True,
        norm_epsilon: float | None = None,
        attention_norm: bool = True,
        gated: bool = False,
        head_dim: int | None = None,
        num_kv_heads: int | None = None,
        scale: float | None = None,
        position: PositionStrategy | str | None = None,
        causal: bool = False,
        window: int | tuple[int, int] | None = None,
        qk_norm: bool = False,
        logit_cap: float | None = None,
        use_bias: bool = True,
        remat: bool = False,
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        settings, others = WeightSettings.taken_from(kwargs)
        super().__init__(**others)
        refuse_quantized_policy(self)
        settings.store_on(self)
        self.feed_forward_dim = or_none(checked_count, "feed_forward_dim", feed_forward_dim)
        self.dropout = checked_rate("dropout", dropout)
        self.activation = keras.activations.get(activation)
        self.attention_dropout = or_none(checked_rate, "attention_dropout", attention_dropout)
        self.feed_forward_dropout = checked_rate("feed_forward_dropout", feed_forward_dropout)
        self.stochastic_depth = checked_rate("stochastic_depth", stochastic_depth)
        self.norm = checked_choice("norm", norm, tuple(NORMS))
        self.norm_first = checked_flag("norm_first", norm_first)
        self.norm_epsilon = or_none(checked_positive, "norm_epsilon", norm_epsilon)
        self.attention_norm = checked_flag("attention_norm", attention_norm)
        self.gated = checked_flag("gated", gated)
        self.remat = checked_flag("remat", remat)
        self.seed = checked_seed(seed)
        self.lora: dict[str, Any] | None = None
        self.supports_masking = True
        self.around: tuple[str, ...] = ()  # the name of the encoder that has this block
        seeds = split_seed(self.seed, 6)
        self._attention = MultiHeadSelfAttention(
            num_heads,
            head_dim,
            num_kv_heads=num_kv_heads,
            scale=scale,
            position=position,
            causal=causal,
            window=window,
            dropout=self.dropout if self.attention_dropout is None else self.attention_dropout,
            use_bias=use_bias,
            qk_norm=qk_norm,
            logit_cap=logit_cap,
            **settings.part("sublayer", 0).arguments(),
            seed=seeds[0],
            dtype=self.dtype_policy,
            name="attention",
        )
        for name in _ATTENTION:  # each argument under its own name, as the attention layer checked it
            setattr(self, name, getattr(self._attention, name))
        self._feed_forward = FeedForward(
            self.feed_forward_dim,
            self.activation,
            gated=gated,
            use_bias=use_bias,
            dropout=self.feed_forward_dropout,
            settings=settings.part("sublayer", 1),
            seed=seeds[1],
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self._attention_norm = None
        if self.attention_norm:
            self._attention_norm = make_norm(norm, self.dtype_policy, "attention_norm", self.norm_epsilon)
        self._feed_forward_norm = make_norm(norm, self.dtype_policy, "feed_forward_norm", self.norm_epsilon)
        self._cross_attention: Any = None
        self._cross_attention_norm: Any = None
        self._cross_attention_dropouts: list[Dropout] = []
        self._attention_dropouts = self._branch_dropouts(seeds[2:4], "attention")
        self._feed_forward_dropouts = self._branch_dropouts(seeds[4:6], "feed_forward")

    def build(self, input_shape: tuple) -> None:
        self.input_spec = sequence_spec(checked_sequence(input_shape))
        for layer in (self._attention_norm, self._attention, self._feed_forward_norm, self._feed_forward):
            if layer is not None:
                layer.build(input_shape)
        restore_state(self)

    def __call__(self, *args: Any, **options: Any) -> Any:
        refuse_renamed(options, RENAMED_IN_CALLS)
        return super().__call__(*args, **options)

    def rematerialized_call(self, layer_call: Callable, *args: Any, **kwargs: Any) -> Callable:
        """Return `layer_call`; Keras calls it."""
        return call_of_part(self, super().rematerialized_call, layer_call, *args, **kwargs)

    def pairs(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        valid_lens: Tensor | None,
        attention_mask: Tensor | None,
        distances: Tensor | None = None,
    ) -> PairMask:
        """Return the checked rules of which token may attend to which."""
        return self._attention.pairs(inputs, mask, valid_lens, attention_mask, distances)

    @property
    def reads_distances(self) -> bool:
        """True if a call must be given `distances`."""
        return self._attention.reads_distances

    @property
    def sees_distance(self) -> bool:
        """True if the distance from query to key matters."""
        return self._attention.sees_distance

    def call_tokens(
        self,
        x: Tensor,
        tokens: Tokens,
        pairs: PairMask,
        training: bool | None,
        return_weights: bool,
        memory: Memory | None = None,
    ) -> tuple[Tensor, Any]:
        """Return outputs `[N, features]` of tokens `[N, features]`, and the attention weights or None.

        With a memory the weights are a pair: those of self-attention, and those of the memory.
        """

        def forward(x: Tensor, *others: Tensor) -> tuple[Tensor, Any]:
            seen = None if memory is None else memory._replace(x=others[0])
            return self._forward(x, tokens, pairs, training, return_weights, seen)

        given = [x] if memory is None else [x, memory.x]
        repeats = self.remat or is_chosen(self, lambda: x, self.around)
        if repeats and training and not return_weights:
            seeds = [layer.seeds for layer in self._dropouts() if layer.seeds is not None]
            x, *losses = rematerialise(lambda *x: outputs_and_losses(forward, x, tokens), given, seeds)
            tokens.losses += losses
            return x, None
        return forward(*given)

    def enable_lora(
        self, rank: int, lora_alpha: float | None = None, parts: Sequence[str] | None = None
    ) -> None:
        """Train updates as `MultiHeadSelfAttention.enable_lora` does; `parts` may hold "feed_forward"."""
        begin_lora(self, rank, lora_alpha, parts)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Return the layer of a config; its LoRA and quantization begin when it is built."""
        layer = super().from_config(arguments(config))
        take_state(layer, config)
        return layer

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        names = (
            "feed_forward_dim",
            "dropout",
            "attention_dropout",
            "feed_forward_dropout",
            "stochastic_depth",
        )
        names += ("norm", "norm_first", "norm_epsilon", "attention_norm", "gated", "remat", "seed")
        settings = {
            name: getattr(self, name) for name in ("activation", *names, *self._settings_of_attention)
        }
        return {
            **super().get_config(),
            **serialized_settings(settings),
            **self.weight_settings.config(),
            **state_config(self),
        }

    def _forward(
        self,
        x: Tensor,
        tokens: Tokens,
        pairs: PairMask,
        training: bool | None,
        return_weights: bool,
        memory: Memory | None,
    ) -> tuple[Tensor, Any]:
        def attend(layer: Any, *others: Any) -> Callable[[Tensor], tuple[Tensor, Any]]:
            return lambda x: call_tokens(layer, x, tokens, pairs, training, return_weights, *others)

        to_memory = None if memory is None else attend(self._cross_attention, memory)
        x, weights, others = self._sublayers(x, tokens, training, attend(self._attention), to_memory)
        return x, weights if memory is None else (weights, others)

    def _sublayers(
        self,
        x: Tensor,
        tokens: Tokens,
        training: bool | None,
        attend: Callable[[Tensor], tuple[Tensor, Any]],
        attend_to_memory: Callable[[Tensor], tuple[Tensor, Any]] | None,
    ) -> tuple[Tensor, Any, Any]:
        """Return outputs `[N, features]`, and what the two kinds of attention found beside theirs."""

        def around(sublayer: Callable, norm: Any, dropouts: list[Dropout], x: Tensor) -> tuple[Tensor, Any]:
            seen = normalised(norm, x, tokens) if self.norm_first else x  # [N, D]
            branch, found = sublayer(seen)
            x = _added(x, branch, dropouts, training, tokens)
            return (x if self.norm_first else normalised(norm, x, tokens)), found

        def feed_forward(x: Tensor) -> tuple[Tensor, None]:
            return self._feed_forward(x, tokens=tokens, training=training), None

        x, found = around(attend, self._attention_norm, self._attention_dropouts, x)
        of_memory = None
        if attend_to_memory is not None:
            norm, dropouts = self._cross_attention_norm, self._cross_attention_dropouts
            x, of_memory = around(attend_to_memory, norm, dropouts, x)
        x, _ = around(feed_forward, self._feed_forward_norm, self._feed_forward_dropouts, x)
        return x, found, of_memory

    def lora_parts(self) -> tuple[str, ...]:
        """Return the names of the projections that can be updated."""
        return (*self._attention.lora_parts(), "feed_forward")

    def check_lora(self, rank: int, parts: Sequence[str]) -> None:
        """Raise ValueError if a kernel is too small or has a constraint."""
        for each in self._attentions():
            each.check_lora(rank, _of_attention(parts))
        if "feed_forward" in parts:
            check_kernels(self._feed_forward.kernels(), rank)

    def start_lora(self, rank: int, lora_alpha: float, parts: Sequence[str]) -> None:
        """Make the updates of the parts, whose kernels are frozen."""
        for each in self._attentions():
            each.start_lora(rank, lora_alpha, _of_attention(parts))
        if "feed_forward" in parts:
            self._feed_forward.start_lora(rank, lora_alpha)

    def _attentions(self) -> list[Any]:
        return [self._attention, *([] if self._cross_attention is None else [self._cross_attention])]

    def _dropouts(self) -> list[Dropout]:
        inner = [each.weights_dropout for each in self._attentions()] + [self._feed_forward.hidden_dropout]
        branches = [self._attention_dropouts, self._cross_attention_dropouts, self._feed_forward_dropouts]
        return [*inner, *(each for dropouts in branches for each in dropouts)]

    def _branch_dropouts(self, seeds: list[int | None], name: str) -> list[Dropout]:
        policy = self.dtype_policy
        return [
            Dropout(self.dropout, seeds[0], dtype=policy, name=f"{name}_dropout"),
            Dropout(self.stochastic_depth, seeds[1], per_sample=True, dtype=policy, name=f"{name}_depth"),
        ]


@keras.saving.register_keras_serializable(package="keras_selfattn")
class EncoderBlock(BlockBase):
    """Self-attention, then a feed-forward network, each normalised and added to its input.

    Pre-norm: `x + attention(norm(x))`, then `x + feed_forward(norm(x))`; it trains without warmup where
    post-norm, `norm(x + attention(x))`, does not (Xiong et al., section 4). Outputs at masked positions are
    exactly zero.

    Args:
        num_heads: number of attention heads.
        feed_forward_dim: width of the hidden layer; by default 4 times the features, as in the paper's base
            model (a gated network has as many weights with 8/3 times the features).
        dropout: share in [0, 1], dropped in training, of the outputs of attention and feed-forward, before
            they are added to their inputs.
        activation: name or function for the hidden layer; "gelu" as in BERT.
        attention_dropout: share of attention weights dropped; by default `dropout`.
        feed_forward_dropout: share of the hidden layer dropped; 0 as in BERT. The hidden layer is 4 times as
            wide as the outputs that `dropout` acts on, so it needs 4 times as many random numbers.
        stochastic_depth: probability in [0, 1] that a sample skips the attention in training; the
            feed-forward network is skipped with the same probability, drawn separately.
        norm: "layer" (normalisation), "layer_no_shift" (the same with a gain alone), or "rms" (by the root
            mean square alone: no mean, no shift).
        norm_first: pre-norm if True, else post-norm, the original.
        norm_epsilon: positive number added to the variance, or to the mean square; by default 1e-6 for "rms",
            as in Llama, else 1e-5, as in PyTorch. BERT has 1e-12.
        attention_norm: False leaves out the normalisation of attention, as ModernBERT's first block does,
            whose inputs are normalised already.
        gated: whether a second projection multiplies the hidden layer (with activation "silu": SwiGLU).
        head_dim, num_kv_heads, scale, position, causal, window, qk_norm, logit_cap: as for
            `MultiHeadSelfAttention`.
        use_bias: whether the projections of attention and feed-forward have biases.
        remat: if True, training keeps the block's input only and computes the rest again for the gradient:
            less memory for about a quarter more time. It has no effect while weights are returned. A block
            made within `keras.RematScope` does so if the scope chooses it, or the encoder around it.
        seed: int for initial weights and dropout; None draws one.
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer, kernel_constraint,
            bias_constraint, activity_regularizer: as for `MultiHeadSelfAttention`, for the
            projections of attention and feed-forward.

    Call arguments:
        inputs: float `[batch, length, features]`.
        mask, valid_lens, attention_mask, training, return_weights, distances: as for
            `MultiHeadSelfAttention`.

    Returns:
        float `[batch, length, features]`; with `return_weights` also float `[batch, heads, query, key]`.

    Raises:
        ValueError: as `MultiHeadSelfAttention` does.

    Example:

        >>> import numpy as np
        >>> tuple(EncoderBlock(num_heads=2)(np.ones((3, 5, 8), "float32")).shape)
        (3, 5, 8)

    References: Vaswani et al. 2017, "Attention Is All You Need", section 3.1. Xiong et al. 2020, "On Layer
    Normalization in the Transformer Architecture", figure 1. Zhang and Sennrich 2019, "Root Mean Square Layer
    Normalization". Shazeer 2020, "GLU Variants Improve Transformer". Huang et al. 2016, "Deep Networks with
    Stochastic Depth". Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost" (`remat`).
    """

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
        pairs = self._attention.pairs(inputs, mask, valid_lens, attention_mask, distances)
        return on_tokens(self, inputs, pairs, training, return_weights)

    def compute_output_spec(self, inputs: Tensor, *args: Any, **options: Any) -> Any:
        found = self._attention.compute_output_spec(inputs, *args, **options)
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        return (outputs, found[1]) if isinstance(found, tuple) else outputs


def _of_attention(parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(part for part in parts if part != "feed_forward")


def serialized_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of `EncoderBlock` as its config holds them."""
    of_objects: dict[str, Callable] = {
        "activation": keras.activations.serialize,
        "position": keras.saving.serialize_keras_object,
    }
    of_objects |= {name: partial(serialized_setting, name) for name in WEIGHT_SETTINGS}
    return {
        name: of_objects[name](value) if name in of_objects else value for name, value in settings.items()
    }


def _added(
    x: Tensor, branch: Tensor, dropouts: list[Dropout], training: bool | None, tokens: Tokens
) -> Tensor:
    for dropout in dropouts:
        numbers = tokens.by_sample if dropout.per_sample else tokens.by_token
        branch = dropout(branch, training=training, tokens=numbers)
    if branch.dtype != x.dtype:  # as a map of policies says
        branch = ops.cast(branch, x.dtype)
    # `+`, not ops.add, which becomes BiasAdd if the squeezed shapes suggest it, and then fails at length 0.
    return x + branch
