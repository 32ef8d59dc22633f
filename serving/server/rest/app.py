"""The REST APIs as an ASGI application: the door, the paths that need no model, and the way to the calls.

A request is let in, routed, its body received within limits of time and size, and answered. The call itself
is in `tensorflow_serving_rest.py` or `open_inference_rest.py`; an error becomes an answer in `errors.py`.

Reference: tensorflow_serving/model_servers/{http_rest_api_handler,http_server}.cc.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ...errors import (
    CancelledError,
    InvalidArgumentError,
    ResourceExhaustedError,
    ServingError,
    UnavailableError,
)
from ...wire import messages_pb2 as pb
from ..api.inference_api import MODEL_INFER, InferenceApi
from ..api.management import Management
from ..api.open_inference import OpenInference
from ..batching.graph_runner import GraphRunner
from ..config import ServerConfig
from ..runtime.bearer_tokens import BearerTokens
from ..runtime.metrics import CONTENT_TYPE, Counted
from . import routes
from .body import Receive, read_body
from .errors import NO_MODEL_ANSWERS, STATUS_HEADERS, error_answer
from .json_out import Answer
from .open_inference_json import JSON_LENGTH
from .open_inference_rest import OpenInferenceRest
from .page_routes import PageRoutes
from .routes import OpenInferenceRoute, Route
from .tensorflow_serving_rest import API_OF, INFERENCE, TensorFlowServingRest

_log = logging.getLogger(__name__)

_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST, GET",
    "Access-Control-Allow-Headers": f"Content-Type, Authorization, {JSON_LENGTH}",
    "Access-Control-Expose-Headers": JSON_LENGTH,
}
# Health checks need no token.
_OPEN = ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready")
_REFUSAL_SECONDS = 0.025

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
        self._serving = TensorFlowServingRest(api, management, runner)
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
                **STATUS_HEADERS.get(answer.status, {}),
            }
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
            return error_answer(error)
        except Exception as error:  # noqa: BLE001 - the client gets a status, the log the traceback
            _log.exception("a request failed")
            return error_answer(error)

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
        asked = routes.route(method, path)
        if isinstance(asked, OpenInferenceRoute):
            return await self._open_inference_call(asked, scope, receive)
        return await self._serving_call(asked, scope, receive)

    async def _serving_call(self, asked: Route, scope: dict[str, Any], receive: Receive) -> Answer:
        api = API_OF[asked.asks]
        if asked.asks in INFERENCE:
            infer = partial(self._serving.infer, asked)
            return await self._infer(api, asked.spec, scope, receive, infer)
        with self._api.counted(asked.spec, api, "REST"):
            return await self._serving.describe(asked)

    async def _open_inference_call(
        self, asked: OpenInferenceRoute, scope: dict[str, Any], receive: Receive
    ) -> Answer:
        if asked.asks == routes.INDEX:
            return await self._open_inference.index(await self._body(scope, receive))
        if asked.asks != routes.INFER:
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
                raise UnavailableError(NO_MODEL_ANSWERS)
            return Answer(b'{"status": "ready"}')
        return None

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
        return await read_body(scope, receive, self._runner, self._seconds, self._most_bytes)


def _preflight(scope: dict[str, Any]) -> Answer:
    origin = dict(scope["headers"]).get(b"origin", b"").decode("latin-1")
    if not origin.startswith(("http://", "https://")):
        raise InvalidArgumentError("Malformed request: OPTIONS without an Origin of http or https")
    return Answer(b"")


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
