"""Where graphs run: a pool of threads, and a limit to how many requests wait for it."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

import numpy as np

from ..errors import DeadlineExceededError, ResourceExhaustedError
from .batching import Batcher
from .batching_parameters import BatchingParameters
from .call import Call
from .config import ServerConfig
from .servable import Servable

_T = TypeVar("_T")
# Below this many bytes a message is taken apart faster than it is handed to another thread.
_SMALL = 2**16


class Runner:
    """Runs calls in threads, so that the event loop is free for others.

    Args:
        executor: the threads.
        config: requests that may wait or run (one more is refused at once, so that no queue grows for ever),
            and whether all are batched.
        parameters: how they are.

    Example:
        arrays = await Runner(executor, config, BatchingParameters()).run(servable, call, deadline=None)
    """

    def __init__(self, executor: Executor, config: ServerConfig, parameters: BatchingParameters):
        self._executor = executor
        self._limit = config.max_concurrent_requests
        self._batch_all = config.enable_batching
        self._most = parameters.max_execution_batch_size
        self._batcher = Batcher(self._in_thread, parameters)
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
        self._admitted += 1
        try:
            if self._batch_all or _has_rows(servable, call, self._most):
                return await self._batcher.run(servable, call, deadline)
            return await self._in_thread(
                lambda: servable.run(call.feeds, call.fetches, seconds_left(deadline))
            )
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

    def _in_thread(self, function: Callable[[], _T]) -> "asyncio.Future[_T]":
        return asyncio.get_running_loop().run_in_executor(self._executor, function)


def _has_rows(servable: Servable, call: Call[Any], most: int) -> bool:
    """Whether a call is known to gain from a run with others: so many rows at most, that are independent."""
    tensors = servable.row_tensors
    if not tensors.issuperset(call.feeds) or not tensors.issuperset(call.fetches):
        return False
    sizes = {len(array) if array.ndim else 0 for array in call.feeds.values()}
    return len(sizes) == 1 and 0 < max(sizes) <= most


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
