"""The paths of the REST APIs: which call a request asks for, and the model it is for.

Those of the page are in `page_routes.py`; those of health checks and metrics, in `app.py`.

Reference: tensorflow_serving/model_servers/http_rest_api_handler.cc; RFC 3986, 6.2.2.2;
specification/protocol/inference_rest.md of open-inference/open-inference-protocol.
"""

import re
import string
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from ...errors import InvalidArgumentError, UnimplementedError
from ...wire import messages_pb2 as pb
from .errors import no_such_path

# The calls of TensorFlow Serving's API.
PREDICT, CLASSIFY, REGRESS = "predict", "classify", "regress"
MODELS, STATUS, METADATA = "models", "status", "metadata"
# Those of the Open Inference Protocol, which has MODELS, too.
SERVER, LIVE, READY = "server", "live", "ready"
INDEX = "index"
MODEL, MODEL_READY, INFER = "model", "model ready", "infer"

_SERVING_MODEL = r"/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_SERVING_INFER = re.compile(
    rf"/v1/models{_SERVING_MODEL}:(?P<method>classify|regress|predict)", re.IGNORECASE
)
_SERVING_TELL = re.compile(rf"/v1/models(?:{_SERVING_MODEL}(?P<metadata>/metadata)?)?", re.IGNORECASE)
_ENCODED = re.compile("%[0-9A-Fa-f]{2}")
_UNRESERVED = frozenset(f"{string.ascii_letters}{string.digits}-._~")
# Python's `quote` and JavaScript's `encodeURIComponent` encode the colon. No POST is to a name alone.
_ENCODED_COLON = re.compile("%3A(?=(?:classify|regress|predict)$)", re.IGNORECASE)
_MOST = 2**63 - 1
_MOST_DIGITS = 99  # leading zeros included; Python refuses to read very many

_OPEN_MODEL = r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>[^/]+))?"
_OPEN_PATHS = {
    ("GET", SERVER): re.compile(r"/v2/?"),
    ("GET", LIVE): re.compile(r"/v2/health/live"),
    ("GET", READY): re.compile(r"/v2/health/ready"),
    ("GET", MODELS): re.compile(r"/v2/models/?"),
    ("POST", INDEX): re.compile(r"/v2/repository/index"),
    ("GET", MODEL): re.compile(_OPEN_MODEL),
    ("GET", MODEL_READY): re.compile(f"{_OPEN_MODEL}/ready"),
    ("POST", INFER): re.compile(f"{_OPEN_MODEL}/infer"),
}
# Triton's extensions: shared memory, changes of the repository, statistics, logging, tracing and generation.
_TRITON_ONLY = re.compile(
    r"/v2/((system|cuda)sharedmemory|repository/models|logging|trace)(/.*)?|/v2/models/stats"
    rf"|{_OPEN_MODEL}/(config|stats|trace/.*|generate|generate_stream)"
)

# All paths of a protocol, for the names of spans.
_SERVING_ROUTE = re.compile(
    r"/v1/models(?:/(?P<model>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
    r"(?::(?:classify|regress|predict)|/metadata)?)?",
    re.IGNORECASE | re.ASCII,  # ASCII: its fixed text in lower case is the route
)
_OPEN_INFERENCE_ROUTE = re.compile(
    r"/v2(?:/models/(?P<model>[^/]+)(?:/versions/(?P<version>[^/]+))?(?:/(?:infer|ready))?)?"
)


class Route(NamedTuple):
    """A parsed path: one of the words above, and the requested model."""

    asks: str
    spec: pb.ModelSpec


class OpenInferenceRoute(NamedTuple):
    """A parsed path: one of the words above, and the requested model and version, empty if there is none."""

    asks: str
    name: str
    version: str

    @property
    def v1_path(self) -> str:
        """The path of the model in TensorFlow Serving's REST API."""
        kind = "versions" if self.version.isdigit() else "labels"
        return f"/v1/models/{quote(self.name)}" + (f"/{kind}/{quote(self.version)}" if self.version else "")


def sent_path(scope: Mapping[str, Any]) -> str:
    """Return a request's path, percent-encoded only where that makes a difference.

    Args:
        scope: of the request.

    Example:
        >>> sent_path({"method": "POST", "raw_path": b"/v1/models/%68alf%3Apredict"})
        '/v1/models/half:predict'
    """
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    path = raw.split(b"?")[0].decode("latin-1")
    if "%" not in path:
        return path
    path = _ENCODED.sub(_without_need, path)
    return _ENCODED_COLON.sub(":", path) if scope["method"] == "POST" else path


