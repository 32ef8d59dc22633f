"""The kernels of flash attention, in Pallas: a program has a block of queries or keys, and reads the others.

Nothing of size T x S is stored. The gradient computes the weights again, from the logarithm of each query's
sum of exponentials, and the elements that dropout keeps, from the keys of its bits.

Axes: C (queries of a block), K (keys of a block), T, S (all), D (features of one head).

References: Dao 2023, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning",
sections 3.1 and 3.2. Dao et al. 2022, "FlashAttention", appendix B.4 (dropout in the gradient).
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from keras_selfattn.layers.jax import jax, pallas
from keras_selfattn.layers.jax.dropout_bits import Keys, above_level, level, shifts

Ref = Any
Tensor = Any

# Of a masked logit, in powers of two: beside any other its power is exactly 0.
MASKED = -1e30
TILE = 32  # columns that share a level of dropout


class Blocks(NamedTuple):
    """Sizes of one kernel: queries and keys of a block, warps of a program, loads under way."""

    queries: int
    keys: int
    warps: int
    stages: int


@dataclass(frozen=True)
class Plan:
    """The settings that a kernel is compiled for.

    Args:
        scale: factor of the products of queries and keys.
        causal: True if a query sees no key behind its own position.
        rate: dropout's; 0 for none.
    """

    scale: float
    causal: bool
    rate: float

    @property
    def log2_scale(self) -> float:
        """The factor by which a product becomes the exponent of a power of two."""
        return self.scale * math.log2(math.e)


class Masks(NamedTuple):
    """Blocks of memory that say which pairs count.

    stop: int32 `[1]`, the number of keys up to the last real one.
    bias: float32 `[S]`, 0 or `MASKED`.
    row_keys: uint32 `[T]` or None; see `dropout_bits.Keys`.
    column_keys: uint32 `[S]` or None.
    tile_keys: uint32 `[S / 32]` or None.
    """

    stop: Ref
    bias: Ref
    row_keys: Ref = None
    column_keys: Ref = None
    tile_keys: Ref = None

    def given(self) -> list[Tensor]:
        """Return those that are there."""
        return [mask for mask in self if mask is not None]


def forward(plan: Plan, blocks: Blocks, query: Ref, key: Ref, value: Ref, *rest: Ref) -> None:
    """Write the context `[C, D]` of a block of queries, and the logarithms of their sums, `[C]`.

    Refs: query `[C, D]`, key and value `[S, D]`, `Masks`, context, sums.
    """
    pl, _ = pallas()
    *masks, context, sums = rest
    masks = Masks(*masks)
    start = pl.program_id(0) * blocks.queries
    rows = _span(start, blocks.queries)
    queries = query[...]
    row_keys = None if masks.row_keys is None else masks.row_keys[...]

    def step(number: Tensor, state: tuple) -> tuple:
        total, largest, found = state
        at = pl.ds(number * blocks.keys, blocks.keys)
        logits = _dot(queries, key[at, :].T) * plan.log2_scale + masks.bias[at][None, :]  # [C, K]
        logits = _causal(plan, logits, rows[:, None], _span(number * blocks.keys, blocks.keys)[None, :])
        higher = jax.numpy.maximum(largest, logits.max(axis=1))
        weights = jax.numpy.exp2(logits - higher[:, None])
        fading = jax.numpy.exp2(largest - higher)
        total = total * fading + weights.sum(axis=1)
        if plan.rate:
            keep = _kept(plan, masks, row_keys, number * blocks.keys, blocks.keys, rows_axis=0)
            weights = jax.numpy.where(keep, weights, 0.0)
        values = value[at, :]
        return total, higher, found * fading[:, None] + _dot(weights.astype(values.dtype), values)

    zeros = jax.numpy.zeros((blocks.queries,), "float32")
    wide = jax.numpy.zeros(queries.shape, "float32")
    last = _key_blocks(plan, blocks, masks.stop[0], start)
    total, largest, found = jax.lax.fori_loop(0, last, step, (zeros, zeros + MASKED, wide))
    total = jax.numpy.where(total == 0.0, 1.0, total)  # of rows without a key
    context[...] = (found * (1 / (1 - plan.rate) / total)[:, None]).astype(context.dtype)
    sums[...] = largest + jax.numpy.log2(total)


def key_gradients(plan: Plan, blocks: Blocks, query: Ref, key: Ref, value: Ref, *rest: Ref) -> None:
    """Write the gradients of a block of keys and of its values, `[K, D]` each.

    Refs: query `[T, D]`, key and value `[K, D]`, `Masks`, upstream `[T, D]`, sums and shared `[T]`, the two
    gradients. Weights stand here with the keys as rows.
    """
    pl, _ = pallas()
    *masks, upstream, sums, shared, of_key, of_value = rest
    masks = Masks(*masks)
    start = pl.program_id(0) * blocks.keys
    span = _span(start, blocks.keys)
    keys, values, bias = key[...], value[...], masks.bias[pl.ds(start, blocks.keys)]

    def step(number: Tensor, state: tuple) -> tuple:
        into_key, into_value = state
        at = pl.ds(number * blocks.queries, blocks.queries)
        queries, slopes = query[at, :], upstream[at, :]
        logits = _dot(keys, queries.T) * plan.log2_scale + bias[:, None]  # [K, C]
        rows = _span(number * blocks.queries, blocks.queries)
        logits = _causal(plan, logits, rows[None, :], span[:, None])
        weights = jax.numpy.exp2(logits - sums[at][None, :])
        of_weights = _dot(values, slopes.T)  # [K, C]
        kept = weights
        if plan.rate:
            row_keys = masks.row_keys[at]
            keep = _kept(plan, masks, row_keys, start, blocks.keys, rows_axis=1)
            kept = jax.numpy.where(keep, weights, 0.0)
            of_weights = jax.numpy.where(keep, of_weights, 0.0)
        into_value = into_value + _dot(kept.astype(slopes.dtype), slopes)
        of_logits = weights * (of_weights - shared[at][None, :])
        return into_key + _dot(of_logits.astype(queries.dtype), queries), into_value

    stop = masks.stop[0]
    first = start // blocks.queries if plan.causal else 0
    last = jax.numpy.where(start < stop, _blocks(stop, blocks.queries), 0)
    zeros = jax.numpy.zeros(keys.shape, "float32")
    into_key, into_value = jax.lax.fori_loop(first, last, step, (zeros, zeros))
    of_key[...] = (into_key * (plan.scale / (1 - plan.rate))).astype(of_key.dtype)
    of_value[...] = (into_value * (1 / (1 - plan.rate))).astype(of_value.dtype)


def query_gradients(plan: Plan, blocks: Blocks, query: Ref, key: Ref, value: Ref, *rest: Ref) -> None:
    """Write the gradient of a block of queries, `[C, D]`.

    Refs: query `[C, D]`, key and value `[S, D]`, `Masks`, upstream `[C, D]`, sums and shared `[C]`, the
    gradient.
    """
    pl, _ = pallas()
    *masks, upstream, sums, shared, of_query = rest
    masks = Masks(*masks)
    start = pl.program_id(0) * blocks.queries
    rows = _span(start, blocks.queries)
    queries, slopes = query[...], upstream[...]
    highest, common = sums[...], shared[...]
    row_keys = None if masks.row_keys is None else masks.row_keys[...]

    def step(number: Tensor, into: Tensor) -> Tensor:
        at = pl.ds(number * blocks.keys, blocks.keys)
        keys = key[at, :]
        logits = _dot(queries, keys.T) * plan.log2_scale + masks.bias[at][None, :]  # [C, K]
        logits = _causal(plan, logits, rows[:, None], _span(number * blocks.keys, blocks.keys)[None, :])
        weights = jax.numpy.exp2(logits - highest[:, None])
        of_weights = _dot(slopes, value[at, :].T)
        if plan.rate:
            keep = _kept(plan, masks, row_keys, number * blocks.keys, blocks.keys, rows_axis=0)
            of_weights = jax.numpy.where(keep, of_weights, 0.0)
        of_logits = weights * (of_weights - common[:, None])
        return into + _dot(of_logits.astype(keys.dtype), keys)

    last = _key_blocks(plan, blocks, masks.stop[0], start)
    into = jax.lax.fori_loop(0, last, step, jax.numpy.zeros(queries.shape, "float32"))
    of_query[...] = (into * (plan.scale / (1 - plan.rate))).astype(of_query.dtype)


def _key_blocks(plan: Plan, blocks: Blocks, stop: Tensor, start: Tensor) -> Tensor:
    """Return how many blocks of keys the queries from `start` on see; none if they are all padding."""
    seen = jax.numpy.minimum(stop, start + blocks.queries) if plan.causal else stop
    return jax.numpy.where(start < stop, _blocks(seen, blocks.keys), 0)


def _blocks(count: Tensor, size: int) -> Tensor:
    return (count + (size - 1)) // size


def _span(start: Tensor, size: int) -> Tensor:
    return start + jax.numpy.arange(size, dtype="int32")


def _dot(one: Tensor, other: Tensor) -> Tensor:
    return jax.numpy.dot(one, other, preferred_element_type="float32")


def _causal(plan: Plan, logits: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    return jax.numpy.where(rows >= columns, logits, MASKED) if plan.causal else logits


def _kept(plan: Plan, masks: Masks, row_keys: Tensor, start: Tensor, size: int, rows_axis: int) -> Tensor:
    """Return what dropout keeps of a block whose first column is `start`; the queries' axis is given."""
    pl, _ = pallas()
    wide, high = ((slice(None), None), (None, slice(None)))[:: 1 if rows_axis == 0 else -1]
    columns = jax.numpy.arange(size, dtype="int32")
    first = start // TILE
    if rows_axis == 1:
        # Of two tiles, in arithmetic: the compiler sees that a thread's rows of a tile have the same level.
        one, other = masks.tile_keys[first], masks.tile_keys[first + 1]
        second = -(columns // TILE).astype("uint32")  # all bits of the columns of the second tile
        levels = level(row_keys[wide], (one ^ ((one ^ other) & second))[high], plan.rate)
    else:
        levels = level(row_keys[wide], masks.tile_keys[first], plan.rate)
        for tile in range(1, size // TILE):
            more = level(row_keys[wide], masks.tile_keys[first + tile], plan.rate)
            levels = jax.numpy.where((columns < tile * TILE)[high], levels, more)
    column_keys = masks.column_keys[pl.ds(start, size)]
    keys = Keys(row_keys[wide], column_keys[high], None, shifts(columns)[high])
    return above_level(keys, levels, plan.rate)
