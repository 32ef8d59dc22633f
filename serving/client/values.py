"""What callers pass and get: checks of arguments, and strings as `str`."""

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InvalidInputError

Inputs = Mapping[str, ArrayLike] | ArrayLike


def seconds(name: str, value: float) -> float:
    """`value` as a time limit in seconds, checked.

    Raises:
        InvalidInputError: it is no positive finite number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidInputError(f"{name} must be a number of seconds. Received {value!r}")
    if not (math.isfinite(value) and value > 0):
        raise InvalidInputError(
            f"{name} must be a positive, finite number of seconds, so that no call waits for ever. "
            f"Received {value!r}"
        )
    return float(value)


def checked_target(target: str) -> str:
    """`target` if it is "host:port".

    Raises:
        InvalidInputError: it is anything else, such as a URL.
    """
    match = re.fullmatch(r"(\[[0-9a-fA-F:.%]+\]|[^\s:/\[\]]+):([0-9]{1,5})", str(target))
    if not match or not 0 < int(match[2]) < 2**16:
        raise InvalidInputError(
            f'target must be "host:port", such as "localhost:8500", without http://. Received {target!r}'
        )
    return target


def checked_texts(texts: Sequence[str]) -> list[str]:
    """`texts` as a list.

    Raises:
        InvalidInputError: a single str or bytes, whose letters would be taken for texts, or no strings.
    """
    if isinstance(texts, str | bytes):
        raise InvalidInputError(f"texts must be a list of str. Received {texts!r:.60}; pass a list: [text]")
    texts = list(texts)
    for text in texts:
        if not isinstance(text, str):
            raise InvalidInputError(
                f"texts must be a list of str. Received {type(text).__name__} {text!r:.60}"
            )
    return texts


def has_dtype(value: object) -> bool:
    """Whether a value says itself what its numbers are."""
    return hasattr(value, "dtype")


def needs_metadata(inputs: Inputs) -> bool:
    """Whether a name or a dtype must come from the served signature: Python's numbers have none."""
    if not isinstance(inputs, Mapping):
        return True
    return any(not has_dtype(value) and not _is_text(value) for value in inputs.values())


def _is_text(value: object) -> bool:
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return isinstance(value, str | bytes)


def as_text(array: np.ndarray) -> np.ndarray:
    """Strings as `str` if all of the tensor is UTF-8, else all of it stays `bytes`."""
    if array.dtype != object:
        return array
    text = np.empty(array.shape, dtype=object)
    try:
        text.reshape(-1)[:] = [item.decode() for item in array.reshape(-1).tolist()]
    except UnicodeDecodeError:
        return array
    return text
