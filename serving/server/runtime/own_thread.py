"""A thread for work that may take long, such as loading a model."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")


async def in_own_thread(function: Callable[[], _T]) -> _T:
    """Return the result of `function`, from a thread that does not delay the end of the process.

    For work that may take as long as loading a model: at its end, a process waits for the threads of a pool.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def settle(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not done.done():
            set_outcome(outcome)

    def run() -> None:
        try:
            outcome = (done.set_result, function())
        except Exception as error:  # noqa: BLE001 - raised in the coroutine that awaits
            outcome = (done.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it the caller
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, daemon=True).start()
    return await done
