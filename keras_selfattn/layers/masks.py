"""Every mask form becomes two things: which tokens are real, and the rules of which pairs may attend.

Axes: B (batch), T (query positions), S (key positions, S = T here), H (heads), D (features).
True always means a real token, or a pair that may attend. No other module knows the ranks of masks.
"""

from typing import Any, NamedTuple, cast

import numpy as np
from keras import ops

Tensor = Any


class Pairs(NamedTuple):
    """Which query may attend to which key: rules, of which each path makes the part of a mask it needs.

    real: bool `[B, S]`, the keys that are tokens, or None.
    lens: int32 `[B, T]`, the number of leading keys of each query, or None.
    chosen: bool `[B or 1, H or 1, T, S]`, the pairs the caller allows, or None.
    reach: how many positions a query sees to its left and to its right; None = all.
    """

    real: Tensor | None
    lens: Tensor | None
    chosen: Tensor | None
    reach: tuple[int | None, int | None]

    def dense(self, length: Tensor) -> Tensor | None:
        """Returns bool of rank 4 that broadcasts to `[B, H, T, S]`, or None if every pair may attend."""
        parts = []
        if self.real is not None:
            parts.append(self.real[:, None, None, :])  # [B, 1, 1, S]
        if self.lens is not None:
            parts.append((arange(length) < self.lens[:, :, None])[:, None])  # [B, 1, T, S]
        if self.chosen is not None:
            parts.append(self.chosen)  # [B or 1, H or 1, T, S]
        if self.reach != (None, None):
            parts.append(within(self.reach, distances(length))[None, None])  # [1, 1, T, S]
        return all_of(parts)


def pair_rules(
    inputs: Tensor,
    real: Tensor | None,
    *,
    valid_lens: Tensor | None = None,
    attention_mask: Tensor | None = None,
    reach: tuple[int | None, int | None] = (None, None),
    num_heads: int,
) -> Pairs:
    """Returns the checked rules of which query may attend to which key.

    Args:
        inputs: `[B, T, D]`, any dtype.
        real: bool `[B, T]` from `token_mask`, or None.
        valid_lens: int `[B, T]`: query t of sample b attends to its first `valid_lens[b, t]` keys. Rank 1 is
            already in `real`.
        attention_mask: bool `[T, S]`, `[B, T, S]` or `[B, H or 1, T, S]`; the rank alone decides.
        reach: see `Pairs`; causal attention is `(None, 0)`.
        num_heads: H, to check a mask of rank 4.

    Raises:
        ValueError: for a wrong dtype, rank or size, with what was received.
    """
    lens = None if valid_lens is None else _checked_lens(inputs, valid_lens)
    return Pairs(
        real=real,
        lens=lens if lens is not None and len(lens.shape) == 2 else None,
        chosen=None if attention_mask is None else _rank_4(inputs, attention_mask, num_heads),
        reach=reach,
    )


def token_mask(inputs: Tensor, mask: Tensor | None, valid_lens: Tensor | None) -> Tensor | None:
    """Returns which tokens are real, or None if all are.

    Args:
        inputs: `[B, T, D]`, any dtype.
        mask: bool `[B, T]` or None.
        valid_lens: int `[B]` (the first `valid_lens[b]` tokens are real), int `[B, T]` (says nothing about
            tokens, see `pair_rules`) or None.

    Returns:
        bool `[B, T]` or None.

    Raises:
        ValueError: for a wrong dtype, rank, length or number of tokens, and if `mask` and `valid_lens`
            contradict each other where their values can be seen (not inside a compiled graph, where a token
            is real if both say so).
    """
    real = None
    if mask is not None:
        real = _of_shape("mask", _checked_bool("mask", mask), sizes(inputs)[:2], "[batch, length]")
    if valid_lens is not None:
        lens = _checked_lens(inputs, valid_lens)
        if len(lens.shape) == 1:
            within_lens = arange(ops.shape(inputs)[1]) < lens[:, None]  # [B, T]
            real = within_lens if real is None else _agreed(real, within_lens)
    return real


