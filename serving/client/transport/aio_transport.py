"""Calls as coroutines, over a channel of one event loop."""

import asyncio
import inspect
import os
import time
from typing import Any

import grpc
import grpc.aio

from ...errors import UnavailableError
from .addresses import Lookup
from .base import AsyncTransport, Request
from .connection_settings import ConnectionSettings
from .sync_transport import FAILURES, Call, ClosedError, SharedTransport, TransportSettings

# The process that first used asyncio's gRPC. gRPC has one thread for all channels, which survives no fork.
_asyncio_process: int | None = None


class AioTransport(SharedTransport["AsyncChannel"], AsyncTransport):
    """Make calls with gRPC as coroutines.

    Args:
        settings: how calls are made.
    """

    def __init__(self, settings: TransportSettings):
        super().__init__(settings)
        owner = LoopOwner()
        self._channels = [AsyncChannel(each, owner) for each in self._kinds()]

    async def asend(self, request: Request, timeout: float) -> bytes:
        """Return the answer, or the answer to a retry where a retry is allowed and can help."""
        deadline = time.monotonic() + timeout
        place, attempts = self.place(request, None), 0
        while True:
            try:
                return await self._once(request, place, deadline)
            except UnavailableError as error:
                attempts += 1
                pause = self.pause(request, error, place, attempts, deadline)
            await asyncio.sleep(pause)
            place = self.place(request, place)

    async def aclose(self) -> None:
        """End the calls in progress."""
        await asyncio.gather(*(channel.close() for channel in self._channels))

    async def _once(self, request: Request, place: int, deadline: float) -> bytes:
        started = time.monotonic()
        metadata = await self._metadata(request, deadline)
        try:
            call = await self._call(request, place, deadline)
            answer = await call(request.message, **self._options_of(request, metadata, deadline))
        except FAILURES as error:
            self.fail(request, error, started)
        except asyncio.CancelledError:
            # asyncio's CancelledError is for cancelled tasks; a client that was closed raises our own.
            if self._channels[place].closed and not _being_cancelled():
                raise self._error(request, grpc.StatusCode.CANCELLED, "the client was closed") from None
            raise
        self.answered(request, started)
        return answer

    async def _call(self, request: Request, place: int, deadline: float) -> Call:
        channel = self._channels[self._index(place, deadline)]
        return await channel.call(request.method, self.time_left(deadline, request))

    async def _metadata(self, request: Request, deadline: float) -> Any:
        metadata = self.settings.connection.call_metadata()
        if not inspect.isawaitable(metadata):
            return metadata
        limit = asyncio.timeout(self.time_left(deadline, request))
        try:
            async with limit:
                return await metadata
        except TimeoutError:
            if not limit.expired():  # an error of the user's function
                raise
            details = "the metadata of the call was not found in time"
            raise self._error(request, grpc.StatusCode.DEADLINE_EXCEEDED, details) from None


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
