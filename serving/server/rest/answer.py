"""The answer to a REST request."""

from collections.abc import Mapping
from typing import NamedTuple

JSON = "application/json"


class Answer(NamedTuple):
    """A body, its status and type, and further headers."""

    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: Mapping[str, str] = {}
