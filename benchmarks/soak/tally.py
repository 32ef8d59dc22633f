"""Counts of a soak's clients: answers, their latencies, wrong answers and failures."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

GRPC, REST = "gRPC", "REST"
_SHOWN = 20  # messages of each kind that are kept
# Seconds from the signal until the last client has noticed.
_MOMENT_SECONDS = 5.0
# A dying process still takes connections while its other connections are closed, and gRPC's clients wait a
# second before they try again.
_DYING_SECONDS = 2.0


@dataclass(frozen=True)
class Failure:
    """A request without an answer.

    Args:
        api: GRPC or REST.
        client: which client asked.
        began: the time when it began, of `time.monotonic`.
        ended: the time when it failed.
        lost: True if its connection broke, or could not be made; other failures are no worker's death.
        words: the error message.
        connecting: True if no connection could be made.
    """

    api: str
    client: int
    began: float
    ended: float
    lost: bool
    words: str
    connecting: bool = False


@dataclass
class Kill:
    """A worker that was killed.

    Args:
        at: the time of the kill, of `time.monotonic`.
        pid: its process.
        connections: the number of its connections by API, including those that it had not accepted yet.
        failed: the clients of each API that lost a request because of it.
    """

    at: float
    pid: int
    connections: dict[str, int]
    failed: dict[str, set[int]] = field(default_factory=lambda: {GRPC: set(), REST: set()})

    def explains(self, failure: Failure) -> bool:
        """Return True if this kill may have caused a failure, and count it: soon after, one per connection.

        A client that could not connect while the worker died had no connection to count.
        """
        clients = self.failed[failure.api]
        if failure.connecting:
            return failure.began - _DYING_SECONDS <= self.at <= failure.ended
        if not failure.lost or not failure.began - _MOMENT_SECONDS <= self.at <= failure.ended:
            return False
        if failure.client in clients or len(clients) >= self.connections[failure.api]:
            return False
        clients.add(failure.client)
        return True


@dataclass(frozen=True)
class Window:
    """The answers of some seconds."""

    seconds: float
    latencies: Sequence[float]

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.latencies) / self.seconds

    def milliseconds(self, share: float) -> float:
        """Return the latency that this share of the requests did not exceed; 0 without requests."""
        ordered = sorted(self.latencies)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


class Tally:
    """Count the answers and failures of all clients.

    Attributes:
        answers: the number of right answers, by API.
        wrong: descriptions of wrong answers.
        wrong_count: the number of wrong answers.
    """

    def __init__(self) -> None:
        self.answers = {GRPC: 0, REST: 0}
        self.wrong: list[str] = []
        self.wrong_count = 0
        self._lock = threading.Lock()
        self._failures: list[Failure] = []
        self._latencies: list[float] = []
        self._window_began = time.monotonic()

    def answered(self, api: str, seconds: float) -> None:
        """Count a right answer."""
        with self._lock:
            self.answers[api] += 1
            self._latencies.append(seconds)

    def was_wrong(self, words: str) -> None:
        """Count a wrong answer."""
        with self._lock:
            self.wrong_count += 1
            if len(self.wrong) < _SHOWN:
                self.wrong.append(words)

    def failed(self, failure: Failure) -> None:
        """Count a request without an answer."""
        with self._lock:
            self._failures.append(failure)

    @property
    def failure_count(self) -> int:
        """The number of requests without an answer."""
        return len(self._failures)

    def window(self) -> Window:
        """Return the answers since the last call of this method."""
        with self._lock:
            now = time.monotonic()
            latencies, self._latencies = self._latencies, []
            seconds, self._window_began = now - self._window_began, now
        return Window(seconds, latencies)

    def unexplained(self, kills: Sequence[Kill]) -> list[Failure]:
        """Return the failures that no kill explains; a kill counts the failures that it explains."""
        with self._lock:
            failures = list(self._failures)
        for kill in kills:
            for clients in kill.failed.values():
                clients.clear()
        return [each for each in failures if not any(kill.explains(each) for kill in kills)]
