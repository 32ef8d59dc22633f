"""The server's settings, checked once."""

import math
import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import InvalidInputError


@dataclass(frozen=True)
class ServerConfig:
    """What to serve, and where. Named after TensorFlow Serving's flags where it has one.

    Attributes:
        model_name: the name clients ask for.
        model_base_path: the folder whose numeric children are the model's versions.
        host: the address to listen on; loopback unless told otherwise, since nothing is encrypted.
        port: the gRPC port; 0 takes any free one.
        file_system_poll_wait_seconds: seconds between two looks for new versions.
        shutdown_grace_seconds: seconds that running requests get to finish when the server stops.
        tensorflow_intra_op_parallelism: threads for one operation; 0 takes all cores. Requests run side by
            side already, and with 1 a small one costs half the CPU time; only a single caller with large
            batches gains from more. TensorFlow keeps what the first session of a process asked for.

    Raises:
        InvalidInputError: a setting is out of its range.

    Example:
        >>> ServerConfig(model_name="default", model_base_path="models/sentiment").port
        8500
    """

    model_name: str
    model_base_path: str | Path
    host: str = "127.0.0.1"
    port: int = 8500
    file_system_poll_wait_seconds: float = 1.0
    shutdown_grace_seconds: float = 30.0
    tensorflow_intra_op_parallelism: int = 1

    def __post_init__(self) -> None:
        _require(
            isinstance(self.model_name, str) and re.fullmatch(r"[^/:\s]+", self.model_name) is not None,
            f"model_name must be a name without '/', ':' and spaces. Received {self.model_name!r}",
        )
        _require(
            isinstance(self.model_base_path, str | Path) and bool(str(self.model_base_path)),
            f"model_base_path must be the folder that holds the model's versions. "
            f"Received {self.model_base_path!r}",
        )
        _require(
            isinstance(self.host, str) and bool(self.host),
            f"host must be an address, such as 127.0.0.1 or 0.0.0.0 for all. Received {self.host!r}",
        )
        _require(
            _is_int(self.port) and 0 <= self.port < 2**16,
            f"port must be an integer from 0 (any free one) to 65535. Received {self.port!r}",
        )
        _require(
            _is_seconds(self.file_system_poll_wait_seconds) and self.file_system_poll_wait_seconds > 0,
            f"file_system_poll_wait_seconds must be a positive number of seconds. "
            f"Received {self.file_system_poll_wait_seconds!r}",
        )
        _require(
            _is_seconds(self.shutdown_grace_seconds),
            f"shutdown_grace_seconds must be a number of seconds, 0 to wait for nothing. "
            f"Received {self.shutdown_grace_seconds!r}",
        )
        _require(
            _is_int(self.tensorflow_intra_op_parallelism) and self.tensorflow_intra_op_parallelism >= 0,
            f"tensorflow_intra_op_parallelism must be a number of threads, 0 for TensorFlow's choice. "
            f"Received {self.tensorflow_intra_op_parallelism!r}",
        )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InvalidInputError(message)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_seconds(value: object) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    )
