"""Batching: requests that arrive during a run are run together in the next one.

By default there is no timer. During a run, arriving requests of one kind (one version, the same tensors of
the same shapes) wait for the next run; a lone client never waits. A simultaneous run starts when the waiting
rows reach a thread's equal share of all rows: few clients get a thread each, many clients share the threads.
TensorFlow Serving's parameters mean the same as in TensorFlow Serving; a version can have its own.

A version that writes texts searches until the longest answer of a batch has ended. So its requests share a
batch with requests of about their length only.

Reference: tensorflow_serving/batching/batching_session.cc, whose error texts these are, and
GetPerModelBatchingParams in servables/tensorflow/bundle_factory_util.cc.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from ...errors import (
    InvalidArgumentError,
    ServingError,
    UnavailableError,
)
from ..models.servable import GraphCall, Servable
from ..runtime.batching_parameters import BatchingParameters
from ..runtime.deadlines import expired, seconds_left
from ..runtime.metrics import Metrics
from ..runtime.search_cost import SearchLength
from ..runtime.tracing import RequestTrace, current
from .batch_arrays import joined, kind_of, merged, padding_for, rows_of, split
from .batch_queue import HALF_LIFE_SECONDS, Arrays, BatchSizer, Queue, QueuedCall, Run, nothing

_T = TypeVar("_T")
_Outcome = Arrays | Exception


class Batcher:
    """Collect calls into batches, and run these. For one event loop.

    Args:
        executor: the threads of the runs.
        parameters: the sizes and waits of batches, unless a servable has its own; and the number of
            simultaneous runs.
        metrics: the counters.

    Example:
        batcher = Batcher(executor, BatchingParameters(), Metrics())
        arrays = await batcher.run(servable, call, deadline=None)
    """

    def __init__(self, executor: Executor, parameters: BatchingParameters, metrics: Metrics):
        self._executor = executor
        self._parameters = parameters
        self._metrics = metrics
        self._queues: dict[tuple[Hashable, SearchLength | None], Queue] = {}
        self._busy = 0
        self._sizers: WeakKeyDictionary[Servable, BatchSizer] = WeakKeyDictionary()

    async def run(
        self,
        servable: Servable,
        call: GraphCall[Any],
        deadline: float | None,
        begin: Callable[[], None] = nothing,
    ) -> Arrays:
        """Return the values that a call fetches, for its own rows.

        Args:
            servable: the version to call.
            call: the call; the first axis of its feeds and fetches is rows.
            deadline: a time of `time.monotonic` after which nobody waits for the answer; None for no limit.
            begin: called when its run, or the first of several, begins.

        Raises:
            InvalidArgumentError: the inputs have no rows, unequal numbers of them, or too many.
            UnavailableError: too many rows wait already.
            DeadlineExceededError: the deadline has passed.
            ServingError: the graph failed.
        """
        rows = rows_of(call.feeds)
        self._metrics.to_batch(rows, len(call.feeds))
        parameters = self._parameters_of(servable)
        if rows > parameters.max_batch_size and not parameters.split:
            raise InvalidArgumentError(
                f"Task size {rows} is larger than maximum input batch size {parameters.max_batch_size}"
            )
        if rows > parameters.capacity:
            raise _full()
        if rows <= parameters.max_execution_batch_size:
            return await self._submit(servable, call, call.feeds, rows, deadline, begin)
        starts = range(0, rows, parameters.max_execution_batch_size)
        parts = [
            {
                name: array[start : start + parameters.max_execution_batch_size]
                for name, array in call.feeds.items()
            }
            for start in starts
        ]
        answers = await asyncio.gather(
            *(self._submit(servable, call, part, rows_of(part), deadline, begin) for part in parts)
        )
        return joined(answers)

    async def _submit(
        self,
        servable: Servable,
        call: GraphCall[Any],
        feeds: Mapping[str, np.ndarray],
        rows: int,
        deadline: float | None,
        begin: Callable[[], None],
    ) -> Arrays:
        """Queue some rows of a call, `feeds`, and return their values."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        task = QueuedCall(feeds, rows, deadline, time.monotonic(), done, begin, current.get())
        parameters = self._parameters_of(servable)
        padding = padding_for(servable, call.fetches, parameters)
        kind = (servable, tuple(call.fetches), kind_of(feeds, padding))
        length = SearchLength.of(servable.signatures, call.signature_name, feeds) if servable.search else None
        queue = self._queues.get((kind, length))
        waiting = self._waiting_rows(kind) if length else queue.rows if queue else 0
        if waiting and waiting + rows > parameters.capacity:
            raise _full()
        if queue is None:
            queue = Queue(servable, call.fetches, parameters, padding, self._sizer_of(servable))
            self._queues[kind, length] = queue
        queue.add(task)
        self._start_what_can(loop)
        return await _settled(deadline, task.done)

    def _waiting_rows(self, kind: Hashable) -> int:
        """Return the waiting rows of one kind and all lengths: lengths must not multiply the bound."""
        return sum(queue.rows for (other, _), queue in self._queues.items() if other == kind)

    def _parameters_of(self, servable: Servable) -> BatchingParameters:
        return servable.batching or self._parameters

    def _sizer_of(self, servable: Servable) -> BatchSizer:
        # One for each servable: rows of different models take different times.
        return self._sizers.setdefault(servable, BatchSizer(self._parameters.num_batch_threads))

    def _start_what_can(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start runs while there are tasks and threads for them, longest wait first."""
        if not self._has_thread():
            return
        waiting = [queue for queue in self._queues.values() if queue.tasks]
        for queue in sorted(waiting, key=lambda queue: queue.tasks[0].arrived):
            while queue.tasks and self._has_thread() and self._is_due(queue, loop):
                tasks = queue.take(queue.most())
                if tasks:
                    self._launch(Run(queue, tasks), loop)
        for key, queue in list(self._queues.items()):
            if not queue.tasks and not queue.running:
                del self._queues[key]
                if queue.timer is not None:
                    queue.timer.cancel()

    def _has_thread(self) -> bool:
        return self._busy < self._parameters.num_batch_threads

    def _is_due(self, queue: Queue, loop: asyncio.AbstractEventLoop) -> bool:
        """Return True if tasks may run now, without waiting for later ones."""
        parameters = queue.parameters
        if queue.rows >= parameters.max_execution_batch_size:
            return True
        if parameters.evenly and queue.running and not queue.sizer.are_worth_a_run(queue.rows):
            self._ask_again(queue, HALF_LIFE_SECONDS, loop)
            return False
        if not parameters.timeout_seconds:
            return True
        wait = queue.tasks[0].arrived + parameters.timeout_seconds - time.monotonic()
        if wait > 0:
            self._ask_again(queue, wait, loop)
        return wait <= 0

    def _ask_again(self, queue: Queue, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        """Check later whether a queue's tasks may run."""

        def look() -> None:
            queue.timer = None
            self._start_what_can(loop)

        if queue.timer is None:
            queue.timer = loop.call_later(seconds, look)

    def _launch(self, run: Run, loop: asyncio.AbstractEventLoop) -> None:
        self._busy += 1
        run.queue.running += 1
        now = time.monotonic()
        self._metrics.queued(now - task.arrived for task in run.tasks)

        def work() -> None:
            for task in run.tasks:
                task.begin()
            outcomes = self._outcomes(run.queue, run.tasks)
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it all callers
                loop.call_soon_threadsafe(self._settle, run, outcomes, loop)

        try:
            self._executor.submit(work)
        except RuntimeError as error:  # the executor is shut down or gets no thread; the task may still run
            loop.call_soon(self._settle, run, _failed(run.tasks, error), loop)

    def _settle(self, run: Run, outcomes: list[_Outcome], loop: asyncio.AbstractEventLoop) -> None:
        """Distribute the result of a run, and start the next ones."""
        if run.is_settled:
            return
        run.is_settled = True
        self._busy -= 1
        run.queue.running -= 1
        run.queue.sizer.remove_rows(sum(task.rows for task in run.tasks))
        for task, outcome in zip(run.tasks, outcomes, strict=True):
            if task.done.done():
                continue
            if isinstance(outcome, Exception):
                task.done.set_exception(outcome)
            else:
                task.done.set_result(outcome)
        self._start_what_can(loop)

    def _outcomes(self, queue: Queue, tasks: list[QueuedCall]) -> list[_Outcome]:
        """Return the values or the error of each task. Runs in a thread."""
        try:
            return [*self._answers(queue, tasks)]
        except ServingError as error:
            if len(tasks) == 1:
                return _failed(tasks, error)
            # One task may be the cause, so each task is run alone.
            return [self._outcome_alone(queue, task) for task in tasks]
        except BaseException as error:  # noqa: BLE001 - whoever waits for the answer must hear of it
            return _failed(tasks, error)

    def _outcome_alone(self, queue: Queue, task: QueuedCall) -> _Outcome:
        return self._outcomes(queue, [task])[0] if task.waits() else expired()

    def _answers(self, queue: Queue, tasks: list[QueuedCall]) -> list[Arrays]:
        """Return the values of each task from one run."""
        parameters = queue.parameters
        deadlines = [task.deadline for task in tasks]
        latest = None if None in deadlines else max(each for each in deadlines if each is not None)
        rows = [task.rows for task in tasks]
        size = parameters.padded_size(sum(rows))
        self._metrics.batch(sum(rows), size)
        feeds = merged([task.feeds for task in tasks], parameters, queue.padding)
        started = time.perf_counter()
        with _traced(queue.servable, tasks, sum(rows), size):
            arrays = queue.servable.run(feeds, queue.fetches, seconds_left(latest))
        queue.sizer.record_run(sum(rows), time.perf_counter() - started)
        answers = split(arrays, rows, size)
        return [
            queue.padding.cut(task.feeds, dict(zip(queue.fetches, answer, strict=True)))
            for task, answer in zip(tasks, answers, strict=True)
        ]


async def _settled(deadline: float | None, future: "asyncio.Future[_T]") -> _T:
    """Return the result of a future, which fails at the deadline if it has none by then.

    Raises:
        DeadlineExceededError: the deadline came first.
    """
    if deadline is None or future.done():
        return await future
    timer = asyncio.get_running_loop().call_later(deadline - time.monotonic(), _expire, future)
    try:
        return await future
    finally:
        timer.cancel()


def _expire(future: "asyncio.Future[Any]") -> None:
    if not future.done():
        future.set_exception(expired())


def _traced(
    servable: Servable, tasks: Sequence[QueuedCall], rows: int, size: int
) -> AbstractContextManager[None]:
    """Trace a run if one of its requests is traced."""
    traces = [task.trace for task in tasks if task.trace is not None]
    if not traces:
        return contextlib.nullcontext()
    return RequestTrace.batch(traces, servable.model, servable.version, rows, size)


def _full() -> UnavailableError:
    return UnavailableError("The batch scheduling queue to which this task was submitted is full")


def _failed(tasks: Sequence[QueuedCall], error: BaseException) -> list[_Outcome]:
    """The error, for each task of the failed run. Futures do not take StopIteration, nor an exit."""
    if isinstance(error, StopIteration) or not isinstance(error, Exception):
        error = RuntimeError(f"a run ended with {error!r}")
    return [error for _ in tasks]
