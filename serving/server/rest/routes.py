"""Parse TensorFlow Serving's paths: the requested call, and the model it is for.

Reference: tensorflow_serving/model_servers/http_rest_api_handler.cc; RFC 3986, 6.2.2.2.
"""

import re
import string
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from ...errors import InvalidArgumentError
from ...wire import messages_pb2 as pb

_MODEL = r"/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_INFER = re.compile(rf"/v1/models{_MODEL}:(?P<method>classify|regress|predict)", re.IGNORECASE)
_TELL = re.compile(rf"/v1/models(?:{_MODEL}(?P<metadata>/metadata)?)?", re.IGNORECASE)
_ENCODED = re.compile("%[0-9A-Fa-f]{2}")
_UNRESERVED = frozenset(f"{string.ascii_letters}{string.digits}-._~")
# Python's `quote` and JavaScript's `encodeURIComponent` encode the colon. No POST is to a name alone.
_ENCODED_COLON = re.compile("%3A(?=(?:classify|regress|predict)$)", re.IGNORECASE)
_MOST = 2**63 - 1
_MOST_DIGITS = 99  # leading zeros included; Python refuses to read very many

PREDICT, CLASSIFY, REGRESS = "predict", "classify", "regress"
MODELS, STATUS, METADATA = "models", "status", "metadata"


class Route(NamedTuple):
    """A parsed path: one of the words above, and the requested model."""

    asks: str
    spec: pb.ModelSpec


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


def is_api(path: str) -> bool:
    """Return True if a path belongs to TensorFlow Serving's API."""
    return path[:4].lower() == "/v1/"


def route(method: str, path: str) -> Route:
    """Return the call and the model that a path asks for.

    Args:
        method: "GET" or "POST".
        path: of `sent_path`.

    Raises:
        InvalidArgumentError: the API has no such path.

    Example:
        >>> route("POST", "/v1/models/half/versions/3:predict").spec.version.value
        3
    """
    pattern = {"POST": _INFER, "GET": _TELL}.get(method)
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


def _without_need(encoded: re.Match[str]) -> str:
    character = chr(int(encoded[0][1:], 16))
    return character if character in _UNRESERVED else encoded[0]


def _version(digits: str) -> int:
    if len(digits) > _MOST_DIGITS or int(digits) > _MOST:
        raise InvalidArgumentError(f"Failed to convert version: {digits[:_MOST_DIGITS]} to numeric.")
    return int(digits)
