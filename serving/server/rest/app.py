"""The REST API as an ASGI application: HTTP requests become calls, errors become HTTP statuses.

A request is routed, let in, its body received within limits of time and size, and answered.

Reference: tensorflow_serving/model_servers/{http_rest_api_handler,http_server}.cc; asgi.readthedocs.io, "HTTP
request"; RFC 9110, 8.4.1 (codings) and 12.5.3 (Accept-Encoding).
"""

import asyncio
import logging
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn
from urllib.parse import quote

import numpy as np

from ...errors import (
    HTTP_STATUS,
    CancelledError,
    InvalidArgumentError,
    ResourceExhaustedError,
    ServingError,
    UnavailableError,
)
from ...wire import messages_pb2 as pb
from ..api.inference_api import (
    CLASSIFY,
    MODEL_INFER,
    PREDICT,
    REGRESS,
    ExamplesRequest,
    InferenceApi,
    InferenceRequest,
    Sizes,
)
from ..api.management import Management
from ..api.open_inference import OpenInference
from ..api.predict import ArraysCall
from ..batching.graph_runner import GraphRunner
from ..config import ServerConfig
from ..models.servable import Servable
from ..runtime.bearer_tokens import BearerTokens
from ..runtime.metrics import CONTENT_TYPE, Counted
from . import open_inference_rest, routes
from .answer import Answer, HttpError
from .json_examples import examples_request
from .json_in import json_bytes, predict_inputs
from .json_out import (
    classify_outputs,
    error_body,
    metadata_json,
    models_json,
    predict_outputs,
    regress_outputs,
    status_json,
)
from .open_inference_json import JSON_LENGTH
from .open_inference_rest import OpenInferenceRest
from .page_routes import PageRoutes

_log = logging.getLogger(__name__)

_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST, GET",
    "Access-Control-Allow-Headers": f"Content-Type, Authorization, {JSON_LENGTH}",
    "Access-Control-Expose-Headers": JSON_LENGTH,
}
_API_OF = {
    routes.PREDICT: PREDICT,
    routes.CLASSIFY: CLASSIFY,
    routes.REGRESS: REGRESS,
    routes.MODELS: "GetModelStatus",
    routes.STATUS: "GetModelStatus",
    routes.METADATA: "GetModelMetadata",
}
_NO_TOKEN = 401
_BUSY = (429, 503)
_TOO_SLOW = 408  # the connection is closed: the rest of the body would be as slow
_TOO_LARGE = 413
_UNREAD_ENCODING = 415
_MOST_TEXT = 4096  # characters of an error; some repeat what was sent
# Health checks need no token.
_OPEN = ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready")
_REFUSAL_SECONDS = 0.025
_RETRY_SECONDS = "1"  # the shortest pause that HTTP can name

_READ_ENCODINGS = "gzip, deflate"
_MOST_SHOWN = 100  # characters of a header
_MOST_MEMBERS = 10_000  # each takes time, however small
_GZIP = 16 + zlib.MAX_WBITS
# Each Content-Encoding: the format that zlib expects.
_ENCODINGS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}

Receive = Callable[[], Awaitable[dict[str, Any]]]
_Send = Callable[[dict[str, Any]], Awaitable[None]]


