"""The asked server and model: how a request names them, and exceptions with the cause and the next step."""

# Not all callers have a type checker.
# pyright: reportUnnecessaryIsInstance=false

import re
import shlex
from dataclasses import dataclass

import grpc
import numpy as np

from ..errors import ERROR_OF_CODE, InvalidInputError, MalformedResponseError, ServingError
from ..wire import messages_pb2 as pb

# The next step for every code but OK.
ADVICE = {
    grpc.StatusCode.CANCELLED: "The client was closed, or the server gave the call up; ask again.",
    grpc.StatusCode.UNKNOWN: "The server's log has the cause.",
    grpc.StatusCode.INVALID_ARGUMENT: "`client.metadata()` shows each signature's inputs and outputs.",
    grpc.StatusCode.DEADLINE_EXCEEDED: "Give the call more time with timeout=, send less at once, or see "
    "with `client.status()` whether the model is ready.",
    grpc.StatusCode.NOT_FOUND: "The model's name (model=) is the server's --model_name; of a model that is "
    "there `client.status()`, or `keras-selfattn status`, lists the versions.",
    grpc.StatusCode.ALREADY_EXISTS: "Give it another name, or remove what is there.",
    grpc.StatusCode.PERMISSION_DENIED: "Ask with credentials= or metadata= of somebody who may.",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "Send smaller batches (max_batch_size=), or fewer requests at once.",
    grpc.StatusCode.FAILED_PRECONDITION: "`client.metadata()` lists the signatures.",
    grpc.StatusCode.ABORTED: "Ask again.",
    grpc.StatusCode.OUT_OF_RANGE: "`client.metadata()` shows each signature's inputs and outputs.",
    grpc.StatusCode.UNIMPLEMENTED: "Not every server has every call. Does a model server listen at {target}, "
    "and on this port its gRPC API?",
    grpc.StatusCode.INTERNAL: "The server's log has the cause.",
    grpc.StatusCode.UNAVAILABLE: "Is a server running at {target}, or does it still load its models? Start "
    "one with `keras-selfattn serve`; `keras-selfattn status {model} --wait 60` or "
    "`client.wait_until_ready(60)` waits for it, and wait_for_ready=True (--wait-for-ready) lets calls wait "
    "while it restarts.",
    grpc.StatusCode.DATA_LOSS: "The server's log has the cause; export the model again if files are damaged.",
    grpc.StatusCode.UNAUTHENTICATED: "Pass credentials= or metadata=, and tls= if they need an encrypted "
    "connection.",
}

_ENCRYPTED_ADVICE = (
    " And does it speak TLS, with a certificate for this name that your authorities have signed?"
)
_CLEAR_ADVICE = " If the server speaks TLS, which closes such connections, pass tls=."

# Where in its graph TensorFlow raised an error: names that nobody outside knows. `details` keeps them.
_TRAIL = re.compile(r"\n\s*\[\[\{\{(function_)?node .*")
# The codes of calls that may not have reached the server.
_ON_THE_WAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


@dataclass(frozen=True)
class Label:
    """A label that a server gives one of a model's versions.

    Args:
        name: the label, such as "stable".

    Raises:
        InvalidInputError: it is no str, or empty.

    Example:
        client.predict(texts, version=Label("stable"))
    """

    name: str

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise InvalidInputError(f'a label must be a str, such as "stable". Received {self.name!r}')


Version = int | Label | None
"""The version of a model that a call is for: its number, its label, or None: the latest."""


@dataclass(frozen=True)
class ServerRef:
    """The queried server: its address, the model's name, and the way there.

    Args:
        target: the address.
        model: the model's name.
        encrypted: True if the connection is encrypted.
        proxy: a sentence on the proxy on the way; empty if there is none.

    Example:
        raise ServerRef("localhost:8500", "half").error(grpc.StatusCode.NOT_FOUND, "Servable not found")
    """

    target: str
    model: str
    encrypted: bool = False
    proxy: str = ""

    def spec(self, version: Version, signature: str = "") -> pb.ModelSpec:
        """The ModelSpec of a request.

        Raises:
            InvalidInputError: as in `check_version`.
        """
        spec = pb.ModelSpec(name=self.model, signature_name=signature)
        check_version(version)
        if isinstance(version, Label):
            spec.version_label = version.name
        elif version is not None:
            spec.version.value = int(version)
        return spec

    def error(
        self, code: grpc.StatusCode, details: str, signature: str = "", rows: range | None = None
    ) -> ServingError:
        """The exception for a call that ended with `code`."""
        about = f"model {self.model!r}" + (f", signature {signature!r}" if signature else "")
        said = _TRAIL.sub("", details).rstrip() or "no details"
        message = f"{code.name} from {self.target} ({about}{_rows(rows)}): {said}"
        message += "\n" if "\n" in said else " " if said.endswith((".", "!", "?")) else ". "
        if self.proxy and code in _ON_THE_WAY:
            message += f"{self.proxy} "
        message += ADVICE[code].format(target=self.target, model=shlex.quote(self.model))
        if code is grpc.StatusCode.UNAVAILABLE:
            message += (
                _ENCRYPTED_ADVICE if self.encrypted else _CLEAR_ADVICE if "ocket closed" in said else ""
            )
        error = ERROR_OF_CODE[code](message, details=details, target=self.target, model=self.model)
        error.signature, error.rows = signature, rows
        return error

    def malformed(self, details: str, signature: str = "") -> MalformedResponseError:
        """The exception for an answer that cannot be read."""
        error = MalformedResponseError(
            f"the answer from {self.target} (model {self.model!r}) cannot be read: {details}. "
            f"Does TensorFlow Serving's gRPC API listen on this port?",
            details=details,
            target=self.target,
            model=self.model,
        )
        error.signature = signature
        return error

    def refused(self, details: str, rows: range | None = None) -> InvalidInputError:
        """The exception for a request that was not sent."""
        message = f"{details} (model {self.model!r} at {self.target}{_rows(rows)})"
        error = InvalidInputError(message, details=details, target=self.target, model=self.model)
        error.rows = rows
        return error


def _rows(rows: range | None) -> str:
    if rows is None:
        return ""
    return f", row {rows.start}" if len(rows) == 1 else f", rows {rows.start} to {rows.stop - 1}"


def check_version(version: Version) -> None:
    """Check that `version` names one.

    Raises:
        InvalidInputError: it is neither a number that fits, nor a Label, nor None.
    """
    if version is None or isinstance(version, Label):
        return
    if isinstance(version, bool) or not isinstance(version, int | np.integer):
        raise InvalidInputError(
            f'version must be an integer, a Label("stable"), or None: the latest. Received {version!r}'
        )
    if not 0 <= version < 2**63:
        raise InvalidInputError(f"version must be at least 0 and fit 64 bits. Received {version}")


def is_name(value: object) -> bool:
    """Return whether a value is a str that a request can hold, and not empty."""
    if not isinstance(value, str) or not value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
