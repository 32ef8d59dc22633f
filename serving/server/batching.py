"""Batching: requests that arrive while others run are run together.

By default there is no timer. While a run is busy, arriving requests of one kind (a version, the same tensors
of the same shapes) collect, and the next run takes all that fit: a lone client waits for nobody. TensorFlow
Serving's parameters, where they are given, mean what they mean there.

Reference: tensorflow_serving/batching/batching_session.cc; the error texts are its own.
"""

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    ServingError,
    UnavailableError,
)
from .batching_parameters import BatchingParameters
from .call import Call
from .deadlines import by, expired, seconds_left
from .servable import Servable

_log = logging.getLogger(__name__)

_Arrays = list[np.ndarray]
_RunInThread = Callable[[Callable[[], _Arrays]], "asyncio.Future[_Arrays]"]


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

    def __init__(self, servable: Servable, fetches: Sequence[str]):
        self.servable = servable
        self.fetches = fetches
        self.tasks: deque[_Task] = deque()
        self.rows = 0

    def add(self, task: _Task) -> None:
        self.tasks.append(task)
        self.rows += task.rows

    def take(self, most: int) -> list[_Task]:
        """The tasks that fit into one batch, in their order; those that nobody waits for are dropped."""
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
        run_in_thread: runs a function in a thread.
        parameters: how large batches are and how long they wait.

    Example:
        batcher = Batcher(run_in_thread, BatchingParameters())
        arrays = await batcher.run(servable, call, deadline=None)
    """

    def __init__(self, run_in_thread: _RunInThread, parameters: BatchingParameters):
        self._run_in_thread = run_in_thread
        self._parameters = parameters
        self._queues: OrderedDict[Hashable, _Queue] = OrderedDict()
        self._busy = 0
        self._runs: set[asyncio.Task[None]] = set()

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
        rows = _rows(call.feeds)
        parameters = self._parameters
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
            *(self._submit(servable, part, call.fetches, _rows(part), deadline) for part in parts)
        )
        return [np.concatenate(pieces) for pieces in zip(*answers, strict=True)]

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
        key = (servable, tuple(fetches), _kind(feeds, self._parameters.pad))
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue(servable, fetches)
        if queue.rows and queue.rows + rows > self._parameters.capacity:
            raise UnavailableError("The batch scheduling queue to which this task was submitted is full")
        queue.add(task)
        self._start_what_can(loop)
        return await by(deadline, task.done)

    def _start_what_can(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts runs while there are tasks and threads for them."""
        for key, queue in list(self._queues.items()):
            while queue.tasks and self._busy < self._parameters.num_batch_threads:
                wait = self._still_to_wait(queue)
                if wait > 0:
                    loop.call_later(wait, self._start_what_can, loop)
                    break
                tasks = queue.take(self._parameters.max_execution_batch_size)
                if tasks:
                    self._busy += 1
                    run = loop.create_task(self._run_batch(queue, tasks))
                    self._runs.add(run)
                    run.add_done_callback(self._runs.discard)
            if not queue.tasks:
                del self._queues[key]
            elif self._busy >= self._parameters.num_batch_threads:
                # The next thread that is free serves another kind first.
                self._queues.move_to_end(key)
                return

    def _still_to_wait(self, queue: _Queue) -> float:
        """Seconds until a batch that is not full yet may start."""
        if not self._parameters.timeout_seconds or queue.rows >= self._parameters.max_execution_batch_size:
            return 0.0
        return queue.tasks[0].arrived + self._parameters.timeout_seconds - time.monotonic()

    async def _run_batch(self, queue: _Queue, tasks: list[_Task]) -> None:
        try:
            try:
                answers = await self._answers(queue, tasks)
            except ServingError as error:
                if len(tasks) == 1:
                    _fail(tasks[0], error)
                    return
                # One of them may be to blame: each gets its own answer.
                for task in tasks:
                    await self._run_batch_of_one(queue, task)
                return
            for task, answer in zip(tasks, answers, strict=True):
                if not task.done.done():
                    task.done.set_result(answer)
        except Exception as error:  # noqa: BLE001 - whoever waits for the answer must hear of it
            for task in tasks:
                _fail(task, error)
        finally:
            self._busy -= 1
            self._start_what_can(asyncio.get_running_loop())

    async def _run_batch_of_one(self, queue: _Queue, task: _Task) -> None:
        if not task.waits():
            return
        try:
            (answer,) = await self._answers(queue, [task])
        except ServingError as error:
            _fail(task, error)
        else:
            if not task.done.done():
                task.done.set_result(answer)

    async def _answers(self, queue: _Queue, tasks: list[_Task]) -> list[_Arrays]:
        """The values for each task, of one run."""
        parameters = self._parameters
        deadlines = [task.deadline for task in tasks]
        latest = None if None in deadlines else max(each for each in deadlines if each is not None)

        def run() -> _Arrays:
            feeds = _merged([task.feeds for task in tasks], parameters)
            return queue.servable.run(feeds, queue.fetches, seconds_left(latest))

        arrays = await self._run_in_thread(run)
        return _split(arrays, [task.rows for task in tasks], padded=bool(parameters.allowed_batch_sizes))


