"""Parse the Open Inference Protocol's paths: the requested call, and the model it is for.

Reference: specification/protocol/inference_rest.md of open-inference/open-inference-protocol.
"""

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

from ...errors import InvalidArgumentError, UnimplementedError
from .body import HttpError

SERVER, LIVE, READY = "server", "live", "ready"
MODELS, INDEX = "models", "index"
MODEL, MODEL_READY, INFER = "model", "model ready", "infer"

_MODEL = r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>[^/]+))?"
_PATHS = {
    ("GET", SERVER): re.compile(r"/v2/?"),
    ("GET", LIVE): re.compile(r"/v2/health/live"),
    ("GET", READY): re.compile(r"/v2/health/ready"),
    ("GET", MODELS): re.compile(r"/v2/models/?"),
    ("POST", INDEX): re.compile(r"/v2/repository/index"),
    ("GET", MODEL): re.compile(_MODEL),
    ("GET", MODEL_READY): re.compile(f"{_MODEL}/ready"),
    ("POST", INFER): re.compile(f"{_MODEL}/infer"),
}
# Triton's extensions: shared memory, changes of the repository, statistics, logging, tracing and generation.
_TRITON_ONLY = re.compile(
    r"/v2/((system|cuda)sharedmemory|repository/models|logging|trace)(/.*)?|/v2/models/stats"
    rf"|{_MODEL}/(config|stats|trace/.*|generate|generate_stream)"
)


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


def is_api(path: str) -> bool:
    """Return True if a path belongs to the protocol."""
    return path == "/v2" or path.startswith("/v2/")


def route(method: str, path: str) -> OpenInferenceRoute:
    """Return the call and the model that a path asks for.

    Args:
        method: "GET" or "POST".
        path: of `routes.sent_path`.

    Raises:
        UnimplementedError: the path is an extension of Triton's.
        HttpError: 404, the protocol has no such path.
        InvalidArgumentError: the path has another method.

    Example:
        >>> route("POST", "/v2/models/half/versions/3/infer")
        OpenInferenceRoute(asks='infer', name='half', version='3')
    """
    if _TRITON_ONLY.fullmatch(path):
        raise UnimplementedError(
            f"{path} is not part of the Open Inference Protocol; this server does not support it"
        )
    found = {key: match for key, pattern in _PATHS.items() if (match := pattern.fullmatch(path))}
    for (wanted, asks), match in found.items():
        if wanted == method:
            parts = match.groupdict()
            return OpenInferenceRoute(
                asks, unquote(parts.get("name") or ""), unquote(parts.get("version") or "")
            )
    if found:
        raise InvalidArgumentError(f"Malformed request: {method} {path}")
    raise HttpError(
        404,
        f"there is nothing at {path}; the Open Inference Protocol has /v2, /v2/health/live, "
        "/v2/health/ready, /v2/models, /v2/models/MODEL[/versions/VERSION] and, after it, /ready and /infer",
    )
