"""Checks that several layers share: of constructor arguments, input shapes, and a call's other arguments.

Checks of a call (masks, lengths, positions) accept tensors and Keras' symbolic tensors, so that a functional
model raises the same errors as a call.

Axes: B (batch), T (query positions), S (key positions, S = T here), H (heads), D (features).
"""

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, TypeVar, cast

import keras
import numpy as np
from keras import ops

Tensor = Any
Checked = TypeVar("Checked")


def checked_count(name: str, value: Any) -> int:
    """Return `value` as an int, or raise ValueError naming the argument if it is no positive integer."""
    if not _is_integer(value) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer. Received {value!r}.")
    return int(value)


def checked_positive(name: str, value: Any) -> float:
    """Return `value` as a float, or raise ValueError naming the argument if it is no positive number."""
    if not _is_number(value) or not 0 < float(value) < math.inf:
        raise ValueError(f"`{name}` must be a positive, finite number. Received {value!r}.")
    return float(value)


def checked_weight(name: str, value: Any) -> float:
    """Return `value` as a float, or raise ValueError naming the argument if it is negative or no number."""
    if not _is_number(value) or not 0 <= float(value) < math.inf:
        raise ValueError(f"`{name}` must be a finite number that is not negative. Received {value!r}.")
    return float(value)


def or_none(check: Callable[[str, Any], Checked], name: str, value: Any) -> Checked | None:
    """Return `check(name, value)` of one of these checks; None stands for a default, and stays."""
    return None if value is None else check(name, value)


def checked_base(base: Any) -> float:
    """Return the base of position wavelengths as a float, or raise ValueError unless it is above 1."""
    if not _is_number(base) or not 1 < float(base) < math.inf:
        raise ValueError(f"`base` must be a finite number greater than 1. Received {base!r}.")
    return float(base)


def checked_rate(name: str, rate: Any) -> float:
    """Return `rate` as a float, or raise ValueError naming the argument if it is outside [0, 1]."""
    if not _is_number(rate) or not 0 <= float(rate) <= 1:
        raise ValueError(
            f"`{name}` must be a number in [0, 1], the share that dropout zeroes. Received {rate!r}."
        )
    return float(rate)


def checked_flag(name: str, value: Any) -> bool:
    """Return `value`, or raise ValueError naming the argument if it is neither True nor False."""
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` must be True or False. Received {value!r}.")
    return value


def checked_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value`, or raise ValueError naming the argument if it is none of `choices`."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}. Received {value!r}.")
    return value


def checked_seed(seed: Any) -> int | None:
    """Return `seed` as an int or None, or raise ValueError if it is neither, or negative."""
    if seed is None:
        return None
    if not _is_integer(seed) or seed < 0:
        raise ValueError(f"`seed` must be an integer that is not negative, or None. Received {seed!r}.")
    return int(seed)


def checked_window(window: Any) -> int | tuple[int, int] | None:
    """Return `window` with plain ints, or raise ValueError if it is no reach: `w` or `(left, right)`."""
    if window is None or _is_reach(window):
        return None if window is None else int(window)
    if isinstance(window, list | tuple) and len(window) == 2 and all(map(_is_reach, window)):
        return int(window[0]), int(window[1])
    raise ValueError(
        "`window` must be an integer w (its reach to each side) or a pair (left, right), 0 to 2**31 - 1. "
        f"Received {window!r}."
    )


def checked_sequence(input_shape: tuple) -> int:
    """Return the feature width of a `[batch, length, features]` shape, or raise ValueError."""
    if len(input_shape) != 3 or input_shape[-1] is None:
        raise ValueError(
            "The inputs must have shape [batch, length, features] with the number of features known; add the "
            "batch axis to a single sequence, and embed token ids first. "
            f"Received shape {tuple(input_shape)}."
        )
    return input_shape[-1]


def sequence_spec(features: int) -> keras.layers.InputSpec:
    """Return the spec that a built layer's later inputs must meet: rank 3 and the same width."""
    return keras.layers.InputSpec(ndim=3, axes={-1: features})


