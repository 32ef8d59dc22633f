"""Serve until a signal: in this process, or by workers that it supervises."""

import logging
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Protocol, Self, TypeVar

from .config import ServerConfig
from .runtime import descriptors
from .runtime.deadlines import SIGNAL_SECONDS


class Serving(Protocol):
    """A server of one or several processes.

    Attributes:
        config: the models and the addresses.
    """

    config: ServerConfig

    @property
    def target(self) -> str:
        """The "host:port" for a client on this machine."""
        ...

    @property
    def rest_url(self) -> str:
        """The "http://host:port", or https, for a program on this machine; empty without a REST port."""
        ...

    def available(self) -> dict[str, list[int]]:
        """The versions that answer, of every model on the list."""
        ...

    def start(self) -> Self:
        """Start; return when the first request can be answered."""
        ...

    def stop(self, grace: float | None = None) -> None:
        """Stop, and give running requests this many seconds; None for the config's."""
        ...

    def abort(self) -> None:
        """Cut a `stop` short; return at once."""
        ...


_S = TypeVar("_S", bound=Serving)

_log = logging.getLogger(__name__)


def serve_forever(
    config: ServerConfig,
    on_ready: Callable[[Serving], None] | None = None,
    worker_setup: Callable[[int], None] | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT, then drain. A second signal stops at once, a third kills.

    It raises the process's soft limit of descriptors to the hard one; a `Server` inside another program does
    not. Call it from the main thread, which alone gets signals.

    Args:
        config: the models and the addresses.
        on_ready: called with the server when it answers, for example to print its address.
        worker_setup: called first in each worker of `config.workers`, if there are several, with its number
            from 1, for example to set up logging. It is pickled: a function of a module that workers can
            import, and not of the script that is run.

    Returns:
        The exit status: 0 after a signal.

    Raises:
        ServerStartError: there is nothing to serve, the model does not load, or the port is in use.
        InvalidInputError: worker_setup cannot be pickled.

    Example:
        sys.exit(serve_forever(ServerConfig("default", "models/sentiment")))
    """
    descriptors.raise_limit()
    if config.workers > 1:
        from .workers.supervisor import Supervisor

        return serve_until_signal(Supervisor(config, worker_setup), on_ready)
    from .server import Server  # here: a supervisor needs no TensorFlow

    return serve_until_signal(Server(config, own_process=True), on_ready)


def serve_until_signal(server: _S, on_ready: Callable[[_S], None] | None = None) -> int:
    """Do the same as `serve_forever` for a server that has not started."""
    asked = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if not asked.is_set():
            asked.set()
            return
        server.abort()
        for name in handlers:
            signal.signal(name, signal.SIG_DFL)

    def on_early_signal(_number: int, _frame: FrameType | None) -> None:
        # No request has been accepted yet, and a large model may load for minutes.
        asked.set()
        for name in handlers:
            signal.signal(name, on_signal)
        raise _StopBeforeReadyError

    handlers = {number: signal.signal(number, on_early_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.start()
        for number in handlers:
            signal.signal(number, on_signal)
        if on_ready is not None:
            on_ready(server)
        while not asked.wait(SIGNAL_SECONDS):
            pass
        server.stop()
    except _StopBeforeReadyError:
        _log.info("stopping before anything is served; a step of a load that has begun ends first")
        return 0
    finally:
        server.stop(grace=0)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return 0


class _StopBeforeReadyError(BaseException):
    """A signal while the model loads; like KeyboardInterrupt not an Exception, so nothing catches it."""
