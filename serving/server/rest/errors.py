"""Error answers of the REST server: the status, the words and the headers of each.

An error of a call has the status of `HTTP_STATUS`, and its words where it is raised, since gRPC answers it,
too. The others are here: what only HTTP has a status for.

Reference: RFC 9110, 15.5 (statuses) and 12.5.3 (Accept-Encoding); RFC 6585 (429, 431).
"""

from collections.abc import Mapping, Sequence

from ...errors import HTTP_STATUS, InvalidArgumentError, ServingError
from .json_out import Answer, error_body

_MOST_TEXT = 4096  # characters of an error; some repeat what was sent
_MOST_SHOWN = 100  # characters of a header
_RETRY_SECONDS = "1"  # the shortest pause that HTTP can name

NO_MODEL_ANSWERS = "no model has a version to answer"
READ_ENCODINGS = "gzip, deflate"
"""The encodings of a body, as a header lists them."""

STATUS_HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    408: {"Connection": "close"},  # the rest of the body would be as slow
    415: {"Accept-Encoding": READ_ENCODINGS},
    429: {"Retry-After": _RETRY_SECONDS},
    503: {"Retry-After": _RETRY_SECONDS},
}
"""The headers that an answer of a status has beside all others."""


class HttpError(InvalidArgumentError):
    """A wrong request for which HTTP has its own status."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


def error_answer(error: Exception) -> Answer:
    """Return the answer to a request that ended with an error.

    Example:
        >>> error_answer(body_too_large(10)).status
        413
    """
    if not isinstance(error, ServingError):
        return Answer(error_body("internal error; the server's log has the cause"), 500)
    status = error.status if isinstance(error, HttpError) else HTTP_STATUS[error.code]
    return Answer(error_body(error.details[:_MOST_TEXT]), status)


def not_http(scheme: str) -> HttpError:
    """Bytes that are no request; `scheme` is what the port speaks."""
    return HttpError(
        400,
        f"the bytes are no request of HTTP/1.1 (RFC 9112). This port speaks {scheme} in that version alone, "
        "without HTTP/2's prior knowledge",
    )


def not_ready(model: str = "") -> HttpError:
    """A model, or without one the server, that does not answer, in the Open Inference Protocol.

    "The 200 status code indicates true and a 4xx status code indicates false."
    """
    return HttpError(400, f"model {model} is not ready" if model else NO_MODEL_ANSWERS)


def foreign_page() -> HttpError:
    """A request that a web page of another origin sends to a server with a page."""
    return HttpError(
        403,
        "with the page, requests of web pages of other origins are refused; "
        "--rest_api_enable_cors_support allows them",
    )


def no_such_path(path: str, there_is: str) -> HttpError:
    """A path without an answer; `there_is` says which paths there are."""
    return HttpError(404, f"there is nothing at {path}; {there_is}")


def only_read(path: str, method: str) -> HttpError:
    """A method other than GET for a path of the page."""
    return HttpError(405, f"{path} is there to be read: GET it. Received {method}")


def head_too_late(seconds: float) -> HttpError:
    """A request whose head takes longer than `seconds`."""
    return HttpError(408, f"the request's head has not come within {seconds:g} s")


def body_too_late(seconds: float) -> HttpError:
    """A request whose body takes longer than `seconds`."""
    return HttpError(408, f"the body has not come within {seconds:g} s")


def body_too_large(most_bytes: int) -> HttpError:
    """A body of more bytes, decompressed."""
    return HttpError(413, f"the body is larger than {most_bytes} bytes, this server's limit")


def unread_encoding(encodings: Sequence[str]) -> HttpError:
    """A body in one or several encodings that are not read."""
    return HttpError(
        415,
        f"the Content-Encoding of a body must be one of {READ_ENCODINGS}, or there must be none. "
        f"Received {', '.join(encodings)[:_MOST_SHOWN]}",
    )


def foreign_host(host: str) -> HttpError:
    """A request to a server with a page by a name that a web site may have given to this machine."""
    return HttpError(
        421,
        f"with the page, a server of this machine alone answers to localhost and to IP addresses, not to "
        f"{host[:_MOST_SHOWN]}: any web site could call this machine by a name of its own",
    )


def head_too_large(most_bytes: int) -> HttpError:
    """A head of more bytes."""
    return HttpError(431, f"the request's head is larger than {most_bytes} bytes, this server's limit")
