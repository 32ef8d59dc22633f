"""Check every form of mask, and convert it: to the real tokens, and the rules for which pairs may attend.

Axes: B (batch), T (query positions), S (key positions; S = T unless keys are of another sequence), H (heads),
D (features).
True always means a real token, or a pair that may attend. Only this module knows the ranks of masks.
The checks accept tensors and Keras' symbolic tensors, so that a functional model raises the errors of a call.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import keras
import numpy as np
from keras import ops

from keras_selfattn.layers.tensorflow import runs_kernels
from keras_selfattn.layers.tensorflow.norm_and_bias import chosen_rows

Tensor = Any


class PairMask(NamedTuple):
    """Rules for which query may attend to which key; each path makes the part of a mask it needs.

    real: bool `[B, S]`, the keys that are tokens, or None.
    lens: int32 `[B, T]`, the number of leading keys of each query, or None.
    chosen: bool `[B or 1, H or 1, T or 1, S]`, the pairs the caller allows, or None.
    reach: how many positions a query sees to its left and to its right; None = all.
    sees_distance: whether the distance from query to key matters.
    of_one_sequence: True if queries and keys are the same tokens, False if keys are of another sequence.
    given: int32 `[B, 1, T, S]`, distances that the caller gives in the place of those of positions, or None.
    """

    real: Tensor | None
    lens: Tensor | None
    chosen: Tensor | None
    reach: tuple[int | None, int | None]
    sees_distance: bool = False
    of_one_sequence: bool = True
    given: Tensor | None = None

    @property
    def names_positions(self) -> bool:
        """True if a rule, or a distance, names positions of the sequence, counted from 0."""
        return self._names_keys or self.given is not None

    @property
    def _names_keys(self) -> bool:
        return self.lens is not None or self.chosen is not None

    @property
    def rows_may_be_empty(self) -> bool:
        """True if a real token may have no key; of one sequence, the other rules always allow itself."""
        return self._names_keys or not self.of_one_sequence

    def dense(self, length: Tensor) -> Tensor | None:
        """Return bool of rank 4 that broadcasts to `[B, H, T, S]`, or None if every pair may attend.

        Args:
            length: S.
        """
        return self._mask(self.lens, self.chosen, partial(distances, length), length)

    def of_queries(self, rows: Tensor, length: Tensor) -> Tensor | None:
        """Return the part of `dense` that belongs to the queries at `rows`, int32 `[C]`; `length` is S."""
        lens = None if self.lens is None else ops.take(self.lens, rows, axis=1)
        chosen = self.chosen
        if chosen is not None and chosen.shape[2] != 1:
            chosen = ops.take(chosen, rows, axis=2)
        return self._mask(lens, chosen, partial(distances, length, rows), length)

    def distance(self, length: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return the distances of all queries, or those at `rows`, int32 `[C]`, from all keys.

        Returns:
            Of positions, int32 `[T or C, S]`; or the given ones, `[B, 1, T or C, S]`.
        """
        if self.given is None:
            return distances(length, rows)
        return self.given if rows is None else ops.take(self.given, rows, axis=2)

    def _mask(
        self, lens: Tensor | None, chosen: Tensor | None, distance: Callable[[], Tensor], length: Tensor
    ) -> Tensor | None:
        parts = []
        if self.real is not None:
            parts.append(ops.expand_dims(self.real, (1, 2)))  # [B, 1, 1, S]
        if lens is not None:
            seen = ops.arange(length, dtype="int32") < lens[:, :, None]
            parts.append(ops.expand_dims(seen, 1))  # [B, 1, T, S]
        if chosen is not None:
            parts.append(chosen)  # [B or 1, H or 1, T or 1, S]
        if self.reach != (None, None):
            parts.append(ops.expand_dims(within(self.reach, distance()), (0, 1)))  # [1, 1, T, S]
        return all_of(parts)


