"""Shared parts of the two transports: limits, options, and the conversion of gRPC's errors."""

# Not all callers have a type checker.
# pyright: reportUnnecessaryIsInstance=false

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import grpc
import numpy as np

from ...errors import ClientClosedError, InvalidInputError, ServingError, UnavailableError
from ..server_ref import ServerRef
from ..steps import Request
from . import connection as connection_settings
from .connection import ConnectionSettings
from .retries import Retries, RoundRobin
from .security import pairs_of
from .targets import Targets

log = logging.getLogger("keras_selfattn.serving.client")

Call = Callable[..., Any]

_MOST_SECONDS = 365 * 24 * 3600  # a year; gRPC treats a timeout of ten years as already over

# Seconds between lookups of the names of several servers while calls fail.
_LOOK_AGAIN_SECONDS = 5.0


class ClosedError(Exception):
    """A channel was closed, or cannot be used in this process or loop; the message says which."""


class Lookup:
    """Addresses of several servers, looked up when a channel is made, and again once calls have failed.

    Args:
        targets: the servers.
    """

    def __init__(self, targets: Targets):
        self._targets = targets
        self._at = 0.0
        self.due = True

    def find(self) -> str:
        """The name by which gRPC finds the servers now."""
        found = self._targets.for_grpc()
        self._at, self.due = time.monotonic(), False
        return found

    @property
    def takes_time(self) -> bool:
        """True if names must be looked up."""
        return self._targets.looked_up

    def failed(self) -> None:
        """Record that a call found no server: the servers may have moved."""
        self.due = self.due or (self.takes_time and time.monotonic() - self._at > _LOOK_AGAIN_SECONDS)


@dataclass(frozen=True)
class TransportSettings:
    """Settings of all calls.

    Args:
        server: the server and the model, for messages.
        connection: how to connect.
        timeout: seconds each operation may take unless it says otherwise.
        concurrency: the number of simultaneous calls of one operation.
        wait_for_ready: True makes calls wait for a server that is not there.

    Raises:
        InvalidInputError: a number is out of its range.
    """

    server: ServerRef
    connection: ConnectionSettings
    timeout: float
    concurrency: int
    wait_for_ready: bool

    def __post_init__(self) -> None:
        seconds("timeout", self.timeout)
        at_least_one("concurrency", self.concurrency)


class Transport:
    """The shared part of `SyncTransport` and `AsyncTransport`, which wait for calls in different ways.

    Args:
        settings: the settings of all calls.
    """

    def __init__(self, settings: TransportSettings):
        self.settings = settings
        self.server = settings.server
        self.connections = settings.connection.connections
        self._round_robin = RoundRobin(self.connections)
        self._retries = Retries(self.connections)

    def limit(self, timeout: float | None) -> float:
        """Seconds that an operation may take: its own, or the client's."""
        return self.settings.timeout if timeout is None else seconds("timeout", timeout)

    def _time_left(self, deadline: float, request: Request | None = None) -> float:
        """Seconds until the deadline.

        Raises:
            DeadlineExceededError: it has passed.
        """
        left = deadline - time.monotonic()
        if left <= 0:
            raise self._error(request, grpc.StatusCode.DEADLINE_EXCEEDED, "the time is up")
        return left

    def _place(self, request: Request) -> int:
        """The number of the connection for a call: its own, or the next."""
        if self.connections == 1:
            return 0
        return self._round_robin.pick() if request.connection is None else request.connection

    def _kinds(self) -> list[ConnectionSettings]:
        """The settings of all channels: those of the places, and again those for long calls."""
        usual = self.settings.connection
        each_place = range(self.connections)
        return [kind for kind in (usual, replace(usual, for_long_calls=True)) for _ in each_place]

    def _index(self, place: int, deadline: float) -> int:
        """The number of the channel for a call on connection `place`."""
        is_long = deadline - time.monotonic() > connection_settings.LONG_CALL_SECONDS
        return place + self.connections if is_long else place

    def _pause(self, request: Request, error: UnavailableError, attempts: int, deadline: float) -> float:
        """Seconds until the next attempt of a failed call.

        Raises:
            UnavailableError: `error`, if there is no other attempt, or it would be too late.
        """
        pause = self._retries.pause(request, error, attempts)
        if pause is None or (pause and pause >= deadline - time.monotonic()):
            raise error
        return pause

    def _options_of(self, request: Request, metadata: Any, deadline: float) -> dict[str, Any]:
        """Return the options of a call to gRPC. The metadata comes first: it may have taken time to get."""
        return {
            "metadata": pairs_of(metadata) or None,
            "wait_for_ready": request.wait_for_ready or self.settings.wait_for_ready,
            "timeout": self._time_left(deadline, request),
        }

    def _error(self, request: Request | None, code: grpc.StatusCode, details: str) -> ServingError:
        signature, rows = ("", None) if request is None else (request.signature, request.rows)
        return self.server.error(code, details, signature, rows)

    def _failure(self, request: Request, error: grpc.RpcError, started: float) -> ServingError:
        """The exception for gRPC's `error` of a call."""
        # grpc raises its errors as calls, which have a code and details; RpcError itself does not say so.
        call: Any = error
        code = call.code() or grpc.StatusCode.UNKNOWN
        self._log(request, code, started)
        failure = self._error(request, code, call.details() or "")
        failure.__cause__ = error
        return failure

    def _log(self, request: Request, code: grpc.StatusCode, started: float) -> None:
        if log.isEnabledFor(logging.DEBUG):
            milliseconds = (time.monotonic() - started) * 1000
            name = request.method.rpartition("/")[2]
            model, target = self.server.model, self.server.target
            log.debug("%s of %s at %s: %s in %.1f ms", name, model, target, code.name, milliseconds)

    def _closed(self, reason: str) -> ClientClosedError:
        message = f"this client of {self.server.target} {reason}"
        return ClientClosedError(message, target=self.server.target, model=self.server.model)


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
