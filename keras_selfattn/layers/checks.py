"""Checks of constructor arguments and input shapes that several layers share."""

from numbers import Integral
from typing import Any


def checked_count(name: str, value: Any) -> int:
    """Returns `value` as an int, or raises ValueError naming the argument if it is no positive integer."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer. Received {value!r}.")
    return int(value)


def checked_seed(seed: Any) -> int | None:
    """Returns `seed` as an int or None, or raises ValueError if it is neither, or negative."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise ValueError(f"`seed` must be an integer that is not negative, or None. Received {seed!r}.")
    return int(seed)


def checked_sequence(input_shape: tuple) -> int:
    """Returns the feature width of a `[batch, length, features]` shape, or raises ValueError."""
    if len(input_shape) != 3 or input_shape[-1] is None:
        raise ValueError(
            "The inputs must have shape [batch, length, features] with the number of features known. "
            f"Received shape {tuple(input_shape)}."
        )
    return input_shape[-1]