def pair_mask(
    inputs: Tensor,
    mask: Tensor | None,
    valid_lens: Tensor | None,
    attention_mask: Tensor | None,
    *,
    num_heads: int,
    reach: tuple[int | None, int | None],
    sees_distance: bool = False,
    distances: Tensor | None = None,
) -> PairMask:
    """Return the checked rules of which query may attend to which key.

    Args:
        inputs: `[B, T, D]`, any dtype.
        mask, valid_lens: as for `token_mask`; `valid_lens` int `[B, T]`: query t of sample b attends to its
            first `valid_lens[b, t]` keys.
        attention_mask: bool `[T, S]`, `[B, T or 1, S]` or `[B, H or 1, T or 1, S]`; the rank alone decides.
        num_heads: H, to check a mask of rank 4.
        reach: see `PairMask`; causal attention is `(None, 0)`.
        sees_distance: whether distances matter beside a limited reach.
        distances: in the place of those of positions, int `[B, T, S]`, or None.

    Raises:
        ValueError: for a wrong dtype, rank or size, with what was received.
    """
    real = token_mask(inputs, mask, valid_lens)  # [B, T]
    lens = None if valid_lens is None else checked_lens(inputs, valid_lens)
    return PairMask(
        real=real,
        lens=lens if lens is not None and len(lens.shape) == 2 else None,
        chosen=None if attention_mask is None else _rank_4(checked_pairs(inputs, attention_mask, num_heads)),
        reach=reach,
        sees_distance=sees_distance or reach != (None, None),
        given=None if distances is None else given_distances(inputs, distances),
    )


def cross_mask(
    inputs: Tensor,
    memory: Tensor,
    memory_mask: Tensor | None,
    memory_lens: Tensor | None,
    attention_mask: Tensor | None,
    *,
    num_heads: int,
    name: str = "attention_mask",
) -> PairMask:
    """Return the checked rules of which query may attend to which token of another sequence.

    Args:
        inputs: the queries, `[B, T, D]`, any dtype.
        memory: the other sequence, `[B, S, D']`, any dtype.
        memory_mask, memory_lens: the memory's real tokens, as `mask` and `valid_lens` of `token_mask`.
        attention_mask: bool `[T, S]`, `[B, T or 1, S]` or `[B, H or 1, T or 1, S]`; the rank alone decides.
        num_heads: H, to check a mask of rank 4.
        name: of `attention_mask`, for errors.

    Raises:
        ValueError: for a wrong dtype, rank or size, with what was received.
    """
    check_memory(inputs, memory)
    real = token_mask(memory, memory_mask, memory_lens, ("memory_mask", "memory_lens"))  # [B, S]
    chosen = None
    if attention_mask is not None:
        chosen = _rank_4(checked_pairs(inputs, attention_mask, num_heads, memory, name))
    return PairMask(real, None, chosen, (None, None), of_one_sequence=False)


def check_memory(inputs: Tensor, memory: Tensor) -> None:
    """Raise ValueError unless `memory` is a sequence `[B, S, D']` of as many rows as `inputs`."""
    if memory is None:
        raise ValueError("`memory` must be a sequence, [batch, length, features]. Received None.")
    shape = tuple(memory.shape)
    if len(shape) != 3:
        raise ValueError(f"`memory` must have shape [batch, length, features]. Received shape {shape}.")
    rows = inputs.shape[0], shape[0]
    if all(isinstance(each, int) for each in rows) and rows[0] != rows[1]:
        raise ValueError(
            f"`memory` must have as many rows as `inputs`, {rows[0]}: repeat it for several queries of one "
            f"row. Received {rows[1]}."
        )


def token_mask(
    inputs: Tensor,
    mask: Tensor | None,
    valid_lens: Tensor | None,
    names: tuple[str, str] = ("mask", "valid_lens"),
) -> Tensor | None:
    """Return which tokens are real, or None if all are.

    Args:
        inputs: `[B, T, D]`, any dtype.
        mask: bool `[B, T]`, or integers that can be seen to be zeros and ones, or None.
        valid_lens: int `[B]` (the first `valid_lens[b]` tokens are real), int `[B, T]` (says nothing about
            tokens, see `pair_mask`) or None.
        names: of the two, for errors.

    Returns:
        bool `[B, T]` or None.

    Raises:
        ValueError: for a wrong dtype, rank, length or number of tokens, and if `mask` and `valid_lens`
            contradict each other where their values can be seen (not inside a compiled graph, where a token
            is real if both say so).
    """
    real = None
    if mask is not None:
        real = checked_mask(inputs, mask, names[0])
    if valid_lens is not None:
        lens = checked_lens(inputs, valid_lens, names[1])
        if len(lens.shape) == 1:
            within_lens = ops.arange(ops.shape(inputs)[1], dtype="int32") < lens[:, None]  # [B, T]
            real = within_lens if real is None else _agreed(real, within_lens, names)
    return real


