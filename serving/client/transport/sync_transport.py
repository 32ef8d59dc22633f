"""Calls that block their thread, over a channel that survives a fork."""

import functools
import inspect
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import grpc

from ...errors import InvalidInputError, ServingError, UnavailableError
from ..steps import Many, Pause, Request, Step, Steps
from .connection import ConnectionSettings
from .pending_call import Attempt, PendingCall, RetriedPendingCall, Wait
from .shared_transport import Call, ClosedError, Lookup, Transport, TransportSettings

_T = TypeVar("_T")


class SyncTransport(Transport):
    """Run operations from any thread.

    Args:
        settings: how calls are made.
    """

    def __init__(self, settings: TransportSettings):
        super().__init__(settings)
        self._channels = [SyncChannel(each) for each in self._kinds()]

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
        return self._send(step, deadline)

    def stream(
        self, requests: Iterator[Request], deadline: Callable[[], float]
    ) -> Iterator[tuple[Request, bytes]]:
        """Yield each request and its answer, in order, with a few calls in progress.

        Answers are yielded before the next request is read. If reading a request fails, the answers of calls
        in progress are still yielded.
        """
        pending: deque[PendingCall] = deque()
        failure: Exception | None = None
        try:
            while True:
                while pending and (len(pending) >= self.settings.concurrency or pending[0].done()):
                    yield pending[0].request, pending[0].result()
                    pending.popleft()
                try:
                    request = next(requests)
                except StopIteration:
                    break
                except Exception as error:  # noqa: BLE001 - whatever a caller's rows raise; raised below
                    failure = error
                    break
                pending.append(self._begin(request, deadline()))
            while pending:
                yield pending[0].request, pending[0].result()
                pending.popleft()
            if failure is not None:
                raise failure
        finally:
            for each in pending:
                each.cancel()

    def _send(self, request: Request, deadline: float) -> bytes:
        ask = functools.partial(self._ask, request, deadline)
        return self._answer(request, deadline, self._place(request), ask, time.sleep)

    def _begin(self, request: Request, deadline: float) -> PendingCall:
        place = self._place(request)
        begin = functools.partial(self._future, request, deadline)
        answer = functools.partial(self._answer, request, deadline, place)
        kind = PendingCall if self.connections == 1 else RetriedPendingCall
        return self._translated(request, lambda: kind(request, place, begin, answer))

    def _answer(self, request: Request, deadline: float, place: int, attempt: Attempt, wait: Wait) -> bytes:
        """Return the answer of the first attempt, on connection `place`, or of a retry if one can help."""
        attempts = 0
        while True:
            try:
                answer = self._translated(request, functools.partial(attempt, place))
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
            wait(pause)
            place = self._round_robin.pick(place)

    def _ask(self, request: Request, deadline: float, place: int) -> bytes:
        # Bytes in and out: `operations` parses them, so an unreadable answer is a separate kind of error.
        call = self._call(request, deadline, place)
        return call(request.message, **self._options_of(request, self._metadata(), deadline))

    def _future(self, request: Request, deadline: float, place: int) -> Any:
        call: Any = self._call(request, deadline, place)
        return call.future(request.message, **self._options_of(request, self._metadata(), deadline))

    def _metadata(self) -> Any:
        metadata = self.settings.connection.call_metadata()
        if inspect.isawaitable(metadata):
            if inspect.iscoroutine(metadata):
                metadata.close()
            raise InvalidInputError(
                "metadata from a coroutine function needs AsyncClient; Client takes a function"
            )
        return metadata

    def _translated(self, request: Request, make: Callable[[], _T]) -> _T:
        """Return the result of `make`, and turn gRPC's errors into ours."""
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
            # Another thread closed the channel after the check: grpc then raises a ValueError.
            self._call(request, time.monotonic() + 1, 0)
            raise
        self._log(request, grpc.StatusCode.OK, started)
        return answer

    def _call(self, request: Request, deadline: float, place: int) -> Call:
        try:
            channel = self._channels[self._index(place, deadline)]
            return channel.call(request.method, self._time_left(deadline, request))
        except ClosedError as error:
            raise self._closed(str(error)) from None
        except TimeoutError as error:
            if isinstance(error, ServingError):
                raise
            raise self._error(request, grpc.StatusCode.DEADLINE_EXCEEDED, str(error)) from None

    def close(self) -> None:
        """End the calls in progress."""
        for channel in self._channels:
            channel.close()


class SyncChannel:
    """A channel for any thread of this process and of those forked from it.

    Args:
        connection: how to connect.
    """

    def __init__(self, connection: ConnectionSettings):
        self._connection = connection
        self._closed = False
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
            if self._closed:
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
        self._closed = True
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
