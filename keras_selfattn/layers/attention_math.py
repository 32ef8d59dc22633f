"""Attention as pure functions of tensors: scores, masked softmax, weighted sum; and a loop over query blocks.

Axes: B (batch), T (query positions), S (key positions), H (heads), G (key-value heads; H is a multiple of G
and head h reads key-value head h // (H / G)), D (features of one head), C (queries of a block), N (blocks).

References: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1. Ainslie et al. 2023, "GQA:
Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints", section 2.2 (G < H). Rabe
and Staats 2021, "Self-attention Does Not Need O(n^2) Memory", section 2 (query blocks).
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Self, cast

import keras
from keras import ops

from keras_selfattn.layers.dropout import Dropout
from keras_selfattn.layers.jax import is_dimension
from keras_selfattn.layers.tensorflow import as_tensor
from keras_selfattn.layers.tensorflow.custom_gradients import rematerialised
from keras_selfattn.layers.tensorflow.int8_products import constant_kernels, steady_softmax

Tensor = Any
Learned = dict[str, Tensor]
Distance = Callable[[], Tensor]  # a function, so that only formulas that need the distances compute them

# Added to masked logits. It is half of the dtype's lowest value: the sum does not overflow, and beside any
# unmasked logit its exponential is exactly 0. bfloat16 has the exponents of float32.
_MASKED_LOGIT = {"float32": -1.7e38, "float64": -8.9e307}

_LARGEST_FLOAT16 = 65504.0

_NORM_EPSILON = 1e-6  # Gemma's and Qwen's


def _sum_of_values(learned: Learned, weights: Tensor, value: Tensor, distance: Distance) -> Tensor:
    return weighted_sum(weights, value)  # [B, H, T, D]


@dataclass(frozen=True)
class Formula:
    """One kind of softmax attention: the functions and weights in which the layers differ.

    `distance()` is key position - query position, int32 `[T, S]`.

    Args:
        score: function from learned weights by name, query `[B, H, T, D]`, key `[B, G, S, D]` and `distance`
            to logits `[B, H, T, S]`.
        dropout: applied to the attention weights before `combine`.
        combine: function from learned weights by name, attention weights `[B, H, T, S]`, value
            `[B, G, S, D]` and `distance` to the context `[B, H, T, D]`; by default the weighted sum.
        variables: what `score` and `combine` learn, by name.
        score_width: floats of memory that a score takes while it is computed.
        product_scale: the factor, if a score is no more than the scaled product of query and key, and the
            context the weighted sum; else None.
    """

    score: Callable[[Learned, Tensor, Tensor, Distance], Tensor]
    dropout: Dropout
    combine: Callable[[Learned, Tensor, Tensor, Distance], Tensor] = _sum_of_values
    variables: Learned = field(default_factory=dict)
    score_width: int = 1
    product_scale: float | None = None

    @property
    def kind(self) -> tuple[Any, ...]:
        """A key that is equal for formulas that compute the same from equal inputs, variables and draws."""
        functions = [_settings_of(each) for each in (self.score, self.combine)]
        dropout = (self.dropout.rate, self.dropout.per_sample)
        return (*functions, dropout, self.score_width, self.product_scale)

    def learned(self) -> Learned:
        """Return the variables as tensors, to which gradients flow through loops and rematerialisation."""
        return {name: as_tensor(variable) for name, variable in self.variables.items()}


def _settings_of(function: Callable[..., Any]) -> tuple[Any, ...]:
    """Return a key that is equal for methods of data classes with equal numbers and the same objects."""
    owner = getattr(function, "__self__", None)
    if not is_dataclass(owner):
        return (id(function) if owner is None else id(owner), getattr(function, "__name__", ""))
    values = [getattr(owner, each.name) for each in fields(owner)]
    plain = [each if isinstance(each, int | float | str | None) else id(each) for each in values]
    return (type(owner), getattr(function, "__name__", ""), *plain)


@dataclass(frozen=True)
class DotProduct:
    """Scaled dot products as scores, and the sum of values by their softmax.

    Args:
        head_dim: D.
        dtype: of queries and keys.
        scale: factor of the logits; None is `1 / sqrt(head_dim)`.
        logit_cap: bound of the logits before the term of `position`, or None.
        position: a `PositionStrategy`, or None.
        causal: handed to it.
    """

    head_dim: int
    dtype: str
    scale: float | None = None
    logit_cap: float | None = None
    position: Any = None
    causal: bool = False

    @classmethod
    def of(cls, layer: Any, head_dim: int, position: Any = None, *, causal: bool = False) -> Self:
        """Return the scores of a layer with `scale` and `logit_cap`."""
        return cls(head_dim, layer.compute_dtype, layer.scale, layer.logit_cap, position, causal)

    @property
    def factors(self) -> tuple[float, float]:
        """The factors of queries and of products; their product is `scale`.

        TensorFlow fuses product, factor and mask, so the products take the factor. But position strategies
        take scaled queries, and in float16 unscaled products would overflow sooner. In bfloat16 the products
        take only a power of two, which rounds nothing.
        """
        factor = 1 / math.sqrt(self.head_dim) if self.scale is None else self.scale
        if self.position is not None or self.dtype == "float16":
            return factor, 1.0
        if self.dtype != "bfloat16":
            return 1.0, factor
        mantissa, exponent = math.frexp(factor)
        return 2 * mantissa, 2.0 ** (exponent - 1)

    def scaled(self, query: Tensor) -> Tensor:
        """Return queries times their factor."""
        factor, _ = self.factors
        return query if factor == 1.0 else query * factor

    def score(self, learned: Learned, query: Tensor, key: Tensor, distance: Distance) -> Tensor:
        """Return the logits `[B, H, T, S]` of scaled queries; see `Formula`."""
        logits = dot_product(query, key)  # [B, H, T, S]
        _, factor = self.factors
        logits = widened(logits) if factor == 1.0 else logits * factor
        if self.logit_cap is not None:
            logits = soft_cap(widened(logits), self.logit_cap)
        bias = None
        if self.position is not None:
            bias = self.position.pair_logits(learned, query, key, distance(), causal=self.causal)
        return logits if bias is None else logits + bias

    def combine(self, learned: Learned, weights: Tensor, value: Tensor, distance: Distance) -> Tensor:
        """Return the context `[B, H, T, D]`; see `Formula`."""
        context = weighted_sum(weights, value)  # [B, H, T, D]
        extra = None if self.position is None else self.position.context(learned, weights, distance())
        return context if extra is None else context + extra


def add_gains(layer: Any, head_dim: int) -> tuple[Tensor, Tensor]:
    """Return new weights of a layer: the gains by which `rms_normalised` queries and keys are multiplied."""
    query, key = (
        layer.add_weight(name=f"{name}_gain", shape=(head_dim,), initializer="ones")
        for name in ("query", "key")
    )
    return query, key


def rms_normalised(x: Tensor, gain: Tensor) -> Tensor:
    """Return queries or keys divided by the root mean square of their features, times a gain `[D]`."""
    return ops.cast(ops.rms_normalization(x, gain, axis=-1, epsilon=_NORM_EPSILON), x.dtype)


def softmax_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    formula: Formula,
    distance: Distance,
    *,
    learned: Learned | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
    rows_may_be_empty: bool = True,
) -> tuple[Tensor, Tensor]:
    """Return the values weighted by the softmax of the scores, and the softmax, taken in float32 at least.

    A query that may attend to nothing gets weights of exactly zero.

    Args:
        query: `[B, H, T, D]`.
        key: `[B, G, S, D]`.
        value: `[B, G, S, D]`.
        mask: bool that broadcasts to `[B, H, T, S]`, True where attention is allowed; None allows all.
        formula: scores and how values are combined.
        distance: as in `Formula`.
        learned: the formula's weights, by default `formula.learned()`.
        dropout: applied to the weights of the values, not to the returned weights.
        rows_may_be_empty: see `masked_softmax`.

    Returns:
        context: `[B, H, T, D]`, dtype of `value`.
        weights: `[B, H, T, S]`, dtype of `value`; each row sums to 1 or is all zero.

    Example:

        >>> import numpy as np
        >>> q = k = v = np.ones((1, 1, 2, 3), "float32")
        >>> formula = Formula(lambda learned, query, key, distance: dot_product(query, key), Dropout(0.0))
        >>> context, weights = softmax_attention(q, k, v, None, formula, lambda: None)
        >>> print(np.asarray(weights)[0, 0])
        [[0.5 0.5]
         [0.5 0.5]]
    """
    learned = formula.learned() if learned is None else learned
    logits = widened(formula.score(learned, query, key, distance))  # [B, H, T, S]
    weights = masked_softmax(logits, mask, rows_may_be_empty=rows_may_be_empty)
    weights = ops.cast(weights, value.dtype)  # [B, H, T, S]
    kept = weights if dropout is None else dropout(weights)
    return formula.combine(learned, kept, value, distance), weights  # [B, H, T, D]


def masked_softmax(logits: Tensor, mask: Tensor | None, *, rows_may_be_empty: bool = True) -> Tensor:
    """Return the softmax over the last axis of `logits`; masked entries, and rows without any, are 0.

    Args:
        logits: float64, float32 or bfloat16 `[B, H, T, S]`.
        mask: bool that broadcasts to `logits`, True where attention is allowed, or None.
        rows_may_be_empty: False promises an unmasked entry in each row that is used. Rows without one then
            get arbitrary weights instead of 0.

    Returns:
        `[B, H, T, S]`, dtype of `logits`.
    """
    if mask is None:
        return _softmax(logits)
    wide = wide_dtype(logits.dtype)
    allowed, masked = (ops.convert_to_tensor(number, dtype=wide) for number in (0.0, _MASKED_LOGIT[wide]))
    weights = _softmax(logits + ops.cast(ops.where(mask, allowed, masked), logits.dtype))
    if not rows_may_be_empty:
        return weights
    has_key = ops.cast(ops.any(mask, axis=-1, keepdims=True), logits.dtype)  # [B or 1, H or 1, T or 1, 1]
    return weights * has_key


def wide_dtype(dtype: Any) -> str:
    """Return the dtype to compute in for tensors of `dtype`: float32, or float64 for float64."""
    # Not Keras' result_type: on JAX and PyTorch it says float32 for float64.
    return "float64" if keras.backend.standardize_dtype(dtype) == "float64" else "float32"


def widened(logits: Tensor) -> Tensor:
    """Return logits as float32, or float64 if they are.

    A float16 that overflowed becomes float16's largest number; infinity would become NaN in the softmax.
    """
    wide = ops.cast(logits, wide_dtype(logits.dtype))
    if keras.backend.standardize_dtype(logits.dtype) != "float16":
        return wide
    return ops.clip(wide, -_LARGEST_FLOAT16, _LARGEST_FLOAT16)


def dot_product(query: Tensor, key: Tensor) -> Tensor:
    """Return the dot product of every query and key, `[B, H, T, S]`."""
    grouped, (heads, length) = _group(query, key)  # [B, G, H / G * T, D]
    return _ungroup(ops.matmul(grouped, ops.swapaxes(key, -1, -2)), heads, length)


def additive_score(query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
    """Return `vector . tanh(query + key)` of every pair, `[B, H, T, S]`; `vector` is `[H, D]`.

    Reference: Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate",
    appendix A.1.2.
    """
    hidden = ops.tanh(query[:, :, :, None, :] + key[:, :, None, :, :])  # [B, H, T, S, D]
    return ops.sum(hidden * vector[None, :, None, None, :], axis=-1)


def soft_cap(logits: Tensor, cap: float) -> Tensor:
    """Return `cap * tanh(logits / cap)`: almost the identity near 0, never beyond `cap`.

    Reference: Gemma Team 2024, "Gemma 2: Improving Open Language Models at a Practical Size", section 2.
    """
    return ops.tanh(logits / cap) * cap


def weighted_sum(weights: Tensor, value: Tensor) -> Tensor:
    """Return `weights @ value`, `[B, H, T, D]`, for weights `[B, H, T, S]` and value `[B, G, S, D]`."""
    grouped, (heads, length) = _group(weights, value)  # [B, G, H / G * T, S]
    return _ungroup(ops.matmul(grouped, value), heads, length)


def split(x: Tensor, sizes: list[int], axis: int = -1) -> list[Tensor]:
    """Cut an axis, the last by default, into parts of the given sizes."""
    if len(sizes) == 1:
        return [ops.convert_to_tensor(x)]
    bounds = list(itertools.accumulate(sizes[:-1]))
    return cast(list, ops.split(ops.convert_to_tensor(x), bounds, axis=axis))


def _group(x: Tensor, shared: Tensor) -> tuple[Tensor, tuple[Any, Any]]:
    """Join the rows of heads that share a key-value head, so that `shared` need not be copied."""
    batch, heads, length, width = ops.shape(x)
    groups = shared.shape[1]
    if groups == heads:
        return x, (heads, length)
    return ops.reshape(x, (batch, groups, heads // groups * length, width)), (heads, length)


def _ungroup(product: Tensor, heads: int, length: Tensor) -> Tensor:
    batch, groups, _, width = ops.shape(product)
    return product if groups == heads else ops.reshape(product, (batch, heads, length, width))


def _softmax(logits: Tensor) -> Tensor:
    if logits.shape[-1] == 1:
        return ops.ones_like(logits)  # Keras' own warns here, though a sequence of one token is no mistake
    # In int8 the last bit of a float decides how a token is rounded.
    return ops.softmax(logits, axis=-1) if constant_kernels.get() is None else steady_softmax(logits)


def at_least_one(size: Any) -> Any:
    """Return a size that divides others, or has a shape: 1 for 0. JAX reckons with those it does not know."""
    if isinstance(size, int):
        return max(size, 1)
    return size if is_dimension(size) else ops.maximum(size, 1)


def map_queries(
    attend: Callable[..., Tensor], query: Tensor, size: Tensor, arguments: list[Tensor]
) -> Tensor:
    """Return the context of all queries, `[B, H, T, D]`, one block after the other.

    Args:
        attend: function from queries `[B, H, C, D]`, their positions, int32 `[C]`, and `arguments` to the
            context `[B, H, C, D]`. The last block is padded with zero queries that carry the last query's
            position.
        query: `[B, H, T, D]`.
        size: C.
        arguments: tensors (no variables) to which gradients flow.
    """
    batch, heads, length, width = ops.shape(query)
    count = -(-length // size)
    if not isinstance(count, int):
        count = ops.maximum(count, 1)  # for length 0 one empty block, which has a shape
    beyond = ops.zeros((batch, heads, count * size - length, width), dtype=query.dtype)
    query = ops.concatenate([query, beyond], axis=2)
    blocks = ops.transpose(ops.reshape(query, (batch, heads, count, size, width)), (2, 0, 1, 3, 4))
    rows = ops.reshape(ops.clip(ops.arange(count * size, dtype="int32"), 0, length - 1), (count, size))

    def context(block: tuple[Tensor, Tensor]) -> Tensor:
        step = rematerialised(lambda query, *others: attend(query, block[1], *others))
        return step(block[0], *arguments)

    found: Any = ops.map(context, (blocks, rows))  # [N, B, H, C, D]
    joined = ops.transpose(found, (1, 2, 0, 3, 4))
    return ops.reshape(joined, (batch, heads, count * size, found.shape[-1]))[:, :, :length]
