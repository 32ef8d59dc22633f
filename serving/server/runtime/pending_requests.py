"""Requests without an answer, by model: what an autoscaler reads."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager


class PendingRequests:
    """Count the requests of each model that wait, and know since when the oldest one has no answer.

    Safe to use from several threads.

    Example:
        >>> pending = PendingRequests()
        >>> with pending.request("half") as begin:
        ...     list(pending.waiting(["half"])), begin(), list(pending.waiting(["half"]))
        ([('half', 1)], None, [('half', 0)])
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # In the order of arrival; the key is the request's alone.
        self._unanswered: dict[str, dict[object, float]] = {}
        self._waiting: dict[str, set[object]] = {}

    def request(self, model: str) -> AbstractContextManager[Callable[[], None]]:
        """Count a request until the block ends, and as waiting until the function is called that this yields.

        Args:
            model: the name of a model that exists; others would fill the memory.
        """
        return _Pending(self, model)

    def _add(self, request: "_Pending", model: str) -> None:
        with self._lock:
            self._unanswered.setdefault(model, {})[request] = time.monotonic()
            self._waiting.setdefault(model, set()).add(request)

    def _begin(self, request: "_Pending", model: str) -> None:
        with self._lock:
            self._waiting.get(model, set()).discard(request)

    def _remove(self, request: "_Pending", model: str) -> None:
        with self._lock:
            self._waiting[model].discard(request)
            del self._unanswered[model][request]
            if not self._unanswered[model]:
                del self._unanswered[model], self._waiting[model]

    def count(self) -> int:
        """Return the number of requests without an answer, of all models."""
        with self._lock:
            return sum(map(len, self._unanswered.values()))

    def waiting(self, models: Iterable[str]) -> Iterator[tuple[str, int]]:
        """Yield how many requests of each model wait for their run, of other models only if some do."""
        with self._lock:
            found = {name: len(waiting) for name, waiting in self._waiting.items()}
        yield from (dict.fromkeys(models, 0) | found).items()

    def oldest(self, models: Iterable[str]) -> Iterator[tuple[str, float]]:
        """Yield the age in seconds of each model's oldest request without an answer; 0 if there is none."""
        now = time.monotonic()
        with self._lock:
            found = {name: now - next(iter(times.values())) for name, times in self._unanswered.items()}
        yield from (dict.fromkeys(models, 0.0) | found).items()


class _Pending:
    """A request without an answer. A class, because a generator takes three times as long."""

    __slots__ = ("_model", "_requests")

    def __init__(self, requests: PendingRequests, model: str):
        self._requests = requests
        self._model = model

    def __enter__(self) -> Callable[[], None]:
        self._requests._add(self, self._model)
        return self.begin

    def begin(self) -> None:
        self._requests._begin(self, self._model)

    def __exit__(self, *_: object) -> None:
        self._requests._remove(self, self._model)
