"""Calls that block their thread, over a channel that survives a fork; and the base of both gRPC transports.

Both transports have the same steps: `send` makes attempts (`_once`) until one is answered or no other can
help; an attempt takes a channel's `call`, sends the bytes and turns a failure into a ServingError.
`aio_transport` has them as coroutines.
"""

import inspect
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass, replace
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import grpc

from ...errors import ClientClosedError, InvalidInputError, ServingError, UnavailableError
from ..server_ref import ServerRef
from . import connection_settings
from .addresses import Lookup
from .base import PendingAnswer, Request, Transport
from .connection_settings import ConnectionSettings, pairs_of
from .retries import Retries, RoundRobin

log = logging.getLogger("keras_selfattn.serving.client")

Call = Callable[..., Any]


class ClosedError(Exception):
    """A channel was closed, or cannot be used in this process or loop; the message says which."""


FAILURES = (grpc.RpcError, grpc.FutureCancelledError, ClosedError, TimeoutError, ValueError)
"""Exceptions of an attempt that `SharedTransport.fail` turns into ours."""


class AnyChannel(Protocol):
    """A channel of one connection: SyncChannel, AsyncChannel."""

    lookup: Lookup
    closed: bool


_Channel = TypeVar("_Channel", bound=AnyChannel)


@dataclass(frozen=True)
class TransportSettings:
    """Settings of all calls.

    Args:
        server: the server and the model, for messages.
        connection: how to connect.
        wait_for_ready: True makes calls wait for a server that is not there.
    """

    server: ServerRef
    connection: ConnectionSettings
    wait_for_ready: bool


class SharedTransport(Generic[_Channel]):
    """The shared part of `SyncTransport` and `AioTransport`, which wait for calls in different ways.

    Args:
        settings: the settings of all calls.
    """

    _channels: list[_Channel]

    def __init__(self, settings: TransportSettings):
        self.settings = settings
        self.server = settings.server
        self.connections = settings.connection.connections
        self._round_robin = RoundRobin(self.connections)
        self._retries = Retries(self.connections)

    def _kinds(self) -> list[ConnectionSettings]:
        """The settings of all channels: those of the places, and again those for long calls."""
        usual = self.settings.connection
        each_place = range(self.connections)
        return [kind for kind in (usual, replace(usual, for_long_calls=True)) for _ in each_place]

    # The attempts of a call, in their order.

    def place(self, request: Request, failed: int | None) -> int:
        """The number of the connection for an attempt: the request's own, or the next but `failed`."""
        if self.connections == 1:
            return 0
        if failed is None and request.connection is not None:
            return request.connection
        return self._round_robin.pick(failed)

    def _index(self, place: int, deadline: float) -> int:
        """The number of the channel for a call on connection `place`."""
        is_long = deadline - time.monotonic() > connection_settings.LONG_CALL_SECONDS
        return place + self.connections if is_long else place

    def _options_of(self, request: Request, metadata: Any, deadline: float) -> dict[str, Any]:
        """Return the options of a call to gRPC. The metadata comes first: it may have taken time to get."""
        return {
            "metadata": None if metadata == () else pairs_of(metadata) or None,
            "wait_for_ready": request.wait_for_ready or self.settings.wait_for_ready,
            "timeout": self.time_left(deadline, request),
        }

    def pause(
        self, request: Request, error: UnavailableError, place: int, attempts: int, deadline: float
    ) -> float:
        """Seconds until the next attempt of a call, after `attempts` failed ones, the last on `place`.

        Raises:
            UnavailableError: `error`, if there is no other attempt, or it would be too late.
        """
        for channel in self._channels[place :: self.connections]:
            channel.lookup.failed()
        self._round_robin.failed(place)
        return self._retries.pause(request, error, attempts, deadline)

    def answered(self, request: Request, started: float) -> None:
        """Note that an attempt was answered."""
        self._log(request, grpc.StatusCode.OK, started)
        if self.connections > 1:
            self._retries.answered()

    def time_left(self, deadline: float, request: Request) -> float:
        """Seconds until the deadline.

        Raises:
            DeadlineExceededError: it has passed.
        """
        left = deadline - time.monotonic()
        if left <= 0:
            raise self._error(request, grpc.StatusCode.DEADLINE_EXCEEDED, "the time is up")
        return left

    def fail(self, request: Request, error: Exception, started: float) -> NoReturn:
        """Raise our exception for that of an attempt."""
        if isinstance(error, grpc.RpcError):
            raise self._failure(request, error, started) from error
        if isinstance(error, grpc.FutureCancelledError):
            raise self._error(request, grpc.StatusCode.CANCELLED, "the call was cancelled") from None
        if isinstance(error, ClosedError):
            raise self._closed(str(error)) from None
        if isinstance(error, TimeoutError) and not isinstance(error, ServingError):
            details = str(error) or "the servers' names were not found in time"
            raise self._error(request, grpc.StatusCode.DEADLINE_EXCEEDED, details) from None
        if isinstance(error, ValueError) and not isinstance(error, ServingError) and self._channels[0].closed:
            # Another thread closed the channel after the check: grpc then raises a ValueError.
            raise self._closed("is closed; make a new one") from None
        raise error

    def _error(self, request: Request, code: grpc.StatusCode, details: str) -> ServingError:
        return self.server.error(code, details, request.signature, request.rows)

    def _failure(self, request: Request, error: grpc.RpcError, started: float) -> ServingError:
        """The exception for gRPC's `error` of a call."""
        # grpc raises its errors as calls, which have a code and details; RpcError itself does not say so.
        call: Any = error
        code = call.code() or grpc.StatusCode.UNKNOWN
        self._log(request, code, started)
        return self._error(request, code, call.details() or "")

    def _log(self, request: Request, code: grpc.StatusCode, started: float) -> None:
        if log.isEnabledFor(logging.DEBUG):
            milliseconds = (time.monotonic() - started) * 1000
            name = request.method.rpartition("/")[2]
            model, target = self.server.model, self.server.target
            log.debug("%s of %s at %s: %s in %.1f ms", name, model, target, code.name, milliseconds)

    def _closed(self, reason: str) -> ClientClosedError:
        message = f"this client of {self.server.target} {reason}"
        return ClientClosedError(message, target=self.server.target, model=self.server.model)


