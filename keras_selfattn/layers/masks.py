"""Every mask form becomes one of two boolean tensors: which tokens are real, and which pairs may attend.

Axes: B (batch), T (query positions), S (key positions, S = T here), H (heads), D (features).
True always means a real token, or a pair that may attend. No other module knows the ranks of masks.
"""

from typing import Any, cast

from keras import ops

Tensor = Any


def token_mask(inputs: Tensor, mask: Tensor | None, valid_lens: Tensor | None) -> Tensor | None:
    """Returns which tokens are real, or None if all are.

    Args:
        inputs: `[B, T, D]`, any dtype.
        mask: bool `[B, T]` or None.
        valid_lens: int `[B]` (the first `valid_lens[b]` tokens are real), int `[B, T]` (says nothing about
            tokens, see `pair_mask`) or None.

    Returns:
        bool `[B, T]` or None.

    Raises:
        ValueError: for a wrong dtype, rank or length, with what was received.
    """
    real = None
    if mask is not None:
        real = _of_shape("mask", _checked_bool("mask", mask), _sizes(inputs)[:2], "[batch, length]")
    if valid_lens is not None:
        lens = _checked_lens(inputs, valid_lens)
        if len(lens.shape) == 1:
            within = _arange(ops.shape(inputs)[1]) < lens[:, None]  # [B, T]
            real = within if real is None else ops.logical_and(real, within)
    return real


def pair_mask(
    inputs: Tensor,
    real: Tensor | None,
    *,
    valid_lens: Tensor | None = None,
    attention_mask: Tensor | None = None,
    causal: bool = False,
    num_heads: int,
) -> Tensor | None:
    """Returns which query may attend to which key, or None if every pair may.

    Args:
        inputs: `[B, T, D]`, any dtype.
        real: bool `[B, T]` from `token_mask`, or None.
        valid_lens: int `[B, T]`: query t of sample b attends to its first `valid_lens[b, t]` keys. Rank 1 is
            already in `real`.
        attention_mask: bool `[T, S]`, `[B, T, S]` or `[B, H or 1, T, S]`; the rank alone decides.
        causal: a query attends to itself and what stands before it.
        num_heads: H, to check a mask of rank 4.

    Returns:
        bool of rank 4 that broadcasts to `[B, H, T, S]`, or None.

    Raises:
        ValueError: for a wrong dtype, rank or size, with what was received.
    """
    length = ops.shape(inputs)[1]
    parts = []
    if real is not None:
        parts.append(real[:, None, None, :])  # [B, 1, 1, S]
    if valid_lens is not None:
        lens = _checked_lens(inputs, valid_lens)
        if len(lens.shape) == 2:
            parts.append((_arange(length) < lens[:, :, None])[:, None])  # [B, 1, T, S]
    if attention_mask is not None:
        parts.append(_rank_4(inputs, attention_mask, num_heads))  # [B or 1, H or 1, T, S]
    if causal:
        positions = _arange(length)
        parts.append((positions[None, :] <= positions[:, None])[None, None])  # [1, 1, T, S]
    if not parts:
        return None
    combined = parts[0]
    for part in parts[1:]:
        combined = ops.logical_and(combined, part)
    return combined


def zero_masked(outputs: Tensor, real: Tensor | None) -> Tensor:
    """Returns `outputs` `[B, T, D]` with exact zeros where `real` `[B, T]` is False.

    A `where`, not a product: a product would keep NaN and infinity.
    """
    if real is None:
        return outputs
    return ops.where(real[:, :, None], outputs, ops.zeros((), dtype=outputs.dtype))


def _rank_4(inputs: Tensor, attention_mask: Tensor, num_heads: int) -> Tensor:
    pairs = _checked_bool("attention_mask", attention_mask)
    batch, length = _sizes(inputs)[:2]
    rank = len(pairs.shape)
    if rank == 2:
        return _of_shape("attention_mask", pairs, [length, length], "[length, length]")[None, None]
    if rank == 3:
        sizes = [batch, length, length]
        return _of_shape("attention_mask", pairs, sizes, "[batch, length, length]")[:, None]
    if rank == 4:
        heads = {None: ops.shape(pairs)[1], 1: 1}.get(pairs.shape[1], num_heads)
        sizes = [batch, heads, length, length]
        return _of_shape("attention_mask", pairs, sizes, "[batch, heads or 1, length, length]")
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
    dtype = _dtype_name(lens)
    if not dtype.startswith(("int", "uint")):
        raise ValueError(f"`valid_lens` must hold integers (numbers of tokens). Received dtype {dtype}.")
    if len(lens.shape) not in (1, 2):
        raise ValueError(
            f"`valid_lens` must have shape [batch] or [batch, length]. Received {tuple(lens.shape)}."
        )
    sizes = _sizes(inputs)[: len(lens.shape)]
    return ops.cast(_of_shape("valid_lens", lens, sizes, "[batch] or [batch, length]"), "int32")


def _sizes(tensor: Tensor) -> list[Any]:
    """The size of each axis: a number where it is known, else a scalar tensor."""
    return list(cast(Any, ops.shape(tensor)))


def _of_shape(name: str, tensor: Tensor, sizes: list[Any], form: str) -> Tensor:
    """Returns `tensor`, whose shape must be `sizes`; a size of 1 is never broadcast.

    Sizes that are known are compared here; the others when the graph runs, by a reshape that fails there.
    """
    known = [size if isinstance(size, int) else None for size in sizes]
    shape = tuple(tensor.shape)
    fits = len(shape) == len(known) and all(
        size is None or want is None or size == want for size, want in zip(shape, known, strict=True)
    )
    if not fits:
        raise ValueError(f"`{name}` must have shape {form}, here {tuple(known)}. Received shape {shape}.")
    return tensor if None not in (*shape, *known) else ops.reshape(tensor, sizes)


def _arange(length: Tensor) -> Tensor:
    return ops.arange(length, dtype="int32")


def _dtype_name(tensor: Tensor) -> str:
    """The dtype as Keras spells it on every backend ("bool", not "torch.bool")."""
    return str(tensor.dtype.name if hasattr(tensor.dtype, "name") else tensor.dtype).removeprefix("torch.")
