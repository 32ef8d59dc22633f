"""Traces of requests over REST.

Reference: opentelemetry.io/docs/specs/semconv/http/http-spans.
"""

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from ..runtime.tracing import RequestTrace, Tracing, current
from .body import Receive
from .routes import sent_path

App = Callable[[dict[str, Any], Receive, Callable[[dict[str, Any]], Awaitable[None]]], Awaitable[None]]
"""An ASGI application."""

_V1 = re.compile(
    r"/v1/models(?:/(?P<model>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
    r"(?::(?:classify|regress|predict)|/metadata)?)?",
    re.IGNORECASE | re.ASCII,  # ASCII: its fixed text in lower case is the route
)
_V2 = re.compile(r"/v2(?:/models/(?P<model>[^/]+)(?:/versions/(?P<version>[^/]+))?(?:/(?:infer|ready))?)?")
_METHODS = ("GET", "HEAD", "POST", "OPTIONS")
_FIRST_ERROR, _FIRST_OWN_FAULT = 400, 500
# Of a path in a span: collectors may refuse what is very long.
_PATH_BYTES = 1024


class TracedApp:
    """Trace the requests to an ASGI application that go to the protocols' paths.

    Args:
        app: the application.
        tracing: starts the traces.

    Example:
        uvicorn.run(TracedApp(rest_api, Tracing("1.0")))
    """

    def __init__(self, app: App, tracing: Tracing):
        self._app = app
        self._tracing = tracing

    async def __call__(
        self, scope: dict[str, Any], receive: Receive, send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        """Answer one request."""
        trace = self._start(scope)
        # Without a trace, too: uvicorn begins a pipelined request in the context of the one before it.
        current.set(trace)
        if trace is None:
            await self._app(scope, receive, send)
            return
        sent = _Sent(send, trace, scope["path"])
        try:
            await self._app(scope, receive, sent)
        finally:
            sent.tell()
            trace.end()

    def _start(self, scope: dict[str, Any]) -> RequestTrace | None:
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        route = http_route(sent_path(scope))
        if not route:
            return None
        attributes = {"http.request.method": method, "http.route": route, "url.scheme": scope["scheme"]}
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        return self._tracing.request(f"{method} {route}", attributes, headers)


class _Sent:
    """Sends an answer, and tells a trace its status and its error."""

    def __init__(self, send: Callable[[dict[str, Any]], Awaitable[None]], trace: RequestTrace, path: str):
        self._send = send
        self._trace = trace
        self._path = path
        self._status = _FIRST_OWN_FAULT  # of an application that sends nothing
        self._error = ""
        self._has_told = False

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        else:
            if self._status >= _FIRST_ERROR and message.get("body"):
                self._error = json.loads(message["body"])["error"]
            self.tell()  # an instrumentation ends its span with the answer
        await self._send(message)

    def tell(self) -> None:
        """Complete the request's span, once."""
        if self._has_told:
            return
        self._has_told = True
        path = self._path.encode(errors="replace")[:_PATH_BYTES].decode(errors="ignore")
        told = {"url.path": path, "http.response.status_code": self._status}
        failed = str(self._status) if self._status >= _FIRST_ERROR else ""
        self._trace.tell(told, failed, self._error, is_own_fault=self._status >= _FIRST_OWN_FAULT)


def http_route(path: str) -> str:
    """Return a path in lower case with placeholders for its names; empty if the protocols have no such path.

    Example:
        >>> http_route("/V1/models/half/versions/3:predict")
        '/v1/models/{model}/versions/{version}:predict'
    """
    found = _V1.fullmatch(path) or _V2.fullmatch(path)
    if found is None:
        return ""
    parts = {name: span for name in found.groupdict() if (span := found.span(name)) != (-1, -1)}
    for name, (start, end) in sorted(parts.items(), key=lambda part: part[1], reverse=True):
        path = f"{path[:start]}{{{name}}}{path[end:]}"
    return path.lower()
