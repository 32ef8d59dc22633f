"""Queues of tasks that wait to be run together, by kind, and the choice of the rows of a run.

Few clients get a thread each. A row of a large batch takes half of the time that it takes alone, so with many
clients each thread waits for its share of all rows.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..models.servable import Servable
from ..runtime.batching_parameters import BatchingParameters
from ..runtime.deadlines import expired
from ..runtime.tracing import RequestTrace
from .batch_arrays import Padding

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


Arrays = list[np.ndarray]


def nothing() -> None:
    """Do nothing."""


@dataclass(eq=False)
class QueuedCall:
    """A request's share of a batch, and its trace, if any; `begin` is called when its run begins."""

    feeds: Mapping[str, np.ndarray]
    rows: int
    deadline: float | None
    arrived: float
    done: "asyncio.Future[Arrays]"
    begin: Callable[[], None] = nothing
    trace: RequestTrace | None = None

    def waits(self) -> bool:
        """Return True if a caller still waits for the answer."""
        return not self.done.done() and (self.deadline is None or self.deadline > time.monotonic())


class Queue:
    """Tasks of one kind that wait for a run.

    Args:
        servable: the version that runs them.
        fetches: the tensors to fetch.
        parameters: the parameters of batching.
        padding: of rows of unequal shapes.
        sizer: counts the rows of all tasks of the servable.
    """

    def __init__(
        self,
        servable: Servable,
        fetches: Sequence[str],
        parameters: BatchingParameters,
        padding: Padding,
        sizer: BatchSizer,
    ):
        self.servable = servable
        self.fetches = fetches
        self.parameters = parameters
        self.padding = padding
        self.tasks: deque[QueuedCall] = deque()
        self.rows = 0
        self.running = 0
        self.sizer = sizer
        self.timer: asyncio.TimerHandle | None = None

    def add(self, task: QueuedCall) -> None:
        """Add a task to the queue."""
        self.tasks.append(task)
        self.rows += task.rows
        self.sizer.add_rows(task.rows)

    def most(self) -> int:
        """Return the number of rows that the next run may take."""
        most = self.parameters.max_execution_batch_size
        return min(most, self.sizer.max_rows()) if self.parameters.evenly else most

    def take(self, most: int) -> list[QueuedCall]:
        """Take the first tasks that fit into `most` rows; drop tasks that nobody waits for."""
        taken: list[QueuedCall] = []
        rows = 0
        while self.tasks and (not taken or rows + self.tasks[0].rows <= most):
            task = self.tasks.popleft()
            self.rows -= task.rows
            if task.waits():
                taken.append(task)
                rows += task.rows
                continue
            self.sizer.remove_rows(task.rows)
            if not task.done.done():
                task.done.set_exception(expired())
        return taken


@dataclass(eq=False)
class Run:
    """Tasks that are run together."""

    queue: Queue
    tasks: list[QueuedCall]
    is_settled: bool = False
