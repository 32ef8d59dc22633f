"""Errors between a client and a model, one exception for each kind.

The tree::

    ServingError                        everything below; .code .details .target .model .signature .rows
     ├─ InvalidInputError               refused before anything was sent or started (also a ValueError)
     ├─ ClientClosedError               the client was used after close() (also a RuntimeError)
     ├─ ServerStartError                the server cannot start (also a RuntimeError)
     │
     ├─ CancelledError                  one for each gRPC status code but OK, named after it
     ├─ UnknownError
     ├─ InvalidArgumentError            the model refused the inputs
     ├─ DeadlineExceededError           no answer in time (also a TimeoutError)
     ├─ NotFoundError                   no such model or version
     ├─ AlreadyExistsError
     ├─ PermissionDeniedError
     ├─ ResourceExhaustedError
     ├─ FailedPreconditionError         no such signature, a model that is not ready for use
     ├─ AbortedError
     ├─ OutOfRangeError
     ├─ UnimplementedError              the server does not know the call
     ├─ InternalError
     │   └─ MalformedResponseError      the answer could not be read
     ├─ UnavailableError                no server there, or it went away (also a ConnectionError)
     ├─ DataLossError
     └─ UnauthenticatedError

`ERROR_OF_CODE` is the only table from status codes to these; each class's `code` is the way back.
"""

from typing import ClassVar

import grpc


class ServingError(Exception):
    """The base class of all errors of the client and the server.

    Args:
        message: the failure, the server, and the next step.
        details: the server's own words, without additions; the message if there are none.
        target: the server's address, "host:port"; empty on the server's side.
        model: the model's name; empty where none is involved.

    Attributes:
        signature: the signature that was called; empty where none is involved.
        rows: the failed rows of a larger batch; None if they are not known.

    Example:
        >>> ServingError("no answer", target="localhost:8500").target
        'localhost:8500'
    """

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.UNKNOWN

    def __init__(self, message: str, *, details: str | None = None, target: str = "", model: str = ""):
        super().__init__(message)
        self.details = message if details is None else details
        self.target = target
        self.model = model
        self.signature = ""
        self.rows: range | None = None


class InvalidInputError(ServingError, ValueError):
    """An argument, an input or a setting that was refused before anything was sent or started."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class ClientClosedError(ServingError, RuntimeError):
    """A client was used after it was closed."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class ServerStartError(ServingError, RuntimeError):
    """A server cannot start: nothing to serve, a model that does not load, or a port in use."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class CancelledError(ServingError):
    """The call was cancelled."""

    code = grpc.StatusCode.CANCELLED


class UnknownError(ServingError):
    """The server failed without a reason."""

    code = grpc.StatusCode.UNKNOWN


class InvalidArgumentError(ServingError):
    """The model refused the inputs: a wrong name, dtype or shape."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class DeadlineExceededError(ServingError, TimeoutError):
    """No answer came before the deadline."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class NotFoundError(ServingError):
    """The server does not serve this model or version."""

    code = grpc.StatusCode.NOT_FOUND


class AlreadyExistsError(ServingError):
    """The thing to create already exists."""

    code = grpc.StatusCode.ALREADY_EXISTS


class PermissionDeniedError(ServingError):
    """The caller may not do this."""

    code = grpc.StatusCode.PERMISSION_DENIED


class ResourceExhaustedError(ServingError):
    """A limit was reached: message size, memory, a full queue."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class FailedPreconditionError(ServingError):
    """The model has no such signature, or is not in a state to answer."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class AbortedError(ServingError):
    """The server gave the call up."""

    code = grpc.StatusCode.ABORTED


class OutOfRangeError(ServingError):
    """A value outside the valid range, or a file that ends too soon."""

    code = grpc.StatusCode.OUT_OF_RANGE


class UnimplementedError(ServingError):
    """The server does not know the call."""

    code = grpc.StatusCode.UNIMPLEMENTED


class InternalError(ServingError):
    """Something is broken in the server or on the way to it."""

    code = grpc.StatusCode.INTERNAL


class MalformedResponseError(InternalError):
    """The server's answer could not be read."""


class UnavailableError(ServingError, ConnectionError):
    """No server answers at the address, or it went away in the middle of the call."""

    code = grpc.StatusCode.UNAVAILABLE


class DataLossError(ServingError):
    """Data is lost or corrupt, for example in a checkpoint."""

    code = grpc.StatusCode.DATA_LOSS


class UnauthenticatedError(ServingError):
    """The server does not know the caller."""

    code = grpc.StatusCode.UNAUTHENTICATED


ERROR_OF_CODE: dict[grpc.StatusCode, type[ServingError]] = {
    cls.code: cls
    for cls in (
        CancelledError,
        UnknownError,
        InvalidArgumentError,
        DeadlineExceededError,
        NotFoundError,
        AlreadyExistsError,
        PermissionDeniedError,
        ResourceExhaustedError,
        FailedPreconditionError,
        AbortedError,
        OutOfRangeError,
        UnimplementedError,
        InternalError,
        UnavailableError,
        DataLossError,
        UnauthenticatedError,
    )
}

HTTP_STATUS: dict[grpc.StatusCode, int] = {
    grpc.StatusCode.OK: 200,
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.UNKNOWN: 500,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DATA_LOSS: 500,
}
"""The HTTP status of a gRPC status, as in tensorflow_serving/model_servers/http_rest_api_handler.cc."""

_CODE_OF_NUMBER: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


def status_code(number: int) -> grpc.StatusCode:
    """The gRPC status code with a number; UNKNOWN for a number that gRPC does not have.

    Args:
        number: as in a StatusProto or a TensorFlow error, whose numbers are gRPC's.

    Example:
        >>> status_code(5).name
        'NOT_FOUND'
    """
    return _CODE_OF_NUMBER.get(number, grpc.StatusCode.UNKNOWN)