class RestApi:
    """The REST APIs of TensorFlow Serving and of the Open Inference Protocol.

    Args:
        api: answers TensorFlow Serving's calls.
        open_inference: answers the Open Inference Protocol's.
        runner: parses large bodies in its threads.
        management: reports the states of models, and the metrics of all workers.
        metrics_path: the path of the metrics; empty for none.
        config: the limits, and whether pages of other origins may call the API.
        tokens: the accepted tokens; None turns authentication off.
        page: answers for the page; None for no page.

    Example:
        uvicorn.run(RestApi(api, open_inference, runner, management, DEFAULT_PATH, config))
    """

    def __init__(
        self,
        api: InferenceApi,
        open_inference: OpenInference,
        runner: GraphRunner,
        management: Management,
        metrics_path: str,
        config: ServerConfig,
        tokens: BearerTokens | None = None,
        page: PageRoutes | None = None,
    ):
        self._tokens = tokens
        self._page = page
        self._api = api
        self._admission = api.admission
        self._open_inference = OpenInferenceRest(open_inference, runner)
        self._runner = runner
        self._management = management
        self._metrics_path = metrics_path
        self._seconds = config.rest_api_timeout_in_ms / 1000
        self._most_bytes = config.rest_api_max_body_bytes
        self._headers = _CORS if config.rest_api_enable_cors_support else {}

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: _Send) -> None:
        """Answer one request."""
        self._admission.begin()
        try:
            answer = await self._answer(scope, receive)
            headers = {
                "Content-Type": answer.content_type,
                "Content-Length": str(len(answer.body)),
                **answer.headers,
                **self._headers,
            }
            if answer.status == _TOO_SLOW:
                headers["Connection"] = "close"
            if answer.status == _NO_TOKEN:
                headers["WWW-Authenticate"] = "Bearer"
            if answer.status in _BUSY:
                headers["Retry-After"] = _RETRY_SECONDS
            if answer.status == _UNREAD_ENCODING:
                headers["Accept-Encoding"] = _READ_ENCODINGS
            encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
            await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
            body = b"" if scope["method"] == "HEAD" else answer.body
            await send({"type": "http.response.body", "body": body})
        finally:
            self._admission.end()

    async def _answer(self, scope: dict[str, Any], receive: Receive) -> Answer:
        try:
            self._admission.check_open()
            return await self._routed(scope, receive)
        except ServingError as error:
            status = error.status if isinstance(error, HttpError) else HTTP_STATUS[error.code]
            return Answer(error_body(error.details[:_MOST_TEXT]), status)
        except Exception:  # noqa: BLE001 - the client gets a status, the log the traceback
            _log.exception("a request failed")
            return Answer(error_body("internal error; the server's log has the cause"), 500)

    async def _routed(self, scope: dict[str, Any], receive: Receive) -> Answer:
        path = routes.sent_path(scope)
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        if method == "OPTIONS" and self._headers:
            return _preflight(scope)
        if self._page is not None and path not in _OPEN:
            self._page.check(method, scope["headers"])
        if self._tokens is not None and not self._is_open(path):
            self._tokens.check([value for name, value in scope["headers"] if name == b"authorization"])
        if self._page is not None and (found := await self._page.answer(method, path, scope["headers"])):
            return found
        if method == "GET" and (found := await self._monitored(path)):
            return found
        if not routes.is_api(path):
            if open_inference_rest.is_api(path):
                return await self._answer_open_inference(method, path, scope, receive)
            raise HttpError(404, f"there is nothing at {path}; the APIs begin with /v1/models and /v2/models")
        asks, spec = routes.route(method, path)
        if asks in (routes.PREDICT, routes.CLASSIFY, routes.REGRESS):
            infer = self._predict if asks == routes.PREDICT else self._examples
            return await self._infer(_API_OF[asks], spec, scope, receive, partial(infer, spec))
        with self._api.counted(spec, _API_OF[asks], "REST"):
            return Answer(await self._tell(asks, spec))

    async def _answer_open_inference(
        self, method: str, path: str, scope: dict[str, Any], receive: Receive
    ) -> Answer:
        asked = open_inference_rest.route(method, path)
        if asked.asks == open_inference_rest.INDEX:
            return await self._open_inference.index(await self._body(scope, receive))
        if asked.asks != open_inference_rest.INFER:
            return self._open_inference.describe(asked)
        infer = partial(self._open_inference.infer, asked, scope)
        return await self._infer(MODEL_INFER, pb.ModelSpec(name=asked.name), scope, receive, infer)

    def _is_open(self, path: str) -> bool:
        """Return True for a path that needs no token."""
        if self._page is not None and self._page.is_file(path):
            return True
        return path in _OPEN and path != self._metrics_path

    async def _monitored(self, path: str) -> Answer | None:
        """Return the metrics or the state of the server, for those who watch it; None for another path."""
        if path == self._metrics_path:
            return Answer((await self._management.metrics()).encode(), content_type=CONTENT_TYPE)
        if path == "/healthz":
            return Answer(b'{"status": "alive"}')
        if path == "/readyz":
            if not self._api.ready():
                raise UnavailableError("no model has a version to answer")
            return Answer(b'{"status": "ready"}')
        return None

    async def _tell(self, asks: str, spec: pb.ModelSpec) -> bytes:
        """Return a model's signatures or state, or the states of all models, as JSON."""
        if asks == routes.MODELS:
            return models_json(await self._management.statuses())
        if asks == routes.STATUS:
            return status_json(await self._management.status(spec))
        request = pb.GetModelMetadataRequest(model_spec=spec, metadata_field=["signature_def"])
        return metadata_json(self._api.metadata(request))

    async def _infer(
        self,
        api: str,
        spec: pb.ModelSpec,
        scope: dict[str, Any],
        receive: Receive,
        infer: Callable[[Counted, bytes, float], Awaitable[Answer]],
    ) -> Answer:
        """Admit an inference request, read its body, and return what `infer` makes of it until a deadline."""
        deadline = time.monotonic() + self._seconds
        client = (scope.get("client") or ("",))[0]
        with self._api.counted(spec, api, "REST") as counted:
            try:
                self._admission.enter(client)
            except ResourceExhaustedError:
                # Refuse late: clients that try again at once would take time from the running requests.
                await asyncio.sleep(_REFUSAL_SECONDS)
                raise
            try:
                body = await self._body(scope, receive)
                return await _unless_gone(receive, infer(counted, body, deadline))
            finally:
                self._admission.leave(client)

    async def _body(self, scope: dict[str, Any], receive: Receive) -> bytes:
        return await _read_body(scope, receive, self._runner, self._seconds, self._most_bytes)

    async def _predict(self, spec: pb.ModelSpec, counted: Counted, body: bytes, deadline: float) -> Answer:
        request = _JsonPredict(spec, await self._sizes(body), body)
        return await self._api.infer(request, counted, deadline)

    async def _sizes(self, body: bytes, are_examples: bool = False) -> Sizes:
        return Sizes(len(body), await self._runner.off_loop(len(body), json_bytes, body, are_examples))

    async def _examples(self, spec: pb.ModelSpec, counted: Counted, body: bytes, deadline: float) -> Answer:
        sizes = await self._sizes(body, are_examples=True)
        with self._admission.growth(*sizes):
            request = await self._runner.off_loop(max(sizes), _examples_request, spec, body)
        kind = _JsonClassify if counted.api == CLASSIFY else _JsonRegress
        asked = kind(counted.api, request, len(body), self._api.check_method)
        return await self._api.infer(asked, counted, deadline)


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


