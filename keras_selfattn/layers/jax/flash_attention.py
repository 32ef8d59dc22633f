"""Attention in kernels of a GPU, with its gradient: memory that grows with the length, not with its square.

The kernels read queries, keys and values where a projection put them, side by side in one array, if nothing
has changed them since. Copies took 8 % of an encoder's inference over 32 x 512 on an H100.

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
from keras_selfattn.layers.jax.flash_block_specs import Arrays, HeadCounts, Parts
from keras_selfattn.layers.jax.flash_kernels import Blocks, Masks, Plan
from keras_selfattn.layers.masks import PairMask

Tensor = Any
Heads = tuple[Tensor, Tensor, Tensor]

_DTYPES = ("bfloat16", "float16")
_WIDEST = 128  # features of a head
_SHORTEST = 128  # over 64 positions all scores at once take as long
_MOST_ELEMENTS = 2**31  # of an array: kernels count them in int32
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
    plain = not pairs.names_positions and pairs.of_one_sequence
    plain = plain and pairs.reach in ((None, None), (None, 0))
    known = isinstance(batch, int) and isinstance(length, int) and batch > 0 and length >= _SHORTEST
    half = all(keras.backend.standardize_dtype(x.dtype) in _DTYPES for x in heads)
    if not plain or not known or not half or width > _WIDEST or batch >= _MOST_SAMPLES:
        return False
    return sum(math.prod(_filled_shape(x.shape, 2)) for x in heads) < _MOST_ELEMENTS


def flash_attention(
    heads: Heads,
    pairs: PairMask,
    joined: Tensor | None = None,
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
        joined: the same numbers as `heads` in one array, `[B, T, H + 2 G, D]`, if there is one.
        scale: factor of the products of queries and keys.
        rate: dropout's probability in [0, 1).
        seed: two integers, with a rate.
        rows: int32 `[B, H, T]`, the number of each query's row for `keep_mask`, with a rate.
    """
    query, key, value = heads
    length, width = query.shape[2], value.shape[3]
    arrays = tuple(_filled(x, 2) for x in heads) if joined is None else (_filled(joined, 1),)
    plan = Plan(scale, pairs.reach == (None, 0), rate)
    parts = Parts(arrays, (query.shape[1], key.shape[1]))
    masks = _masks(parts.shape, length, pairs.real, rate, seed, rows)
    context = _attention()(plan, parts.counts, arrays, masks)  # [B, P, H, D]
    return context[:, :length, :, :width]


def _filled(x: Tensor, axis: int) -> Tensor:
    """Return an array with zeros to whole blocks: a kernel's blocks have powers of two as sizes."""
    filled = _filled_shape(x.shape, axis)
    return jax.numpy.pad(x, [(0, whole - size) for whole, size in zip(filled, x.shape, strict=True)])


