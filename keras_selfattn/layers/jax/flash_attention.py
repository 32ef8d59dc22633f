"""Attention in kernels of a GPU, with its gradient: memory that grows with the length, not with its square.

Axes: B (batch), T (query positions), S (key positions, S = T here), H (heads), G (key-value heads), D
(features of one head), P (positions, filled up to whole blocks).
"""

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import keras

from keras_selfattn.layers.jax import flash_kernels as kernels
from keras_selfattn.layers.jax import jax, pallas, runs_kernels_of_gpu
from keras_selfattn.layers.jax.dropout_bits import keys_of
from keras_selfattn.layers.jax.flash_kernels import Blocks, Masks, Plan
from keras_selfattn.layers.masks import PairMask

Tensor = Any
Heads = tuple[Tensor, Tensor, Tensor]

_DTYPES = ("bfloat16", "float16")
_WIDEST = 128  # features of a head
_SHORTEST = 128  # over 64 positions all scores at once take as long
_MOST_NUMBERS = 2**31  # of an array: kernels count them in int32
_MOST_SAMPLES = 2**16  # a GPU's limit of a grid's later axes
_WHOLE = 128  # positions are filled up to a multiple of it, which every block divides
# By the features of a head, the fastest of some ten on an H100. `key_gradients` takes 64 keys.
_FORWARD = {64: Blocks(64, 128, 4, 2), 128: Blocks(64, 64, 4, 2)}
_OF_KEYS = {64: Blocks(64, 64, 4, 3), 128: Blocks(64, 64, 4, 2)}
_OF_QUERIES = {64: Blocks(64, 128, 4, 2), 128: Blocks(64, 64, 4, 2)}


def fits_kernels(heads: Heads, pairs: PairMask) -> bool:
    """Return True if the kernels compute attention of these heads, and are worth it.

    Args:
        heads: query `[B, H, T, D]`, key and value `[B, G, T, D]`.
        pairs: which tokens may attend to which.
    """
    if not runs_kernels_of_gpu():
        return False
    query = heads[0]
    batch, _, length, width = query.shape
    plain = not pairs.names_positions and pairs.reach in ((None, None), (None, 0))
    known = isinstance(batch, int) and isinstance(length, int) and batch > 0 and length >= _SHORTEST
    half = all(keras.backend.standardize_dtype(x.dtype) in _DTYPES for x in heads)
    if not plain or not known or not half or width > _WIDEST or batch >= _MOST_SAMPLES:
        return False
    return math.prod(_filled_shape(query.shape)) < _MOST_NUMBERS


def flash_attention(
    heads: Heads,
    pairs: PairMask,
    *,
    scale: float,
    rate: float = 0.0,
    seed: Tensor = None,
    rows: Tensor = None,
) -> Tensor:
    """Return the context, `[B, T, H, D]`, zero for blocks that are all padding.

    Args:
        heads: query `[B, H, T, D]`, key and value `[B, G, T, D]`, bfloat16 or float16.
        pairs: the real keys, and a reach to the left or to both sides.
        scale: factor of the products of queries and keys.
        rate: dropout's probability in [0, 1).
        seed: two integers, with a rate.
        rows: int32 `[B, H, T]`, the number of each query's row for `keep_mask`, with a rate.
    """
    query, _, value = heads
    length, width = query.shape[2], value.shape[3]
    query, key, value = (_filled(x) for x in heads)
    plan = Plan(scale, pairs.reach == (None, 0), rate)
    masks = _masks(query, length, pairs.real, rate, seed, rows)
    context = _attention()(plan, query, key, value, masks)  # [B, P, H, D]
    return context[:, :length, :, :width]


def _filled(x: Tensor) -> Tensor:
    """Return `[B, H, T, D]` with zeros to whole blocks: a kernel's blocks have powers of two as sizes."""
    filled = _filled_shape(x.shape)
    return jax.numpy.pad(x, [(0, whole - size) for whole, size in zip(filled, x.shape, strict=True)])


def _filled_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    *others, length, width = shape
    return *others, length + -length % _WHOLE, max(16, 1 << (width - 1).bit_length())


