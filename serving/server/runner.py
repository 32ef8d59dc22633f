"""Where graphs run: a pool of threads, and a limit to how many requests wait for it."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

import numpy as np

from ..errors import DeadlineExceededError, ResourceExhaustedError
from .call import Call
from .servable import Servable

_T = TypeVar("_T")
# Below this many bytes a message is taken apart faster than it is handed to another thread.
_SMALL = 2**16


class Runner:
    """Runs calls in threads, so that the event loop is free for others.

    Args:
        executor: the threads.
        limit: requests that may wait or run; one more is refused at once, so that no queue grows for ever.

    Example:
        arrays = await Runner(executor, limit=1000).run(servable, call, deadline=None)
    """

    def __init__(self, executor: Executor, limit: int):
        self._executor = executor
        self._limit = limit
        self._admitted = 0

    async def run(self, servable: Servable, call: Call[Any], deadline: float | None) -> list[np.ndarray]:
        """The values of what a call fetches.

        Args:
            servable: what is called.
            call: the call.
            deadline: when nobody waits for the answer any more, of `time.monotonic`; None for no limit.

        Raises:
            ResourceExhaustedError: too many requests wait or run.
            DeadlineExceededError: the deadline has passed before a thread was free, or in the graph.
            ServingError: what the graph ended with.
        """
        if self._admitted >= self._limit:
            raise ResourceExhaustedError(
                f"{self._limit} requests wait or run, which is this server's limit; try again later"
            )

        def run() -> list[np.ndarray]:
            return servable.run(call.feeds, call.fetches, seconds_left(deadline))

        self._admitted += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, run)
        finally:
            self._admitted -= 1

    async def off_loop(self, size: int, function: Callable[..., _T], *args: Any) -> _T:
        """What `function` returns; it runs in a thread if there is much to do.

        Args:
            size: bytes that it works on.
            function: what to call.
            *args: its arguments.
        """
        if size < _SMALL:
            return function(*args)
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)


def seconds_left(deadline: float | None) -> float | None:
    """Seconds until a deadline of `time.monotonic`; None if there is none.

    Raises:
        DeadlineExceededError: it has passed, in TensorFlow's words.
    """
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise DeadlineExceededError("Timed out waiting for notification")
    return left
