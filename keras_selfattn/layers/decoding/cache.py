"""Keys and values that a decoder keeps from step to step: plain tensors, whose first axis is the batch.

Without a window, or with one that is longer, a cache has a place for each of `max_length` positions, and a
step writes its own; without `max_length` it has the positions so far, and grows. Under a window it holds the
last keys of that window in their order, and a step moves them on; it does so under every window if
`max_length` is known only when a graph runs, or not at all.

Axes: B (batch), T (tokens of a step), C (positions of the cache), S (keys of a step), H (heads), G (key-value
heads), D (features of one head).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from keras import ops

from keras_selfattn.layers.argument_checks import checked_count, or_none
from keras_selfattn.layers.masks import dtype_name, holds_integers, known_values, within
from keras_selfattn.layers.tensorflow import runs_kernels
from keras_selfattn.layers.tensorflow.cached_keys import written

Tensor = Any
Cached = dict[str, Tensor]

GROWING = ("growing_key", "growing_value")
"""Entries whose axis of positions grows from step to step: those of `start` without `max_length`."""
OF_MEMORY = ("memory_key", "memory_value", "memory_mask")
"""Entries of a cache that steps read, and do not change: those of the memory."""


class StepKeys(NamedTuple):
    """The keys and values that the tokens of a step see.

    key, value: `[B, G, S, D]`.
    distance: key position - query position, int32 `[T, S]`.
    mask: bool `[1, 1, T, S]`, True where a token may attend; None = everywhere.
    """

    key: Tensor
    value: Tensor
    distance: Tensor
    mask: Tensor | None


def new_keys(
    batch: Tensor, heads: int, head_dim: int, dtype: str, window: int | None, max_length: Tensor | int | None
) -> Cached:
    """Return a cache without keys.

    Args:
        batch: B.
        heads: G.
        head_dim: D.
        dtype: of keys and values.
        window: how many keys a query sees to its left; None = all.
        max_length: the most positions; None if the window bounds them, or nothing does.
    """
    if window is None and max_length is None:
        return {name: ops.zeros((batch, heads, 0, head_dim), dtype=dtype) for name in GROWING}
    known = [size for size in (window, max_length) if isinstance(size, int)]
    shape = (batch, heads, min(known) if known else max_length, head_dim)
    return {name: ops.zeros(shape, dtype=dtype) for name in ("key", "value")}


def extended(
    cached: Cached, key: Tensor, value: Tensor, first: Tensor, window: int | None
) -> tuple[StepKeys, Cached]:
    """Return what the tokens of a step see, and the cache after it.

    Args:
        cached: keys and values `[B, G, C, D]` of the positions before.
        key, value: of the step, `[B, G, T, D]`.
        first: position of the first token of the step, int32 scalar.
        window: how many keys a query sees to its left; None = all.
    """
    if is_growing(cached):
        return _grown(cached, key, value)
    size = cached["key"].shape[2]
    new = {"key": key, "value": value}
    count = ops.shape(key)[2]
    steps = ops.arange(count, dtype="int32")
    if window is not None and size == window:
        whole = {name: ops.concatenate([cached[name], new[name]], axis=2) for name in new}
        places = ops.arange(size + count, dtype="int32")[None, :]  # [1, S], from `first - window` on
        distance = places - size - steps[:, None]
        seen = ops.logical_and(within((window, 0), distance), places >= size - first)
        # A loop needs the known shape, which a slice of unknown length loses.
        after = {name: ops.reshape(x[:, :, count:], ops.shape(cached[name])) for name, x in whole.items()}
    else:
        after = {name: _written(cached[name], x, first) for name, x in new.items()}
        shorter = runs_kernels(key)  # elsewhere shapes may not depend on values
        whole = {name: x[:, :, : first + count] for name, x in after.items()} if shorter else after
        places = ops.arange(ops.shape(whole["key"])[2], dtype="int32")[None, :]
        distance = places - first - steps[:, None]
        seen = within((window, 0), distance)  # places that are not written yet come after the query, too
    return StepKeys(whole["key"], whole["value"], distance, seen[None, None]), after


def is_growing(cached: Cached) -> bool:
    """Return True if a block's cache grows."""
    return GROWING[0] in cached


