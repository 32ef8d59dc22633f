"""Rows of a run, so that the threads share evenly what there is to do.

Few clients get a thread each. Many would, too, if each run took what has just come, but a row of a large
batch takes half of what it takes alone: so each thread waits for its part of all rows.
"""

import math
import time

# Below, a run beside another costs more than it gains: it is Python's interpreter that they all wait for.
_WORTH_SECONDS = 0.0005
# Rows that take as long as this are not made to wait for others.
_LONG_SECONDS = 0.05
# In which the most rows that there were are half forgotten. Of clients that ask again and again many are on
# their way while the others' rows run, and they are not to be taken for fewer clients.
HALF_LIFE_SECONDS = 0.25
# The newest run counts for so much of what a row is expected to take.
_NEWEST = 0.125


class Shares:
    """Counts the rows of one model's version, and says when they make a run.

    For one event loop, but for `took`.

    Args:
        threads: how many runs there may be at the same time.

    Example:
        >>> shares = Shares(threads=2)
        >>> shares.came(8)
        >>> shares.most()
        4
    """

    def __init__(self, threads: int):
        self._threads = threads
        self._rows = 0
        self._most = 0.0
        self._most_at = 0.0
        self._row_seconds = math.inf  # until it is known

    def came(self, rows: int) -> None:
        """So many rows are there to be run."""
        self._rows += rows
        self._lately()

    def left(self, rows: int) -> None:
        """So many have been run, or nobody waits for them any more."""
        self._rows -= rows

    def took(self, rows: int, seconds: float) -> None:
        """Note how long a run took that came to its end."""
        if rows:
            each = seconds / rows
            before = each if self._row_seconds == math.inf else self._row_seconds
            self._row_seconds = before + _NEWEST * (each - before)

    def are_worth_a_run(self, waiting: int) -> bool:
        """Return whether so many waiting rows are a thread's share, and enough for a run beside another."""
        if waiting * self._row_seconds >= _LONG_SECONDS:
            return True
        return waiting >= max(self._lately() // self._threads, self._worth())

    def most(self) -> int:
        """Return the number of rows that a run may take."""
        return max(math.ceil(self._lately() / self._threads), self._worth())

    def _worth(self) -> int:
        """The fewest rows that are worth a run."""
        return max(1, math.ceil(_WORTH_SECONDS / self._row_seconds))

    def _lately(self) -> int:
        """The most rows that there were at a time."""
        now = time.monotonic()
        left = 0.5 ** ((now - self._most_at) / HALF_LIFE_SECONDS)
        self._most, self._most_at = max(self._rows, self._most * left), now
        return round(self._most)
