"""REST connections: uvicorn's, with limits in time and size, so that no client keeps an unused one."""

import asyncio
import random
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from .encrypted import EncryptedTransport
from .json_out import error_body
from .request_parser import RequestParser

# Time limit of a request's head, from the connection or from the first byte of a later request.
HEAD_SECONDS = 10.0
HEAD_BYTES = 2**16
_PIECE_BYTES = 2**14  # parsed at a time: it is unknown how much of the last piece belongs to a head
# Time limit of a client that reads no byte of its answer.
STALLED_SECONDS = 30.0
_LOOK_SECONDS = 5.0  # between two looks at a connection; less than the limits above
# A connection that has been without a request for this long may be closed to make room for a new one.
_YIELD_SECONDS = 1.0
_JITTER = 0.1  # as gRPC's


class Connections:
    """The connections of a server.

    Args:
        most: the largest number of connections.
        seconds: the age from which a connection ends with its next answer; infinity for no limit.

    Attributes:
        most: the same.
        seconds: the same.
        leaving: True if each connection ends with its next answer.
    """

    def __init__(self, most: int, seconds: float):
        self.most = most
        self.seconds = seconds
        self.leaving = False
        self._all: set[Connection] = set()
        # The connections without a request, and since when; the longest wait first.
        self._waiting: dict[Connection, float] = {}

    @property
    def count(self) -> int:
        """The number of connections."""
        return len(self._all)

    def add(self, connection: "Connection") -> None:
        """Add a new connection."""
        self._all.add(connection)

    def discard(self, connection: "Connection") -> None:
        """Remove a closed connection."""
        self._all.discard(connection)
        self._waiting.pop(connection, None)

    def waits(self, connection: "Connection", now: float) -> None:
        """Record that a connection has no request to answer from now on."""
        self._waiting[connection] = now

    def works(self, connection: "Connection") -> None:
        """Record that a connection has a request to answer."""
        self._waiting.pop(connection, None)

    def leave(self) -> None:
        """End each connection with its next answer."""
        self.leaving = True
        for connection in self._all:
            connection.answer_last()

    def has_room(self, coming: int) -> bool:
        """Return True if one more connection is allowed.

        Args:
            coming: the number of accepted connections that have not been added yet.
        """
        return len(self._all) + coming < self.most

    def make_room(self, coming: int) -> bool:
        """Return True if one more connection is allowed; close the longest waiting one if necessary."""
        if self.has_room(coming):
            return True
        oldest = next(iter(self._waiting.items()), None)
        if oldest is None or asyncio.get_running_loop().time() - oldest[1] < _YIELD_SECONDS:
            return False
        self.discard(oldest[0])
        oldest[0].transport.abort()
        return True