def _grown(cached: Cached, key: Tensor, value: Tensor) -> tuple[StepKeys, Cached]:
    """Return what the tokens of a step see, and the cache after it, which is all of that."""
    whole = [
        ops.concatenate([cached[name], ops.cast(new, cached[name].dtype)], axis=2)
        for name, new in zip(GROWING, (key, value), strict=True)
    ]
    count, size = key.shape[2], ops.shape(whole[0])[2]
    steps = ops.arange(ops.shape(key)[2], dtype="int32")
    places = ops.arange(size, dtype="int32")[None, :]  # [1, S]
    distance = places - (size - ops.shape(key)[2]) - steps[:, None]
    mask = None if count == 1 else (distance <= 0)[None, None]  # the last token sees all
    return StepKeys(whole[0], whole[1], distance, mask), dict(zip(GROWING, whole, strict=True))


def checked_max_length(max_length: Any) -> Tensor | int | None:
    """Return `max_length` of `Decoder.start`: an int, None, or int32 that a graph learns when it runs.

    Raises:
        ValueError: for something else, or such a tensor where sizes must be known before.
    """
    if not ops.is_tensor(max_length):
        return or_none(checked_count, "max_length", max_length)
    if not holds_integers(max_length) or len(max_length.shape):
        raise ValueError(
            "`max_length` must be a positive integer, or a scalar tensor of one. Received shape "
            f"{tuple(max_length.shape)}, dtype {dtype_name(max_length)}."
        )
    seen = known_values(max_length)
    if seen is not None:
        return checked_count("max_length", int(seen))
    if not runs_kernels(max_length):
        raise ValueError(
            "`max_length` must be a number that is known while the graph is built: XLA, JAX and other "
            "runtimes need all sizes then. Received a tensor without a value."
        )
    return ops.cast(max_length, "int32")


def most_tokens(keys: Sequence[Tensor]) -> Tensor | int | None:
    """Return how many tokens fit into caches `[B, G, C, D]` that do not move on; None without any.

    It is a tensor if a graph learns the number when it runs. Then it is `max_length` of all of them.
    """
    unknown = [each for each in keys if each.shape[2] is None]
    if unknown:
        return ops.shape(unknown[0])[2]
    return min((each.shape[2] for each in keys), default=None)


def first_position(position: Tensor) -> Tensor:
    """Return the position of a step's first token, which is the same in all rows, int32 scalar; 0 of none."""
    return ops.max(position, initial=0)


def check_step(cache: dict[str, Any], count: int | None, most: Tensor | int | None) -> None:
    """Raise ValueError for rows at different positions, or too many tokens, where values can be seen.

    Args:
        cache: of a decoder.
        count: tokens of the step.
        most: positions that the cache has; None if there is no bound.
    """
    seen = known_values(cache["position"])
    if seen is None or not seen.size:
        return
    if (seen != seen[0]).any():
        raise ValueError(
            "The rows of `cache` must all be at the same position: step rows that began together. Received "
            f"positions {sorted(set(seen.tolist()))}."
        )
    if isinstance(most, int) and count is not None and seen[0] + count > most:
        raise ValueError(
            f"`cache` has places for {most} tokens, `max_length` of `start`. Received {count} more after "
            f"{seen[0]}: start with a larger one, or end earlier."
        )


def valid_rows(position: Tensor, first: Tensor, count: Tensor, most: Tensor | int | None) -> Tensor:
    """Return which rows a step computes right, bool `[B]`: graphs cannot raise what `check_step` does."""
    together = ops.equal(position, first)
    return together if most is None else ops.logical_and(together, first + count <= most)


def _written(cached: Tensor, new: Tensor, first: Tensor) -> Tensor:
    """Return `[B, G, C, D]` with `[B, G, T, D]` from position `first` on."""
    new = ops.cast(new, cached.dtype)
    if runs_kernels(new):
        return written(cached, new, first)
    zero = ops.zeros_like(first)
    return ops.slice_update(cached, ops.stack([zero, zero, first, zero]), new)


def as_position(batch: Tensor) -> Tensor:
    """Return the positions of rows that have no token yet, int32 `[B]`."""
    return ops.zeros((batch,), dtype="int32")


def is_cache(cache: Any, blocks: int) -> bool:
    """Return True if `cache` has the form of a cache of a decoder of so many blocks."""
    named = isinstance(cache, dict) and {"position", "blocks"} <= cache.keys()
    return named and isinstance(cache["blocks"], list | tuple) and len(cache["blocks"]) == blocks
