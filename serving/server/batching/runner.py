"""Runs of graphs in a pool of threads, so that the event loop is free."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

import numpy as np

from ..config import ServerConfig
from ..models.graph_call import Call
from ..models.servable import Servable
from ..runtime.deadlines import by, seconds_left
from ..runtime.metrics import Metrics
from .batcher import Batcher
from .batching_parameters import BatchingParameters

_T = TypeVar("_T")
# Below this many bytes a message is taken apart faster than it is handed to another thread.
_SMALL = 2**16


class Runner:
    """Runs calls in threads, so that the event loop is free for others.

    Args:
        executor: the threads.
        config: whether all requests are batched, or those of versions that say so.
        parameters: how they are.
        metrics: what is counted of that.

    Example:
        runner = Runner(executor, config, BatchingParameters(), Metrics())
        arrays = await runner.run(servable, call, deadline=None)
    """

    def __init__(
        self, executor: Executor, config: ServerConfig, parameters: BatchingParameters, metrics: Metrics
    ):
        self._executor = executor
        self._batch_all = config.enable_batching and not config.enable_per_model_batching_parameters
        self._most = parameters.max_execution_batch_size
        self._batcher = Batcher(executor, parameters, metrics)

    async def run(self, servable: Servable, call: Call[Any], deadline: float | None) -> list[np.ndarray]:
        """The values of what a call fetches.

        Args:
            servable: what is called.
            call: the call.
            deadline: when nobody waits for the answer any more, of `time.monotonic`; None for no limit.

        Raises:
            DeadlineExceededError: the deadline has passed before a thread was free, or in the graph.
            ServingError: what the graph ended with.
        """
        if self._batch_all or servable.batching or _has_rows(servable, call, self._most):
            return await self._batcher.run(servable, call, deadline)

        def run(call: Call[Any]) -> list[np.ndarray]:
            return servable.run(call.feeds, call.fetches, seconds_left(deadline))

        return await by(deadline, self._in_thread(run, call))

    async def off_loop(self, size: int, function: Callable[..., _T], *args: Any) -> _T:
        """Return what `function` returns; it runs in a thread if it may take over a millisecond.

        Args:
            size: bytes that it works on; or that it would in that time, where it handles values one by one.
            function: what to call.
            *args: its arguments.
        """
        if size < _SMALL:
            return function(*args)
        return await self._in_thread(function, *args)

    async def _in_thread(self, function: Callable[..., _T], *args: Any) -> _T:
        # An executor keeps what has been cancelled until a thread looks at it: then it must hold nothing.
        held = [*args]
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: function(*held))
        finally:
            held.clear()


def _has_rows(servable: Servable, call: Call[Any], most: int) -> bool:
    """Return whether a call is known to gain from a run with others: few independent rows."""
    tensors = servable.row_tensors
    if not tensors.issuperset(call.feeds) or not tensors.issuperset(call.fetches):
        return False
    sizes = {len(array) if array.ndim else 0 for array in call.feeds.values()}
    return len(sizes) == 1 and 0 < max(sizes) <= most


async def in_own_thread(function: Callable[[], _T]) -> _T:
    """Return what `function` returns, from a thread that nobody waits for when the process ends.

    For what may take as long as a model takes to load: the threads of a pool are waited for.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def settle(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not done.done():
            set_outcome(outcome)

    def run() -> None:
        try:
            outcome = (done.set_result, function())
        except Exception as error:  # noqa: BLE001 - it is for whoever awaits
            outcome = (done.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and so has whoever awaited
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, daemon=True).start()
    return await done
