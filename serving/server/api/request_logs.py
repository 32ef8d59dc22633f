"""Logs of requests and their responses, as TensorFlow Serving's PredictionLog records.

Requests that come as other messages, or as JSON, are logged as the PredictRequest of the same call.

Reference: tensorflow_serving/core/{server_request_logger,request_logger}.cc and
tensorflow_serving/apis/{prediction_log,logging}.proto.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import Message

from ...wire import codec
from ...wire import messages_pb2 as pb
from ..config import ServerConfig
from ..models import quantized_tensors
from ..models.model_config import LoggingSettings, ModelSettings
from ..models.servable import GraphCall, Servable
from ..runtime.log_writer import Entry, LogWriter
from ..runtime.metrics import Metrics

# A request, and the response as a message or serialized.
_Exchange = tuple[Message, Message | bytes]

# The field of a PredictionLog for an API's requests; of all others, the last.
_FIELDS = {"Classify": "classify_log", "Regress": "regress_log", "MultiInference": "multi_inference_log"}
_PREDICT = "predict_log"


class Logged(NamedTuple):
    """A request that has run.

    Args:
        api: "Predict", "Classify", ...
        spec: the model that it names.
        servable: the version that ran it.
        call: its call.
        arrays: the values of the call's fetches.
        message: the request as TensorFlow Serving's message; None if it came as something else.
        size: the bytes of the request and of its arrays.
    """

    api: str
    spec: pb.ModelSpec
    servable: Servable
    call: GraphCall[Any]
    arrays: Sequence[np.ndarray]
    message: Message | None
    size: int


class RequestLogs:
    """Log requests, by each model's sampling rate. Safe to use from several threads.

    Args:
        config: the tags of the graphs.
        metrics: counts the logged requests.

    Example:
        logs = RequestLogs(config, metrics)
        logs.update(listed_models(model_server_config))
        if logs.samples("half"):
            logs.put(logged, response)
        logs.close()
    """

    def __init__(self, config: ServerConfig, metrics: Metrics):
        self._tags = config.saved_model_tags.split(",")
        self._metrics = metrics
        self._settings: Mapping[str, LoggingSettings] = {}
        self._writer: LogWriter | None = None

    def update(self, models: Mapping[str, ModelSettings]) -> None:
        """Log as the models' settings say, from now on."""
        settings = {name: each.logging for name, each in models.items() if each.logging is not None}
        if settings and self._writer is None:
            self._writer = LogWriter(self._metrics)
        if self._writer is not None:
            self._writer.keep({each.prefix for each in settings.values()})
        self._settings = settings

    def samples(self, model: str) -> bool:
        """Return True if a request to the model is to be logged, at random."""
        settings = self._settings.get(model)
        return settings is not None and random.random() < settings.sampling_rate

    def put(self, logged: Logged, response: object) -> None:
        """Log a request that has its answer.

        Args:
            logged: the request.
            response: what its call made of the arrays.
        """
        settings, writer = self._settings.get(logged.spec.name), self._writer
        if settings is not None and writer is not None:
            record = self._record(settings, logged, response)
            writer.put(Entry(settings.prefix, logged.spec.name, logged.size, record))

    def close(self) -> None:
        """Write what is logged, and let the files appear."""
        self._settings = {}
        if self._writer is not None:
            self._writer.close()

    def _record(self, settings: LoggingSettings, logged: Logged, response: object) -> Callable[[], bytes]:
        """Return a function that makes the record. It holds no servable, which could not be freed."""
        call = logged.call
        spec = pb.ModelSpec(name=logged.spec.name, signature_name=call.signature_name)
        spec.version.value = logged.servable.version
        metadata = pb.LogMetadata(
            model_spec=spec,
            sampling_config=pb.SamplingConfig(sampling_rate=settings.sampling_rate),
            saved_model_tags=self._tags,
            timestamp_secs=int(time.time()),
        )
        if logged.message is not None and isinstance(response, Message | bytes):
            messages: Callable[[], _Exchange] = partial(tuple, (logged.message, response))
        else:
            signature = logged.servable.signatures[call.signature_name]
            feeds, fetched = call.feeds, dict(zip(call.fetches, map(_own, logged.arrays), strict=True))
            messages = partial(_predict_messages, signature, logged.spec, spec, feeds, fetched)
        return partial(_serialized, _FIELDS.get(logged.api, _PREDICT), metadata, messages)


def _own(array: np.ndarray) -> np.ndarray:
    """Return an array, or a copy if it is a part of a batch's, which would stay in memory as a whole."""
    whole = array.base
    return array.copy() if isinstance(whole, np.ndarray) and whole.nbytes > array.nbytes else array


def _serialized(field: str, metadata: pb.LogMetadata, messages: Callable[[], _Exchange]) -> bytes:
    request, response = messages()
    log = pb.SerializedPredictionLog(log_metadata=metadata)
    exchange: pb.SerializedLog = getattr(log, field)
    exchange.request = request.SerializeToString()
    exchange.response = response if isinstance(response, bytes) else response.SerializeToString()
    return log.SerializeToString()


def _predict_messages(
    signature: pb.SignatureDef,
    asked: pb.ModelSpec,
    answering: pb.ModelSpec,
    feeds: Mapping[str, np.ndarray],
    fetched: Mapping[str, np.ndarray],
) -> tuple[pb.PredictRequest, pb.PredictResponse]:
    """Return a call of a signature as the messages of Predict."""
    request = pb.PredictRequest(
        model_spec=asked, inputs=_tensors(signature.inputs, feeds, codec.encode_array)
    )
    request.model_spec.signature_name = answering.signature_name
    outputs = _tensors(signature.outputs, fetched, codec.encode_fields)
    if len(outputs) < len(signature.outputs):
        request.output_filter.extend(outputs)
    return request, pb.PredictResponse(model_spec=answering, outputs=outputs)


def _tensors(
    infos: Mapping[str, pb.TensorInfo],
    arrays: Mapping[str, np.ndarray],
    encode: Callable[[np.ndarray], pb.TensorProto],
) -> dict[str, pb.TensorProto]:
    """Return arrays by their names in a signature, those that it has."""
    return {
        alias: quantized_tensors.encode(arrays[info.name], encode)
        for alias, info in sorted(infos.items())
        if info.name in arrays
    }
