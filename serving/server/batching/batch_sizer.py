"""Choose the rows of a run so that the threads share the work evenly.

Few clients get a thread each. A row of a large batch takes half of the time that it takes alone, so with many
clients each thread waits for its share of all rows.
"""

import math
import time

# A shorter simultaneous run costs more than it gains: all threads wait for Python's interpreter.
_WORTH_SECONDS = 0.0005
# Rows that take this long do not wait for others.
_LONG_SECONDS = 0.05
# Half-life of the largest number of rows. While the rows of some clients run, other clients are between two
# requests, and must still count.
HALF_LIFE_SECONDS = 0.25
# Weight of the newest run in the expected time of a row.
_NEWEST = 0.125


class BatchSizer:
    """Count the rows of a model's version, and decide when they make a run.

    For one event loop, except `record_run`.

    Args:
        threads: the largest number of simultaneous runs.

    Example:
        >>> sizer = BatchSizer(threads=2)
        >>> sizer.add_rows(8)
        >>> sizer.max_rows()
        4
    """

    def __init__(self, threads: int):
        self._threads = threads
        self._rows = 0
        self._most = 0.0
        self._most_at = 0.0
        self._row_seconds = math.inf  # until it is known

    def add_rows(self, rows: int) -> None:
        """Add waiting rows."""
        self._rows += rows
        self._lately()

    def remove_rows(self, rows: int) -> None:
        """Remove rows that have been run, or that nobody waits for any more."""
        self._rows -= rows

    def record_run(self, rows: int, seconds: float) -> None:
        """Record the time of a finished run."""
        if rows:
            each = seconds / rows
            before = each if self._row_seconds == math.inf else self._row_seconds
            self._row_seconds = before + _NEWEST * (each - before)

    def are_worth_a_run(self, waiting: int) -> bool:
        """Return True if the waiting rows are a thread's share, and enough for a simultaneous run."""
        if waiting * self._row_seconds >= _LONG_SECONDS:
            return True
        return waiting >= max(self._lately() // self._threads, self._worth())

    def max_rows(self) -> int:
        """Return the number of rows that a run may take."""
        return max(math.ceil(self._lately() / self._threads), self._worth())

    def _worth(self) -> int:
        """The smallest number of rows for a run."""
        return max(1, math.ceil(_WORTH_SECONDS / self._row_seconds))

    def _lately(self) -> int:
        """The largest recent number of simultaneous rows, which decays over time."""
        now = time.monotonic()
        left = 0.5 ** ((now - self._most_at) / HALF_LIFE_SECONDS)
        self._most, self._most_at = max(self._rows, self._most * left), now
        return round(self._most)