def _filled_shape(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Return the shape with whole blocks of features, and of positions, which are at `axis`."""
    filled = [*shape[:-1], max(16, 1 << (shape[-1] - 1).bit_length())]
    filled[axis] += -shape[axis] % _WHOLE
    return tuple(filled)


def _masks(
    shape: tuple[int, ...], length: int, real: Tensor, rate: float, seed: Tensor, rows: Tensor
) -> Masks:
    """Return the masks of all samples: stop `[B, 1]`, bias `[B, P]`, the keys of rows `[B, H, P]`."""
    jnp = jax.numpy
    batch, whole, _, _ = shape  # [B, P, H, D]
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

    @partial(jax.custom_vjp, nondiff_argnums=(0, 1))
    def attention(plan: Plan, counts: HeadCounts, arrays: Arrays, masks: Masks) -> Tensor:
        return _forward(plan, counts, arrays, masks)[0]

    def forward(plan: Plan, counts: HeadCounts, arrays: Arrays, masks: Masks) -> tuple:
        context, sums = _forward(plan, counts, arrays, masks)
        return context, (arrays, masks, context, sums)

    def backward(plan: Plan, counts: HeadCounts, kept: tuple, upstream: Tensor) -> tuple:
        arrays, masks, context, sums = kept
        # The gradient of a softmax subtracts the same number for all keys of a query: see block_attention.py.
        wide = upstream.astype("float32") * context.astype("float32")  # [B, P, H, D]
        shared = (wide.sum(axis=-1) * (1 - plan.rate)).transpose(0, 2, 1)  # [B, H, P]
        found = _backward(plan, Parts(arrays, counts), masks, upstream, sums, shared)
        return ((jax.numpy.concatenate(found, axis=2),) if len(arrays) == 1 else found), None

    attention.defvjp(forward, backward)
    return attention


def _forward(plan: Plan, counts: HeadCounts, arrays: Arrays, masks: Masks) -> tuple[Tensor, Tensor]:
    """Return the context `[B, P, H, D]`, and the logarithms of the sums of exponentials, `[B, H, P]`."""
    parts = Parts(arrays, counts)
    batch, length, heads, width = parts.shape
    blocks = _FORWARD[max(width, 64)]
    block = blocks.queries
    shape = jax.ShapeDtypeStruct
    return _called(
        kernels.forward,
        plan,
        blocks,
        (length // block, heads, batch),
        [parts.of_query(block), parts.of_key(None), parts.of_value(None), *parts.of_masks(masks, block)],
        [parts.of_context(block), parts.of_rows(block)],
        [shape(parts.shape, arrays[-1].dtype), shape((batch, heads, length), "float32")],
    )(*parts.arrays, *masks.given())


def _backward(plan: Plan, parts: Parts, masks: Masks, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of query, key and value; `upstream` is that of the context, sums and shared."""
    arguments = (*parts.arrays, *masks.given(), *upstream)
    of_query = _query_gradient(plan, parts, masks, arguments)
    found = _key_gradients(plan, parts, masks, arguments)
    batch, length, heads, width = parts.shape
    groups = parts.groups
    if groups != heads:
        # Each query head has gradients of its own, which a shared key-value head adds up.
        split, axis = (
            ((batch, length, groups, -1, width), 3)
            if parts.joined
            else ((batch, groups, -1, length, width), 2)
        )
        sums = [x.reshape(split).sum(axis=axis) for x in found]
        found = [x.astype(given.dtype) for x, given in zip(sums, parts.arrays[1:], strict=True)]
    return of_query, *found


def _query_gradient(plan: Plan, parts: Parts, masks: Masks, arguments: tuple) -> Tensor:
    batch, length, heads, width = parts.shape
    blocks = _OF_QUERIES[max(width, 64)]
    block = blocks.queries
    rows = parts.of_rows(block)
    inputs = [parts.of_query(block), parts.of_key(None), parts.of_value(None)]
    (found,) = _called(
        kernels.query_gradients,
        plan,
        blocks,
        (length // block, heads, batch),
        [*inputs, *parts.of_masks(masks, block), parts.of_context(block), rows, rows],
        [parts.of_gradient(block)],
        [jax.ShapeDtypeStruct(parts.gradient_shape, arguments[0].dtype)],
    )(*arguments)
    return found


def _key_gradients(plan: Plan, parts: Parts, masks: Masks, arguments: tuple) -> list[Tensor]:
    """Return the gradients of each query head's key and value, of `gradient_shape` each."""
    batch, length, heads, width = parts.shape
    blocks = _OF_KEYS[max(width, 64)]
    block = blocks.keys
    rows = parts.of_rows(None)
    inputs = [parts.of_query(None), parts.of_key(block), parts.of_value(block)]
    dtypes = [x.dtype if parts.groups == heads else "float32" for x in arguments[1:3]]
    return _called(
        kernels.key_gradients,
        plan,
        blocks,
        (length // block, heads, batch),
        [*inputs, *parts.of_masks(masks, None), parts.of_context(None), rows, rows],
        [parts.of_gradient(block)] * 2,
        [jax.ShapeDtypeStruct(parts.gradient_shape, dtype) for dtype in dtypes],
    )(*arguments)


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
