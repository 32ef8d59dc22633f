"""The models to serve: a ModelServerConfig, checked and converted for the rest of the server, and its watch.

Reference: tensorflow_serving/config/{model_server_config,file_system_storage_path_source,logging_config,
log_collector_config}.proto; the error texts are those of tensorflow_serving/model_servers/server_core.cc.
"""

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensorflow_serving.config import model_server_config_pb2  # pyright: ignore[reportMissingImports]

from keras_selfattn.errors import StorageError
from keras_selfattn.files.object_stores import uri_of

from ...errors import InvalidArgumentError, ServingError
from ...wire import messages_pb2 as pb
from ..config import ServerConfig
from ..runtime.record_files import check_prefix
from ..runtime.text_files import TextFileError, read_text_file
from ..storage.base_paths import BasePath, check_uri
from .version_policy import Policy

_log = logging.getLogger(__name__)

_PLATFORM = "tensorflow"
_TENSORFLOW_TYPE = 1  # the deprecated enum ModelType
_FILE_SCHEME = "file://"
# Of a logging_config. TensorFlow Serving's own binary has no collector, so that it refuses each type.
_LOG_TYPES = ("", "file")
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


@dataclass(frozen=True)
class ModelSettings:
    """One model to serve.

    Attributes:
        name: the name clients ask for.
        base_path: the folder whose numeric children are its versions: absolute, or a URI as a str.
        policy: selects versions; unset for the latest.
        labels: versions by label, which clients can use instead of numbers.
        logging: the log of its requests; None for none.
    """

    name: str
    base_path: BasePath
    policy: Policy = field(default_factory=Policy)
    labels: dict[str, int] = field(default_factory=dict[str, int])
    logging: LoggingSettings | None = None


def configured_models(config: ServerConfig) -> dict[str, ModelSettings]:
    """The models that the server is started with, by name.

    Raises:
        TextFileError: model_config_file cannot be read.
        InvalidArgumentError: it lists a model that cannot be served, or a base path has an unknown scheme.
    """
    if str(config.model_config_file):
        return listed_models(read_model_config(config.model_config_file))
    base = _base_path(config.model_name, str(config.model_base_path))
    # Absolute, but a link stays a link: changing the link is a way to deploy.
    absolute = base.expanduser().absolute() if isinstance(base, Path) else base
    return {config.model_name: ModelSettings(config.model_name, absolute)}


def read_model_config(path: str | Path) -> pb.ModelServerConfig:
    """The ModelServerConfig in a file.

    Raises:
        TextFileError: it cannot be read, or holds something else.
    """
    # TensorFlow Serving's own message has every field that such files may have.
    stock_message: Any = model_server_config_pb2
    stock = read_text_file(path, stock_message.ModelServerConfig, "tensorflow.serving.ModelServerConfig")
    return pb.ModelServerConfig.FromString(stock.SerializeToString())


def listed_models(config: pb.ModelServerConfig) -> dict[str, ModelSettings]:
    """The models of a list, by name.

    Raises:
        InvalidArgumentError: a name is listed twice, a path is relative or of an unknown scheme, a platform
            is unknown, or requests cannot be logged as asked.
    """
    models: dict[str, ModelSettings] = {}
    for each in config.model_config_list.config:
        if each.name in models:
            raise InvalidArgumentError(f"Illegal to list model {each.name} multiple times in config list")
        models[each.name] = _model_settings(each)
    return models


def _model_settings(config: pb.ModelConfig) -> ModelSettings:
    if not config.name:
        raise InvalidArgumentError("A model of the config list has no name")
    _check_platform(config)
    base = _base_path(config.name, config.base_path)
    # Not Path.is_absolute: TensorFlow Serving's rule is the same on every system.
    if isinstance(base, Path) and not config.base_path.removeprefix(_FILE_SCHEME).startswith("/"):
        raise InvalidArgumentError(
            f"Expected model {config.name} to have an absolute path or URI; got base_path()={base}"
        )
    log = _logging_settings(config.name, config.logging_config) if config.HasField("logging_config") else None
    policy, labels = config.model_version_policy, dict(config.version_labels)
    return ModelSettings(config.name, base, policy, labels, log)