def row_mask(
    inputs: Tensor, mask: Tensor | None, valid_lens: Tensor | None, of: str = "pooling"
) -> Tensor | None:
    """Return `token_mask` for layers whose tokens attend to none of each other: one length a row."""
    if valid_lens is not None:
        check_one_length_a_row(valid_lens, of)
    return token_mask(inputs, mask, valid_lens)


def zero_masked(outputs: Tensor, real: Tensor | None) -> Tensor:
    """Return `outputs` `[B, T, D]` or `[N, D]` with exact zeros where `real` `[B, T]` or `[N]` is False.

    A choice, not a product: a product would keep NaN and infinity.
    """
    if real is None:
        return outputs
    if runs_kernels(outputs):
        return chosen_rows(outputs, real)
    return ops.where(ops.expand_dims(real, -1), outputs, ops.zeros((), dtype=outputs.dtype))


def within(reach: tuple[int | None, int | None], distance: Tensor) -> Tensor:
    """Return bool like `distance` (key position - query position, int32): True for keys within `reach`."""
    left, right = reach
    bounds = [distance >= -left] if left is not None else []
    bounds += [distance <= right] if right is not None else []
    return all_of(bounds)


def distances(length: Tensor, rows: Tensor | None = None) -> Tensor:
    """Return key position - query position of all queries, int32 `[T, S]`, or those at `rows`, `[C, S]`.

    Args:
        length: S, and T unless there are `rows`.
        rows: positions of the queries.
    """
    positions = ops.arange(length, dtype="int32")
    return positions[None, :] - (positions if rows is None else rows)[:, None]


def all_of(masks: list[Tensor]) -> Tensor | None:
    """Return the conjunction of boolean tensors that broadcast; None if there are none."""
    combined = None
    for mask in masks:
        combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined


def _agreed(real: Tensor, within_lens: Tensor, names: tuple[str, str]) -> Tensor:
    seen, counted = known_values(real), known_values(within_lens)
    if seen is not None and counted is not None and (seen != counted).any():
        row = int(np.argmax((seen != counted).any(axis=1)))
        raise ValueError(
            f"`{names[0]}` and `{names[1]}` contradict each other; pass one of them. Received in row "
            f"{row}: mask {seen[row].astype(int).tolist()}, valid length {int(counted[row].sum())}."
        )
    return ops.logical_and(real, within_lens)


def _rank_4(pairs: Tensor) -> Tensor:
    """Return bool `[T, S]`, `[B, T or 1, S]` or of rank 4 as `[B or 1, H or 1, T or 1, S]`."""
    missing = {2: (0, 1), 3: (1,), 4: ()}[len(pairs.shape)]
    return ops.expand_dims(pairs, missing) if missing else pairs


def check_masks(
    inputs: Tensor,
    mask: Tensor | None,
    valid_lens: Tensor | None,
    attention_mask: Tensor | None,
    num_heads: int,
    distances: Tensor | None = None,
) -> None:
    """Raise ValueError for a mask, or distances, of the wrong dtype, rank or known size."""
    if distances is not None:
        given_distances(inputs, distances)
    if mask is not None:
        checked_mask(inputs, mask)
    if valid_lens is not None:
        checked_lens(inputs, valid_lens)
    if attention_mask is not None:
        checked_pairs(inputs, attention_mask, num_heads)


def check_cross_masks(
    inputs: Tensor,
    memory: Tensor,
    memory_mask: Tensor | None,
    memory_lens: Tensor | None,
    attention_mask: Tensor | None,
    num_heads: int,
    name: str = "attention_mask",
) -> None:
    """Raise ValueError for a memory, or a mask of it, of the wrong dtype, rank or known size."""
    check_memory(inputs, memory)
    if memory_mask is not None:
        checked_mask(memory, memory_mask, "memory_mask")
    if memory_lens is not None:
        checked_lens(memory, memory_lens, "memory_lens")
    if attention_mask is not None:
        checked_pairs(inputs, attention_mask, num_heads, memory, name)


