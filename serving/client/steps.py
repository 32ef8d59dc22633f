"""Steps that an operation asks of a transport: to send, to send many, to wait.

An operation is a generator of these. The transport sends back what came of each, or throws the ServingError
that came instead; what the generator returns is the operation's result. `sync` and `aio` each drive them with
their own calls and hold nothing else.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

_T = TypeVar("_T")

PREDICT = "/tensorflow.serving.PredictionService/Predict"
CLASSIFY = "/tensorflow.serving.PredictionService/Classify"
REGRESS = "/tensorflow.serving.PredictionService/Regress"
MULTI_INFERENCE = "/tensorflow.serving.PredictionService/MultiInference"
GET_MODEL_METADATA = "/tensorflow.serving.PredictionService/GetModelMetadata"
GET_MODEL_STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"

# The calls that change nothing, so that one which may have arrived can be sent again.
SAFE_TO_REPEAT = {PREDICT, CLASSIFY, REGRESS, MULTI_INFERENCE, GET_MODEL_METADATA, GET_MODEL_STATUS}


@dataclass(frozen=True)
class Request:
    """One call to make; the answer's bytes are sent back.

    Attributes:
        method: the path of the call.
        message: the serialized request.
        signature: the signature it asks for, for messages.
        rows: which rows of a larger call it carries; None if it is whole.
        wait_for_ready: whether to wait for a server that is not there yet.
        connection: the number of the connection to ask by; None for the next.
    """

    method: str
    message: bytes
    signature: str = ""
    rows: range | None = None
    wait_for_ready: bool = False
    connection: int | None = None


@dataclass(frozen=True)
class Many:
    """Calls to make side by side, a few at a time; the list of their answers is sent back, in order.

    The requests are taken one by one, when there is room for them.
    """

    requests: Iterator[Request]


@dataclass(frozen=True)
class Pause:
    """Wait this many seconds; None is sent back."""

    seconds: float


Step = Request | Many | Pause
Steps = Generator[Step, Any, _T]
