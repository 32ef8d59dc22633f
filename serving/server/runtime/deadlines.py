"""Deadlines: moments of `time.monotonic` after which nobody waits for an answer; None for no limit.

And the longest wait of a thread that must hear of a signal.
"""

import time

from ...errors import DeadlineExceededError

# Longest single wait of the main thread, which runs Python's signal handlers: a signal may reach another
# thread of the process, and does not wake the main thread then.
SIGNAL_SECONDS = 0.2


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


def expired() -> DeadlineExceededError:
    """The error for a deadline that has passed, in TensorFlow's words."""
    return DeadlineExceededError("Timed out waiting for notification")
