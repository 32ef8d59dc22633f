"""Calls that are waited for in the thread that makes them, over a channel that survives a fork."""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import grpc

from ..errors import ServingError, UnavailableError
from .connection import Connection
from .steps import Many, Pause, Request, Step, Steps
from .transport import Call, ClosedError, Transport, TransportSettings, broke_off

_T = TypeVar("_T")


class SyncTransport(Transport):
    """Drives operations from any thread.

    Args:
        settings: how calls are made.
    """

    def __init__(self, settings: TransportSettings):
        super().__init__(settings)
        self._channel = SyncChannel(settings.connection)

    def run(self, steps: Steps[_T], timeout: float | None) -> _T:
        """Drives one operation to its result, all of its calls within one deadline."""
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
        return self._send(step, deadline)

    def stream(
        self, requests: Iterator[Request], deadline: Callable[[], float]
    ) -> Iterator[tuple[Request, bytes]]:
        """Each request and its answer, in order, with a few calls under way."""
        pending: deque[tuple[Request, Any, float]] = deque()
        try:
            for request in requests:
                until = deadline()
                pending.append((request, self._begin(request, until), until))
                if len(pending) == self.settings.concurrency:
                    yield pending[0][0], self._finish(*pending.popleft())
            while pending:
                yield pending[0][0], self._finish(*pending.popleft())
        finally:
            for _, future, _ in pending:
                future.cancel()

    def _send(self, request: Request, deadline: float) -> bytes:
        return self._answer(request, deadline, lambda: self._ask(request, deadline))

    def _begin(self, request: Request, deadline: float) -> Any:
        call: Any = self._call(request)
        options = self._options_of(request, self._time_left(deadline, request))
        return self._translated(request, lambda: call.future(request.message, **options))

    def _finish(self, request: Request, future: Any, deadline: float) -> bytes:
        return self._answer(request, deadline, future.result)

    def _answer(self, request: Request, deadline: float, first: Callable[[], bytes]) -> bytes:
        """What `first` returns; what is answered to a second try where the first answer broke off."""
        try:
            return self._translated(request, first)
        except UnavailableError as error:
            if not broke_off(request, error):
                raise
        return self._translated(request, lambda: self._ask(request, deadline))

    def _ask(self, request: Request, deadline: float) -> bytes:
        # Bytes in and out: `core` parses, so that an answer it cannot read is its own kind of error.
        options = self._options_of(request, self._time_left(deadline, request))
        return self._call(request)(request.message, **options)

    def _translated(self, request: Request, make: Callable[[], _T]) -> _T:
        """What `make` returns; what gRPC raises in it as an error of ours."""
        started = time.monotonic()
        try:
            answer = make()
        except grpc.RpcError as error:
            raise self._failure(request, error, started) from error
        except grpc.FutureCancelledError:
            raise self._error(request, grpc.StatusCode.CANCELLED, "the call was cancelled") from None
        except ServingError:
            raise
        except ValueError:
            # Another thread closed the channel after the check: grpc says so with a ValueError.
            self._call(request)
            raise
        self._log(request, grpc.StatusCode.OK, started)
        return answer

    def _call(self, request: Request) -> Call:
        try:
            return self._channel.call(request.method)
        except ClosedError as error:
            raise self._closed(str(error)) from None

    def close(self) -> None:
        """Ends the calls that are under way."""
        self._channel.close()


class SyncChannel:
    """A channel for any thread of this process and of those forked from it.

    Args:
        connection: how to connect.
    """

    def __init__(self, connection: Connection):
        self._connection = connection
        self._closed = False
        self._inherited: list[grpc.Channel | None] = []
        self._begin()

    def call(self, method: str) -> Call:
        """The function that makes a call, from bytes to bytes.

        Raises:
            ClosedError: after `close`.
            UnavailableError: one of several servers' names is not known.
        """
        if self._process != os.getpid():
            # Closing it would wait for threads that are in the other process; so would forgetting it.
            self._inherited.append(self._channel)
            self._begin()
        with self._lock:
            if self._closed:
                raise ClosedError("is closed; make a new one")
            if self._channel is None:
                self._channel = _sync_channel(self._connection)
            if method not in self._calls:
                self._calls[method] = self._channel.unary_unary(method)
            return self._calls[method]

    def close(self) -> None:
        """Ends the calls that are under way. Closing twice is fine."""
        self._closed = True
        if self._process == os.getpid() and self._channel is not None:
            self._channel.close()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._channel: grpc.Channel | None = None
        self._calls: dict[str, Call] = {}


def _sync_channel(connection: Connection) -> grpc.Channel:
    target, options = connection.targets.for_grpc(), connection.options()
    credentials = connection.channel_credentials()
    if credentials is None:
        channel = grpc.insecure_channel(target, options)
    else:
        channel = grpc.secure_channel(target, credentials, options)
    return grpc.intercept_channel(channel, *connection.interceptors)
