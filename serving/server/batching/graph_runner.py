"""Send each call to the batcher, or alone to a thread: the event loop stays free."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

import numpy as np

from ...errors import DeadlineExceededError
from ..config import ServerConfig
from ..models.servable import GraphCall, Servable
from ..runtime.batching_parameters import BatchingParameters
from ..runtime.deadlines import expired, seconds_left
from ..runtime.metrics import Metrics
from ..runtime.tracing import current
from .batch_queue import nothing
from .batcher import Batcher

_T = TypeVar("_T")
# Below this many bytes, parsing a message takes less time than handing it to a thread.
_SMALL = 2**16


class GraphRunner:
    """Choose for each call how its graph runs: batched with others, or alone in a thread.

    A call is batched if the config enables batching for all requests, or if its version has parameters of its
    own. With batching off, a call is batched, too, if it is known to gain: the servable's `row_tensors` cover
    its feeds and fetches, and its rows are no more than one run takes. All other calls run alone in a thread.

    Args:
        executor: the threads.
        config: turns batching on for all requests, or leaves it to the versions.
        parameters: the parameters of batching.
        metrics: the counters.

    Example:
        runner = GraphRunner(executor, config, BatchingParameters(), Metrics())
        arrays = await runner.run(servable, call, deadline=None)
    """

    def __init__(
        self, executor: Executor, config: ServerConfig, parameters: BatchingParameters, metrics: Metrics
    ):
        self._executor = executor
        self._batch_all = config.enable_batching and not config.enable_per_model_batching_parameters
        self._most = parameters.max_execution_batch_size
        self._batcher = Batcher(executor, parameters, metrics)

    async def run(
        self,
        servable: Servable,
        call: GraphCall[Any],
        deadline: float | None,
        begin: Callable[[], None] = nothing,
    ) -> list[np.ndarray]:
        """Return the values that a call fetches.

        Args:
            servable: the version to call.
            call: the call.
            deadline: a time of `time.monotonic` after which nobody waits for the answer; None for no limit.
            begin: called when a thread begins with it.

        Raises:
            DeadlineExceededError: the deadline has passed before a thread was free, or in the graph.
            ServingError: the graph failed.
        """
        trace = current.get()
        if trace is None:
            return await self._run(servable, call, deadline, begin)
        rows = max((len(array) for array in call.feeds.values() if array.ndim), default=0)
        with trace.run(servable.model, servable.version, call.signature_name, rows, begin) as begin_run:
            return await self._run(servable, call, deadline, begin_run)

    async def _run(
        self, servable: Servable, call: GraphCall[Any], deadline: float | None, begin: Callable[[], None]
    ) -> list[np.ndarray]:
        if self._batch_all or servable.batching or _gains_from_batching(servable, call, self._most):
            return await self._batcher.run(servable, call, deadline, begin)

        def run(call: GraphCall[Any]) -> list[np.ndarray]:
            begin()
            return servable.run(call.feeds, call.fetches, seconds_left(deadline))

        return await _by(deadline, self._in_thread(run, call))

    async def off_loop(self, size: int, function: Callable[..., _T], *args: Any) -> _T:
        """Return the result of `function`; it runs in a thread if it may take over a millisecond.

        Args:
            size: bytes that it processes; if it handles values one by one, the bytes copied in the same time.
            function: the function to call.
            *args: its arguments.
        """
        if size < _SMALL:
            return function(*args)
        return await self._in_thread(function, *args)

    async def _in_thread(self, function: Callable[..., _T], *args: Any) -> _T:
        # An executor keeps cancelled work until a thread looks at it, so cancelled work must hold nothing.
        held = [*args]
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: function(*held))
        finally:
            held.clear()


async def _by(deadline: float | None, work: Awaitable[_T]) -> _T:
    """Return the result of `work`; cancel it at the deadline.

    Raises:
        DeadlineExceededError: the deadline came first.
    """
    try:
        async with asyncio.timeout(None if deadline is None else deadline - time.monotonic()):
            return await work
    except DeadlineExceededError:  # from the work itself
        raise
    except TimeoutError:
        raise expired() from None


def _gains_from_batching(servable: Servable, call: GraphCall[Any], most: int) -> bool:
    """Return True if a call is known to gain from batching: its rows are few, and known as independent."""
    tensors = servable.row_tensors
    if not tensors.issuperset(call.feeds) or not tensors.issuperset(call.fetches):
        return False
    sizes = {len(array) if array.ndim else 0 for array in call.feeds.values()}
    return len(sizes) == 1 and 0 < max(sizes) <= most
