"""The body of a REST request: received within limits of time and size, and decompressed.

Reference: asgi.readthedocs.io, "HTTP request".
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NoReturn

from ...errors import CancelledError, InvalidArgumentError
from ..batching.graph_runner import GraphRunner

Receive = Callable[[], Awaitable[dict[str, Any]]]

TOO_SLOW = 408  # the connection is closed: the rest of the body would be as slow
_TOO_LARGE = 413
# Each Content-Encoding: the format that zlib expects.
_ENCODINGS = {b"gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}


class HttpError(InvalidArgumentError):
    """A wrong request for which HTTP has its own status."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


async def read_body(
    scope: dict[str, Any], receive: Receive, runner: GraphRunner, seconds: float, most_bytes: int
) -> bytes:
    """Return a request's body.

    Args:
        scope: of the request.
        receive: returns its next message.
        runner: joins and decompresses large bodies in its threads.
        seconds: within which all of it must come.
        most_bytes: the most that it may hold, decompressed.

    Raises:
        HttpError: 408 for a slow one, 413 for one that is too large.
        InvalidArgumentError: for one that cannot be decompressed.
        CancelledError: if the client goes away.
    """
    chunks: list[bytes] = []
    try:
        async with asyncio.timeout(seconds):
            size = await _received(receive, chunks, most_bytes)
    except TimeoutError:
        raise HttpError(TOO_SLOW, f"the body has not come within {seconds:g} s") from None
    encoding = dict(scope["headers"]).get(b"content-encoding", b"").lower()
    packed = _ENCODINGS.get(encoding)
    if packed is None:
        return await runner.off_loop(size, b"".join, chunks)
    # A compressed body of a few bytes may inflate to the largest size that a body may have.
    inflate = partial(_inflated, packed=packed, most_bytes=most_bytes)
    return await runner.off_loop(most_bytes, inflate, chunks)


async def _received(receive: Receive, chunks: list[bytes], most_bytes: int) -> int:
    """Append a body's parts to `chunks` and return their size."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CancelledError("the client has gone")
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        more = message.get("more_body", False)
        if size > most_bytes:
            _refuse_size(most_bytes)
    return size


def _inflated(chunks: list[bytes], packed: int, most_bytes: int) -> bytes:
    inflater = zlib.decompressobj(packed)
    try:
        inflated = inflater.decompress(b"".join(chunks), most_bytes)
    except zlib.error as error:
        raise InvalidArgumentError(f"Failed to decompress the request's body: {error}") from None
    if inflater.unconsumed_tail:
        _refuse_size(most_bytes)
    if not inflater.eof:
        raise InvalidArgumentError("Failed to decompress the request's body: it is cut short")
    return inflated


def _refuse_size(most_bytes: int) -> NoReturn:
    raise HttpError(_TOO_LARGE, f"the body is larger than {most_bytes} bytes, this server's limit")