def _preflight(scope: dict[str, Any]) -> Answer:
    origin = dict(scope["headers"]).get(b"origin", b"").decode("latin-1")
    if not origin.startswith(("http://", "https://")):
        raise InvalidArgumentError("Malformed request: OPTIONS without an Origin of http or https")
    return Answer(b"")


def _examples_request(spec: pb.ModelSpec, body: bytes) -> pb.SerializedInputRequest:
    name, examples, context = examples_request(body, f"/v2/models/{quote(spec.name)}/infer")
    request = pb.SerializedInputRequest(model_spec=spec)
    request.model_spec.signature_name = name
    serialized = [example.SerializeToString() for example in examples]
    if context is None:
        request.input.example_list.examples.extend(serialized)
    else:
        request.input.example_list_with_context.examples.extend(serialized)
        request.input.example_list_with_context.context = context.SerializeToString()
    return request


async def _unless_gone(receive: Receive, work: Awaitable[Answer]) -> Answer:
    """Return the result of `work`; cancel it if the client disconnects first."""
    working = asyncio.current_task()
    assert working is not None
    has_gone = False

    def stop(_: object) -> None:
        nonlocal has_gone
        has_gone = True
        working.cancel()

    gone = asyncio.ensure_future(receive())
    gone.add_done_callback(stop)
    try:
        return await work
    except asyncio.CancelledError:
        if not has_gone or working.uncancel():
            raise  # somebody else has cancelled this
        raise CancelledError("the client has gone") from None
    finally:
        gone.remove_done_callback(stop)
        gone.cancel()