def _kind(feeds: Mapping[str, np.ndarray], pad: bool) -> Hashable:
    """What tasks of one batch have in common: tensors, dtypes, and shapes unless these are padded."""
    return tuple(
        (name, feeds[name].dtype.str, feeds[name].ndim if pad else feeds[name].shape[1:])
        for name in sorted(feeds)
    )


def _rows(feeds: Mapping[str, np.ndarray]) -> int:
    if any(array.ndim == 0 for array in feeds.values()):
        raise InvalidArgumentError("Batching Run() input tensors must have at least one dimension")
    rows = {len(array) for array in feeds.values()}
    if len(rows) != 1:
        raise InvalidArgumentError("Batching Run() input tensors must have equal 0th-dimension size")
    return rows.pop()


def _merged(
    many: Sequence[Mapping[str, np.ndarray]], parameters: BatchingParameters
) -> dict[str, np.ndarray]:
    """The rows of all tasks after each other, and copies of the first up to an allowed number of rows."""
    merged: dict[str, np.ndarray] = {}
    for name in many[0]:
        arrays = [feeds[name] for feeds in many]
        if parameters.pad:
            arrays = _padded(arrays)
        rows = sum(map(len, arrays))
        missing = parameters.padded_size(rows) - rows
        if missing:
            arrays.append(np.repeat(arrays[0][:1], missing, axis=0))
        merged[name] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    return merged


def _padded(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Arrays of one shape but for the rows; what is missing repeats each tensor's first element."""
    shape = tuple(max(sizes) for sizes in zip(*(array.shape[1:] for array in arrays), strict=True))
    padded: list[np.ndarray] = []
    for array in arrays:
        if array.shape[1:] == shape or array.size == 0:
            padded.append(array)
            continue
        wider = np.full((len(array), *shape), array.reshape(-1)[0], dtype=array.dtype)
        wider[tuple(slice(size) for size in array.shape)] = array
        padded.append(wider)
    return padded


def _split(arrays: Sequence[np.ndarray], rows: Sequence[int], padded: bool) -> list[_Arrays]:
    """The values of each task."""
    total = sum(rows)
    if len(rows) == 1 and not padded:
        return [list(arrays)]
    for array in arrays:
        if array.ndim == 0 or len(array) < total or (len(array) > total and not padded):
            raise FailedPreconditionError(
                "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of "
                "the input tensors"
            )
    ends = np.cumsum(rows)
    return [
        [array[end - count : end] for array in arrays] for count, end in zip(rows, ends.tolist(), strict=True)
    ]


def _fail(task: _Task, error: Exception) -> None:
    if not task.done.done():
        task.done.set_exception(error)
