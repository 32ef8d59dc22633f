"""JSON that any parser reads: NaN and infinities, for which JSON has no words, are null."""

import json
import math
from collections.abc import Callable
from typing import Any


def dumps(value: Any, *, default: Callable[[Any], Any] | None = None, **options: Any) -> str:
    """Return a value as JSON, like `json.dumps`, but valid whatever numbers it holds.

    Args:
        value: of JSON types, or of those that `default` takes.
        default: as for `json.dumps`.
        options: as for `json.dumps`.

    Raises:
        TypeError: for a value of another type.

    Example:

        >>> dumps({"score": float("nan"), "values": [1.5, float("-inf")]})
        '{"score": null, "values": [1.5, null]}'
    """
    try:
        return json.dumps(value, default=default, allow_nan=False, **options)
    except ValueError:  # rare, so that other values are not copied
        found = None if default is None else lambda other: finite(default(other))
        return json.dumps(finite(value), default=found, **options)


def finite(value: Any) -> Any:
    """Return a value of JSON types with None in place of NaN and infinities.

    Example:

        >>> finite([1.5, float("inf")])
        [1.5, None]
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, list | tuple) else value
