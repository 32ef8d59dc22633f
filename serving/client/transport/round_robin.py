"""Several connections in turns, without those that have just failed."""

import itertools
import time

# gRPC's longest wait before it connects again.
_LEFT_OUT_SECONDS = 1.0


class RoundRobin:
    """Select the connection of each call, from any thread, without a lock, which would not survive a fork.

    Args:
        connections: their number.

    Example:
        >>> turns = RoundRobin(3)
        >>> [turns.pick() for _ in range(4)]
        [0, 1, 2, 0]
        >>> turns.failed(1)
        >>> [turns.pick() for _ in range(4)]
        [2, 0, 2, 0]
    """

    def __init__(self, connections: int):
        self._connections = connections
        self._turns = itertools.count()
        self._back_at = [0.0] * connections  # time.monotonic() at which a failed connection is used again

    def pick(self, failed: int | None = None) -> int:
        """The number of the next connection, different from the one where the call has just `failed`."""
        now = 0.0
        for _ in self._back_at:
            place = next(self._turns) % self._connections
            if self._back_at[place]:
                now = now or time.monotonic()
            if place != failed and self._back_at[place] <= now:
                return place
        place = next(self._turns) % self._connections  # all have failed: use any
        return place if place != failed else (place + 1) % self._connections

    def failed(self, place: int) -> None:
        """Leave a connection out for a second, as long as another is there."""
        self._back_at[place] = time.monotonic() + _LEFT_OUT_SECONDS
