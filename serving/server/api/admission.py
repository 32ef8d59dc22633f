"""Limits on the work at a time: so many requests, and so much memory that their messages do not show.

A message of 40 bytes can name a tensor of gigabytes: it repeats its last value, or none. So what a request
becomes is counted from its message, before anything is allocated.

Reference: tensorflow/core/framework/tensor.proto, tensorflow_serving/apis/input.proto.
"""

import contextlib
from collections.abc import Iterator

from ...errors import InvalidArgumentError, ResourceExhaustedError
from ...wire import codec
from ...wire import messages_pb2 as pb
from ..config import ServerConfig

# All requests together may grow by as much as so many of the largest.
_LARGEST_AT_A_TIME = 4
# A tf.Example in memory: Python's object, and what a string of a tensor takes.
_EXAMPLE_BYTES = 33 + 32


class Admission:
    """Counts requests, and the memory that they take beyond their messages. For one event loop.

    Args:
        config: the limits.

    Example:
        admission = Admission(config)
        with admission.request(), admission.growth(size=40, becomes=2**20):
            ...
    """

    def __init__(self, config: ServerConfig):
        self._most_requests = config.max_concurrent_requests
        self._most_growth = config.max_request_tensor_bytes
        self._requests = 0
        self._growth = 0

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Count a request until it has its answer.

        Raises:
            ResourceExhaustedError: as many as may wait or run already do.
        """
        if self._requests >= self._most_requests:
            raise ResourceExhaustedError(
                f"{self._most_requests} requests wait or run, which is this server's limit; try again later"
            )
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    @contextlib.contextmanager
    def growth(self, size: int, becomes: int) -> Iterator[None]:
        """Count what a request takes in memory beyond its message, until it has its answer.

        Args:
            size: bytes of the message.
            becomes: bytes of its tensors in memory.

        Raises:
            InvalidArgumentError: that is more than one request may take.
            ResourceExhaustedError: it is more than is left beside the requests that wait or run.
        """
        growth = max(0, becomes - size)
        if growth > self._most_growth:
            raise InvalidArgumentError(
                f"a request of {size} bytes may take at most {self._most_growth} bytes more in memory "
                f"(max_request_tensor_bytes); its values take about {becomes}. Send fewer at a time"
            )
        if self._growth + growth > _LARGEST_AT_A_TIME * self._most_growth:
            raise ResourceExhaustedError(
                f"requests that wait or run take {self._growth} bytes beyond their messages, and this one "
                f"would take {growth} more; try again later"
            )
        self._growth += growth
        try:
            yield
        finally:
            self._growth -= growth


def predict_bytes(request: pb.PredictRequest) -> int:
    """Return the memory in bytes that the tensors of a request take."""
    return sum(codec.decoded_bytes(tensor) for tensor in request.inputs.values())


def examples_bytes(request: pb.SerializedInputRequest | pb.SerializedMultiInferenceRequest) -> int:
    """Return the memory in bytes that the examples of a request take, each with what all share."""
    with_context = request.input.example_list_with_context
    count = len(request.input.example_list.examples) + len(with_context.examples)
    return request.ByteSize() + count * (_EXAMPLE_BYTES + len(with_context.context))
