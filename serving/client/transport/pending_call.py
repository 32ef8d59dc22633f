"""A call in progress, while the process does other work."""

import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc

from ..steps import Request

# Makes the next attempt on the connection of that number; returns the answer.
Attempt = Callable[[int], bytes]

# Waits so many seconds between two attempts.
Wait = Callable[[float], object]


class PendingCall:
    """A call in progress whose retries are made when its answer is requested.

    Args:
        request: the request.
        place: the number of the connection for the first attempt.
        begin: begins an attempt on the connection of that number; returns gRPC's future.
        answer: returns the answer of the first or a later attempt; raises its error.
    """

    def __init__(
        self,
        request: Request,
        place: int,
        begin: Callable[[int], Any],
        answer: Callable[[Attempt, Wait], bytes],
    ):
        self.request = request
        self._begin = begin
        self._answer = answer
        self._cancelled = threading.Event()
        self._future = begin(place)  # of the present attempt
        self._asked = False  # True once its answer was requested

    def done(self) -> bool:
        """Return True if `result` returns at once, or the first attempt has failed."""
        return self._future.done()

    def result(self) -> bytes:
        """Return the answer; call it once.

        Raises:
            ServingError: the call failed; CancelledError after `cancel`.
        """
        return self._answer(self._attempt, self._cancelled.wait)

    def cancel(self) -> None:
        """End the current attempt, or the pause before one. No other attempt follows."""
        self._cancelled.set()
        self._future.cancel()

    def _attempt(self, place: int) -> bytes:
        if self._asked:
            self._begin_another(place)
        self._asked = True
        return self._future.result()

    def _begin_another(self, place: int) -> None:
        if self._cancelled.is_set():
            raise grpc.FutureCancelledError
        self._future = self._begin(place)
        # `cancel` may have ended the previous attempt meanwhile. It sets the event and then looks for the
        # attempt, so one of the two always sees the other.
        if self._cancelled.is_set():
            self._future.cancel()


class RetriedPendingCall(PendingCall):
    """A call in progress whose retries are made at once, in a thread.

    gRPC's own retries do the same: several failed calls wait at the same time, while other calls continue.
    """

    def __init__(
        self,
        request: Request,
        place: int,
        begin: Callable[[int], Any],
        answer: Callable[[Attempt, Wait], bytes],
    ):
        super().__init__(request, place, begin, answer)
        self._settled: futures.Future[bytes] = futures.Future()
        self._future.add_done_callback(self._end)

    def done(self) -> bool:
        return self._settled.done()

    def result(self) -> bytes:
        return self._settled.result()

    def _end(self, future: Any) -> None:
        try:
            if future.code() is grpc.StatusCode.UNAVAILABLE:
                threading.Thread(target=self._settle, name="retry", daemon=True).start()
                return
        except Exception as error:  # noqa: BLE001 - no thread is available; raised in the thread that asks
            self._settled.set_exception(error)
            return
        self._settle()

    def _settle(self) -> None:
        try:
            self._settled.set_result(super().result())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that asks for the answer
            self._settled.set_exception(error)
