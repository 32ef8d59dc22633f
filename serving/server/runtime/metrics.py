"""The server's counts, under TensorFlow Serving's names, in Prometheus' text format.

Beside them are the requests without an answer, by model: what an autoscaler reads.

The names begin with a colon and counters have no `_total`, a format that client libraries do not write.

Reference: tensorflow_serving/servables/tensorflow/{util,saved_model_warmup_util}.cc,
batching/{batching_session.cc,batching_util.h}, util/prometheus_exporter.cc, and
prometheus.io/docs/instrumenting/exposition_formats.
"""

import bisect
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import grpc

from ...errors import InvalidArgumentError, ServingError
from ..config import ServerConfig
from . import flag_files_pb2
from .text_files import read_text_file

DEFAULT_PATH = "/monitoring/prometheus/metrics"
CONTENT_TYPE = "text/plain"

_PREFIX = ":tensorflow:serving:"
GAUGE = "gauge"
# Gauges that TensorFlow Serving does not have.
WAITING = _PREFIX + "waiting_requests"
OLDEST_AGE = _PREFIX + "oldest_request_age_seconds"
# Microseconds: from 10, each 1.8 times the one before, up to about half an hour.
_LATENCY_BOUNDS = [10 * 1.8**power for power in range(33)]
_COUNT_BOUNDS = [float(2**power) for power in range(15)]
# Microseconds: from 100, each 1.2 times the one before, up to about a second.
_QUEUE_BOUNDS = [100 * 1.2**power for power in range(52)]
_ROW_BOUNDS = [float(2**power) for power in range(14)]
# TensorFlow Serving's sessions do not know the name of their shared threads.
_THREAD_POOL = ""
# TensorFlow Serving keeps every version it ever warmed up; a server that runs for a year should not.
_REMEMBERED_WARMUPS = 100
# Versions of a model, answering or not, whose counts are kept if they are counted by version.
_REMEMBERED_VERSIONS = 10


class _Counter:
    """A number that only grows, for each combination of labels."""

    kind = "counter"

    def __init__(self, name: str, *labels: str):
        self.name = _PREFIX + name
        self._labels = labels
        self._values: dict[tuple[str, ...], int] = {}

    def add(self, amount: int, *labels: str) -> None:
        self._values[labels] = self._values.get(labels, 0) + amount

    def labels(self) -> list[tuple[str, ...]]:
        return list(self._values)

    def forget(self, is_old: Callable[[tuple[str, ...]], bool]) -> None:
        for labels in filter(is_old, self.labels()):
            del self._values[labels]

    def samples(self) -> Iterator[str]:
        for labels, value in self._values.items():
            yield f"{self.name}{_braced(self._labels, labels)} {value}"


class _Histogram:
    """Counts of values below each of some bounds, for each combination of labels."""

    kind = "histogram"

    def __init__(self, name: str, bounds: Sequence[float], *labels: str):
        self.name = _PREFIX + name
        self._labels = labels
        self._bounds = bounds
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def add(self, value: float, *labels: str) -> None:
        counts = self._counts.setdefault(labels, [0] * (len(self._bounds) + 1))
        counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + value

    def labels(self) -> list[tuple[str, ...]]:
        return list(self._counts)

    def forget(self, is_old: Callable[[tuple[str, ...]], bool]) -> None:
        for labels in filter(is_old, self.labels()):
            del self._counts[labels], self._sums[labels]

    def forget_all_but(self, most: int) -> None:
        """Drop the oldest combinations of labels."""
        for labels in list(self._counts)[:-most]:
            del self._counts[labels], self._sums[labels]

    def samples(self) -> Iterator[str]:
        for labels, counts in self._counts.items():
            below = 0
            for bound, count in zip((*self._bounds, float("inf")), counts, strict=True):
                below += count
                limit = "+Inf" if bound == float("inf") else f"{bound:g}"
                named = _braced((*self._labels, "le"), (*labels, limit))
                yield f"{self.name}_bucket{named} {below}"
            yield f"{self.name}_sum{_braced(self._labels, labels)} {self._sums[labels]:.15g}"
            yield f"{self.name}_count{_braced(self._labels, labels)} {below}"