class SyncTransport(SharedTransport["SyncChannel"], Transport):
    """Make calls with gRPC, from any thread.

    Args:
        settings: how calls are made.
    """

    def __init__(self, settings: TransportSettings):
        super().__init__(settings)
        self._channels = [SyncChannel(each) for each in self._kinds()]

    def send(self, request: Request, timeout: float) -> bytes:
        """Return the answer, or the answer to a retry where a retry is allowed and can help."""
        deadline = time.monotonic() + timeout
        place, attempts = self.place(request, None), 0
        while True:
            try:
                return self._once(request, place, deadline)
            except UnavailableError as error:
                attempts += 1
                pause = self.pause(request, error, place, attempts, deadline)
            time.sleep(pause)
            place = self.place(request, place)

    def begin(self, request: Request, timeout: float) -> PendingAnswer:
        """Begin a call; its answer is there, or its retries are made, while others go on."""
        return PendingCall(self, request, time.monotonic() + timeout)

    def close(self) -> None:
        """End the calls in progress."""
        for channel in self._channels:
            channel.close()

    def _once(self, request: Request, place: int, deadline: float) -> bytes:
        started = time.monotonic()
        metadata = self._metadata()  # here: an error of the user's function is none of the call's
        try:
            # Bytes in and out: `operations` parses them, so an unreadable answer is a separate kind of error.
            call = self._call(request, place, deadline)
            answer = call(request.message, **self._options_of(request, metadata, deadline))
        except FAILURES as error:
            self.fail(request, error, started)
        self.answered(request, started)
        return answer

    def attempt(self, request: Request, place: int, deadline: float) -> Any:
        """Begin an attempt; return gRPC's future of its answer."""
        started = time.monotonic()
        metadata = self._metadata()
        try:
            call: Any = self._call(request, place, deadline)
            return call.future(request.message, **self._options_of(request, metadata, deadline))
        except FAILURES as error:
            self.fail(request, error, started)

    def _call(self, request: Request, place: int, deadline: float) -> Call:
        channel = self._channels[self._index(place, deadline)]
        return channel.call(request.method, self.time_left(deadline, request))

    def _metadata(self) -> Any:
        metadata = self.settings.connection.call_metadata()
        if inspect.isawaitable(metadata):
            if inspect.iscoroutine(metadata):
                metadata.close()
            raise InvalidInputError(
                "metadata from a coroutine function needs AsyncClient; Client takes a function"
            )
        return metadata


