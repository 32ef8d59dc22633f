"""A call that has begun, in a process that does something else meanwhile."""

import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc

from .steps import Request

# Makes the attempt whose turn it is, by the connection of that number; returns the answer.
Attempt = Callable[[int], bytes]

# Lets so many seconds pass between two attempts.
Wait = Callable[[float], object]


class UnderWay:
    """A call that has begun, whose other attempts are made when its answer is asked for.

    Args:
        request: what was asked.
        place: the number of the connection for the first attempt.
        begin: begins an attempt by the connection of that number; returns gRPC's future.
        answer: returns what an attempt returns, the first or another; raises what came instead.
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
        self._asked = False  # whether its answer was asked for

    def done(self) -> bool:
        """Return whether `result` has it at once, or knows that the first attempt failed."""
        return self._future.done()

    def result(self) -> bytes:
        """The answer; to be asked for once.

        Raises:
            ServingError: what came instead; CancelledError after `cancel`.
        """
        return self._answer(self._attempt, self._cancelled.wait)

    def cancel(self) -> None:
        """End it: the attempt that is under way, and the pause before one. There are no more."""
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
        # Meanwhile `cancel` may have ended the attempt before. It sets the event and then looks for the
        # attempt, so that one of the two sees the other.
        if self._cancelled.is_set():
            self._future.cancel()


class RetriedUnderWay(UnderWay):
    """A call that has begun, whose other attempts are made at once, in a thread.

    So do gRPC's own: calls that fail side by side pause side by side, while others are made.
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
        except Exception as error:  # noqa: BLE001 - no thread to be had; who asks for the answer hears of it
            self._settled.set_exception(error)
            return
        self._settle()

    def _settle(self) -> None:
        try:
            self._settled.set_result(super().result())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that asks for the answer
            self._settled.set_exception(error)