@dataclass
class Counted:
    """A request while it is counted.

    Args:
        model: the requested name; unknown names are not labels, or clients would fill the memory.
        api: "Predict", "Classify", ...
        entrypoint: "GRPC" or "REST".
        version: the version that answers it, once it is known.
        signature: the signature that it calls, once it is known to exist.
    """

    model: str
    api: str
    entrypoint: str
    version: str = ""
    signature: str = ""


class Metrics:
    """The server's counters. Safe to use from several threads.

    Args:
        by_version: True gives requests the labels `version` and `signature_name`, too.

    Example:
        metrics = Metrics()
        with metrics.request("half", "Predict", "GRPC"):
            ...
        print(metrics.text())
    """

    def __init__(self, by_version: bool = False) -> None:
        self._by_version = by_version
        more = ("version", "signature_name") if by_version else ()
        self.pending = PendingRequests()
        """Requests without an answer."""
        self._lock = threading.Lock()
        self._requests = _Counter("request_count", "model_name", "status", *more)
        of_api = ("model_name", "API")
        self._latency = _Histogram("request_latency", _LATENCY_BOUNDS, *of_api, "entrypoint", *more)
        self._runtime = _Histogram("runtime_latency", _LATENCY_BOUNDS, *of_api, "runtime", *more)
        self._examples = _Histogram("request_example_counts", _COUNT_BOUNDS, "model")
        self._example_total = _Counter("request_example_count_total", "model")
        self._warmup = _Histogram("model_warmup_latency", _LATENCY_BOUNDS, "model_path", "status")
        self._logged = _Counter("request_log_count", "model_name", "status_code")
        batching = "batching_session:"
        self._queuing = _Histogram(batching + "queuing_latency", _QUEUE_BOUNDS, "thread_pool_name")
        self._input_size = _Histogram(batching + "input_batch_size", _ROW_BOUNDS)
        self._run_size = _Histogram(batching + "processed_batch_size", _ROW_BOUNDS)
        self._padding = _Histogram(batching + "padding_size", _ROW_BOUNDS, "execution_batch_size")
        self._runs = _Counter(batching + "wrapped_run_count")
        self._metrics: tuple[_Counter | _Histogram, ...] = (
            *(self._requests, self._latency, self._runtime, self._examples, self._example_total),
            *(
                self._warmup,
                self._logged,
                self._queuing,
                self._input_size,
                self._run_size,
                self._padding,
                self._runs,
            ),
        )

    def request(self, model: str, api: str, entrypoint: str) -> AbstractContextManager[Counted]:
        """Count a request, as in `Counted`, and its time; the error that ends the block is its status."""
        return _Request(self, Counted(model, api, entrypoint))

    def _answered(self, counted: Counted, status: grpc.StatusCode, seconds: float) -> None:
        more = self._version_labels(counted)
        with self._lock:
            self._requests.add(1, counted.model, status.name, *more)
            self._latency.add(seconds * 1e6, counted.model, counted.api, counted.entrypoint, *more)

    def ran(self, counted: Counted, seconds: float) -> None:
        """Record the time of a graph's run for a request, including the wait for a thread."""
        with self._lock:
            self._runtime.add(
                seconds * 1e6, counted.model, counted.api, "TF1", *self._version_labels(counted)
            )

    def _version_labels(self, counted: Counted) -> tuple[str, ...]:
        return (counted.version, counted.signature) if self._by_version else ()

    def _forget_versions(self, models: Mapping[str, Sequence[int]]) -> None:
        """Drop the counts of versions that do not answer any more, of each model all but the newest."""
        for metric in (self._requests, self._latency, self._runtime):
            by_model: dict[str, set[int]] = {}
            for model, *_, version, _signature in metric.labels():
                by_model.setdefault(model, set()).update([int(version)] if version else [])
            for model, known in by_model.items():
                kept = {*models.get(model, ()), *sorted(known)[-_REMEMBERED_VERSIONS:]}
                metric.forget(partial(_is_of_other_version, model, kept))

    def examples(self, model: str, count: int) -> None:
        """Record the number of tf.Examples of a request."""
        with self._lock:
            self._examples.add(count, model)
            self._example_total.add(count, model)

    def warmed_up(self, path: Path, status: grpc.StatusCode, seconds: float) -> None:
        """Record the time of a version's warmup requests, and their status."""
        with self._lock:
            self._warmup.add(seconds * 1e6, str(path), status.name)
            self._warmup.forget_all_but(_REMEMBERED_WARMUPS)

    def logged(self, model: str, status: grpc.StatusCode) -> None:
        """Record that a sampled request is in its model's log; any status but OK, that it is not."""
        with self._lock:
            self._logged.add(1, model, status.name)

    def to_batch(self, rows: int, tensors: int) -> None:
        """Record the rows of a batched request; each of its tensors counts."""
        with self._lock:
            for _ in range(tensors):
                self._input_size.add(rows)

    def queued(self, seconds: Iterable[float]) -> None:
        """Record the time that requests waited for a batch."""
        with self._lock:
            for each in seconds:
                self._queuing.add(each * 1e6, _THREAD_POOL)

    def batch(self, rows: int, size: int) -> None:
        """Record the run of a batch.

        Args:
            rows: the rows of its requests.
            size: the rows of the run, including the copies that fill it up.
        """
        with self._lock:
            self._run_size.add(size)
            self._padding.add(size - rows, str(size))
            self._runs.add(1)

    def text(self, models: Mapping[str, Sequence[int]] | None = None) -> str:
        """All metrics, in Prometheus' format.

        Args:
            models: the versions that answer, of each model. Models have gauges even without requests; counts
                of other versions are forgotten, except those of the newest.
        """
        models = models or {}
        with self._lock:
            if self._by_version:
                self._forget_versions(models)
            lines = [
                line
                for metric in self._metrics
                for line in (f"# TYPE {metric.name} {metric.kind}", *metric.samples())
            ]
        for gauge, values in (
            (WAITING, self.pending.waiting(models)),
            (OLDEST_AGE, self.pending.oldest(models)),
        ):
            lines.append(f"# TYPE {gauge} {GAUGE}")
            lines += [f"{gauge}{_braced(('model_name',), (name,))} {value:.15g}" for name, value in values]
        return "\n".join(lines) + "\n"