def _base_path(model: str, base_path: str) -> BasePath:
    """The folder of this machine that a base path or file:// URI names, or the URI of another one."""
    uri = uri_of(base_path)
    if uri is None:
        return Path(base_path.removeprefix(_FILE_SCHEME))
    try:
        check_uri(uri)
    except StorageError as error:
        raise InvalidArgumentError(f"The base path of model {model} cannot be read: {error}") from error
    return uri


def _check_platform(config: pb.ModelConfig) -> None:
    if config.model_type and config.model_platform:
        raise InvalidArgumentError(
            f"Illegal setting both ModelServerConfig::model_type (deprecated) and "
            f"ModelServerConfig::model_platform, model name is {config.name}"
        )
    if not config.model_type and not config.model_platform:
        raise InvalidArgumentError(
            f"Illegal setting neither ModelServerConfig::model_type (deprecated) nor "
            f"ModelServerConfig::model_platform, model name is {config.name}"
        )
    is_tensorflow = config.model_platform == _PLATFORM or config.model_type == _TENSORFLOW_TYPE
    if not is_tensorflow:
        platform = config.model_platform or "other"
        raise InvalidArgumentError(f"Model {config.name} requests unsupported platform {platform}")


def _logging_settings(model: str, config: pb.LoggingConfig) -> LoggingSettings:
    """The log that a model's LoggingConfig asks for.

    Raises:
        InvalidArgumentError: the type or the rate is wrong, or no file can be written at the prefix.
    """
    collector, rate = config.log_collector_config, config.sampling_config.sampling_rate
    at = f"logging_config of model {model}"
    if collector.type not in _LOG_TYPES:
        raise InvalidArgumentError(
            f'type in the {at} must be "file", or empty for the same. Received {collector.type!r}'
        )
    if not math.isfinite(rate) or not 0 <= rate <= 1:
        raise InvalidArgumentError(f"sampling_rate in the {at} must be a number from 0 to 1. Received {rate}")
    prefix = collector.filename_prefix
    _check_log_prefix(prefix, model, at)
    return LoggingSettings(prefix, rate)


def _check_log_prefix(prefix: str, model: str, at: str) -> None:
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


class ConfigWatch:
    """Read the file of models periodically, and serve a changed list.

    A file that cannot be read, or lists models that cannot be served, is logged once and changes nothing.
    The watch waits for models that do not load, as at the start.

    Args:
        config: the file, and the seconds between two looks.
        reload: serves a list; returns when its models are available or have failed.

    Raises:
        TextFileError: the file is to be watched, and cannot be read.

    Example:
        watch = ConfigWatch(config, lambda listed: models.reload(listed_models(listed), timeout=None))
        watch.start()
        watch.stop()
    """

    def __init__(self, config: ServerConfig, reload: Callable[[pb.ModelServerConfig], None]):
        self._path = config.model_config_file
        self._seconds = config.model_config_file_poll_wait_seconds
        self._reload = reload
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watch-config", daemon=True)
        self._follows = bool(str(self._path)) and self._seconds > 0
        # A file that is not watched may have been removed.
        self._served = read_model_config(self._path) if self._follows else None
        self._complaint = ""

    def start(self) -> None:
        """Begin to watch, unless the config says to read the file once; return at once."""
        if self._follows:
            self._thread.start()

    def stop(self) -> None:
        """Stop watching. A list that is being loaded continues to load."""
        self._stopping.set()

    def look(self) -> None:
        """Look once, and return when the models of a changed file are available or have failed."""
        try:
            config = read_model_config(self._path)
            # An empty file, such as one that is about to be written, changes nothing.
            if config == self._served or not config.HasField("model_config_list"):
                return
            settings = listed_models(config)
            _log.info("model_config_file has changed; models: %s", ", ".join(settings) or "none")
            self._served = config
            self._reload(config)
        except TextFileError as error:
            self._complain(f"it cannot be read, and all stays as it is: {error}: {error.cause}")
        except ServingError as error:
            self._complain(error.details)
        else:
            self._complaint = ""

    def _watch(self) -> None:
        while not self._stopping.wait(self._seconds):
            try:
                self.look()
            except Exception:  # noqa: BLE001 - any error of the file system: the next look may succeed
                _log.exception("looking at model_config_file failed")

    def _complain(self, words: str) -> None:
        """Log a problem, unless it is the previous one."""
        if words != self._complaint:
            _log.error("model_config_file: %s", words)
        self._complaint = words
