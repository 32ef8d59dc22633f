"""The models to serve: a ModelServerConfig, checked and converted for the rest of the server.

Reference: tensorflow_serving/config/{model_server_config,file_system_storage_path_source}.proto; the error
texts are those of tensorflow_serving/model_servers/server_core.cc.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensorflow_serving.config import model_server_config_pb2  # pyright: ignore[reportMissingImports]

from keras_selfattn.errors import StorageError
from keras_selfattn.files.object_stores import uri_of

from ...errors import InvalidArgumentError
from ...wire import messages_pb2 as pb
from ..config import ServerConfig
from ..runtime.text_files import read_text_file
from ..storage.base_paths import BasePath, check_uri
from .logging_config import LoggingSettings, logging_settings

Policy = pb.FileSystemStoragePathSourceConfig.ServableVersionPolicy
_PLATFORM = "tensorflow"
_TENSORFLOW_TYPE = 1  # the deprecated enum ModelType
_FILE_SCHEME = "file://"


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

    def candidates(self, versions: Iterable[int]) -> tuple[list[int], int]:
        """The versions that may be served, newest first, and the number to serve.

        If a version does not load, the next older one replaces it, until this number are served.
        """
        newest_first = sorted(versions, reverse=True)
        match self.policy.WhichOneof("policy_choice"):
            case "all":
                return newest_first, len(newest_first)
            case "specific":
                listed = [number for number in newest_first if number in self.policy.specific.versions]
                return listed, len(listed)
            case _:
                return newest_first, self.policy.latest.num_versions or 1


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
    logging = (
        logging_settings(config.name, config.logging_config) if config.HasField("logging_config") else None
    )
    policy, labels = config.model_version_policy, dict(config.version_labels)
    return ModelSettings(config.name, base, policy, labels, logging)


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
