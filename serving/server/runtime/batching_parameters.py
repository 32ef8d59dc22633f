"""Parameters of batching: TensorFlow Serving's, and this server's defaults.

Reference: tensorflow_serving/servables/tensorflow/session_bundle_config.proto (BatchingParameters) and
bundle_factory_util.cc.
"""

import bisect
import logging
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import InvalidArgumentError, ServerStartError
from ..config import ServerConfig
from ..runtime import flag_files_pb2
from ..runtime.cpus import available_cpus
from ..runtime.text_files import TextFileError, read_text_file

_log = logging.getLogger(__name__)

# Beyond this, a row of a small transformer gets no cheaper, and all callers wait longer.
_OWN_BATCH_SIZE = 64
_NO_LIMIT = 2**62
_OWN_FILE = "batching_params.pbtxt"


@dataclass(frozen=True)
class BatchingParameters:
    """Parameters of batching. The defaults are this server's own: no timer, and a queue without a limit.

    Attributes:
        max_batch_size: rows of one request at most, unless it may be split.
        max_execution_batch_size: rows of one run at most.
        timeout_seconds: the wait of a batch that is not full; 0 runs it in the next free thread.
        max_enqueued_batches: batches that may wait.
        num_batch_threads: batches that run at the same time.
        evenly: True divides the waiting rows among simultaneous runs; otherwise each takes all that fit.
        allowed_batch_sizes: numbers of rows a run may have, ascending; empty for any.
        pad: True pads rows of unequal sizes to one size.
        split: True splits requests larger than a run.
    """

    max_batch_size: int = _NO_LIMIT
    max_execution_batch_size: int = _OWN_BATCH_SIZE
    timeout_seconds: float = 0.0
    max_enqueued_batches: int = _NO_LIMIT
    num_batch_threads: int = available_cpus()
    evenly: bool = True
    allowed_batch_sizes: tuple[int, ...] = ()
    pad: bool = False
    split: bool = False

    @property
    def capacity(self) -> int:
        """The number of rows that may wait."""
        return self.max_enqueued_batches * self.max_execution_batch_size

    def padded_size(self, rows: int) -> int:
        """The allowed number of rows for a run of this many."""
        place = bisect.bisect_left(self.allowed_batch_sizes, rows)
        return self.allowed_batch_sizes[place] if place < len(self.allowed_batch_sizes) else rows


def batching_parameters(config: ServerConfig) -> BatchingParameters:
    """The parameters of the config.

    If models have their own parameters, the config only sets the number of threads, which all models share.
    A model without parameters of its own is batched as if batching were not enabled.

    Raises:
        TextFileError: batching_parameters_file cannot be read.
        ServerStartError: there is such a file, but batching is not enabled.
        InvalidArgumentError: the parameters contradict each other.
    """
    if not config.enable_batching:
        if config.enable_per_model_batching_parameters:
            _log.warning("--enable_per_model_batching_parameters has no effect without --enable_batching")
        if str(config.batching_parameters_file):
            raise ServerStartError(
                "--batching_parameters_file is set without setting --enable_batching to true. Set it, or "
                "leave the file out: models with a card of this project are batched without either"
            )
        return BatchingParameters(num_batch_threads=config.cpus)
    if str(config.batching_parameters_file):
        given = _read(config.batching_parameters_file, config.cpus)
    else:
        given = _checked(flag_files_pb2.BatchingParameters(), config.cpus)
    if config.enable_per_model_batching_parameters:
        return replace(BatchingParameters(), num_batch_threads=given.num_batch_threads)
    return given


def own_batching_parameters(path: Path) -> BatchingParameters | None:
    """The parameters in a version's folder; None if there are none.

    Raises:
        InvalidArgumentError: the file cannot be read, or its parameters contradict each other.
    """
    if not (path / _OWN_FILE).exists():
        return None
    try:
        return _read(path / _OWN_FILE)
    except TextFileError as error:
        raise InvalidArgumentError(f"{error}: {error.cause}") from error
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{_OWN_FILE}: {error}") from error


def _read(path: str | Path, cpus: int = 1) -> BatchingParameters:
    known_as = "tensorflow.serving.BatchingParameters"
    return _checked(read_text_file(path, flag_files_pb2.BatchingParameters, known_as), cpus)


def _checked(proto: flag_files_pb2.BatchingParameters, cpus: int) -> BatchingParameters:
    """Return TensorFlow Serving's interpretation of a file, with its defaults."""
    size = proto.max_batch_size.value if proto.HasField("max_batch_size") else 1000
    split = proto.enable_large_batch_splitting.value
    execution = (
        proto.max_execution_batch_size.value if split and proto.max_execution_batch_size.value else size
    )
    allowed = tuple(proto.allowed_batch_sizes)
    if size < 1 or execution < 1 or execution > size:
        raise InvalidArgumentError(
            f"max_batch_size must be positive and not below max_execution_batch_size; were {size} and "
            f"{execution}"
        )
    if list(allowed) != sorted(set(allowed)) or (allowed and allowed[0] < 1):
        raise InvalidArgumentError(f"allowed_batch_sizes must be positive and ascend; was {list(allowed)}")
    if allowed and allowed[-1] != execution:
        limit = "max_execution_batch_size" if split else "max_batch_size"
        raise InvalidArgumentError(
            f"Last entry in allowed_batch_sizes must match {limit}; last entry was {allowed[-1]}; expected "
            f"{execution}"
        )
    return BatchingParameters(
        max_batch_size=size,
        max_execution_batch_size=execution,
        timeout_seconds=proto.batch_timeout_micros.value / 1e6,
        max_enqueued_batches=proto.max_enqueued_batches.value
        if proto.HasField("max_enqueued_batches")
        else 10,
        num_batch_threads=proto.num_batch_threads.value or cpus,
        evenly=False,
        allowed_batch_sizes=allowed,
        pad=proto.pad_variable_length_inputs,
        split=split,
    )
