"""One end of the pipe between the supervisor and a worker: calls in both directions."""

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from multiprocessing.connection import Connection
from typing import Any

import grpc

from ...errors import ERROR_OF_CODE, DeadlineExceededError, InternalError, ServingError, UnavailableError

_log = logging.getLogger(__name__)

_CALL, _DONE, _FAILED = "call", "done", "failed"


class PeerGoneError(UnavailableError):
    """The process at the other end has ended."""


class Peer:
    """Call functions of the process at the other end, and answer its calls. Any number of threads may call.

    Arguments and results are pickled: both ends are processes of one server.

    Args:
        connection: to the other end.
        actions: functions for the other end to call, by name.
        on_end: called when the other end has closed.

    Example:
        ours, theirs = multiprocessing.Pipe()
        peer = Peer(ours, {"double": lambda x: 2 * x}, on_end=print)
        peer.start()
        models = peer.call("available", timeout=2.0)
    """

    def __init__(
        self, connection: Connection, actions: Mapping[str, Callable[..., Any]], on_end: Callable[[], None]
    ):
        self._connection = connection
        self._actions = actions
        self._on_end = on_end
        self._sending = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._settling = threading.Lock()
        self._late: set[int] = set()
        self._gone = False
        self._reader = threading.Thread(target=self._read, name="peer", daemon=True)

    def start(self) -> None:
        """Begin to answer; return at once."""
        self._reader.start()

    @property
    def is_silent(self) -> bool:
        """True if an answer that nobody waits for is still to come."""
        return bool(self._late)

    def call(self, action: str, *arguments: Any, timeout: float | None) -> Any:
        """Return the result of the other end's action.

        Args:
            action: its name there.
            *arguments: its arguments.
            timeout: seconds to wait; None for no limit.

        Raises:
            PeerGoneError: the other end has ended, or ends before it answers.
            DeadlineExceededError: no answer came in time.
            ServingError: the action raised it.
        """
        number, answer = next(self._numbers), Future[Any]()
        self._waiting[number] = answer
        try:
            if self._gone or not self._send(number, _CALL, action, arguments):
                raise PeerGoneError("the other process has ended")
            return answer.result(timeout)
        except TimeoutError as error:
            if isinstance(error, ServingError):
                raise
            with self._settling:
                if not answer.done():
                    self._late.add(number)
            raise DeadlineExceededError(f"no answer within {timeout:g} s") from None
        finally:
            del self._waiting[number]

    def _send(self, *message: Any) -> bool:
        """Return True if the message could be sent."""
        try:
            with self._sending:
                self._connection.send(message)
        except OSError:
            return False
        return True

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                number, kind, *content = self._connection.recv()
                if kind == _CALL:
                    threading.Thread(target=self._answer, args=(number, *content), daemon=True).start()
                    continue
                waiting = self._waiting.get(number)
                with self._settling:
                    self._late.discard(number)
                    if waiting is not None:
                        _settle(waiting, kind, *content)
        self._gone = True
        for waiting in list(self._waiting.values()):
            if not waiting.done():
                waiting.set_exception(PeerGoneError("the other process has ended"))
        self._connection.close()
        self._on_end()

    def _answer(self, number: int, action: str, arguments: tuple[Any, ...]) -> None:
        try:
            result = self._actions[action](*arguments)
        except ServingError as error:
            self._send(number, _FAILED, error.code.name, error.details)
        except Exception:  # noqa: BLE001 - whoever called must hear of it
            _log.exception("%s failed", action)
            self._send(
                number, _FAILED, grpc.StatusCode.INTERNAL.name, "internal error; the log has the cause"
            )
        else:
            self._send(number, _DONE, result)


def _settle(waiting: Future[Any], kind: str, *content: Any) -> None:
    if kind == _DONE:
        waiting.set_result(content[0])
        return
    code, details = content
    waiting.set_exception(ERROR_OF_CODE.get(grpc.StatusCode[code], InternalError)(details))