class _Request:
    """A request while it is counted. A class, because a generator takes three times as long."""

    __slots__ = ("_counted", "_metrics", "_started")

    def __init__(self, metrics: Metrics, counted: Counted):
        self._metrics = metrics
        self._counted = counted
        self._started = 0.0

    def __enter__(self) -> Counted:
        self._started = time.perf_counter()
        return self._counted

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        status = grpc.StatusCode.OK
        if isinstance(error, ServingError):
            status = error.code
        elif error is not None:
            status = grpc.StatusCode.INTERNAL if isinstance(error, Exception) else grpc.StatusCode.CANCELLED
        self._metrics._answered(self._counted, status, time.perf_counter() - self._started)


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


def metrics_path(config: ServerConfig) -> str:
    """The path of the metrics over REST; empty if monitoring_config_file turns them off.

    Raises:
        TextFileError: that file cannot be read.
        InvalidArgumentError: its path is invalid.
    """
    if not str(config.monitoring_config_file):
        return DEFAULT_PATH
    known_as = "tensorflow.serving.MonitoringConfig"
    monitoring = read_text_file(config.monitoring_config_file, flag_files_pb2.MonitoringConfig, known_as)
    prometheus = monitoring.prometheus_config
    if prometheus.path and not prometheus.path.startswith("/"):
        raise InvalidArgumentError(
            f"path of prometheus_config in {config.monitoring_config_file} must begin with a slash. "
            f"Received {prometheus.path!r}"
        )
    return (prometheus.path or DEFAULT_PATH) if prometheus.enable else ""


def _is_of_other_version(model: str, kept: Collection[int], labels: tuple[str, ...]) -> bool:
    """Return True if labels name the model and a version that is not to be kept."""
    return labels[0] == model and bool(labels[-2]) and int(labels[-2]) not in kept


def _braced(names: Sequence[str], values: Sequence[str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{pairs}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
