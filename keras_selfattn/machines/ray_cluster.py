"""A Ray cluster: the connection within a deadline and its errors, for all that runs on one."""

import importlib
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from keras_selfattn.errors import ConfigError, DataError, SelfAttentionError, first_line


def connect(address: str, timeout: float, *needed: str) -> Any:
    """Connect to a Ray cluster and return the module `ray`.

    The address "local" starts a cluster of this machine, which ends with the process or `ray.shutdown`.

    Args:
        address: as `ray.init` takes it: host:port, auto or local.
        timeout: seconds until the cluster must have answered.
        needed: modules of Ray that are needed besides, such as "ray.data".

    Raises:
        ConfigError: if Ray is not installed, the program is connected already, or no cluster answers.
    """
    ray = _imported(needed)
    if ray.is_initialized():
        raise ConfigError(
            "This program is connected to a Ray cluster already. Call `ray.shutdown()` before it uses "
            f"{address!r}."
        )
    logging.getLogger("ray").setLevel(logging.ERROR)  # it warns of its thread
    failed: list[BaseException] = []
    answered = threading.Event()

    def begin() -> None:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
        except BaseException as error:  # noqa: BLE001  whatever Ray raises, it is told
            failed.append(error)
        answered.set()
        threading.Event().wait()  # a cluster of this machine is killed when the thread that started it ends

    # Ray itself tries for a minute and more.
    threading.Thread(target=begin, daemon=True).start()
    if not answered.wait(timeout) or failed:
        reason = f": {first_line(failed[0])}" if failed else f" within {timeout:g} s"
        raise ConfigError(
            f"No Ray cluster answers at {address!r}{reason}. Name the address of its head, such as "
            "10.0.0.1:6379, or local for a cluster of this machine; --timeout gives it more seconds."
        )
    _take_back(signal.SIGTERM)
    return ray


def _take_back(number: signal.Signals) -> None:
    """Let a signal call Python's handler again, in place of Ray's, which prints a stack and aborts."""
    handler = signal.getsignal(number)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(number, handler)


def _imported(needed: tuple[str, ...]) -> Any:
    try:
        for name in needed:
            importlib.import_module(name)
        return importlib.import_module("ray")  # by name: it is there only with the extra
    except ImportError as error:
        raise ConfigError("Ray is not installed: pip install 'keras-selfattn[ray]'") from error


@contextmanager
def ray_errors() -> Iterator[None]:
    """Raise the error of ours that a task of Ray failed with, or DataError with the reason."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, importlib.import_module("ray.exceptions").RayError):
            raise
        # Of a task the error itself; of an actor's constructor only Ray's words.
        cause = getattr(error, "cause", None)
        if isinstance(cause, SelfAttentionError):
            raise cause from error
        reason = first_line(error) if cause is None else f"{type(cause).__name__}: {first_line(cause)}"
        raise DataError(f"Ray failed: {reason}.") from error