def row_mask(inputs: Tensor, mask: Tensor | None, valid_lens: Tensor | None) -> Tensor | None:
    """Returns `token_mask` for layers without queries, whose `valid_lens` has one length a row."""
    if valid_lens is not None:
        shape = tuple(cast(Any, ops.convert_to_tensor(valid_lens)).shape)
        if len(shape) != 1:
            raise ValueError(f"`valid_lens` of pooling must have shape [batch]. Received {shape}.")
    return token_mask(inputs, mask, valid_lens)


def zero_masked(outputs: Tensor, real: Tensor | None) -> Tensor:
    """Returns `outputs` `[B, T, D]` with exact zeros where `real` `[B, T]` is False.

    A `where`, not a product: a product would keep NaN and infinity.
    """
    if real is None:
        return outputs
    return ops.where(real[:, :, None], outputs, ops.zeros((), dtype=outputs.dtype))


def within(reach: tuple[int | None, int | None], distance: Tensor) -> Tensor:
    """Returns bool like `distance` (int32, key position - query position): is the key in reach?"""
    left, right = reach
    bounds = [distance >= -left] if left is not None else []
    bounds += [distance <= right] if right is not None else []
    reached = all_of(bounds)
    return ops.ones_like(distance, dtype="bool") if reached is None else reached


def distances(length: Tensor) -> Tensor:
    """Returns key position - query position of every pair, int32 `[T, S]`."""
    return arange(length)[None, :] - arange(length)[:, None]


def all_of(masks: list[Tensor]) -> Tensor | None:
    """Returns the conjunction of boolean tensors that broadcast, or None of none."""
    combined = None
    for mask in masks:
        combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined


def arange(length: Tensor) -> Tensor:
    """Returns the positions 0, 1, ... as int32 `[length]`."""
    return ops.arange(length, dtype="int32")


def sizes(tensor: Tensor) -> list[Any]:
    """Returns the size of each axis: a number where it is known, else a scalar tensor."""
    return list(cast(Any, ops.shape(tensor)))


def checked_positions(inputs: Tensor, offset: Tensor, positions: Tensor | None) -> Tensor:
    """Returns the position of each token of `inputs` `[B, T, D]`, int32 `[T]` or `[B, T]`.

    Args:
        inputs: `[B, T, D]`.
        offset: position of the first token, an int or an int scalar tensor.
        positions: int `[T]` or `[B, T]`, or None to count from `offset`.

    Raises:
        ValueError: for positions or an offset that are no integers or of another shape, or both given.
    """
    start = cast(Any, ops.convert_to_tensor(offset))
    if not _is_integer(start) or len(start.shape):
        raise ValueError(f"`offset` must be an integer. Received {offset!r}.")
    batch, length = sizes(inputs)[:2]
    if positions is None:
        return arange(length) + ops.cast(start, "int32")
    if not isinstance(offset, int) or offset:
        raise ValueError(f"Pass `offset` or `positions`, not both. Received offset={offset!r} and positions.")
    given = cast(Any, ops.convert_to_tensor(positions))
    if not _is_integer(given):
        raise ValueError(f"`positions` must hold integers. Received dtype {_dtype_name(given)}.")
    wanted = [length] if len(given.shape) == 1 else [batch, length]
    return ops.cast(_of_shape("positions", given, wanted, "[length] or [batch, length]"), "int32")


def _agreed(real: Tensor, within_lens: Tensor) -> Tensor:
    seen, counted = _values(real), _values(within_lens)
    if seen is not None and counted is not None and (seen != counted).any():
        row = int(np.argmax((seen != counted).any(axis=1)))
        raise ValueError(
            "`mask` and `valid_lens` contradict each other; pass one of them. Received in row "
            f"{row}: mask {seen[row].astype(int).tolist()}, valid length {int(counted[row].sum())}."
        )
    return ops.logical_and(real, within_lens)


