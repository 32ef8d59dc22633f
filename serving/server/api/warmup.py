"""Warmup requests, run before a version answers: no caller waits for TensorFlow's first run of a graph.

Reference: tensorflow.org/tfx/serving/saved_model_warmup; tensorflow_serving/apis/prediction_log.proto and
servables/tensorflow/saved_model_warmup_util.cc.
"""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
from tensorflow.python.lib.io import _pywrap_record_io
from tensorflow_serving.apis import prediction_log_pb2  # pyright: ignore[reportMissingImports]

from ...errors import InvalidArgumentError, ServingError, UnimplementedError
from ...wire import messages_pb2 as pb
from ..config import ServerConfig
from ..models.servable import GraphCall, Servable
from ..runtime.metrics import Metrics
from .classify import ClassifyCall, MultiInferenceCall, RegressCall
from .predict import PredictCall

_log = logging.getLogger(__name__)

_FILE = Path("assets.extra") / "tf_serving_warmup_requests"
_MOST_RECORDS = 1000
# A graph that does not end is an error after this time; the slowest first runs take a few seconds.
_LONGEST_SECONDS = 600.0


class Warmup:
    """Run the warmup requests of loaded versions; closing a version ends them.

    Args:
        config: switches warmup off, or runs each request several times.
        metrics: counts the total time.
        after: called when a version is warm.

    Example:
        Warmup(config, Metrics())(servable, Path("/models/half/1"))
    """

    def __init__(self, config: ServerConfig, metrics: Metrics, after: Callable[[], None] = lambda: None):
        self._enabled = config.enable_model_warmup
        self._iterations = config.num_request_iterations_for_warmup or 1
        self._metrics = metrics
        self._after = after

    def __call__(self, servable: Servable, path: Path) -> None:
        """Run the warmup requests in a version's folder, if it has any.

        Raises:
            InvalidArgumentError: the file has too many requests.
            UnimplementedError: a request is not for inference.
            ServingError: a request fails, or takes more than ten minutes.
        """
        if self._enabled and (path / _FILE).is_file():
            self._run_all(servable, path)
        self._after()

    def _run_all(self, servable: Servable, path: Path) -> None:
        started = time.monotonic()
        status = grpc.StatusCode.UNKNOWN
        try:
            count = _run_all(servable, path / _FILE, self._iterations)
            status = grpc.StatusCode.OK
        except ServingError as error:
            status = error.code
            raise
        finally:
            seconds = time.monotonic() - started
            self._metrics.warmed_up(path, status, seconds)
        _log.info(
            "version %s of model %s: %d warmup requests took %.1f s",
            servable.version,
            servable.model,
            count,
            seconds,
        )


def _run_all(servable: Servable, file: Path, iterations: int) -> int:
    """Run a file's requests, and return their number.

    They run one after the other: TensorFlow prepares the graphs of a session under one lock.
    """
    calls: list[GraphCall[Any]] = []
    for record in _records(file):
        if len(calls) == _MOST_RECORDS:
            raise InvalidArgumentError(
                f"Number of warmup records exceeds the maximum ({_MOST_RECORDS}) in {_FILE}"
            )
        calls.append(_call(servable, record))
    _log.info(
        "version %s of model %s: running %d warmup requests", servable.version, servable.model, len(calls)
    )
    for call in calls:
        for _ in range(iterations):
            call.respond(servable.run(call.feeds, call.fetches, _LONGEST_SECONDS))
    return len(calls)


def _records(path: Path) -> Iterator[Any]:
    # tf.data would start an eager context, threads and all, for a handful of records.
    iterator: Any = _pywrap_record_io.RecordIterator(str(path), "")
    stock_message: Any = prediction_log_pb2
    for record in iterator:
        yield stock_message.PredictionLog.FromString(record)


def _call(servable: Servable, log: Any) -> GraphCall[Any]:
    kind = log.WhichOneof("log_type")
    request = getattr(log, kind).request.SerializeToString() if kind else b""
    match kind:
        case "predict_log":
            return PredictCall(servable, pb.PredictRequest.FromString(request))
        case "classify_log":
            return ClassifyCall(servable, pb.SerializedInputRequest.FromString(request), False)
        case "regress_log":
            return RegressCall(servable, pb.SerializedInputRequest.FromString(request), False)
        case "multi_inference_log":
            message = pb.SerializedMultiInferenceRequest.FromString(request)
            return MultiInferenceCall(servable, message, False)
        case _:
            raise UnimplementedError(f"Unsupported log_type for warmup: {kind}")
