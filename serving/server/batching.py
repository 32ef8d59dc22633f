"""Batching: requests that arrive while others run are run together.

By default there is no timer. While a run is busy, arriving requests of one kind (a version, the same tensors
of the same shapes) collect for the next: a lone client waits for nobody. Another run starts beside it when so
much waits as each of the threads would have if they shared all rows: few clients have a thread each, of many
each thread takes its part. TensorFlow Serving's parameters, where they are given, mean what they mean there;
a version may bring its own.

Reference: tensorflow_serving/batching/batching_session.cc, whose error texts these are, and
GetPerModelBatchingParams in servables/tensorflow/bundle_factory_util.cc.
"""

import asyncio
import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import (
    InvalidArgumentError,
    ServingError,
    UnavailableError,
)
from .batch_arrays import joined, kind_of, merged, rows_of, split
from .batching_parameters import BatchingParameters
from .call import Call
from .deadlines import by, expired, seconds_left
from .metrics import Metrics
from .servable import Servable
from .shares import Shares

_Arrays = list[np.ndarray]
_Outcome = _Arrays | Exception


@dataclass(eq=False)
class _Task:
    """A request's share of a batch."""

    feeds: Mapping[str, np.ndarray]
    rows: int
    deadline: float | None
    arrived: float
    done: "asyncio.Future[_Arrays]"

    def waits(self) -> bool:
        """Whether somebody still wants the answer."""
        return not self.done.done() and (self.deadline is None or self.deadline > time.monotonic())


class _Queue:
    """Tasks of one kind that wait for a run."""

    def __init__(self, servable: Servable, fetches: Sequence[str], parameters: BatchingParameters):
        self.servable = servable
        self.fetches = fetches
        self.parameters = parameters
        self.tasks: deque[_Task] = deque()
        self.rows = 0
        self.running = 0

    def add(self, task: _Task) -> None:
        self.tasks.append(task)
        self.rows += task.rows

    def take(self, most: int) -> list[_Task]:
        """The tasks that fit into so many rows, in their order; those that nobody waits for are dropped."""
        taken: list[_Task] = []
        rows = 0
        while self.tasks and (not taken or rows + self.tasks[0].rows <= most):
            task = self.tasks.popleft()
            self.rows -= task.rows
            if task.waits():
                taken.append(task)
                rows += task.rows
            elif not task.done.done():
                task.done.set_exception(expired())
        return taken


