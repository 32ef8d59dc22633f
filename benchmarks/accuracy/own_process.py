"""A call in its own process: memory that a training leaves behind is freed with the process."""

import pickle
import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from keras_selfattn.cli.shared.backend import held_back_stderr
from keras_selfattn.errors import DataError, TrainingError

# Seconds that the process gets to clean up.
_GRACE = 10


def in_own_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a call in a fresh process; an interrupt here ends that process.

    Args:
        work: a function of a module.
        arguments: its arguments; they and the result can be pickled.

    Raises:
        DataError, TrainingError: the call raised it.
        TrainingError: if the process was killed, such as for want of memory.
        RuntimeError: if the call failed otherwise; its traceback is on standard error.

    Example:

        >>> in_own_process(sorted, [3, 1, 2])
        [1, 2, 3]
    """
    context = get_context("spawn")
    answers, answering = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(answering, pickle.dumps((work, arguments))), daemon=True)
    process.start()
    answering.close()
    try:
        answer = answers.recv()
        process.join(_GRACE)
    except EOFError:
        process.join()
        status = process.exitcode or 0
        if status < 0:
            raise TrainingError(f"the process that trained was killed by signal {-status}") from None
        raise RuntimeError(f"the process that trained ended with status {status}") from None
    finally:
        process.terminate()
        process.join(_GRACE)
        process.kill()
        process.join()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _answer(answering: Connection, call: bytes) -> None:
    # Ctrl-C is for the calling process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Raise an exception, so that temporary folders are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with held_back_stderr():
        import tensorflow as tf

        tf.config.list_physical_devices()
        work, arguments = pickle.loads(call)
    try:
        answering.send(work(*arguments))
    except (DataError, TrainingError) as error:
        answering.send(error)