def _is_reach(value: Any) -> bool:
    return _is_integer(value) and 0 <= value < 2**31  # positions are int32


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def check_masks(
    inputs: Tensor,
    mask: Tensor | None,
    valid_lens: Tensor | None,
    attention_mask: Tensor | None,
    num_heads: int,
) -> None:
    """Raise ValueError for a mask of the wrong dtype, rank or known size."""
    if mask is not None:
        checked_mask(inputs, mask)
    if valid_lens is not None:
        checked_lens(inputs, valid_lens)
    if attention_mask is not None:
        checked_pairs(inputs, attention_mask, num_heads)


def checked_mask(inputs: Tensor, mask: Tensor) -> Tensor:
    """Return `mask` as a bool tensor `[B, T]`, or raise ValueError."""
    given = _tensor(mask)
    if len(given.shape) == 3:
        raise ValueError(
            "`mask` must have shape [batch, length], one truth value a token. This layer takes one input and "
            "makes queries, keys and values of it; which pairs may attend goes to `attention_mask`. "
            f"Received shape {tuple(given.shape)}."
        )
    return _of_shape("mask", _as_bool("mask", given), ops.shape(inputs)[:2], "[batch, length]")


def checked_pairs(inputs: Tensor, attention_mask: Tensor, num_heads: int) -> Tensor:
    """Return `attention_mask` as a bool tensor, or raise ValueError.

    It is `[T, S]`, `[B, T or 1, S]` or `[B, H or 1, T or 1, S]`. A size of 1 is every head, or every query.
    It stays 1 if it is known before a graph runs.
    """
    pairs = _as_bool("attention_mask", _tensor(attention_mask))
    batch, length = ops.shape(inputs)[:2]
    rank = len(pairs.shape)
    if rank == 2:
        form = "[length, length] (a mask of tokens, [batch, length], goes to `mask`)"
        return _of_shape("attention_mask", pairs, [length, length], form)
    if rank == 3:
        form = "[batch, length or 1, length]"
        return _of_queries(pairs, [batch, length], length, form)
    if rank == 4:
        heads = {None: ops.shape(pairs)[1], 1: 1}.get(pairs.shape[1], num_heads)
        form = "[batch, heads or 1, length or 1, length]"
        return _of_queries(pairs, [batch, heads, length], length, form)
    raise ValueError(
        "`attention_mask` must be of rank 2 [length, length], 3 [batch, length or 1, length] or "
        f"4 [batch, heads or 1, length or 1, length]. Received shape {tuple(pairs.shape)}."
    )


def checked_lens(inputs: Tensor, valid_lens: Tensor) -> Tensor:
    """Return `valid_lens` as an int32 tensor `[B]` or `[B, T]`, or raise ValueError."""
    lens = _tensor(valid_lens)
    if not _holds_integers(lens):
        raise ValueError(
            f"`valid_lens` must hold integers (numbers of tokens). Received dtype {_dtype_name(lens)}."
        )
    if len(lens.shape) not in (1, 2):
        raise ValueError(
            f"`valid_lens` must have shape [batch] or [batch, length]. Received {tuple(lens.shape)}."
        )
    lens = _of_shape("valid_lens", lens, ops.shape(inputs)[: len(lens.shape)], "[batch] or [batch, length]")
    length, seen = inputs.shape[1], known_values(lens)
    if length is not None and seen is not None and seen.size and (seen.min() < 0 or seen.max() > length):
        raise ValueError(
            f"`valid_lens` must lie between 0 and the length of the inputs, {length}. "
            f"Received values from {seen.min()} to {seen.max()}."
        )
    return ops.cast(lens, "int32")


def check_one_length_a_row(valid_lens: Tensor) -> None:
    """Raise ValueError if `valid_lens` has another rank than 1."""
    shape = tuple(_tensor(valid_lens).shape)
    if len(shape) != 1:
        raise ValueError(f"`valid_lens` of pooling must have shape [batch]. Received {shape}.")


