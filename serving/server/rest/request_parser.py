"""A parser of HTTP requests that ignores upgrades.

Java's HTTP client and `curl --http2` ask to go on in HTTP/2 with each request. A server that does not speak
the other protocol answers as if it had not been asked; httptools stops at the end of such a head and leaves
the body unread.

Reference: RFC 9110, 7.8 (Upgrade) and 9.3.6 (CONNECT).
"""

import contextlib

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_TUNNEL = b"CONNECT"
_IGNORED = b"ignored"  # the name of an Upgrade header that is not heard


class RequestParser:
    """httptools' parser, in whose place it stands; a request that asks for an upgrade is one like all others.

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