def checked_mask(inputs: Tensor, mask: Tensor, name: str = "mask") -> Tensor:
    """Return `mask` as a bool tensor `[B, T]`, or raise ValueError."""
    given = as_given(mask)
    if len(given.shape) == 3 and name == "mask":
        raise ValueError(
            "`mask` must have shape [batch, length], one truth value a token. This layer takes one input and "
            "makes queries, keys and values of it; which pairs may attend goes to `attention_mask`. "
            f"Received shape {tuple(given.shape)}."
        )
    return of_shape(name, _as_bool(name, given), ops.shape(inputs)[:2], "[batch, length]")


def checked_pairs(
    inputs: Tensor,
    attention_mask: Tensor,
    num_heads: int,
    memory: Tensor | None = None,
    name: str = "attention_mask",
) -> Tensor:
    """Return `attention_mask` as a bool tensor, or raise ValueError.

    It is `[T, S]`, `[B, T or 1, S]` or `[B, H or 1, T or 1, S]`. A size of 1 is every head, or every query.
    It stays 1 if it is known before a graph runs. S is T, or the length of `memory`.
    """
    pairs = _as_bool(name, as_given(attention_mask))
    batch, length = ops.shape(inputs)[:2]
    keys = length if memory is None else ops.shape(memory)[1]
    of_keys = "length" if memory is None else "memory length"
    rank = len(pairs.shape)
    if rank == 2:
        step = "`mask`" if memory is None else "`memory_mask`"
        form = f"[length, {of_keys}] (a mask of tokens, [batch, {of_keys}], goes to {step})"
        return of_shape(name, pairs, [length, keys], form)
    if rank == 3:
        form = f"[batch, length or 1, {of_keys}]"
        return _of_queries(name, pairs, [batch, length], keys, form)
    if rank == 4:
        heads = {None: ops.shape(pairs)[1], 1: 1}.get(pairs.shape[1], num_heads)
        form = f"[batch, heads or 1, length or 1, {of_keys}]"
        return _of_queries(name, pairs, [batch, heads, length], keys, form)
    raise ValueError(
        f"`{name}` must be of rank 2 [length, {of_keys}], 3 [batch, length or 1, {of_keys}] or "
        f"4 [batch, heads or 1, length or 1, {of_keys}]. Received shape {tuple(pairs.shape)}."
    )


def checked_lens(inputs: Tensor, valid_lens: Tensor, name: str = "valid_lens") -> Tensor:
    """Return `valid_lens` as an int32 tensor `[B]` or, of self-attention, `[B, T]`; or raise ValueError."""
    lens = as_given(valid_lens)
    if not holds_integers(lens):
        raise ValueError(
            f"`{name}` must hold integers (numbers of tokens). Received dtype {dtype_name(lens)}."
        )
    ranks, form = ((1, 2), "[batch] or [batch, length]") if name == "valid_lens" else ((1,), "[batch]")
    if len(lens.shape) not in ranks:
        raise ValueError(f"`{name}` must have shape {form}. Received {tuple(lens.shape)}.")
    lens = of_shape(name, lens, ops.shape(inputs)[: len(lens.shape)], form)
    length, seen = inputs.shape[1], known_values(lens)
    if length is not None and seen is not None and seen.size and (seen.min() < 0 or seen.max() > length):
        raise ValueError(
            f"`{name}` must lie between 0 and the length of the inputs, {length}. "
            f"Received values from {seen.min()} to {seen.max()}."
        )
    return ops.cast(lens, "int32")


def given_distances(inputs: Tensor, given: Tensor) -> Tensor:
    """Return the argument `distances`, `[B, T, S]`, as int32 `[B, 1, T, S]`, or raise ValueError."""
    given = as_given(given)
    if not holds_integers(given):
        raise ValueError(f"`distances` must hold integers. Received dtype {dtype_name(given)}.")
    batch, length = ops.shape(inputs)[:2]
    given = of_shape("distances", given, [batch, length, length], "[batch, length, length]")
    if dtype_name(given) in ("int64", "uint32", "uint64"):  # a cast would wrap what is too large
        given = ops.minimum(given, 2**31 - 1)
    if dtype_name(given) == "int64":
        given = ops.maximum(given, -(2**31))
    return ops.expand_dims(ops.cast(given, "int32"), 1)


