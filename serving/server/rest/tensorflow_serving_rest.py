"""The calls of TensorFlow Serving's API over REST; its paths are in `routes.py`.

The body of a `:predict` is read by `json_in.py`. That of a `:classify` or a `:regress`, JSON objects, becomes
tf.Examples here.

Reference: tensorflow_serving/model_servers/http_rest_api_handler.cc; FillClassifyRegressRequestFromJson in
tensorflow_serving/util/json_tensor.cc.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from ...errors import InvalidArgumentError
from ...wire import messages_pb2 as pb
from ...wire.signature_names import DEFAULT_SIGNATURE
from ..api.inference_api import (
    CLASSIFY,
    PREDICT,
    REGRESS,
    ExamplesRequest,
    InferenceApi,
    InferenceRequest,
    Sizes,
)
from ..api.management import Management
from ..api.predict import ArraysCall
from ..batching.graph_runner import GraphRunner
from ..models.servable import Servable
from ..runtime.metrics import Counted
from . import routes
from .json_in import (
    check_protocol,
    document,
    floats,
    invalid,
    json_bytes,
    predict_inputs,
    signature_name,
    text_bytes,
)
from .json_out import (
    Answer,
    classify_outputs,
    metadata_json,
    models_json,
    predict_outputs,
    regress_outputs,
    status_json,
)
from .routes import Route

_INT64_MIN, _INT64_MAX, _UINT64_MAX = -(2**63), 2**63 - 1, 2**64 - 1
_FLOAT = np.dtype("<f4")

INFERENCE = (routes.PREDICT, routes.CLASSIFY, routes.REGRESS)
"""The calls that run a graph."""
API_OF = {
    routes.PREDICT: PREDICT,
    routes.CLASSIFY: CLASSIFY,
    routes.REGRESS: REGRESS,
    routes.MODELS: "GetModelStatus",
    routes.STATUS: "GetModelStatus",
    routes.METADATA: "GetModelMetadata",
}
"""The name of each call in the metrics."""


class TensorFlowServingRest:
    """Answer the API's REST calls.

    Args:
        api: answers them.
        management: reports the states of models.
        runner: parses large bodies in its threads.

    Example:
        rest = TensorFlowServingRest(api, management, runner)
        answer = await rest.describe(route("GET", "/v1/models/half"))
    """

    def __init__(self, api: InferenceApi, management: Management, runner: GraphRunner):
        self._api = api
        self._management = management
        self._runner = runner

    async def describe(self, asked: Route) -> Answer:
        """Answer a call for a model's signatures or state, or the states of all models.

        Raises:
            ServingError: as `Management.status` and `InferenceApi.metadata`.
        """
        if asked.asks == routes.MODELS:
            return Answer(models_json(await self._management.statuses()))
        if asked.asks == routes.STATUS:
            return Answer(status_json(await self._management.status(asked.spec)))
        request = pb.GetModelMetadataRequest(model_spec=asked.spec, metadata_field=["signature_def"])
        return Answer(metadata_json(self._api.metadata(request)))

    async def infer(self, asked: Route, counted: Counted, body: bytes, deadline: float) -> Answer:
        """Answer a `:predict`, `:classify` or `:regress`.

        Args:
            asked: the call, and its model.
            counted: the request, for the metrics.
            body: JSON.
            deadline: as in `InferenceApi.infer`.

        Raises:
            ServingError: as in `InferenceApi.infer`, or for a body that does not fit.
        """
        if asked.asks == routes.PREDICT:
            request = _JsonPredict(asked.spec, await self._sizes(body), body)
            return await self._api.infer(request, counted, deadline)
        sizes = await self._sizes(body, are_examples=True)
        with self._api.admission.growth(*sizes):
            message = await self._runner.off_loop(max(sizes), _examples_request, asked.spec, body)
        kind = _JsonClassify if asked.asks == routes.CLASSIFY else _JsonRegress
        return await self._api.infer(
            kind(counted.api, message, len(body), self._api.check_method), counted, deadline
        )

    async def _sizes(self, body: bytes, are_examples: bool = False) -> Sizes:
        return Sizes(len(body), await self._runner.off_loop(len(body), json_bytes, body, are_examples))


class _JsonPredict(InferenceRequest[bytes, Answer]):
    """The body of a `:predict`."""

    def __init__(self, spec: pb.ModelSpec, sizes: Sizes, body: bytes):
        super().__init__(spec, sizes)
        self._body = body

    def call(self, servable: Servable) -> "_JsonPredictCall":
        infer_path = f"/v2/models/{quote(servable.model)}/infer"
        name, in_rows, inputs = predict_inputs(self._body, servable.signatures, infer_path)
        return _JsonPredictCall(servable, name, inputs, in_rows)

    def answer(self, response: bytes) -> Answer:
        return Answer(response)


class _JsonPredictCall(ArraysCall):
    """The call that the body of a `:predict` asks for; `in_rows` if its inputs came in rows."""

    def __init__(self, servable: Servable, name: str, inputs: Mapping[str, np.ndarray], in_rows: bool):
        super().__init__(servable, name, inputs)
        self._in_rows = in_rows

    def respond(self, arrays: Sequence[np.ndarray]) -> bytes:
        """Return the outputs as JSON, in rows if the inputs came in rows."""
        return predict_outputs(dict(zip(self.aliases, arrays, strict=True)), self._in_rows)


class _JsonClassify(ExamplesRequest[Answer]):
    def answer(self, response: pb.ClassificationResponse) -> Answer:
        return Answer(classify_outputs(response.result))


class _JsonRegress(ExamplesRequest[Answer]):
    def answer(self, response: pb.RegressionResponse) -> Answer:
        return Answer(regress_outputs(response.result))


def _examples_request(spec: pb.ModelSpec, body: bytes) -> pb.SerializedInputRequest:
    name, examples, context = json_examples(body, f"/v2/models/{quote(spec.name)}/infer")
    request = pb.SerializedInputRequest(model_spec=spec)
    request.model_spec.signature_name = name
    serialized = [example.SerializeToString() for example in examples]
    if context is None:
        request.input.example_list.examples.extend(serialized)
    else:
        request.input.example_list_with_context.examples.extend(serialized)
        request.input.example_list_with_context.context = context.SerializeToString()
    return request


class JsonExamples(NamedTuple):
    """The body of a `:classify` or `:regress`: the signature, the rows, and the features they all share."""

    signature_name: str
    examples: list[pb.Example]
    context: pb.Example | None


def json_examples(body: bytes, infer_path: str = "/v2/models/MODEL/infer") -> JsonExamples:
    """Parse the body of a `:classify` or `:regress`.

    Args:
        body: {"examples": [{feature: value or list of values}, ...]}. A "context", in the form of an example,
            and a "signature_name" are optional. Numbers with a fraction or an exponent become a FloatList,
            other numbers and bools an Int64List, strings and {"b64": ...} a BytesList.

        infer_path: of the model in the Open Inference Protocol, for messages.

    Raises:
        InvalidArgumentError: the body is not JSON, or holds something else.

    Example:
        >>> request = json_examples(b'{"examples": [{"stars": [4, 5]}]}')
        >>> request.examples[0].features.feature["stars"].int64_list.value
        [4, 5]
    """
    doc = document(body)
    check_protocol(doc, infer_path, "'examples'")
    name = _unicode(signature_name(doc)) or DEFAULT_SIGNATURE
    context = _example(doc["context"]) if "context" in doc else None
    if "examples" not in doc:
        raise invalid("When method is classify or regress, key 'examples' is expected and was not found")
    examples = doc["examples"]
    if not isinstance(examples, list):
        raise invalid("Expecting 'examples' value to be a list/array")
    if not examples:
        raise invalid("'examples' value is an empty array")
    return JsonExamples(name, [_example(each) for each in examples], context)


def _example(value: object) -> pb.Example:
    if not isinstance(value, dict):
        raise invalid("Example must be a JSON object, of features by name")
    example = pb.Example()
    features = example.features.feature
    for name, content in value.items():
        items: list[Any] = content if isinstance(content, list) else [content]
        _set_values(features[_unicode(name)], name, items)
    return example


def _set_values(feature: pb.Feature, name: str, items: list[Any]) -> None:
    if not items:  # an empty list tells no kind, so the feature stays without one
        return
    types = set(map(type, items))
    if types <= {str, dict}:
        feature.bytes_list.value.extend(text_bytes(items))
    elif types <= {int, bool} and min(items) >= _INT64_MIN and max(items) <= _INT64_MAX:
        feature.int64_list.value.extend(map(int, items))
    elif types <= {int, float} and not (int in types and any(map(_is_integer, items))):
        feature.float_list.value = floats(items, _FLOAT).tobytes()
    else:
        raise invalid(
            f"Unexpected element type in feature: {name}. Its values must all be text, all int64 or bool, "
            "or all numbers with a fraction or an exponent"
        )


def _is_integer(value: float) -> bool:
    """Return True if TensorFlow Serving reads a value as an integer; beyond 64 bits it reads a double."""
    return type(value) is int and _INT64_MIN <= value <= _UINT64_MAX


def _unicode(text: str) -> str:
    """Return a name if it is valid Unicode, which a message requires."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError("a name must be valid Unicode") from None
    return text
