"""Checks that several layers share: of constructor arguments, of names that peers have, and of input shapes.

Checks of masks are in masks.py, of positions in positions/encodings.py.
"""

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

import keras

Checked = TypeVar("Checked")

# Arguments of Keras' and KerasHub's attention that have another name here, and what to write instead.
RENAMED_IN_CALLS = {
    "return_attention_scores": "`return_weights=True`",
    "use_causal_mask": "`causal=True` in the constructor",
    "padding_mask": "`mask`",
    "query_mask": "`mask`",
    "key_mask": "`mask`",
    "value_mask": "`mask`",
    "query": "`inputs`, of which the layer makes queries, keys and values",
    "key": "`inputs` alone: for keys of another sequence use `MultiHeadCrossAttention`, and its `memory`",
    "value": "`inputs` alone: for values of another sequence use `MultiHeadCrossAttention`, and its `memory`",
}
RENAMED_ARGUMENTS = {
    "key_dim": "`head_dim`",
    "value_dim": "`head_dim`, which is the width of queries, keys and values",
    "sliding_window": "`window`, the farthest distance that is seen: sliding_window - 1",
    "intermediate_dim": "`feed_forward_dim`",
    "layer_norm_epsilon": "`norm_epsilon`",
    "normalize_first": "`norm_first`",
}


def checked_count(name: str, value: Any) -> int:
    """Return `value` as an int, or raise ValueError naming the argument if it is no positive integer."""
    if not _is_integer(value) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer. Received {value!r}.")
    return int(value)


def checked_kv_heads(value: Any, num_heads: int) -> int | None:
    """Return `num_kv_heads` as an int or None, or raise ValueError unless it is a divisor of `num_heads`."""
    heads = or_none(checked_count, "num_kv_heads", value)
    if num_heads % (heads or num_heads):
        raise ValueError(
            "`num_heads` must be divisible by `num_kv_heads`. "
            f"Received num_heads={num_heads}, num_kv_heads={heads}."
        )
    return heads


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


def refuse_renamed(arguments: Mapping[str, Any], renamed: Mapping[str, str]) -> None:
    """Raise TypeError that names ours if an argument bears the name that a peer has for it."""
    for name in arguments:
        if name in renamed:
            raise TypeError(f"`{name}` has another name here: pass {renamed[name]}. Received `{name}`.")


def _is_reach(value: Any) -> bool:
    return _is_integer(value) and 0 <= value < 2**31  # positions are int32


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
