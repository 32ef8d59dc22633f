"""The log of a model's requests: a LoggingConfig, checked.

Reference: tensorflow_serving/config/{logging_config,log_collector_config}.proto. TensorFlow Serving's own
binary has no collector, so that it refuses each type.
"""

import math
from dataclasses import dataclass

from ...errors import InvalidArgumentError
from ...wire import messages_pb2 as pb
from ..runtime.record_files import check_prefix

_TYPES = ("", "file")
# A path without them is another folder.
_NO_NAMES = ("", ".", "..")


@dataclass(frozen=True)
class LoggingSettings:
    """A log of requests.

    Attributes:
        prefix: the beginning of the paths of its files.
        sampling_rate: the share of requests that are logged, from 0 to 1.
    """

    prefix: str
    sampling_rate: float


def logging_settings(model: str, config: pb.LoggingConfig) -> LoggingSettings:
    """The log that a model's LoggingConfig asks for.

    Raises:
        InvalidArgumentError: the type or the rate is wrong, or no file can be written at the prefix.
    """
    collector, rate = config.log_collector_config, config.sampling_config.sampling_rate
    at = f"logging_config of model {model}"
    if collector.type not in _TYPES:
        raise InvalidArgumentError(
            f'type in the {at} must be "file", or empty for the same. Received {collector.type!r}'
        )
    if not math.isfinite(rate) or not 0 <= rate <= 1:
        raise InvalidArgumentError(f"sampling_rate in the {at} must be a number from 0 to 1. Received {rate}")
    prefix = collector.filename_prefix
    _check(prefix, model, at)
    return LoggingSettings(prefix, rate)


def _check(prefix: str, model: str, at: str) -> None:
    if not prefix.startswith("/"):
        raise InvalidArgumentError(
            f"filename_prefix in the {at} must be an absolute path, such as /logs/{model}; the time, the "
            f"process and a number follow in the names of files. Received {prefix!r}"
        )
    if prefix.rpartition("/")[2] in _NO_NAMES:
        raise InvalidArgumentError(
            f"filename_prefix in the {at} must end in the beginning of a file's name, such as "
            f"/logs/{model}. Received {prefix!r}"
        )
    try:
        check_prefix(prefix)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise InvalidArgumentError(
            f"filename_prefix in the {at} must be where this process can write. Received {prefix!r}: {error}"
        ) from error