class PendingCall:
    """A call in progress, while the process does other work.

    With one connection, the one retry is made when the answer is asked for: gRPC has made the others. With
    several they are made at once, in a thread, as gRPC's own are: several failed calls wait at the same time,
    while other calls continue.

    Args:
        transport: makes the attempts.
        request: the call.
        deadline: time.monotonic() at which it ends.
    """

    def __init__(self, transport: SyncTransport, request: Request, deadline: float):
        self._transport, self._request, self._deadline = transport, request, deadline
        self._cancelled = threading.Event()
        self._place = transport.place(request, None)
        self._started = time.monotonic()
        self._attempt = transport.attempt(request, self._place, deadline)
        self._settled: futures.Future[bytes] | None = None  # with several connections
        if transport.connections > 1:
            self._settled = futures.Future()
            self._attempt.add_done_callback(self._settle_beside)

    def done(self) -> bool:
        """Return True if `result` returns at once, or the first attempt has failed."""
        return self._attempt.done() if self._settled is None else self._settled.done()

    def result(self) -> bytes:
        """Return the answer; call it once.

        Raises:
            ServingError: the call failed; CancelledError after `cancel`.
        """
        return self._answer() if self._settled is None else self._settled.result()

    def cancel(self) -> None:
        """End the current attempt, or the pause before one. No other attempt follows."""
        self._cancelled.set()
        self._attempt.cancel()

    def _answer(self) -> bytes:
        """Return the answer of the first attempt, or of a retry if one can help: the loop of `send`."""
        attempts = 0
        while True:
            try:
                return self._once()
            except UnavailableError as error:
                attempts += 1
                pause = self._transport.pause(self._request, error, self._place, attempts, self._deadline)
            self._cancelled.wait(pause)
            self._place = self._transport.place(self._request, self._place)
            self._begin_another()

    def _once(self) -> bytes:
        try:
            answer = self._attempt.result()
        except FAILURES as error:
            self._transport.fail(self._request, error, self._started)
        self._transport.answered(self._request, self._started)
        return answer

    def _begin_another(self) -> None:
        self._started = time.monotonic()
        if self._cancelled.is_set():
            self._transport.fail(self._request, grpc.FutureCancelledError(), self._started)
        self._attempt = self._transport.attempt(self._request, self._place, self._deadline)
        # `cancel` may have ended the previous attempt meanwhile. It sets the event and then looks for the
        # attempt, so one of the two always sees the other.
        if self._cancelled.is_set():
            self._attempt.cancel()

    def _settle_beside(self, attempt: Any) -> None:
        """Settle the call once the first attempt has ended: in a thread if it failed and may be retried."""
        try:
            if attempt.code() is grpc.StatusCode.UNAVAILABLE:
                threading.Thread(target=self._settle, name="retry", daemon=True).start()
                return
        except Exception as error:  # noqa: BLE001 - no thread is available; raised in the thread that asks
            assert self._settled is not None
            self._settled.set_exception(error)
            return
        self._settle()

    def _settle(self) -> None:
        assert self._settled is not None
        try:
            self._settled.set_result(self._answer())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that asks for the answer
            self._settled.set_exception(error)


class SyncChannel:
    """A channel for any thread of this process and of those forked from it.

    Args:
        connection: how to connect.
    """

    def __init__(self, connection: ConnectionSettings):
        self._connection = connection
        self.closed = False
        self._inherited: list[grpc.Channel | None] = []
        self._begin()

    def call(self, method: str, seconds_left: float) -> Call:
        """Return the function that makes a call, from bytes to bytes.

        Raises:
            ClosedError: after `close`.
            TimeoutError: the names of several servers were not found in time.
            UnavailableError: none of them is known.
        """
        if self._process != os.getpid():
            # Closing or dropping the inherited channel would wait for threads of the parent process.
            self._inherited.append(self._channel)
            self._begin()
        target = self._find(seconds_left) if self.lookup.due or self._channel is None else None
        with self._lock:
            if self.closed:
                raise ClosedError("is closed; make a new one")
            if target is not None and (self._channel is None or target != self._target):
                # Calls in progress keep their channel.
                self._channel, self._target = _sync_channel(self._connection, target), target
                self._calls = {}
            if method not in self._calls:
                assert self._channel is not None  # the lookup has made it
                self._calls[method] = self._channel.unary_unary(method)
            return self._calls[method]

    def close(self) -> None:
        """End the calls in progress. Closing twice is fine."""
        self.closed = True
        if self._process != os.getpid():
            return
        with self._lock:
            if self._channel is not None:
                self._channel.close()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._channel: grpc.Channel | None = None
        self._target = ""
        self._calls: dict[str, Call] = {}
        self.lookup = Lookup(self._connection.targets)

    def _find(self, seconds_left: float) -> str:
        if not self.lookup.takes_time:
            return self.lookup.find()
        found: queue.SimpleQueue[str | Exception] = queue.SimpleQueue()

        def find() -> None:
            try:
                found.put(self.lookup.find())
            except Exception as error:  # noqa: BLE001 - raised in the thread that waits
                found.put(error)

        # The system's lookup has no deadline.
        threading.Thread(target=find, name="lookup", daemon=True).start()
        try:
            answer = found.get(timeout=seconds_left)
        except queue.Empty:
            raise TimeoutError("the servers' names were not found in time") from None
        if isinstance(answer, Exception):
            raise answer
        return answer


def _sync_channel(connection: ConnectionSettings, target: str) -> grpc.Channel:
    options, credentials = connection.options(), connection.channel_credentials()
    if credentials is None:
        channel = grpc.insecure_channel(target, options)
    else:
        channel = grpc.secure_channel(target, credentials, options)
    return grpc.intercept_channel(channel, *connection.interceptors)
