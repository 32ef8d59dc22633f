"""Encrypted REST connections, which end as unencrypted ones do.

A closed transport of asyncio's for TLS waits for the client's last word, up to a limit of time at which it
cuts an answer that is still on its way. And it does not count what it has encrypted and not yet sent.
"""

import asyncio
from typing import Any

# Longer than any answer takes: a connection that makes no progress is ended by its own look at it.
SHUTDOWN_SECONDS = 24 * 3600.0
_LOOK_SECONDS = 0.05


class EncryptedTransport:
    """A transport for TLS that counts all unsent bytes and, once closed, ends when they are sent.

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
            self._loop.call_later(_LOOK_SECONDS, self._end)
        else:
            self._transport.abort()