async def _read_body(
    scope: dict[str, Any], receive: Receive, runner: GraphRunner, seconds: float, most_bytes: int
) -> bytes:
    """Return a request's body.

    Args:
        scope: of the request.
        receive: returns its next message.
        runner: joins and decompresses large bodies in its threads.
        seconds: within which all of it must come.
        most_bytes: the most that it may hold, decompressed.

    Raises:
        HttpError: 408 for a slow one, 413 for one that is too large, 415 for an encoding that is not read.
        InvalidArgumentError: for one that cannot be decompressed.
        CancelledError: if the client goes away.
    """
    packed = _packed(scope)
    chunks: list[bytes] = []
    try:
        async with asyncio.timeout(seconds):
            size = await _received(receive, chunks, most_bytes)
    except TimeoutError:
        raise HttpError(_TOO_SLOW, f"the body has not come within {seconds:g} s") from None
    if packed is None:
        return chunks[0] if len(chunks) == 1 else await runner.off_loop(size, b"".join, chunks)
    # A compressed body of a few bytes may inflate to the largest size that a body may have.
    inflate = partial(_inflated, packed=packed, most_bytes=most_bytes)
    return await runner.off_loop(most_bytes, inflate, chunks)


async def _received(receive: Receive, chunks: list[bytes], most_bytes: int) -> int:
    """Append a body's parts to `chunks` and return their size."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CancelledError("the client has gone")
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        more = message.get("more_body", False)
        if size > most_bytes:
            _refuse_size(most_bytes)
    return size


def _packed(scope: dict[str, Any]) -> int | None:
    """Return the format in which a body is compressed, as zlib names it; None for one that is not."""
    lines = [value.decode("latin-1") for name, value in scope["headers"] if name == b"content-encoding"]
    named = [each.strip().lower() for each in ",".join(lines).split(",")]
    encodings = [each for each in named if each not in ("", "identity")]
    if not encodings:
        return None
    if len(encodings) > 1 or encodings[0] not in _ENCODINGS:
        raise HttpError(
            _UNREAD_ENCODING,
            f"the Content-Encoding of a body must be one of {_READ_ENCODINGS}, or there must be none. "
            f"Received {', '.join(encodings)[:_MOST_SHOWN]}",
        )
    return _ENCODINGS[encodings[0]]


def _inflated(chunks: list[bytes], packed: int, most_bytes: int) -> bytes:
    inflater, inflated, size, members = zlib.decompressobj(packed), [], 0, 1
    for chunk in chunks:
        rest = chunk
        while rest:
            if inflater.eof:  # gzip may have several members one after the other (RFC 1952, 2.2)
                members += 1
                if packed != _GZIP or members > _MOST_MEMBERS:
                    raise _damaged("bytes follow its compressed data")
                inflater = zlib.decompressobj(packed)
            try:
                # One more than allowed: 0 would be no limit.
                inflated.append(inflater.decompress(rest, most_bytes - size + 1))
            except zlib.error as error:
                raise _damaged(str(error)) from None
            size += len(inflated[-1])
            if size > most_bytes:
                _refuse_size(most_bytes)
            rest = inflater.unused_data
    if not inflater.eof:
        raise _damaged("it is cut short")
    return b"".join(inflated)


def _damaged(reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"Failed to decompress the request's body: {reason}")


def _refuse_size(most_bytes: int) -> NoReturn:
    raise HttpError(_TOO_LARGE, f"the body is larger than {most_bytes} bytes, this server's limit")
