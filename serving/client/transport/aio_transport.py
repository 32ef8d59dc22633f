"""Calls as coroutines, over a channel of one event loop."""

import asyncio
import inspect
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

import grpc
import grpc.aio

from ...errors import ServingError, UnavailableError
from ..steps import Many, Pause, Request, Step, Steps
from .connection import ConnectionSettings
from .shared_transport import Call, ClosedError, Lookup, Transport, TransportSettings

_T = TypeVar("_T")

# The process that first used asyncio's gRPC. gRPC has one thread for all channels, which survives no fork.
_asyncio_process: int | None = None


class AsyncTransport(Transport):
    """Run operations as coroutines.

    Args:
        settings: how calls are made.
    """

    def __init__(self, settings: TransportSettings):
        super().__init__(settings)
        owner = LoopOwner()
        self._channels = [AsyncChannel(each, owner) for each in self._kinds()]

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

    async def stream(
        self, requests: AsyncIterator[Request], deadline: Callable[[], float]
    ) -> AsyncGenerator[tuple[Request, bytes], None]:
        """Yield each request and its answer, in order, with a few calls in progress; see SyncTransport."""
        pending: deque[tuple[Request, asyncio.Task[bytes]]] = deque()
        failure: Exception | None = None
        try:
            while True:
                while pending and (len(pending) >= self.settings.concurrency or pending[0][1].done()):
                    yield pending[0][0], await pending[0][1]
                    pending.popleft()
                try:
                    request = await anext(requests)
                except StopAsyncIteration:
                    break
                except Exception as error:  # noqa: BLE001 - whatever a caller's rows raise; raised below
                    failure = error
                    break
                pending.append((request, asyncio.ensure_future(self._send(request, deadline()))))
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
        await asyncio.gather(*(channel.close() for channel in self._channels))

    async def _do(self, step: Step, deadline: float) -> Any:
        if isinstance(step, Many):
            return [answer async for _, answer in self.stream(_each(step.requests), lambda: deadline)]
        if isinstance(step, Pause):
            return await asyncio.sleep(min(step.seconds, self._time_left(deadline)))
        return await self._send(step, deadline)

    async def _send(self, request: Request, deadline: float) -> bytes:
        """Return the answer, or the answer to a retry where a retry is allowed and can help."""
        place, attempts = self._place(request), 0
        while True:
            try:
                answer = await self._once(request, deadline, place)
            except UnavailableError as error:
                attempts += 1
                for channel in self._channels[place :: self.connections]:
                    channel.lookup.failed()
                self._round_robin.failed(place)
                pause = self._pause(request, error, attempts, deadline)
            else:
                if self.connections > 1:
                    self._retries.answered()
                return answer
            await asyncio.sleep(pause)
            place = self._round_robin.pick(place)

    async def _once(self, request: Request, deadline: float, place: int) -> bytes:
        started = time.monotonic()
        try:
            channel = self._channels[self._index(place, deadline)]
            call = await channel.call(request.method, self._time_left(deadline, request))
            metadata = await self._metadata(request, deadline)
            answer = await call(request.message, **self._options_of(request, metadata, deadline))
        except grpc.RpcError as error:
            raise self._failure(request, error, started) from error
        except ClosedError as error:
            raise self._closed(str(error)) from None
        except TimeoutError as error:
            if isinstance(error, ServingError):
                raise
            details = "the servers' names, or the metadata of the call, were not found in time"
            raise self._error(request, grpc.StatusCode.DEADLINE_EXCEEDED, details) from None
        except asyncio.CancelledError:
            # asyncio's CancelledError is for cancelled tasks; a client that was closed raises our own.
            if self._channels[place].closed and not _being_cancelled():
                raise self._error(request, grpc.StatusCode.CANCELLED, "the client was closed") from None
            raise
        self._log(request, grpc.StatusCode.OK, started)
        return answer

    async def _metadata(self, request: Request, deadline: float) -> Any:
        metadata = self.settings.connection.call_metadata()
        if inspect.isawaitable(metadata):
            return await asyncio.wait_for(metadata, self._time_left(deadline, request))
        return metadata


async def _each(requests: Iterator[Request]) -> AsyncIterator[Request]:
    for request in requests:
        yield request


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class LoopOwner:
    """The event loop of all channels of a client; another loop may follow once it has ended."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def claim(self, loop: asyncio.AbstractEventLoop) -> None:
        """Bind the channels to `loop`.

        Raises:
            ClosedError: another loop has them, or they cannot work in this process.
        """
        global _asyncio_process  # noqa: PLW0603 - so is gRPC's thread
        if self._loop is loop:
            return
        if _asyncio_process not in (None, os.getpid()):
            raise ClosedError(
                "cannot work here: gRPC with asyncio was used before this process was forked from another. "
                "Use it after the fork alone, start the process with 'spawn', or use Client"
            )
        if self._loop is not None and not self._loop.is_closed():
            raise ClosedError("belongs to another event loop, which still runs; make one for this loop")
        _asyncio_process = os.getpid()
        self._loop = loop


class AsyncChannel:
    """A channel for one event loop at a time.

    Args:
        connection: how to connect.
        owner: the loop it belongs to.
    """

    def __init__(self, connection: ConnectionSettings, owner: LoopOwner):
        self._connection = connection
        self._owner = owner
        self.closed = False
        self.lookup = Lookup(connection.targets)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._making: asyncio.Lock | None = None
        self._channel: grpc.aio.Channel | None = None
        self._target = ""
        self._calls: dict[str, Call] = {}

    async def call(self, method: str, seconds_left: float) -> Call:
        """As in SyncChannel, for the running event loop; also ClosedError if another loop has the channel."""
        self._check_closed()
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._begin(loop)
        if self.lookup.due or self._channel is None:
            await asyncio.wait_for(self._make(), seconds_left)
        self._check_closed()
        if method not in self._calls:
            assert self._channel is not None  # the lookup has made it
            self._calls[method] = self._channel.unary_unary(method)
        return self._calls[method]

    async def close(self) -> None:
        """End the calls in progress. Closing twice is fine."""
        self.closed = True
        channel, self._channel = self._channel, None
        if channel is not None and self._loop is asyncio.get_running_loop():
            await channel.close()

    def _check_closed(self) -> None:
        if self.closed:
            raise ClosedError("is closed; make a new one")

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._owner.claim(loop)
        self._loop, self._making, self._channel, self._calls = loop, asyncio.Lock(), None, {}
        self.lookup = Lookup(self._connection.targets)

    async def _make(self) -> None:
        """Create the channel, or a new one if the servers have moved; once for all waiting callers."""
        assert self._making is not None  # _begin has made it
        async with self._making:
            if self.closed or (self._channel is not None and not self.lookup.due):
                return
            find = self.lookup.find
            target = await asyncio.to_thread(find) if self.lookup.takes_time else find()
            if not self.closed and (self._channel is None or target != self._target):
                self._channel, self._target = _async_channel(self._connection, target), target
                self._calls = {}


def _async_channel(connection: ConnectionSettings, target: str) -> grpc.aio.Channel:
    options, interceptors = connection.options(), list(connection.interceptors)
    credentials = connection.channel_credentials()
    if credentials is None:
        return grpc.aio.insecure_channel(target, options, interceptors=interceptors)
    return grpc.aio.secure_channel(target, credentials, options, interceptors=interceptors)