class Connection(HttpToolsProtocol):
    """A connection that ends if its client stalls: sends half a request, or does not read its answer.

    uvicorn ends connections that are idle between two requests; the application, those whose body is late.

    Args:
        connections: the server's connections.
        **settings: uvicorn's settings.
    """

    def __init__(self, connections: Connections, **settings: Any):
        super().__init__(**settings)
        self.parser = RequestParser(self)  # pyright: ignore[reportAttributeAccessIssue]
        self.access_log = False  # even if the program's own uvicorn logs access
        self._others = connections
        self._retires = self.loop.time() + connections.seconds * random.uniform(1 - _JITTER, 1 + _JITTER)
        # Since when the client owes the rest of a head, or of a request that already has its answer.
        self._owes_since: float | None = None
        self._owes_body = False  # True if an answered request's body has not ended
        self._head_bytes = 0
        self._unfinished_bytes = 0
        # At the last look: the answer, its unsent bytes, and since when both have been the same.
        self._unsent: tuple[object, int, float] = (None, 0, 0.0)
        self._look_later: asyncio.TimerHandle | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        if transport.get_extra_info("sslcontext") is not None:
            transport = EncryptedTransport(transport, self.loop)  # pyright: ignore[reportAssignmentType]
        super().connection_made(transport)
        now = self.loop.time()
        self._owes_since = now
        self._others.add(self)
        self._others.waits(self, now)
        self._look_later = self.loop.call_later(_LOOK_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._others.discard(self)
        if self._look_later is not None:
            self._look_later.cancel()

    def data_received(self, data: bytes) -> None:
        piece = len(data) if self._is_answering else _PIECE_BYTES
        for start in range(0, len(data), piece):
            if self._refused or self.transport.is_closing():
                return
            self._piece_received(data[start : start + piece])

    def _piece_received(self, data: bytes) -> None:
        self._unfinished_bytes += len(data)
        super().data_received(data)
        if self._refused or self.transport.is_closing():
            return
        if self._head_bytes + self._unfinished_bytes > HEAD_BYTES:
            self._refuse(431, f"the request's head is larger than {HEAD_BYTES} bytes, this server's limit")
        elif not self._is_answering and self._owes_since is None and self.timeout_keep_alive_task is None:
            # The bytes were no request: empty lines, or the rest of a request that already has its answer.
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._owes_since = self.loop.time()
        self._owes_body = False
        self._head_bytes = self._unfinished_bytes = 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._head_bytes += len(url)
        self._unfinished_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._owes_since is not None:  # of a head; a trailer must not count as one (RFC 9110, 6.5.1)
            super().on_header(name, value)
        self._head_bytes += len(name) + len(value) + len(b": \r\n")
        self._unfinished_bytes = 0

    def on_headers_complete(self) -> None:
        self._owes_since = None
        self._unfinished_bytes = 0
        if self._head_bytes > HEAD_BYTES:
            return  # a head that is too large becomes no request
        super().on_headers_complete()
        self._others.works(self)
        if self._others.leaving or self.loop.time() >= self._retires:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._unfinished_bytes = 0
        if self._head_bytes <= HEAD_BYTES:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._unfinished_bytes = 0
        if self._head_bytes <= HEAD_BYTES:
            super().on_message_complete()
        if not self._is_answering:
            self._owes_since = None  # the rest of an answered request has arrived

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_answering or self.transport.is_closing():
            return
        now = self.loop.time()
        self._others.waits(self, now)
        self._owes_body = self.cycle.more_body
        if self._owes_since is not None or self._owes_body:
            self._owes_since = now

    def answer_last(self) -> None:
        """End the connection with the current answer, if there is one."""
        if self._is_answering:
            self.cycle.keep_alive = False

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _look(self) -> None:
        """End the connection if its client has stalled for too long."""
        now = self.loop.time()
        pause = _LOOK_SECONDS
        if self._refused or self._is_stalled(now):
            self.transport.abort()
            return
        owes = None if self._is_answering or self.transport.is_closing() else self._owes_since
        if owes is not None and now >= owes + HEAD_SECONDS:
            self._refuse(408, f"the request's head has not come within {HEAD_SECONDS:g} s")
        elif owes is not None:
            pause = min(pause, owes + HEAD_SECONDS - now)
        self._look_later = self.loop.call_later(pause, self._look)

    def _is_stalled(self, now: float) -> bool:
        answer, size, since = self._unsent
        left = self.transport.get_write_buffer_size()
        if not left or (answer, size) != (self.cycle, left):
            self._unsent = (self.cycle, left, now)
            return False
        return now - since >= STALLED_SECONDS

    def _refuse(self, status: int, words: str) -> None:
        if self._is_answering or self._owes_body or not (self._head_bytes or self._unfinished_bytes):
            self.transport.abort()  # another answer or body is unfinished, or no request has begun
        else:
            self._answer_and_end(status, words)

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no request, once the requests before them have their answers."""
        if self._is_answering and (self.pipeline or not self.cycle.more_body):
            self.cycle.keep_alive = False
        elif self._owes_body or (self._is_answering and self.cycle.response_started):
            self.transport.abort()
        else:
            if self._is_answering:  # the body of this request is broken: its application hears that it ends
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            self._answer_and_end(
                400,
                f"the bytes are no request of HTTP/1.1 (RFC 9112). This port speaks {self.scheme} in that "
                "version alone, without HTTP/2's prior knowledge",
            )

    def _answer_and_end(self, status: int, words: str) -> None:
        body = error_body(words)
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(
            body
        )
        self.transport.write(STATUS_LINE[status] + head + body)
        # Later bytes are read and dropped until the next look: if they stayed unread, the client would lose
        # its answer.
        self._refused = True
        if self.transport.can_write_eof():  # not if it is encrypted
            self.transport.write_eof()