def route(method: str, path: str) -> "Route | OpenInferenceRoute":
    """Return the call and the model that a path asks for.

    Args:
        method: "GET" or "POST".
        path: of `sent_path`.

    Raises:
        InvalidArgumentError: TensorFlow Serving's API has no such path, or the protocol's has another method.
        UnimplementedError: the path is an extension of Triton's to the protocol.
        HttpError: 404, there is nothing at the path.

    Example:
        >>> route("POST", "/v1/models/half/versions/3:predict").spec.version.value
        3
        >>> route("POST", "/v2/models/half/versions/3/infer")
        OpenInferenceRoute(asks='infer', name='half', version='3')
    """
    if path[:4].lower() == "/v1/":
        return _serving_route(method, path)
    if path == "/v2" or path.startswith("/v2/"):
        return _open_inference_route(method, path)
    raise no_such_path(path, "the APIs begin with /v1/models and /v2/models")


def _serving_route(method: str, path: str) -> Route:
    """Return the call of TensorFlow Serving's API that a path asks for."""
    pattern = {"POST": _SERVING_INFER, "GET": _SERVING_TELL}.get(method)
    found = pattern.fullmatch(path) if pattern else None
    if found is None:
        raise InvalidArgumentError(f"Malformed request: {method} {path}")
    parts = found.groupdict()
    if parts["name"] is None:
        return Route(MODELS, pb.ModelSpec())
    spec = pb.ModelSpec(name=unquote(parts["name"]))
    if parts["version"] is not None:
        spec.version.value = _version(parts["version"])
    if method == "POST":
        if parts["label"] is not None:
            spec.version_label = unquote(parts["label"])
        return Route(parts["method"].lower(), spec)
    # For a label, TensorFlow Serving reports the states of all versions, but the metadata of its one version.
    if parts["metadata"] is None:
        return Route(STATUS, spec)
    if parts["label"] is not None:
        spec.version_label = unquote(parts["label"])
    return Route(METADATA, spec)


def _version(digits: str) -> int:
    if len(digits) > _MOST_DIGITS or int(digits) > _MOST:
        raise InvalidArgumentError(f"Failed to convert version: {digits[:_MOST_DIGITS]} to numeric.")
    return int(digits)


def _open_inference_route(method: str, path: str) -> OpenInferenceRoute:
    """Return the call of the Open Inference Protocol that a path asks for."""
    if _TRITON_ONLY.fullmatch(path):
        raise UnimplementedError(
            f"{path} is not part of the Open Inference Protocol; this server does not support it"
        )
    found = {key: match for key, pattern in _OPEN_PATHS.items() if (match := pattern.fullmatch(path))}
    for (wanted, asks), match in found.items():
        if wanted == method:
            parts = match.groupdict()
            return OpenInferenceRoute(
                asks, unquote(parts.get("name") or ""), unquote(parts.get("version") or "")
            )
    if found:
        raise InvalidArgumentError(f"Malformed request: {method} {path}")
    raise no_such_path(
        path,
        "the Open Inference Protocol has /v2, /v2/health/live, /v2/health/ready, /v2/models, "
        "/v2/models/MODEL[/versions/VERSION] and, after it, /ready and /infer",
    )


def http_route(path: str) -> str:
    """Return a path in lower case with placeholders for its names; empty if the protocols have no such path.

    Example:
        >>> http_route("/V1/models/half/versions/3:predict")
        '/v1/models/{model}/versions/{version}:predict'
    """
    found = _SERVING_ROUTE.fullmatch(path) or _OPEN_INFERENCE_ROUTE.fullmatch(path)
    if found is None:
        return ""
    parts = {name: span for name in found.groupdict() if (span := found.span(name)) != (-1, -1)}
    for name, (start, end) in sorted(parts.items(), key=lambda part: part[1], reverse=True):
        path = f"{path[:start]}{{{name}}}{path[end:]}"
    return path.lower()


def _without_need(encoded: re.Match[str]) -> str:
    character = chr(int(encoded[0][1:], 16))
    return character if character in _UNRESERVED else encoded[0]
