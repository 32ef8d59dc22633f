"""Queues of tasks that wait to be run together, by kind."""

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..models.servable import Servable
from ..runtime.batching_parameters import BatchingParameters
from ..runtime.deadlines import expired
from .batch_sizer import BatchSizer

Arrays = list[np.ndarray]


@dataclass(eq=False)
class QueuedCall:
    """A request's share of a batch."""

    feeds: Mapping[str, np.ndarray]
    rows: int
    deadline: float | None
    arrived: float
    done: "asyncio.Future[Arrays]"

    def waits(self) -> bool:
        """Return True if a caller still waits for the answer."""
        return not self.done.done() and (self.deadline is None or self.deadline > time.monotonic())


class Queue:
    """Tasks of one kind that wait for a run.

    Args:
        servable: the version that runs them.
        fetches: the tensors to fetch.
        parameters: the parameters of batching.
        sizer: counts the rows of all tasks of the servable.
    """

    def __init__(
        self, servable: Servable, fetches: Sequence[str], parameters: BatchingParameters, sizer: BatchSizer
    ):
        self.servable = servable
        self.fetches = fetches
        self.parameters = parameters
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
