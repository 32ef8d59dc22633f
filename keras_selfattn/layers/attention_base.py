"""Base of the attention layers: the steps of a call, arguments, weights, symbolic shapes and config.

Axes: B (batch), T (query positions), S (key positions; S = T unless keys are of another sequence), H (heads),
G (key-value heads), D (features of one head), N (tokens).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self, Unpack

import keras

from keras_selfattn.layers.argument_checks import (
    RENAMED_IN_CALLS,
    checked_count,
    checked_flag,
    checked_seed,
    checked_sequence,
    checked_window,
    or_none,
    refuse_renamed,
    sequence_spec,
)
from keras_selfattn.layers.attention_math import Formula
from keras_selfattn.layers.attention_paths import Heads, Tokens, attend, on_tokens
from keras_selfattn.layers.dropout import Dropout
from keras_selfattn.layers.masks import PairMask, check_distances_read, check_masks, pair_mask
from keras_selfattn.layers.positions.strategy import PositionStrategy
from keras_selfattn.layers.remat import call_in_scope
from keras_selfattn.layers.seeds import split_seed
from keras_selfattn.layers.tensorflow.packing import PackedTokens
from keras_selfattn.layers.weights.low_rank import (
    Kernel,
    LowRankUpdates,
    begin_lora,
    check_kernels,
    he_uniform,
)
from keras_selfattn.layers.weights.projection import HeadProjection, affine
from keras_selfattn.layers.weights.quantized import (
    QuantizationHook,
    check_mode,
    float_policy,
    quantize_kernels,
    refuse_quantized_policy,
)
from keras_selfattn.layers.weights.saved_state import arguments, state_config, take_state
from keras_selfattn.layers.weights.settings import LayerArguments, WeightSettings

Tensor = Any


class Projected(NamedTuple):
    """Projections that share a kernel: their names, joined, the heads of each, and the width of the tokens.

    The width is that of the queries if it is None.
    """

    name: str
    num_heads: list[int]
    features: int | None = None


class AttentionBase(keras.layers.Layer):
    """Base of the attention layers: projection to heads, attention, projection to the outputs.

    A subclass defines `build`, which makes the projections with `_build_projections`, sets `_formula`, and
    ends with `restore_state`. It overrides `_heads` if queries, keys and values are more than projections,
    and `_attend` if it has no softmax. The steps of a call are those of self-attention; cross-attention,
    whose keys are of another sequence, has its own.
    """

    _arguments: ClassVar[tuple[str, ...]] = ("num_heads", "head_dim", "causal", "use_bias", "seed")
    _may_pack: ClassVar[bool] = True
    position: PositionStrategy | None = None  # of layers that know of distances
    _renamed_in_calls: ClassVar[Mapping[str, str]] = RENAMED_IN_CALLS
    _formula: Formula

    def __init__(
        self,
        num_heads: int,
        head_dim: int | None = None,
        *,
        causal: bool = False,
        use_bias: bool = True,
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        settings, others = WeightSettings.taken_from(kwargs)
        super().__init__(**others)
        refuse_quantized_policy(self)
        settings.store_on(self)
        self.num_heads = checked_count("num_heads", num_heads)
        self.head_dim = or_none(checked_count, "head_dim", head_dim)
        self.causal = checked_flag("causal", causal)
        self.use_bias = checked_flag("use_bias", use_bias)
        self.seed = checked_seed(seed)
        self.supports_masking = True
        self.lora: dict[str, Any] | None = None
        self._updates = LowRankUpdates(dtype=self.dtype_policy, name="lora")
        self._hook = QuantizationHook(
            self.quantize, self._multiplied_kernels, dtype=self.dtype_policy, name=self.name
        )
        self._reach: tuple[int | None, int | None] = (None, 0) if self.causal else (None, None)

    def __call__(self, *args: Any, **options: Any) -> Any:
        if not self._renamed_in_calls.keys().isdisjoint(options):
            refuse_renamed(options, self._renamed_in_calls)
        return super().__call__(*args, **options)

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
        pairs = self.pairs(inputs, mask, valid_lens, attention_mask, distances)
        return on_tokens(self, inputs, pairs, training, return_weights, may_pack=self._may_pack)

    def pairs(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        valid_lens: Tensor | None,
        attention_mask: Tensor | None,
        distances: Tensor | None = None,
    ) -> PairMask:
        """Return the checked rules of which token may attend to which."""
        check_distances_read(distances, self.position)
        return pair_mask(
            inputs,
            mask,
            valid_lens,
            attention_mask,
            num_heads=self.num_heads,
            reach=self._reach,
            sees_distance=self.sees_distance,
            distances=distances,
        )

    @property
    def reach(self) -> tuple[int | None, int | None]:
        """Positions that a query sees to its left and to its right; None = all."""
        return self._reach

    @property
    def sees_distance(self) -> bool:
        """True if the distance from query to key matters."""
        return self._reach != (None, None)

    @property
    def reads_distances(self) -> bool:
        """True if a call must be given `distances`."""
        return self.position is not None and self.position.reads_distances

    def call_tokens(
        self, x: Tensor, tokens: Tokens, pairs: PairMask, training: bool | None, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Return outputs `[N, features]` of tokens `[N, features]`, and the attention weights or None.

        The blocks of an encoder share the masks of `pairs`; the window, and whether distances are read, are
        the layer's own.
        """
        pairs = pairs._replace(reach=self._reach, given=pairs.given if self.reads_distances else None)
        heads = self._heads(x, tokens)
        context, weights = self._attend(heads, tokens, pairs, training, return_weights)  # [N, H D]
        return self._outputs(context, tokens), weights

    def _heads(self, x: Tensor, tokens: Tokens) -> Heads:
        """Return queries `[B, H, T, D]`, keys and values `[B, G, S, D]`; packed `[N, H or G, D]`."""
        query, key, value = self._projections[0](x, tokens)
        return query, key, value

    def _attend(
        self, heads: Heads, tokens: Tokens, pairs: PairMask, training: bool | None, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Return the context `[N, H D]`, and the weights before dropout, `[B, H, T, S]`, or None."""
        return attend(heads, tokens, pairs, self._formula, training, return_weights)

    def rematerialized_call(self, layer_call: Any, *args: Any, **kwargs: Any) -> Any:
        """Return `layer_call` as the `keras.RematScope` says in which the layer was made; Keras calls it."""
        return call_in_scope(self, super().rematerialized_call, layer_call, *args, **kwargs)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def compute_output_spec(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
        distances: Tensor | None = None,
    ) -> Any:
        check_distances_read(distances, self.position)
        check_masks(inputs, mask, valid_lens, attention_mask, self.num_heads, distances)
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if not return_weights:
            return outputs
        batch, length, _features = inputs.shape
        weights = keras.KerasTensor((batch, self.num_heads, length, length), dtype=self.compute_dtype)
        return outputs, weights

    def enable_lora(
        self, rank: int, lora_alpha: float | None = None, parts: Sequence[str] | None = None
    ) -> None:
        """Freeze the layer, and train a low-rank update of the kernel of each chosen projection instead.

        A model is compiled after it. Frozen weights stay so when the layer's `trainable` is set later. Saved
        files hold the kernels with their updates added. A layer without LoRA loads them, and one of the same
        rank and parts goes on training with the updates.

        Args:
            rank: rank of the updates, from 1 to the smaller side of each kernel.
            lora_alpha: the factor of an update is `lora_alpha / rank`; by default 1, as in Keras.
            parts: projections that are updated, of those that the layer has: "query", "key", "value" and
                "output". By default query and value, which the paper found best for few parameters (section
                7.1).

        Raises:
            ValueError: for a rank or part out of range, a layer that is not built or has LoRA already, or a
                kernel with a constraint, which an update would violate.

        Example:

            >>> from keras_selfattn import layers
            >>> attention = layers.MultiHeadSelfAttention(num_heads=4)
            >>> attention.build((None, None, 64))
            >>> attention.enable_lora(4)
            >>> sorted(tuple(weight.shape) for weight in attention.trainable_variables)
            [(4, 64), (4, 64), (64, 4), (64, 4)]

        Reference: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1.
        """
        begin_lora(self, rank, lora_alpha, parts)

    def quantize(self, mode: str | None = None, type_check: bool = True, config: Any = None) -> None:
        """Round the kernels of the projections to int8, as `keras.layers.Dense.quantize` does.

        `keras.Model.quantize` calls it. A kernel has a factor for each column. Tokens are rounded when they
        are multiplied by it, each with a factor of its own. The kernels are trained no more.

        Args:
            mode: "int8".
            type_check: is ignored; subclasses are quantized, too.
            config: a `keras.quantizers.Int8QuantizationConfig`; with `activation_quantizer=None` tokens are
                not rounded.

        Raises:
            ValueError: for a layer that is not built, is quantized already, or computes in float16.
            NotImplementedError: for another mode.

        Example:

            >>> from keras_selfattn import layers
            >>> attention = layers.MultiHeadSelfAttention(num_heads=4)
            >>> attention.build((None, None, 64))
            >>> attention.quantize("int8")
            >>> [weight.dtype for weight in attention.weights if "kernel" in weight.name]
            ['int8', 'float32', 'int8', 'float32']
        """
        check_mode(self, mode)
        quantize_kernels(self, self._kernel_places(), config)
        self._updates.hold_apart(self._kernels())

    def _kernel_places(self) -> list[tuple[Any, str]]:
        return [*((each, "kernel") for each in self._projections), (self, "_output_kernel")]

    def _multiplied_kernels(self) -> list[Any]:
        """Return the kernels that `affine` multiplies by."""
        return [*(each.kernel for each in self._projections), self._output_kernel]

    def _int8_call(self, *args: Any, **options: Any) -> Any:
        """Compute as ever: the kernels know that they are quantized."""
        return self.call(*args, **options)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Return the layer of a config; its LoRA and quantization begin when it is built."""
        layer = super().from_config(arguments(config))
        take_state(layer, config)
        return layer

    def save_own_variables(self, store: Any) -> None:
        with self._updates.merged():
            if self.quantization_mode is None:
                super().save_own_variables(store)
                return
        for name, variable in self._own_variables().items():
            store[name] = variable

    def load_own_variables(self, store: Any) -> None:
        if self.quantization_mode is None:
            super().load_own_variables(store)
            return
        own = self._own_variables()
        if own.keys() != set(store.keys()):
            raise ValueError(
                f"Layer {self.name} is quantized, and its weights are {', '.join(own)}. Received "
                f"{', '.join(sorted(store.keys()))}: load floats before the layer is quantized."
            )
        for name, variable in own.items():
            variable.assign(store[name])

    def _own_variables(self) -> dict[str, Any]:
        """Return the layer's own weights by name: their order depends on what came first, LoRA or int8."""
        return {each.name: each for each in self._trainable_variables + self._non_trainable_variables}

    def get_config(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in self._arguments}
        own["dtype"] = keras.dtype_policies.serialize(float_policy(self))
        return {**super().get_config(), **own, **self.weight_settings.config(), **state_config(self)}

    def _set_window_and_dropout(self, window: int | tuple[int, int] | None, dropout: float) -> None:
        """Store `window` and `dropout`, which only the layers that form attention weights take."""
        self.window = checked_window(window)
        left, right = self.window if isinstance(self.window, tuple) else (self.window, self.window)
        if self.causal and isinstance(self.window, tuple) and self.window[1] > 0:
            raise ValueError(
                "`window` and `causal` contradict each other: a causal query sees nothing to its right. "
                f"Received window={self.window}; pass ({left}, 0)."
            )
        self._reach = (left, 0 if self.causal else right)
        self.dropout = dropout
        self.weights_dropout = Dropout(dropout, self.seed, dtype=self.dtype_policy, name="dropout")

    def _build_projections(self, input_shape: tuple, *projections: Projected) -> None:
        """Make `_projections` in their order, and the weights of the output projection."""
        features = checked_sequence(input_shape)
        self.input_spec = sequence_spec(features)
        if self.head_dim is None and features % self.num_heads:
            raise ValueError(
                "The feature width must be divisible by `num_heads` unless `head_dim` is given. "
                f"Received width {features}, num_heads={self.num_heads}."
            )
        self._head_dim = self.head_dim or features // self.num_heads
        self._updates.build(input_shape)
        self._hook.build(input_shape)
        heads_seed, output_seed = split_seed(self.seed, 2)
        # The first eight are others' seeds: of subclasses and LoRA.
        seeds = [heads_seed, *split_seed(self.seed, 7 + len(projections))[8:]]
        settings, after = self.weight_settings, 0
        self._projections: list[HeadProjection] = []
        for of, seed in zip(projections, seeds, strict=True):
            projection = HeadProjection(
                self,
                of.name,
                features=features if of.features is None else of.features,
                num_heads=of.num_heads,
                head_dim=self._head_dim,
                use_bias=self.use_bias,
                settings=settings,
                updates=self._updates,
                seed=seed,
                first=after,
            )
            self._projections.append(projection)
            after += len(of.num_heads)
        shape = (self.num_heads * self._head_dim, features)
        self._output_kernel = settings.add(
            self, "output_kernel", "kernel", [shape], [output_seed], first=after
        )
        self._output_bias = None
        if self.use_bias:
            seeds = split_seed(output_seed, 1)
            self._output_bias = settings.add(self, "output_bias", "bias", [shape[1:]], seeds, first=after)

    def _score_weight(
        self, name: str, shape: tuple[int, int], *, first: int, transposed: bool = False
    ) -> Tensor:
        """Return a weight with a kernel of a learned score for each head, side by side.

        Args:
            name: its name.
            shape: of each kernel, which is also what its Glorot limits are of.
            first: number of the first of them among the layer's projections.
            transposed: whether the kernels are the rows of the weight.
        """
        limit, seed = math.sqrt(6 / sum(shape)), split_seed(self.seed, 3)[2]
        return self.weight_settings.add(
            self,
            name,
            "kernel",
            [shape] * self.num_heads,
            split_seed(seed, self.num_heads),
            first=first,
            drawn=keras.initializers.RandomUniform(-limit, limit, seed),
            transposed=transposed,
        )

    def _outputs(self, context: Tensor, tokens: Tokens) -> Tensor:
        """Return the output projection of the heads' context `[N, H D]`, `[N, features]`."""
        outputs = affine(
            context, self._output_kernel, self._output_bias, packed=isinstance(tokens, PackedTokens)
        )
        if self._updates.started:
            outputs = self._updates.added(["output"], [outputs.shape[-1]], outputs, context)
        if self.weight_settings.activity_regularizer is not None:
            self.weight_settings.penalise(outputs, tokens)
        return outputs

    def _kernels(self) -> dict[str, Kernel]:
        output = Kernel(self._output_kernel, 0, self._output_kernel.shape[1])
        of_heads = (item for each in self._projections for item in each.kernels().items())
        return {**dict(of_heads), "output": output}

    def lora_parts(self) -> tuple[str, ...]:
        """Return the names of the projections that can be updated."""
        return tuple(self._kernels())

    def check_lora(self, rank: int, parts: Sequence[str]) -> None:
        """Raise ValueError if a kernel is too small or has a constraint."""
        check_kernels({name: self._kernels()[name] for name in parts}, rank)

    def start_lora(self, rank: int, lora_alpha: float, parts: Sequence[str]) -> None:
        """Make the updates of the parts, whose kernels are frozen."""
        kernels = {name: self._kernels()[name] for name in parts}
        # Other seeds than those of the layer's own weights.
        self._updates.start(kernels, rank, lora_alpha, he_uniform(split_seed(self.seed, 8)[-1], len(parts)))