def _masks(query: Tensor, length: int, real: Tensor, rate: float, seed: Tensor, rows: Tensor) -> Masks:
    """Return the masks of all samples: stop `[B, 1]`, bias `[B, P]`, the keys of rows `[B, H, P]`."""
    jnp = jax.numpy
    batch, _, whole, _ = query.shape
    at = jnp.arange(whole, dtype="int32")
    if real is None:
        seen = jnp.broadcast_to(at < length, (batch, whole))
    else:
        seen = jnp.pad(jnp.asarray(real), ((0, 0), (0, whole - length)))
    stop = jnp.max(jnp.where(seen, at + 1, 0), axis=1, keepdims=True)
    bias = jnp.where(seen, 0.0, kernels.MASKED).astype("float32")
    if not rate:
        return Masks(stop, bias)
    keys = keys_of(seed, jnp.pad(rows, ((0, 0), (0, 0), (0, whole - length))), at)
    return Masks(stop, bias, keys.rows, keys.columns, keys.tiles[:: kernels.TILE])


@functools.cache
def _attention() -> Callable[..., Tensor]:
    """Return the function with its gradient; JAX is not there when this module is imported."""

    @partial(jax.custom_vjp, nondiff_argnums=(0,))
    def attention(plan: Plan, query: Tensor, key: Tensor, value: Tensor, masks: Masks) -> Tensor:
        return _forward(plan, query, key, value, masks)[0]

    def forward(plan: Plan, query: Tensor, key: Tensor, value: Tensor, masks: Masks) -> tuple:
        context, sums = _forward(plan, query, key, value, masks)
        return context, (query, key, value, masks, context, sums)

    def backward(plan: Plan, kept: tuple, upstream: Tensor) -> tuple:
        query, key, value, masks, context, sums = kept
        # The gradient of a softmax subtracts the same number for all keys of a query: see block_attention.py.
        wide = upstream.astype("float32") * context.astype("float32")  # [B, P, H, D]
        shared = (wide.sum(axis=-1) * (1 - plan.rate)).transpose(0, 2, 1)  # [B, H, P]
        found = _backward(plan, query, key, value, masks, upstream, sums, shared)
        return *found, None

    attention.defvjp(forward, backward)
    return attention


