"""Sizes that may be known only when a graph runs, and the positions they make.

Axes: T (positions).
"""

from typing import Any, cast

from keras import ops

Tensor = Any


def arange(length: Tensor) -> Tensor:
    """Return the positions 0, 1, ... as int32 `[length]`."""
    return ops.arange(length, dtype="int32")


def sizes(tensor: Tensor) -> list[Any]:
    """Return the size of each axis: a number where it is known, else a scalar tensor."""
    return list(cast(Any, ops.shape(tensor)))
