"""The answer to a REST request, and the refusals for which HTTP has a status of its own."""

from collections.abc import Mapping
from typing import NamedTuple

from ...errors import InvalidArgumentError

JSON = "application/json"


class Answer(NamedTuple):
    """A body, its status and type, and further headers."""

    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: Mapping[str, str] = {}


class HttpError(InvalidArgumentError):
    """A wrong request for which HTTP has its own status."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status
