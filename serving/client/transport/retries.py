"""When a call is tried again: after which errors, how often, after which pause, on which connection.

Another try follows the code UNAVAILABLE alone: the server is absent, is stopping, or has no room, so another
try can succeed. Who makes it depends on the number of connections, the policy does not:

- One connection: gRPC, on the channel of the first try, by `GRPC_RETRIES`: each call but a reload. It never
  repeats a call whose answer may have begun; `Retries` does so once, if the call changes nothing.
- Several: the transports, each try on another connection (`RoundRobin`), by `Retries`: calls that change
  nothing. Each connection that failed is left out for a second.

gRPC's own cannot do what several connections are for (tried with 1.85): a process that dies fails no call
with its retries either, since the channel connects to another process; but one that stays and answers
UNAVAILABLE, because it has no room or leaves, fails every call on its connection. Nor has one channel several
connections to one address.

No try begins after the call's deadline. A server may set the pause, or refuse another try.

Reference: gRFC A6, github.com/grpc/proposal/blob/master/A6-client-retries.md; the fields are those of
grpc/service_config/service_config.proto.
"""

import itertools
import random
import re
import time
from typing import Any

import grpc

from ...errors import UnavailableError
from .base import GET_MODEL_METADATA, GET_MODEL_STATUS, PREDICT, RELOAD, Request

# The calls that change nothing, so they can be sent again even if they may have arrived.
SAFE_TO_REPEAT = {PREDICT, GET_MODEL_METADATA, GET_MODEL_STATUS}

_MAX_ATTEMPTS = 5
_INITIAL_BACKOFF = 0.1  # seconds
_MAX_BACKOFF = 1  # seconds
_BACKOFF_MULTIPLIER = 2

# All tries (gRPC makes five at most) take about 1.5 s, so nobody waits long for a server that is gone.
POLICY = {
    "maxAttempts": _MAX_ATTEMPTS,
    "initialBackoff": f"{_INITIAL_BACKOFF}s",
    "maxBackoff": f"{_MAX_BACKOFF}s",
    "backoffMultiplier": _BACKOFF_MULTIPLIER,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
# Retries stop while the failed calls exceed half of the successful calls by more than 500. So clients do not
# keep calling a dead server five times each; but when one of three servers dies under load, retries go on.
THROTTLING = {"maxTokens": 1000, "tokenRatio": 0.5}

_SERVICE, _METHOD = RELOAD.strip("/").split("/")
GRPC_RETRIES: dict[str, Any] = {
    "methodConfig": [
        {"name": [{}], "retryPolicy": POLICY},
        # A failed reload may have arrived, and another one may have followed: it is not sent again.
        {"name": [{"service": _SERVICE, "method": _METHOD}]},
    ],
    "retryThrottling": THROTTLING,
}
"""gRPC's own retries, as part of the service config of a channel."""

# gRPC's own jitter of a pause.
_JITTER = 0.2

# gRPC's messages for a connection that ended during a call. gRPC repeats such a call by itself unless the
# answer had begun; only the message shows the difference.
_BROKE_OFF = re.compile(
    r"(?i)stream removed|socket closed|reset by peer|broken pipe|ping timeout|keepalive|rst_stream|goaway"
)


class Retries:
    """Decide whether and when failed calls are tried again, beyond gRPC's own retries.

    Args:
        connections: the client's connections to each target.
    """

    def __init__(self, connections: int):
        self._several = connections > 1
        # No lock, because it would not survive a fork; a count lost between two threads does no harm.
        self._tokens: float = THROTTLING["maxTokens"]

    def pause(self, request: Request, error: UnavailableError, attempts: int, deadline: float) -> float:
        """Seconds until the next attempt, after `attempts` failed ones.

        Raises:
            UnavailableError: `error`, if there is no other attempt, or it would be too late.
        """
        pause = self._pause(request, error, attempts)
        if pause is None or (pause and pause >= deadline - time.monotonic()):
            raise error
        return pause

    def _pause(self, request: Request, error: UnavailableError, attempts: int) -> float | None:
        """Seconds until the next attempt; None for no other attempt."""
        if request.method not in SAFE_TO_REPEAT:
            return None
        if not self._several:
            return 0.0 if attempts == 1 and _BROKE_OFF.search(error.details) else None
        # An unknown server name has no RpcError; a caller that names a connection retries by itself.
        if not isinstance(error.__cause__, grpc.RpcError) or request.connection is not None:
            return None
        self._tokens = max(0.0, self._tokens - 1)
        if attempts >= _MAX_ATTEMPTS or self._tokens <= THROTTLING["maxTokens"] / 2:
            return None
        return _backoff(error.__cause__, attempts)

    def answered(self) -> None:
        """Note that a call was answered, with several connections."""
        if self._tokens < THROTTLING["maxTokens"]:
            self._tokens = min(THROTTLING["maxTokens"], self._tokens + THROTTLING["tokenRatio"])


def _backoff(error: grpc.RpcError, attempts: int) -> float | None:
    """Seconds, set by the server or else by the policy; None if the server refuses another try."""
    call: Any = error  # grpc raises its errors as calls, which have metadata; RpcError does not say so
    for key, value in call.trailing_metadata() or ():
        if key == "grpc-retry-pushback-ms":
            return int(value) / 1000 if str(value).isdecimal() else None
    backoff = min(_INITIAL_BACKOFF * _BACKOFF_MULTIPLIER ** (attempts - 1), _MAX_BACKOFF)
    return backoff * random.uniform(1 - _JITTER, 1 + _JITTER)


# gRPC's longest wait before it connects again.
_LEFT_OUT_SECONDS = 1.0


class RoundRobin:
    """Select the connection of each call, from any thread, without a lock, which would not survive a fork.

    Args:
        connections: their number.

    Example:
        >>> turns = RoundRobin(3)
        >>> [turns.pick() for _ in range(4)]
        [0, 1, 2, 0]
        >>> turns.failed(1)
        >>> [turns.pick() for _ in range(4)]
        [2, 0, 2, 0]
    """

    def __init__(self, connections: int):
        self._connections = connections
        self._turns = itertools.count()
        self._back_at = [0.0] * connections  # time.monotonic() at which a failed connection is used again

    def pick(self, failed: int | None = None) -> int:
        """The number of the next connection, different from the one where the call has just `failed`."""
        now = 0.0
        for _ in self._back_at:
            place = next(self._turns) % self._connections
            if self._back_at[place]:
                now = now or time.monotonic()
            if place != failed and self._back_at[place] <= now:
                return place
        place = next(self._turns) % self._connections  # all have failed: use any
        return place if place != failed else (place + 1) % self._connections

    def failed(self, place: int) -> None:
        """Leave a connection out for a second, as long as another is there."""
        self._back_at[place] = time.monotonic() + _LEFT_OUT_SECONDS
