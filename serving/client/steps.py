"""Steps of an operation, and the loops that run them over a transport: send, send many, wait.

An operation is a generator of steps. The loop sends back the result of each, or throws its ServingError. The
generator returns the operation's result. `SyncRunner` and `AsyncRunner` are the same loops, which wait in
different ways, so that an operation is written once for both clients.
"""

# Not all callers have a type checker.
# pyright: reportUnnecessaryIsInstance=false

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc
import numpy as np

from ..errors import InvalidInputError, ServingError
from .server_ref import ServerRef
from .transport.base import AsyncTransport, PendingAnswer, Request, Transport

_MOST_SECONDS = 365 * 24 * 3600  # a year; gRPC treats a timeout of ten years as already over

_T = TypeVar("_T")
_Transport = TypeVar("_Transport", Transport, AsyncTransport)


@dataclass(frozen=True)
class Many:
    """Calls to make side by side, a few at a time; the list of their answers is sent back, in order.

    Requests are read one by one, when there is room for them.
    """

    requests: Iterator[Request]


@dataclass(frozen=True)
class Pause:
    """Wait this many seconds; None is sent back."""

    seconds: float


Step = Request | Many | Pause
Steps = Generator[Step, Any, _T]


class _Runner(Generic[_Transport]):
    """The limits of both runners.

    Args:
        transport: carries the calls.
        server: the server and the model, for messages.
        timeout: seconds each operation may take unless it says otherwise.
        concurrency: the number of simultaneous calls of one operation.

    Raises:
        InvalidInputError: a number is out of its range.
    """

    def __init__(self, transport: _Transport, server: ServerRef, timeout: float, concurrency: int):
        self.transport = transport
        self._server = server
        self._timeout = seconds("timeout", timeout)
        self._concurrency = at_least_one("concurrency", concurrency)

    def limit(self, timeout: float | None) -> float:
        """Seconds that an operation may take: its own, or the client's."""
        return self._timeout if timeout is None else seconds("timeout", timeout)

    def _time_left(self, deadline: float, request: Request | None = None) -> float:
        """Seconds until the deadline.

        Raises:
            DeadlineExceededError: it has passed.
        """
        left = deadline - time.monotonic()
        if left > 0:
            return left
        signature, rows = ("", None) if request is None else (request.signature, request.rows)
        raise self._server.error(grpc.StatusCode.DEADLINE_EXCEEDED, "the time is up", signature, rows)


class SyncRunner(_Runner[Transport]):
    """Run operations over a Transport, in the thread that asks."""

    def run(self, steps: Steps[_T], timeout: float | None) -> _T:
        """Drive one operation to its result, all of its calls within one deadline."""
        deadline = time.monotonic() + self.limit(timeout)
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._do(step, deadline)
                except ServingError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as finished:
            return finished.value

    def _do(self, step: Step, deadline: float) -> Any:
        if isinstance(step, Many):
            return [answer for _, answer in self.stream(step.requests, lambda: deadline)]
        if isinstance(step, Pause):
            return time.sleep(min(step.seconds, self._time_left(deadline)))
        return self.transport.send(step, self._time_left(deadline, step))

    def stream(
        self, requests: Iterator[Request], deadline: Callable[[], float]
    ) -> Iterator[tuple[Request, bytes]]:
        """Yield each request and its answer, in order, with a few calls in progress.

        Answers are yielded before the next request is read. If reading a request fails, the answers of calls
        in progress are still yielded.
        """
        pending: deque[tuple[Request, PendingAnswer]] = deque()
        failure: Exception | None = None
        try:
            while True:
                while pending and (len(pending) >= self._concurrency or pending[0][1].done()):
                    yield pending[0][0], pending[0][1].result()
                    pending.popleft()
                try:
                    request = next(requests)
                except StopIteration:
                    break
                except Exception as error:  # noqa: BLE001 - whatever a caller's rows raise; raised below
                    failure = error
                    break
                begun = self.transport.begin(request, self._time_left(deadline(), request))
                pending.append((request, begun))
            while pending:
                yield pending[0][0], pending[0][1].result()
                pending.popleft()
            if failure is not None:
                raise failure
        finally:
            for _, call in pending:
                call.cancel()

    def close(self) -> None:
        """End the calls in progress."""
        self.transport.close()


class AsyncRunner(_Runner[AsyncTransport]):
    """Run operations over an AsyncTransport, as coroutines."""

    async def run(self, steps: Steps[_T], timeout: float | None) -> _T:
        """Drive one operation to its result, all of its calls within one deadline."""
        deadline = time.monotonic() + self.limit(timeout)
        try:
            step = next(steps)
            while True:
                try:
                    answer = await self._do(step, deadline)
                except ServingError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as finished:
            return finished.value

    async def _do(self, step: Step, deadline: float) -> Any:
        if isinstance(step, Many):
            return [answer async for _, answer in self.stream(_each(step.requests), lambda: deadline)]
        if isinstance(step, Pause):
            return await asyncio.sleep(min(step.seconds, self._time_left(deadline)))
        return await self.transport.asend(step, self._time_left(deadline, step))

    async def stream(
        self, requests: AsyncIterator[Request], deadline: Callable[[], float]
    ) -> AsyncGenerator[tuple[Request, bytes], None]:
        """Yield each request and its answer, in order, with a few calls in progress; see SyncRunner."""
        pending: deque[tuple[Request, asyncio.Task[bytes]]] = deque()
        failure: Exception | None = None
        try:
            while True:
                while pending and (len(pending) >= self._concurrency or pending[0][1].done()):
                    yield pending[0][0], await pending[0][1]
                    pending.popleft()
                try:
                    request = await anext(requests)
                except StopAsyncIteration:
                    break
                except Exception as error:  # noqa: BLE001 - whatever a caller's rows raise; raised below
                    failure = error
                    break
                begun = self.transport.asend(request, self._time_left(deadline(), request))
                pending.append((request, asyncio.ensure_future(begun)))
            while pending:
                yield pending[0][0], await pending[0][1]
                pending.popleft()
            if failure is not None:
                raise failure
        finally:
            tasks = [task for _, task in pending]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """End the calls in progress."""
        await self.transport.aclose()


async def _each(requests: Iterator[Request]) -> AsyncIterator[Request]:
    for request in requests:
        yield request


def seconds(name: str, value: float) -> float:
    """Check `value` as a time limit in seconds.

    Raises:
        InvalidInputError: it is not a positive finite number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidInputError(f"{name} must be a number of seconds. Received {value!r}")
    if not (math.isfinite(value) and 0 < value <= _MOST_SECONDS):
        raise InvalidInputError(
            f"{name} must be a positive, finite number of seconds, of a year at most, so that no call waits "
            f"for ever. Received {value!r}"
        )
    return float(value)


def at_least_one(name: str, value: int) -> int:
    """Check `value` as a count.

    Raises:
        InvalidInputError: it is not a positive integer.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidInputError(f"{name} must be a positive integer. Received {value!r}")
    return int(value)