class Batcher:
    """Collects calls into batches, and runs these. For one event loop.

    Args:
        executor: the threads that runs are made in.
        parameters: how large batches are and how long they wait, unless a servable says so itself; and how
            many run at the same time.
        metrics: what is counted of them.

    Example:
        batcher = Batcher(executor, BatchingParameters(), Metrics())
        arrays = await batcher.run(servable, call, deadline=None)
    """

    def __init__(self, executor: Executor, parameters: BatchingParameters, metrics: Metrics):
        self._executor = executor
        self._parameters = parameters
        self._metrics = metrics
        self._queues: OrderedDict[Hashable, _Queue] = OrderedDict()
        self._busy = 0
        self._shares = Shares(parameters.num_batch_threads)

    async def run(self, servable: Servable, call: Call[Any], deadline: float | None) -> _Arrays:
        """The values of what a call fetches, for its own rows.

        Args:
            servable: what is called.
            call: the call; the first axis of what it feeds and fetches are rows.
            deadline: when nobody waits for the answer any more, of `time.monotonic`; None for no limit.

        Raises:
            InvalidArgumentError: the inputs have no rows, unequal numbers of them, or too many.
            UnavailableError: too many wait already.
            DeadlineExceededError: the deadline has passed.
            ServingError: what the graph ended with.
        """
        rows = rows_of(call.feeds)
        self._metrics.to_batch(rows, len(call.feeds))
        parameters = self._parameters_of(servable)
        if rows > parameters.max_batch_size and not parameters.split:
            raise InvalidArgumentError(
                f"Task size {rows} is larger than maximum input batch size {parameters.max_batch_size}"
            )
        if rows <= parameters.max_execution_batch_size:
            return await self._submit(servable, call.feeds, call.fetches, rows, deadline)
        starts = range(0, rows, parameters.max_execution_batch_size)
        parts = [
            {
                name: array[start : start + parameters.max_execution_batch_size]
                for name, array in call.feeds.items()
            }
            for start in starts
        ]
        answers = await asyncio.gather(
            *(self._submit(servable, part, call.fetches, rows_of(part), deadline) for part in parts)
        )
        return joined(answers)

    async def _submit(
        self,
        servable: Servable,
        feeds: Mapping[str, np.ndarray],
        fetches: Sequence[str],
        rows: int,
        deadline: float | None,
    ) -> _Arrays:
        loop = asyncio.get_running_loop()
        task = _Task(feeds, rows, deadline, time.monotonic(), loop.create_future())
        parameters = self._parameters_of(servable)
        key = (servable, tuple(fetches), kind_of(feeds, parameters.pad))
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue(servable, fetches, parameters)
        if queue.rows and queue.rows + rows > parameters.capacity:
            raise UnavailableError("The batch scheduling queue to which this task was submitted is full")
        queue.add(task)
        self._shares.came(rows)
        self._start_what_can(loop)
        return await by(deadline, task.done)

    def _parameters_of(self, servable: Servable) -> BatchingParameters:
        return servable.batching or self._parameters

    def _start_what_can(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts runs while there are tasks and threads for them."""
        for key, queue in list(self._queues.items()):
            while queue.tasks and self._busy < self._parameters.num_batch_threads:
                if not self._is_due(queue, loop):
                    break
                waiting = queue.rows
                tasks = queue.take(self._most(queue))
                taken = sum(task.rows for task in tasks)
                self._shares.left(waiting - queue.rows - taken)  # that have been dropped
                if tasks:
                    self._launch(queue, tasks, loop)
            if not queue.tasks:
                if not queue.running:
                    del self._queues[key]
            elif self._busy >= self._parameters.num_batch_threads:
                # The next thread that is free serves another kind first.
                self._queues.move_to_end(key)
                return

    def _is_due(self, queue: _Queue, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether tasks may run now, and not with those that will come."""
        parameters = queue.parameters
        shares = parameters.evenly and queue.running and queue.rows < parameters.max_execution_batch_size
        if shares and not self._shares.is_worth_a_run(queue.servable, queue.rows):
            return False
        if not parameters.timeout_seconds or queue.rows >= parameters.max_execution_batch_size:
            return True
        wait = queue.tasks[0].arrived + parameters.timeout_seconds - time.monotonic()
        if wait > 0:
            loop.call_later(wait, self._start_what_can, loop)
        return wait <= 0

    def _most(self, queue: _Queue) -> int:
        """How many rows the next run may take."""
        most = queue.parameters.max_execution_batch_size
        return min(most, self._shares.most(queue.servable)) if queue.parameters.evenly else most

    def _launch(self, queue: _Queue, tasks: list[_Task], loop: asyncio.AbstractEventLoop) -> None:
        self._busy += 1
        queue.running += 1
        rows = sum(task.rows for task in tasks)
        now = time.monotonic()
        self._metrics.queued(now - task.arrived for task in tasks)

        def run() -> None:
            started = time.perf_counter()
            outcomes = self._outcomes(queue, tasks)
            self._shares.took(queue.servable, rows, time.perf_counter() - started)
            with contextlib.suppress(RuntimeError):  # the loop has ended, and so have all who waited
                loop.call_soon_threadsafe(self._settle, queue, tasks, outcomes, loop)

        try:
            self._executor.submit(run)
        except RuntimeError as error:  # it has been shut down
            self._settle(queue, tasks, [error] * len(tasks), loop)

    def _settle(
        self, queue: _Queue, tasks: list[_Task], outcomes: list[_Outcome], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Hands out what a run ended with, and starts the next ones."""
        for task, outcome in zip(tasks, outcomes, strict=True):
            if task.done.done():
                continue
            if isinstance(outcome, Exception):
                task.done.set_exception(outcome)
            else:
                task.done.set_result(outcome)
        self._shares.left(sum(task.rows for task in tasks))
        self._busy -= 1
        queue.running -= 1
        self._start_what_can(loop)

    def _outcomes(self, queue: _Queue, tasks: list[_Task]) -> list[_Outcome]:
        """The values for each task, or what it failed with. Runs in a thread."""
        try:
            return [*self._answers(queue, tasks)]
        except ServingError as error:
            if len(tasks) == 1:
                return [error]
            # One of them may be to blame: each gets its own answer.
            return [self._outcome_alone(queue, task) for task in tasks]
        except Exception as error:  # noqa: BLE001 - whoever waits for the answer must hear of it
            return [error] * len(tasks)

    def _outcome_alone(self, queue: _Queue, task: _Task) -> _Outcome:
        return self._outcomes(queue, [task])[0] if task.waits() else expired()

    def _answers(self, queue: _Queue, tasks: list[_Task]) -> list[_Arrays]:
        """The values for each task, of one run."""
        parameters = queue.parameters
        deadlines = [task.deadline for task in tasks]
        latest = None if None in deadlines else max(each for each in deadlines if each is not None)
        rows = [task.rows for task in tasks]
        size = parameters.padded_size(sum(rows))
        self._metrics.batch(sum(rows), size)
        feeds = merged([task.feeds for task in tasks], parameters)
        return split(queue.servable.run(feeds, queue.fetches, seconds_left(latest)), rows, size)
