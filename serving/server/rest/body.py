"""The body of a REST request: received within limits of time and size, and decompressed.

Reference: asgi.readthedocs.io, "HTTP request"; RFC 9110, 8.4.1 (codings).
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ...errors import CancelledError, InvalidArgumentError
from ..batching.graph_runner import GraphRunner
from .errors import body_too_large, body_too_late, unread_encoding

_MOST_MEMBERS = 10_000  # each takes time, however small
_GZIP = 16 + zlib.MAX_WBITS
# Each Content-Encoding: the format that zlib expects. A refusal names them in `errors.READ_ENCODINGS`.
_ENCODINGS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}

Receive = Callable[[], Awaitable[dict[str, Any]]]
"""Return the next message of a request, as in ASGI."""


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
        HttpError: 408 for a slow one, 413 for one that is too large, 415 for an encoding that is not read.
        InvalidArgumentError: for one that cannot be decompressed.
        CancelledError: if the client goes away.
    """
    packed = _packed(scope)
    chunks: list[bytes] = []
    try:
        async with asyncio.timeout(seconds):
            size = await _received(receive, chunks, most_bytes)
    except TimeoutError:
        raise body_too_late(seconds) from None
    if packed is None:
        return chunks[0] if len(chunks) == 1 else await runner.off_loop(size, b"".join, chunks)
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
            raise body_too_large(most_bytes)
    return size


def _packed(scope: dict[str, Any]) -> int | None:
    """Return the format in which a body is compressed, as zlib names it; None for one that is not."""
    lines = [value.decode("latin-1") for name, value in scope["headers"] if name == b"content-encoding"]
    named = [each.strip().lower() for each in ",".join(lines).split(",")]
    encodings = [each for each in named if each not in ("", "identity")]
    if not encodings:
        return None
    if len(encodings) > 1 or encodings[0] not in _ENCODINGS:
        raise unread_encoding(encodings)
    return _ENCODINGS[encodings[0]]


def _inflated(chunks: list[bytes], packed: int, most_bytes: int) -> bytes:
    inflater, inflated, size, members = zlib.decompressobj(packed), [], 0, 1
    for chunk in chunks:
        rest = chunk
        while rest:
            if inflater.eof:  # gzip may have several members one after the other (RFC 1952, 2.2)
                members += 1
                if packed != _GZIP or members > _MOST_MEMBERS:
                    raise _damaged("bytes follow its compressed data")
                inflater = zlib.decompressobj(packed)
            try:
                # One more than allowed: 0 would be no limit.
                inflated.append(inflater.decompress(rest, most_bytes - size + 1))
            except zlib.error as error:
                raise _damaged(str(error)) from None
            size += len(inflated[-1])
            if size > most_bytes:
                raise body_too_large(most_bytes)
            rest = inflater.unused_data
    if not inflater.eof:
        raise _damaged("it is cut short")
    return b"".join(inflated)


def _damaged(reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"Failed to decompress the request's body: {reason}")
