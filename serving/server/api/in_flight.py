"""The requests that have no answer yet: counted, so that a server can stop when they have one."""

import asyncio


class InFlight:
    """Counts requests, and waits for the last one. For one event loop.

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
        """Whether new requests are to be refused."""

    def begin(self) -> None:
        """A request has come."""
        self._running += 1
        self._idle.clear()

    def end(self) -> None:
        """A request has its answer."""
        self._running -= 1
        if self._running == 0:
            self._idle.set()

    async def drain(self) -> None:
        """Have new requests refused from now on, and return when those that are running have an answer."""
        self.draining = True
        await self._idle.wait()
