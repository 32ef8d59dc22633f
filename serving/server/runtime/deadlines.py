"""Deadlines: moments of `time.monotonic` after which nobody waits for an answer; None for no limit."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any, TypeVar

from ...errors import DeadlineExceededError

_T = TypeVar("_T")


def seconds_left(deadline: float | None) -> float | None:
    """Seconds until a deadline.

    Raises:
        DeadlineExceededError: it has passed.
    """
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise expired()
    return left


async def by(deadline: float | None, work: Awaitable[_T]) -> _T:
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


async def settled(deadline: float | None, future: "asyncio.Future[_T]") -> _T:
    """Return the result of a future, which fails at the deadline if it has none by then.

    Raises:
        DeadlineExceededError: the deadline came first.
    """
    if deadline is None or future.done():
        return await future
    timer = asyncio.get_running_loop().call_later(deadline - time.monotonic(), _expire, future)
    try:
        return await future
    finally:
        timer.cancel()


def _expire(future: "asyncio.Future[Any]") -> None:
    if not future.done():
        future.set_exception(expired())


def expired() -> DeadlineExceededError:
    """The error for a deadline that has passed, in TensorFlow's words."""
    return DeadlineExceededError("Timed out waiting for notification")
