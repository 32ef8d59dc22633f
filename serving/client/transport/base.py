"""The seam between a client and its connections: a transport takes one call's bytes and returns its answer's.

The client checks inputs, writes requests, splits batches and reads answers; it does everything over one of
these. Give it another one to test a program without a server (`FunctionTransport`), to record calls, or to
send them another way.
"""

from abc import abstractmethod
from concurrent import futures
from dataclasses import dataclass
from typing import Protocol

PREDICT = "/tensorflow.serving.PredictionService/Predict"
GET_MODEL_METADATA = "/tensorflow.serving.PredictionService/GetModelMetadata"
GET_MODEL_STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"


@dataclass(frozen=True)
class Request:
    """One call to make.

    Attributes:
        method: the path of the call, such as "/tensorflow.serving.PredictionService/Predict".
        message: the serialized request.
        signature: the requested signature, for messages.
        rows: the rows of a larger call that it carries; None if it is whole.
        wait_for_ready: True waits for a server that is not there yet.
        connection: the number of the connection to use; None for the next.

    Example:
        >>> Request("/tensorflow.serving.PredictionService/Predict", b"").method.rpartition("/")[2]
        'Predict'
    """

    method: str
    message: bytes
    signature: str = ""
    rows: range | None = None
    wait_for_ready: bool = False
    connection: int | None = None


class PendingAnswer(Protocol):
    """A call in progress; a `concurrent.futures.Future` is one.

    Example:
        answer: PendingAnswer = concurrent.futures.Future()
    """

    def done(self) -> bool:
        """Return True if `result` does not have to wait for the first attempt."""
        ...

    def result(self) -> bytes:
        """Wait for the answer and return it, or raise the call's ServingError."""
        ...

    def cancel(self) -> object:
        """End the call; nobody will ask for its answer."""
        ...


class Transport(Protocol):
    """Carries the calls of a `Client`. Several threads may use it at once.

    Derive from it and write `send`; the other methods have defaults.

    Example:
        class Recorded(Transport):
            def __init__(self, answers: dict[bytes, bytes]):
                self.answers = answers

            def send(self, request: Request, timeout: float) -> bytes:
                return self.answers[request.message]
    """

    @abstractmethod
    def send(self, request: Request, timeout: float) -> bytes:
        """Make a call and return the answer's bytes.

        Args:
            request: the call.
            timeout: seconds it may take, retries included.

        Raises:
            ServingError: the call failed; see `keras_selfattn.serving.errors`.
        """
        ...

    def begin(self, request: Request, timeout: float) -> PendingAnswer:
        """Begin a call beside others of the same operation. By default it is made at once, and waited for."""
        answer: futures.Future[bytes] = futures.Future()
        try:
            answer.set_result(self.send(request, timeout))
        except Exception as error:  # noqa: BLE001 - raised where the answer is asked for
            answer.set_exception(error)
        return answer

    def close(self) -> None:
        """End the calls in progress. Closing twice is fine."""


class AsyncTransport(Protocol):
    """Carries the calls of an `AsyncClient`: a `Transport` whose methods are coroutines.

    Example:
        class Recorded(AsyncTransport):
            async def asend(self, request: Request, timeout: float) -> bytes:
                return ANSWERS[request.message]
    """

    @abstractmethod
    async def asend(self, request: Request, timeout: float) -> bytes:
        """Make a call and return the answer's bytes; see `Transport.send`. Several run side by side."""
        ...

    async def aclose(self) -> None:
        """End the calls in progress. Closing twice is fine."""