def checked_positions(inputs: Tensor, offset: Tensor, positions: Tensor | None) -> Tensor | None:
    """Return `positions` as an int32 tensor `[T]` or `[B, T]`, or None if they count from `offset`.

    Args:
        inputs: `[B, T, D]`.
        offset: position of the first token, an int or an int scalar tensor.
        positions: int `[T]` or `[B, T]`, or None.

    Raises:
        ValueError: for positions or an offset that are no integers or of another shape, or both given.
    """
    start = _tensor(offset)
    if not _holds_integers(start) or len(start.shape):
        raise ValueError(f"`offset` must be an integer. Received {offset!r}.")
    if positions is None:
        return None
    if not isinstance(offset, int) or offset:
        raise ValueError(f"Pass `offset` or `positions`, not both. Received offset={offset!r} and positions.")
    given = _tensor(positions)
    if not _holds_integers(given):
        raise ValueError(f"`positions` must hold integers. Received dtype {_dtype_name(given)}.")
    batch, length = ops.shape(inputs)[:2]
    wanted = [length] if len(given.shape) == 1 else [batch, length]
    return ops.cast(_of_shape("positions", given, wanted, "[length] or [batch, length]"), "int32")


def token_positions(inputs: Tensor, offset: Tensor, positions: Tensor | None) -> Tensor:
    """Return the position of each token of `inputs`, int32 `[T]` or `[B, T]`; see `checked_positions`."""
    given = checked_positions(inputs, offset, positions)
    if given is not None:
        return given
    return ops.arange(ops.shape(inputs)[1], dtype="int32") + ops.cast(offset, "int32")


def known_values(tensor: Tensor) -> np.ndarray | None:
    """Return the tensor's values; None while a graph is traced or a model is built, when it has none."""
    if isinstance(tensor, keras.KerasTensor):
        return None
    try:
        return np.asarray(ops.convert_to_numpy(tensor))
    except (AttributeError, NotImplementedError, TypeError):
        return None


def _tensor(value: Any) -> Any:
    return value if isinstance(value, keras.KerasTensor) else cast(Any, ops.convert_to_tensor(value))


def _as_bool(name: str, mask: Tensor) -> Tensor:
    """Return a boolean mask; integers too, if they can be seen to be zeros and ones."""
    dtype = _dtype_name(mask)
    if dtype == "bool":
        return mask
    seen = known_values(mask) if _holds_integers(mask) else None
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


def _of_queries(pairs: Tensor, wanted: list[Any], length: Tensor, form: str) -> Tensor:
    """Return `pairs` `[..., T or 1, S]`, whose other sizes must be the `wanted` `[..., T]` and `length`."""
    *others, queries = wanted
    given = pairs.shape[-2]
    if given == 1:
        return _of_shape("attention_mask", pairs, [*others, 1, length], form)
    if given is not None:
        return _of_shape("attention_mask", pairs, [*others, queries, length], form)
    pairs = _of_shape("attention_mask", pairs, [*others, ops.shape(pairs)[-2], length], form)
    # Only the running graph knows whether there is one row for every query, or a row for each.
    known = isinstance(pairs, keras.KerasTensor)
    return pairs if known else ops.broadcast_to(pairs, (*ops.shape(pairs)[:-2], queries, length))


def _of_shape(name: str, tensor: Tensor, wanted: Any, form: str) -> Tensor:
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
    nothing = ops.zeros((*wanted, 0), dtype=_dtype_name(tensor))
    return ops.concatenate([ops.expand_dims(tensor, -1), nothing], axis=-1)[..., 0]


def _holds_integers(tensor: Tensor) -> bool:
    return _dtype_name(tensor).startswith(("int", "uint"))


def _dtype_name(tensor: Tensor) -> str:
    """The dtype as Keras spells it on every backend ("bool", not "torch.bool")."""
    return str(tensor.dtype.name if hasattr(tensor.dtype, "name") else tensor.dtype).removeprefix("torch.")
