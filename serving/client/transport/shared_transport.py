"""Shared parts of the two gRPC transports: attempts, options, and the conversion of gRPC's errors.

Both transports have the same steps: `send` makes attempts (`_once`) until one is answered or no other can
help; an attempt takes a channel's `call`, sends the bytes and turns a failure into a ServingError.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import grpc

from ...errors import ClientClosedError, ServingError, UnavailableError
from ..server_ref import ServerRef
from . import connection_settings
from .addresses import Lookup
from .base import Request
from .connection_settings import ConnectionSettings, pairs_of
from .retries import Retries, RoundRobin

log = logging.getLogger("keras_selfattn.serving.client")

Call = Callable[..., Any]


class ClosedError(Exception):
    """A channel was closed, or cannot be used in this process or loop; the message says which."""


FAILURES = (grpc.RpcError, grpc.FutureCancelledError, ClosedError, TimeoutError, ValueError)
"""Exceptions of an attempt that `SharedTransport.fail` turns into ours."""


class Channel(Protocol):
    """A channel of one connection: SyncChannel, AsyncChannel."""

    lookup: Lookup
    closed: bool


_Channel = TypeVar("_Channel", bound=Channel)


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
