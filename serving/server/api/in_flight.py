"""Count requests without an answer, so that a server can stop when all have their answers."""

import asyncio


class InFlight:
    """Count requests, and wait for the last one. For one event loop.

    Example:
        in_flight = InFlight()
        in_flight.begin()
        in_flight.end()
        await in_flight.drain()
    """

    def __init__(self) -> None:
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.draining = False
        """True if new requests are refused."""

    def begin(self) -> None:
        """Record that a request has arrived."""
        self._running += 1
        self._idle.clear()

    def end(self) -> None:
        """Record that a request has its answer."""
        self._running -= 1
        if self._running == 0:
            self._idle.set()

    async def drain(self) -> None:
        """Refuse new requests from now on, and return when the running ones have an answer."""
        self.draining = True
        await self._idle.wait()