def _forward(plan: Plan, query: Tensor, key: Tensor, value: Tensor, masks: Masks) -> tuple[Tensor, Tensor]:
    """Return the context `[B, P, H, D]`, and the logarithms of the sums of exponentials, `[B, H, P]`."""
    batch, heads, length, width = query.shape
    blocks = _FORWARD[max(width, 64)]
    block = blocks.queries
    parts = _Parts(query, key)
    shape = jax.ShapeDtypeStruct
    return _called(
        kernels.forward,
        plan,
        blocks,
        (length // block, heads, batch),
        [parts.of_heads(block), parts.of_keys(None), parts.of_keys(None), *parts.of_masks(masks, block)],
        [parts.of_joined(block), parts.of_rows(block)],
        [shape((batch, length, heads, width), value.dtype), shape((batch, heads, length), "float32")],
    )(query, key, value, *masks.given())


def _backward(
    plan: Plan, query: Tensor, key: Tensor, value: Tensor, masks: Masks, *upstream: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of query, key and value; `upstream` is that of the context, sums and shared."""
    arguments = (query, key, value, *masks.given(), *upstream)
    parts = _Parts(query, key)
    of_query = _query_gradient(plan, parts, masks, arguments)
    found = _key_gradients(plan, parts, masks, arguments)
    batch, groups, length, width = key.shape
    if groups != query.shape[1]:
        # Each query head has gradients of its own, which a shared key-value head adds up.
        found = [x.reshape(batch, groups, -1, length, width).sum(axis=2).astype(key.dtype) for x in found]
    return of_query, *found


def _query_gradient(plan: Plan, parts: "_Parts", masks: Masks, arguments: tuple) -> Tensor:
    query = arguments[0]
    batch, heads, length, width = query.shape
    blocks = _OF_QUERIES[max(width, 64)]
    block = blocks.queries
    rows, keys = parts.of_rows(block), parts.of_keys(None)
    inputs = [parts.of_heads(block), keys, keys, *parts.of_masks(masks, block)]
    (found,) = _called(
        kernels.query_gradients,
        plan,
        blocks,
        (length // block, heads, batch),
        [*inputs, parts.of_joined(block), rows, rows],
        [parts.of_heads(block)],
        [jax.ShapeDtypeStruct(query.shape, query.dtype)],
    )(*arguments)
    return found


def _key_gradients(plan: Plan, parts: "_Parts", masks: Masks, arguments: tuple) -> list[Tensor]:
    """Return the gradients of each query head's key and value, `[B, H, P, D]` each."""
    query, key = arguments[:2]
    batch, heads, length, width = query.shape
    blocks = _OF_KEYS[max(width, 64)]
    block = blocks.keys
    rows, keys = parts.of_rows(None), parts.of_keys(block)
    inputs = [parts.of_heads(None), keys, keys, *parts.of_masks(masks, None)]
    each = jax.ShapeDtypeStruct(query.shape, key.dtype if key.shape[1] == heads else "float32")
    return _called(
        kernels.key_gradients,
        plan,
        blocks,
        (length // block, heads, batch),
        [*inputs, parts.of_joined(None), rows, rows],
        [parts.of_heads(block)] * 2,
        [each, each],
    )(*arguments)


class _Parts:
    """The part of each array that a program sees (block i, head h, sample b); a block of None is all."""

    def __init__(self, query: Tensor, key: Tensor) -> None:
        self._length, self._width = query.shape[2:]
        self._shared = query.shape[1] // key.shape[1]

    def of_heads(self, block: int | None) -> Any:
        """Of `[B, H, P, D]`."""
        shape = (None, None, block or self._length, self._width)
        return _part(shape, lambda i, h, b: (b, h, i if block else 0, 0))

    def of_keys(self, block: int | None) -> Any:
        """Of `[B, G, P, D]`."""
        shape = (None, None, block or self._length, self._width)
        return _part(shape, lambda i, h, b: (b, h // self._shared, i if block else 0, 0))

    def of_joined(self, block: int | None) -> Any:
        """Of `[B, P, H, D]`."""
        shape = (None, block or self._length, None, self._width)
        return _part(shape, lambda i, h, b: (b, i if block else 0, h, 0))

    def of_rows(self, block: int | None) -> Any:
        """Of `[B, H, P]`."""
        return _part((None, None, block or self._length), lambda i, h, b: (b, h, i if block else 0))

    def of_masks(self, masks: Masks, block: int | None) -> list[Any]:
        """Of the masks that are given, with a block of queries."""
        found = [_part((None, size), lambda _i, _h, b: (b, 0)) for size in (1, self._length)]
        if masks.row_keys is None:
            return found
        sizes = (self._length, self._length // kernels.TILE)
        return [*found, self.of_rows(block), *(_part((size,), lambda *_at: (0,)) for size in sizes)]


def _part(shape: tuple, index: Callable) -> Any:
    pl, _ = pallas()
    return pl.BlockSpec(shape, index)


def _called(
    kernel: Callable, plan: Plan, blocks: Blocks, grid: tuple, inputs: list, outputs: list, shapes: list
) -> Callable[..., Any]:
    """Return the kernel as a function of arrays."""
    pl, triton = pallas()

    def call(*arguments: Tensor, interpret: bool) -> Any:
        return pl.pallas_call(
            partial(kernel, plan, blocks),
            grid=grid,
            in_specs=inputs,
            out_specs=outputs,
            out_shape=shapes,
            compiler_params=triton.CompilerParams(num_warps=blocks.warps, num_stages=blocks.stages),
            interpret=interpret,
            name=f"flash_{kernel.__name__}",
        )(*arguments)

    # Arrays that someone put on another device are interpreted: right, however slow.
    of_platforms = {"cuda": partial(call, interpret=False), "default": partial(call, interpret=True)}
    return lambda *arguments: jax.lax.platform_dependent(*arguments, **of_platforms)