def _rank_4(inputs: Tensor, attention_mask: Tensor, num_heads: int) -> Tensor:
    pairs = _checked_bool("attention_mask", attention_mask)
    batch, length = sizes(inputs)[:2]
    rank = len(pairs.shape)
    if rank == 2:
        return _of_shape("attention_mask", pairs, [length, length], "[length, length]")[None, None]
    if rank == 3:
        return _of_shape("attention_mask", pairs, [batch, length, length], "[batch, length, length]")[:, None]
    if rank == 4:
        heads = {None: ops.shape(pairs)[1], 1: 1}.get(pairs.shape[1], num_heads)
        wanted = [batch, heads, length, length]
        return _of_shape("attention_mask", pairs, wanted, "[batch, heads or 1, length, length]")
    raise ValueError(
        "`attention_mask` must be of rank 2 [length, length], 3 [batch, length, length] or "
        f"4 [batch, heads or 1, length, length]. Received shape {tuple(pairs.shape)}."
    )


def _checked_bool(name: str, mask: Tensor) -> Tensor:
    mask = cast(Any, ops.convert_to_tensor(mask))
    dtype = _dtype_name(mask)
    if dtype != "bool":
        raise ValueError(
            f"`{name}` must be boolean, True where attention is allowed. Received dtype {dtype}; "
            f"convert it first, for example with `{name} != 0` (or `== 0` for an additive mask)."
        )
    return mask


def _checked_lens(inputs: Tensor, valid_lens: Tensor) -> Tensor:
    lens = cast(Any, ops.convert_to_tensor(valid_lens))
    if not _is_integer(lens):
        raise ValueError(
            f"`valid_lens` must hold integers (numbers of tokens). Received dtype {_dtype_name(lens)}."
        )
    if len(lens.shape) not in (1, 2):
        raise ValueError(
            f"`valid_lens` must have shape [batch] or [batch, length]. Received {tuple(lens.shape)}."
        )
    lens = _of_shape("valid_lens", lens, sizes(inputs)[: len(lens.shape)], "[batch] or [batch, length]")
    length, seen = inputs.shape[1], _values(lens)
    if length is not None and seen is not None and seen.size and (seen.min() < 0 or seen.max() > length):
        raise ValueError(
            f"`valid_lens` must lie between 0 and the length of the inputs, {length}. "
            f"Received values from {seen.min()} to {seen.max()}."
        )
    return ops.cast(lens, "int32")


def _of_shape(name: str, tensor: Tensor, wanted: list[Any], form: str) -> Tensor:
    """Returns `tensor`, whose shape must be `wanted`; a size of 1 is never broadcast.

    Sizes that are known are compared here; the others when the graph runs, by a concatenation with nothing,
    which fails there if one differs.
    """
    known = [size if isinstance(size, int) else None for size in wanted]
    shape = tuple(tensor.shape)
    fits = len(shape) == len(known) and all(
        size is None or want is None or size == want for size, want in zip(shape, known, strict=True)
    )
    if not fits:
        raise ValueError(f"`{name}` must have shape {form}, here {tuple(known)}. Received shape {shape}.")
    if None not in (*shape, *known):
        return tensor
    nothing = ops.zeros((*wanted, 0), dtype=_dtype_name(tensor))
    return ops.concatenate([tensor[..., None], nothing], axis=-1)[..., 0]


def _values(tensor: Tensor) -> np.ndarray | None:
    """The tensor's values, or None while a graph is traced: TensorFlow and JAX then have none to show."""
    try:
        return np.asarray(ops.convert_to_numpy(tensor))
    except (AttributeError, NotImplementedError, TypeError):
        return None


def _is_integer(tensor: Tensor) -> bool:
    return _dtype_name(tensor).startswith(("int", "uint"))


def _dtype_name(tensor: Tensor) -> str:
    """The dtype as Keras spells it on every backend ("bool", not "torch.bool")."""
    return str(tensor.dtype.name if hasattr(tensor.dtype, "name") else tensor.dtype).removeprefix("torch.")