def check_distances_read(given: Tensor | None, position: Any) -> None:
    """Raise ValueError for `distances` that no `position` reads, or that one reads and the call lacks."""
    reads = position is not None and position.reads_distances
    if given is None and reads:
        raise ValueError(
            f"{type(position).__name__} needs the call argument `distances`, int [batch, length, length], of "
            "MultiHeadSelfAttention, EncoderBlock or Encoder; decoders take none. Received None."
        )
    if given is not None and not reads:
        raise ValueError(
            "`distances` is read by positions such as DistanceBias() alone; leave it out, or set `position`. "
            f"Received position={position!r}."
        )


def check_one_length_a_row(valid_lens: Tensor, of: str = "pooling") -> None:
    """Raise ValueError if `valid_lens` has another rank than 1."""
    shape = tuple(as_given(valid_lens).shape)
    if len(shape) != 1:
        raise ValueError(f"`valid_lens` of {of} must have shape [batch]. Received {shape}.")


def known_values(tensor: Tensor) -> np.ndarray | None:
    """Return the tensor's values; None while a graph is traced or a model is built, when it has none."""
    if isinstance(tensor, keras.KerasTensor):
        return None
    try:
        return np.asarray(ops.convert_to_numpy(tensor))
    except (AttributeError, NotImplementedError, TypeError):
        return None


def as_given(value: Any) -> Any:
    """Return `value` as a tensor; a symbolic tensor of Keras as it is."""
    return value if isinstance(value, keras.KerasTensor) else cast(Any, ops.convert_to_tensor(value))


def _as_bool(name: str, mask: Tensor) -> Tensor:
    """Return a boolean mask; integers too, if they can be seen to be zeros and ones."""
    dtype = dtype_name(mask)
    if dtype == "bool":
        return mask
    seen = known_values(mask) if holds_integers(mask) else None
    if seen is None:
        raise ValueError(
            f"`{name}` must be boolean, True where attention is allowed. Received dtype {dtype}; "
            f"convert it first, for example with `{name} != 0` (or `== 0` for an additive mask)."
        )
    if not np.isin(seen, (0, 1)).all():
        raise ValueError(
            f"`{name}` of integers must hold zeros and ones, 1 where attention is allowed. "
            f"Received values from {seen.min()} to {seen.max()}."
        )
    return mask != 0


def _of_queries(name: str, pairs: Tensor, wanted: list[Any], length: Tensor, form: str) -> Tensor:
    """Return `pairs` `[..., T or 1, S]`, with the other sizes `wanted`, `[..., T]`, and `length`, S."""
    *others, queries = wanted
    given = pairs.shape[-2]
    if given == 1:
        return of_shape(name, pairs, [*others, 1, length], form)
    if given is not None:
        return of_shape(name, pairs, [*others, queries, length], form)
    pairs = of_shape(name, pairs, [*others, ops.shape(pairs)[-2], length], form)
    # Only the running graph knows whether there is one row for every query, or a row for each.
    known = isinstance(pairs, keras.KerasTensor)
    return pairs if known else ops.broadcast_to(pairs, (*ops.shape(pairs)[:-2], queries, length))


def of_shape(name: str, tensor: Tensor, wanted: Any, form: str) -> Tensor:
    """Return `tensor`, whose shape must be `wanted`; a size of 1 is never broadcast.

    Known sizes are compared here. Unknown sizes are compared when the graph runs: a concatenation with an
    empty tensor of the wanted shape fails if one differs.
    """
    known = [size if isinstance(size, int) else None for size in wanted]
    shape = tuple(size if isinstance(size, int) else None for size in tensor.shape)
    fits = len(shape) == len(known) and all(
        size is None or want is None or size == want for size, want in zip(shape, known, strict=True)
    )
    if not fits:
        raise ValueError(f"`{name}` must have shape {form}, here {tuple(known)}. Received shape {shape}.")
    if None not in (*shape, *known) or isinstance(tensor, keras.KerasTensor):
        return tensor
    nothing = ops.zeros((*wanted, 0), dtype=dtype_name(tensor))
    return ops.concatenate([ops.expand_dims(tensor, -1), nothing], axis=-1)[..., 0]


def holds_integers(tensor: Tensor) -> bool:
    """Return True for a dtype of integers, signed or not."""
    return dtype_name(tensor).startswith(("int", "uint"))


def dtype_name(tensor: Tensor) -> str:
    """Return the dtype as Keras spells it on every backend ("bool", not "torch.bool")."""
    return str(tensor.dtype.name if hasattr(tensor.dtype, "name") else tensor.dtype).removeprefix("torch.")
