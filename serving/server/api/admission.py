"""The server's door: requests of both transports come in here, and are counted until they have their answer.

It limits the number of requests, and the memory of their tensors beyond their messages. A message of 40 bytes
can name a tensor of gigabytes: its last value, or zero, is repeated. So the memory of a request is computed
from its message, before anything is allocated. The count of requests without an answer also tells when a
server can stop.

Reference: tensorflow/core/framework/tensor.proto, tensorflow_serving/apis/input.proto.
"""

import asyncio
import contextlib
import logging
from contextlib import AbstractContextManager

from ...errors import InvalidArgumentError, ResourceExhaustedError, UnavailableError
from ...wire import codec
from ...wire import messages_pb2 as pb
from ...wire.message_bytes import field_count
from ..config import ServerConfig

_log = logging.getLogger(__name__)

# All requests together may grow by this many times the limit of one request.
_LARGEST_AT_A_TIME = 4
_FIELD_BYTES = 2
# Bytes of a tf.Example in memory beside its message: Python's object, and a tensor's string.
_EXAMPLE_BYTES = 33 + 32


class Admission:
    """Let requests in, count them, and wait for the last one. For one event loop.

    Every request begins and ends here. One for inference enters, too, with its caller's address, and then
    asks for its memory.

    Args:
        config: the limits.

    Example:
        admission = Admission(config)
        admission.begin()
        admission.enter("192.0.2.7")
        with admission.growth(size=40, becomes=2**20):
            ...
        admission.leave("192.0.2.7")
        admission.end()
    """

    def __init__(self, config: ServerConfig):
        self._most_entered = config.max_concurrent_requests
        self._most_growth = config.max_request_tensor_bytes
        self._most_search = config.max_request_search_bytes
        self._begun = self._entered = self._growth = 0
        self._entered_of: dict[str, int] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False

    def check_open(self) -> None:
        """Raise UnavailableError if new requests are refused."""
        if self._draining:
            raise UnavailableError("the server is shutting down")

    def begin(self) -> None:
        """Record that a request has arrived."""
        self._begun += 1
        self._idle.clear()

    def end(self) -> None:
        """Record that a request has its answer."""
        self._begun -= 1
        if self._begun == 0:
            self._idle.set()

    async def idle(self) -> None:
        """Return when no request runs; new ones may arrive meanwhile."""
        await self._idle.wait()

    async def drain(self) -> None:
        """Refuse new requests from now on, and return when the running ones have an answer."""
        self._draining = True
        await self._idle.wait()

    def enter(self, client: str) -> None:
        """Let a request for inference in, which waits or runs until it leaves.

        Args:
            client: the caller's address, without its port.

        Raises:
            ResourceExhaustedError: the limit of waiting and running requests is reached.
        """
        # A limit for each client would be refused here, too: `of_client` is what it would be compared with.
        of_client = self.entered_of(client)
        if self._entered >= self._most_entered:
            _log.debug(
                "a request of %s is refused: %d wait or run, %d of this client",
                *(client, self._entered, of_client),
            )
            raise ResourceExhaustedError(
                f"{self._most_entered} requests wait or run, which is this server's limit; try again later"
            )
        self._entered += 1
        self._entered_of[client] = of_client + 1

    def leave(self, client: str) -> None:
        """Record that a request that has entered has its answer.

        Args:
            client: as in `enter`.
        """
        self._entered -= 1
        of_client = self._entered_of.pop(client) - 1
        if of_client:  # those of clients that have gone would fill the memory
            self._entered_of[client] = of_client

    def entered_of(self, client: str) -> int:
        """Return the number of a client's requests that wait or run.

        Args:
            client: as in `enter`.
        """
        return self._entered_of.get(client, 0)

    def growth(self, size: int, becomes: int) -> AbstractContextManager[None]:
        """Count the memory of a request beyond its message, until it has its answer.

        Args:
            size: bytes of the message.
            becomes: bytes of its tensors in memory.

        Raises:
            InvalidArgumentError: on entry, the memory is above the limit of one request.
            ResourceExhaustedError: on entry, the memory is more than the waiting and running requests leave.
        """
        return _Growth(self, size, becomes) if becomes > size else _NO_GROWTH

    def check_search(self, rows: int, row_bytes: int) -> None:
        """Refuse a request for more texts than a model should write for one caller.

        Args:
            rows: of the request.
            row_bytes: of each of them, as `SearchCost.of_row` has it.

        Raises:
            InvalidArgumentError: at the bounds of the model they take more bytes than one request may.
        """
        if rows * row_bytes > self._most_search:
            few = self._most_search // row_bytes
            advice = "Not one row of this model fits: raise the bound, or serve fewer beams or max_new_tokens"
            raise InvalidArgumentError(
                f"the answers to a request may take at most {self._most_search} bytes of candidates "
                f"(max_request_search_bytes); those to {rows} rows may take {rows * row_bytes}. "
                + (f"Send {few} or fewer at a time" if few else advice)
            )

    def _grow(self, size: int, becomes: int) -> None:
        growth = becomes - size
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

    def _shrink(self, growth: int) -> None:
        self._growth -= growth


_NO_GROWTH = contextlib.nullcontext()


class _Growth:
    """The block of a request that takes more memory than its message."""

    __slots__ = ("_admission", "_becomes", "_size")

    def __init__(self, admission: Admission, size: int, becomes: int):
        self._admission = admission
        self._size = size
        self._becomes = becomes

    def __enter__(self) -> None:
        self._admission._grow(self._size, self._becomes)

    def __exit__(self, *_: object) -> None:
        self._admission._shrink(self._becomes - self._size)


def check_fields(data: bytes, most: int) -> None:
    """Refuse a request with more fields than any real one has, before it is parsed.

    A field takes at least two bytes of a message, and may take a message of its own in memory.

    Args:
        data: the serialized request.
        most: the most fields.

    Raises:
        InvalidArgumentError: it has more.
    """
    if len(data) > _FIELD_BYTES * most and field_count(data, most) > most:
        raise InvalidArgumentError(
            f"a request must have at most {most} fields, such as inputs. Received more"
        )


def predict_bytes(request: pb.PredictRequest) -> int:
    """Return the memory of a request's tensors in bytes."""
    return sum(codec.decoded_bytes(tensor) for tensor in request.inputs.values())


def examples_bytes(request: pb.SerializedInputRequest | pb.SerializedMultiInferenceRequest) -> int:
    """Return the memory of a request's examples in bytes, each with the shared context."""
    with_context = request.input.example_list_with_context
    count = len(request.input.example_list.examples) + len(with_context.examples)
    return request.ByteSize() + count * (_EXAMPLE_BYTES + len(with_context.context))
