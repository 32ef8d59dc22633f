"""REST connections: uvicorn's, with limits in time and size, so that no client keeps an unused one.

With the parser of their requests, which ignores upgrades, and the transport of those that are encrypted.

Reference: RFC 9110, 7.8 (Upgrade) and 9.3.6 (CONNECT).
"""

import asyncio
import contextlib
import random
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from .errors import HttpError, head_too_large, head_too_late, not_http
from .json_out import error_body

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
# Longer than any answer takes: an encrypted connection that makes no progress is ended by its own look at it.
SHUTDOWN_SECONDS = 24 * 3600.0
_ENCRYPTED_LOOK_SECONDS = 0.05
_TUNNEL = b"CONNECT"
_IGNORED = b"ignored"  # the name of an Upgrade header that is not heard


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
            self._refuse(head_too_large(HEAD_BYTES))
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
            self._refuse(head_too_late(HEAD_SECONDS))
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

    def _refuse(self, error: HttpError) -> None:
        if self._is_answering or self._owes_body or not (self._head_bytes or self._unfinished_bytes):
            self.transport.abort()  # another answer or body is unfinished, or no request has begun
        else:
            self._answer_and_end(error)

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
            self._answer_and_end(not_http(str(self.scheme)))

    def _answer_and_end(self, error: HttpError) -> None:
        body = error_body(error.details)
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(
            body
        )
        self.transport.write(STATUS_LINE[error.status] + head + body)
        # Later bytes are read and dropped until the next look: if they stayed unread, the client would lose
        # its answer.
        self._refused = True
        if self.transport.can_write_eof():  # not if it is encrypted
            self.transport.write_eof()


class RequestParser:
    """httptools' parser, in whose place it stands; a request that asks for an upgrade is one like all others.

    Java's HTTP client and `curl --http2` ask to go on in HTTP/2 with each request. A server that does not
    speak the other protocol answers as if it had not been asked; httptools stops at the end of such a head
    and leaves the body unread.

    Args:
        connection: hears what is parsed.

    Example:
        connection.parser = RequestParser(connection)
        connection.parser.feed_data(b"GET / HTTP/1.1\\r\\nConnection: Upgrade\\r\\nUpgrade: h2c\\r\\n\\r\\n")
    """

    def __init__(self, connection: HttpToolsProtocol):
        self._connection = connection
        # httptools calls these directly.
        self.on_message_begin = connection.on_message_begin
        self.on_url = connection.on_url
        self.on_header = connection.on_header
        self.on_body = connection.on_body
        self._parser = self._new_parser()
        self._has_ended = False

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        with contextlib.suppress(AttributeError):  # httptools before 0.6.3
            # As uvicorn: bytes after a request that says "Connection: close" do not cost it its answer.
            parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def feed_data(self, data: bytes) -> None:
        """Parse the next bytes.

        Raises:
            httptools.HttpParserError: they are not HTTP.
        """
        while data and not self._has_ended:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as stopped:
                data = data[stopped.args[0] :]
            except httptools.HttpParserError:
                self._has_ended = True  # where a next request would begin is unknown
                raise
            if self.get_method() == _TUNNEL:
                self._has_ended = True  # what follows is not HTTP, whatever the answer is
                return
            # The body is for a parser that has not been asked for an upgrade.
            head = self._head_without_upgrade()
            self._parser = self._new_parser()
            self._parser.feed_data(head)

    def on_headers_complete(self) -> None:
        """Pass on the end of a head, unless another parser is going to read the request."""
        if not self.should_upgrade():
            self._connection.on_headers_complete()

    def on_message_complete(self) -> None:
        """Pass on the end of a request, unless another parser is going to read it."""
        if not self.should_upgrade():
            self._connection.on_message_complete()

    def should_upgrade(self) -> bool:
        """Return True for a head that asks for an upgrade. The connection hears of none."""
        return self._parser.should_upgrade() and self.get_method() != _TUNNEL

    def should_keep_alive(self) -> bool:
        """Return True if another request may follow."""
        return self._parser.should_keep_alive() and self.get_method() != _TUNNEL

    def get_http_version(self) -> str:
        """Return the request's version, such as "1.1"."""
        return self._parser.get_http_version()

    def get_method(self) -> bytes:
        """Return the request's method."""
        return self._parser.get_method()

    def _head_without_upgrade(self) -> bytes:
        version = self.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.get_method(), self._connection.url, version)]
        headers = self._connection.headers
        # With another name as long, since a head's size has a limit.
        lines += [b"%s: %s" % (_IGNORED if name == b"upgrade" else name, value) for name, value in headers]
        return b"\r\n".join([*lines, b"", b""])


class EncryptedTransport:
    """A transport for TLS that counts all unsent bytes and, once closed, ends when they are sent.

    A closed transport of asyncio's for TLS waits for the client's last word, up to a limit of time at which
    it cuts an answer that is still on its way. And it does not count what it has encrypted and not yet sent.

    Args:
        transport: asyncio's.
        loop: the running event loop.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop):
        self._transport = transport
        self._loop = loop
        # Private to asyncio. Without it, bytes that are encrypted count as sent.
        protocol = getattr(transport, "_ssl_protocol", None)
        self._raw = getattr(protocol, "_transport", None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that have not been sent."""
        raw = self._raw.get_write_buffer_size() if self._raw is not None else 0
        return self._transport.get_write_buffer_size() + raw

    def close(self) -> None:
        """End the connection when all is sent, whether its client says goodbye or not."""
        if not self._transport.is_closing():
            self._transport.close()
            self._loop.call_soon(self._end)

    def _end(self) -> None:
        if self.get_write_buffer_size():
            self._loop.call_later(_ENCRYPTED_LOOK_SECONDS, self._end)
        else:
            self._transport.abort()
