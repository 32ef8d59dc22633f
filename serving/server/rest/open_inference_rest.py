"""The calls of the Open Inference Protocol over REST; its paths are in `routes.py`.

Reference: specification/protocol/inference_rest.md of open-inference/open-inference-protocol.
"""

from typing import Any

from ...errors import InvalidArgumentError, UnimplementedError
from ...wire import messages_pb2 as pb
from ..api.inference_api import InferenceRequest, Sizes
from ..api.open_inference import InferCall, OpenInference, Outputs
from ..api.open_inference_parameters import model_spec_of, request_deadline
from ..batching.graph_runner import GraphRunner
from ..models.servable import Servable
from ..runtime.metrics import Counted
from .errors import not_ready
from .json_in import json_bytes
from .json_out import Answer, dumped
from .open_inference_json import (
    JSON_LENGTH,
    InferHeader,
    decoded_bytes,
    infer_answer,
    infer_header,
    infer_inputs,
    model_answer,
    ready_only,
    server_answer,
)
from .routes import MODEL, MODEL_READY, MODELS, READY, SERVER, OpenInferenceRoute

_MOST_DIGITS = 20


class OpenInferenceRest:
    """Answer the protocol's REST calls.

    Args:
        open_inference: answers them.
        runner: parses large bodies in its threads.

    Example:
        rest = OpenInferenceRest(open_inference, runner)
        answer = rest.describe(route("GET", "/v2"))
    """

    def __init__(self, open_inference: OpenInference, runner: GraphRunner):
        self._open_inference = open_inference
        self._runner = runner

    def describe(self, asked: OpenInferenceRoute) -> Answer:
        """Answer a call about the server or a model.

        Raises:
            HttpError: 400, the server or the model is not ready.
            ServingError: as `OpenInference.model_metadata`.
        """
        if asked.asks == SERVER:
            return server_answer(self._open_inference.server_metadata())
        if asked.asks == MODELS:
            return Answer(dumped({"models": self._open_inference.models()}))
        spec = model_spec_of(asked.name, asked.version)
        if asked.asks == MODEL:
            return model_answer(self._open_inference.model_metadata(spec))
        if asked.asks == READY and not self._open_inference.api.ready():
            raise not_ready()
        if asked.asks == MODEL_READY and not self._open_inference.ready(spec):
            raise not_ready(asked.name)
        if asked.asks == MODEL_READY:
            return Answer(dumped({"name": asked.name, "ready": True}))
        return Answer(dumped({asked.asks: True}))

    async def index(self, body: bytes) -> Answer:
        """Answer a call for the versions of all models and their states.

        Raises:
            InvalidArgumentError: the body is not such a request.
        """
        found = await self._open_inference.index(ready_only(body))
        return Answer(dumped([each._asdict() for each in found]))

    async def infer(
        self, asked: OpenInferenceRoute, scope: dict[str, Any], counted: Counted, body: bytes, deadline: float
    ) -> Answer:
        """Answer a request for inference.

        Args:
            asked: the model.
            scope: of the request: its headers say where the JSON object ends.
            counted: the request, for the metrics.
            body: the JSON object, and binary data.
            deadline: as in `InferenceApi.infer`.

        Raises:
            ServingError: as in `InferenceApi.infer`, or for a body that does not fit.
        """
        end = _json_length(scope, body)
        written, binary = body[:end], memoryview(body)[end:]
        in_json = await self._runner.off_loop(end, json_bytes, written)
        api = self._open_inference.api
        with api.admission.growth(end, in_json):
            header = await self._runner.off_loop(
                max(end, in_json), infer_header, written, len(binary), asked.v1_path
            )
        spec = model_spec_of(asked.name, asked.version, header.parameters)
        sizes = Sizes(len(body), in_json + decoded_bytes(header))
        ends = request_deadline(deadline, header.parameters)
        return await api.infer(_JsonInfer(spec, sizes, header, binary), counted, ends)


class _JsonInfer(InferenceRequest[Outputs, Answer]):
    """A request for inference: its JSON object, read, and the binary data after it."""

    def __init__(self, spec: pb.ModelSpec, sizes: Sizes, header: InferHeader, binary: memoryview):
        super().__init__(spec, sizes)
        self.copies = header.binary
        self._header = header
        self._binary = binary

    def call(self, servable: Servable) -> InferCall:
        inputs = infer_inputs(self._header, self._binary)
        return InferCall(servable, self.spec.signature_name, inputs, [*self._header.outputs])

    def answer(self, response: Outputs) -> Answer:
        return infer_answer(self.spec.name, self._header, response)


def _json_length(scope: dict[str, Any], body: bytes) -> int:
    """Return the bytes of the JSON object in a body."""
    found = dict(scope["headers"]).get(JSON_LENGTH.lower().encode())
    if found is None:
        return len(body)
    length = int(found) if found.isdigit() and len(found) < _MOST_DIGITS else -1
    if not 0 <= length <= len(body):
        raise InvalidArgumentError(
            f"{JSON_LENGTH} must be the bytes of the JSON object, {len(body)} at most. "
            f"Received {found.decode('latin-1')[:40]}"
        )
    if not length:
        raise UnimplementedError(
            f"{JSON_LENGTH} is 0: a raw binary request is an extension of Triton's, which this server does "
            "not support"
        )
    return length
