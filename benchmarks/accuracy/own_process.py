"""A call in a process of its own: what a training leaves in memory ends with it."""

import pickle
import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from keras_selfattn.errors import DataError, TrainingError
from keras_selfattn.native_messages import held_back_stderr


def in_own_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """Returns what a call returns that is made in a fresh process; an interrupt here ends it.

    Args:
        work: a function of a module.
        arguments: that can be pickled, as what it returns.

    Raises:
        DataError, TrainingError: as the call did.
        TrainingError: if the process ended without an answer, such as for want of memory.

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
    except EOFError:
        process.join()
        raise TrainingError(f"the process that trained ended with status {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _answer(answering: Connection, call: bytes) -> None:
    # Ctrl-C is for the process that asked.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with held_back_stderr():
        import tensorflow as tf

        tf.config.list_physical_devices()
        work, arguments = pickle.loads(call)
    try:
        answering.send(work(*arguments))
    except (DataError, TrainingError) as error:
        answering.send(error)
