"""The share of each training batch that this process feeds, where several processes train one model."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple


class Share(NamedTuple):
    """One of `count` equal parts of each batch, counted from 0."""

    index: int
    count: int

    def size(self, size: int) -> int:
        """Return the number of rows in a batch that all parts can share: a multiple of their number.

        Example:

            >>> Share(0, 4).size(30), Share(0, 4).size(3)
            (28, 4)
        """
        return max(self.count, size - size % self.count)

    def divisible(self, rows: int) -> int:
        """Return how many of the rows of a batch, which may be incomplete, all parts can share."""
        return rows - rows % self.count

    def of(self, batch: Any) -> Any:
        """Return this part of arrays, in tuples of any depth, without the rows that are not `divisible`."""
        if isinstance(batch, tuple):
            return tuple(self.of(each) for each in batch)
        rows = len(batch) // self.count
        return batch[self.index * rows : (self.index + 1) * rows]


WHOLE = Share(0, 1)
_current: ContextVar[Share] = ContextVar("share of each batch", default=WHOLE)


@contextmanager
def feeding(share: Share) -> Iterator[None]:
    """Let the training batches that the block makes yield one share of each."""
    token = _current.set(share)
    try:
        yield
    finally:
        _current.reset(token)


def current_share() -> Share:
    """Return the share that training batches yield: all of each batch, unless in `feeding`."""
    return _current.get()
