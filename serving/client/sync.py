"""The synchronous client: `core`'s operations over one gRPC channel."""

import time
from collections.abc import Sequence
from typing import Any, Self, TypeVar

import grpc
import numpy as np

from ..errors import ClientClosedError, ServingError
from . import core
from .answers import ModelMetadata, VersionStatus
from .values import Inputs, checked_texts, seconds

_T = TypeVar("_T")

_CHANNEL_OPTIONS = [
    # gRPC receives at most 4 MiB unless told otherwise: less than one batch of attention weights.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A server that starts a moment later is found within that moment, not after gRPC's growing back-off.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


class Client:
    """Asks a model on a server of TensorFlow Serving's gRPC API: this project's or TensorFlow Serving itself.

    Needs grpcio, protobuf and NumPy, not TensorFlow. May be used from several threads at once.

    Args:
        target: the server's address, "host:port". The connection is not encrypted.
        model: the name the model is served under.
        timeout: seconds each call may take unless the call says otherwise.

    Raises:
        InvalidInputError: the target is no "host:port", or the timeout is not positive and finite.

    Example:
        with Client("localhost:8500") as client:
            client.wait_until_ready(30)
            client.classify(["what a film", "what a bore"])  # [("pos", 0.98), ("neg", 0.95)]
    """

    def __init__(self, target: str, model: str = "default", *, timeout: float = 10.0):
        self._core = core.Core(target, model)
        self._timeout = seconds("timeout", timeout)
        self._channel: grpc.Channel | None = grpc.insecure_channel(target, options=_CHANNEL_OPTIONS)

    def predict(
        self,
        inputs: Inputs,
        signature: str = core.DEFAULT_SIGNATURE,
        outputs: Sequence[str] | None = None,
        version: int | None = None,
        timeout: float | None = None,
    ) -> dict[str, np.ndarray]:
        """The model's outputs for a batch of inputs.

        An array is sent with the dtype it has. Python's numbers have none, so lists of them get the dtype of
        the served signature, which the client asks for once and remembers until the version changes.

        Args:
            inputs: a mapping from input names to arrays, numbers, strings or nested lists of them; or one
                such value alone if the signature has exactly one input.
            signature: the signature to call.
            outputs: names of the outputs to return; None for all.
            version: a version's number; None for the latest.
            timeout: seconds for the whole call; None for the client's own.

        Returns:
            Each output's array by name. A string output is an object array of `str` if all of it is valid
            UTF-8, else of `bytes`. Arrays may be read-only views of the answer: copy one to write to it.

        Raises:
            ServingError: one of its subclasses, by what went wrong; see `keras_selfattn.serving.errors`.

        Example:
            client.predict({"x": np.float32([1, 2])})["y"]  # array([2.5, 3. ], dtype=float32)
        """
        return self._run(self._core.predict(inputs, signature, outputs, version), timeout)

    def classify(self, texts: Sequence[str], timeout: float | None = None) -> list[tuple[str, float]]:
        """The label and its score for each text.

        Args:
            texts: a list of str, not one str.
            timeout: seconds for the whole call; None for the client's own.

        Returns:
            One (label, score) for each text, in order.

        Raises:
            InvalidInputError: texts is a single str, or holds something else.
            FailedPreconditionError: the model has no outputs `label` and `score`.
            ServingError: as for `predict`.

        Example:
            client.classify(["what a film"])  # [("pos", 0.98)]
        """
        steps = self._core.predict(checked_texts(texts), core.DEFAULT_SIGNATURE, None, None)
        return core.classified(self._run(steps, timeout), self._core.target, self._core.model)

    def metadata(self) -> ModelMetadata:
        """The signatures of the latest version: names, dtypes and shapes of inputs and outputs.

        Returns:
            A ModelMetadata; its repr is a readable listing.

        Raises:
            ServingError: as for `predict`.

        Example:
            client.metadata().signatures["serving_default"].inputs  # {"text": string [None]}
        """
        return self._run(self._core.metadata(), None)

    def status(self) -> list[VersionStatus]:
        """The state of every version of the model that the server knows, newest first.

        Returns:
            One VersionStatus for each.

        Raises:
            NotFoundError: the server knows no such model.
            ServingError: as for `predict`.

        Example:
            client.status()[0].state  # "AVAILABLE"
        """
        return self._run(self._core.status(), None)

    def wait_until_ready(self, timeout: float) -> list[VersionStatus]:
        """Waits until the server is there and some version of the model is available.

        Args:
            timeout: seconds to wait at most.

        Returns:
            The state of every version.

        Raises:
            DeadlineExceededError: none was available in time; the message ends with the last reason.
            ServingError: waiting will not help, for example because the server does not know the call.

        Example:
            client.wait_until_ready(30)
        """
        limit = seconds("timeout", timeout)
        return self._run(self._core.wait_until_ready(limit), limit)

    def close(self) -> None:
        """Closes the connection. Calls in other threads end with CancelledError; closing twice is fine."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._core.target!r}, {self._core.model!r}, timeout={self._timeout:g})"

    def _run(self, steps: core.Steps[_T], timeout: float | None) -> _T:
        """Drives one operation to its result, all of its calls within one deadline."""
        limit = self._timeout if timeout is None else seconds("timeout", timeout)
        deadline = time.monotonic() + limit
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._do(step, deadline)
                except ServingError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as finished:
            return finished.value

    def _do(self, step: core.Request | core.Pause, deadline: float) -> Any:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            signature = step.signature if isinstance(step, core.Request) else ""
            raise self._core.error(grpc.StatusCode.DEADLINE_EXCEEDED, "the time is up", signature)
        if isinstance(step, core.Pause):
            return time.sleep(min(step.seconds, remaining))
        return self._send(step, remaining)

    def _send(self, request: core.Request, timeout: float) -> bytes:
        # Bytes in and out: `core` parses, so that an answer it cannot read is its own kind of error.
        try:
            call = self._open_channel().unary_unary(request.method)
            return call(request.message, timeout=timeout, wait_for_ready=request.wait_for_ready)
        except grpc.RpcError as error:
            # grpc raises its errors as calls, which have a code and details; the stubs do not say so.
            code, details = error.code(), error.details() or ""  # pyright: ignore[reportAttributeAccessIssue]
            raise self._core.error(code, details, request.signature) from error
        except ValueError:
            # Another thread closed the channel after the check: grpc says so with a ValueError.
            self._open_channel()
            raise

    def _open_channel(self) -> grpc.Channel:
        if self._channel is None:
            raise ClientClosedError(
                f"this client of {self._core.target} is closed; make a new Client",
                target=self._core.target,
                model=self._core.model,
            )
        return self._channel
