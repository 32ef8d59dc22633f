"""The models to serve: a ModelServerConfig, checked and converted for the rest of the server.

Reference: tensorflow_serving/config/{model_server_config,file_system_storage_path_source}.proto; the error
texts are those of tensorflow_serving/model_servers/server_core.cc.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensorflow_serving.config import model_server_config_pb2  # pyright: ignore[reportMissingImports]

from ...errors import InvalidArgumentError
from ...wire import messages_pb2 as pb
from ..config import ServerConfig
from ..runtime.text_files import read_text_file
from .logging_config import LoggingSettings, logging_settings

Policy = pb.FileSystemStoragePathSourceConfig.ServableVersionPolicy
_PLATFORM = "tensorflow"
_TENSORFLOW_TYPE = 1  # the deprecated enum ModelType
_FILE_SCHEME = "file://"
# A scheme has at least two letters here: one letter is a Windows drive.
_OTHER_SCHEME = re.compile(r"[A-Za-z][\w+.-]+:/")


@dataclass(frozen=True)
class ModelSettings:
    """One model to serve.

    Attributes:
        name: the name clients ask for.
        base_path: the folder whose numeric children are its versions, absolute.
        policy: selects versions; unset for the latest.
        labels: versions by label, which clients can use instead of numbers.
        logging: the log of its requests; None for none.
    """

    name: str
    base_path: Path
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
        InvalidArgumentError: it lists a model that cannot be served, or model_base_path is no local folder.
    """
    if str(config.model_config_file):
        return listed_models(read_model_config(config.model_config_file))
    local = _local(config.model_name, str(config.model_base_path))
    # Absolute, but a link stays a link: changing the link is a way to deploy.
    base = Path(local).expanduser().absolute()
    return {config.model_name: ModelSettings(config.model_name, base)}


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
        InvalidArgumentError: a name is listed twice, a path is relative or not local, a platform is unknown,
            or requests cannot be logged as asked.
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
    base = _local(config.name, config.base_path)
    if not base.startswith("/"):
        raise InvalidArgumentError(
            f"Expected model {config.name} to have an absolute path or URI; got base_path()={base}"
        )
    logging = (
        logging_settings(config.name, config.logging_config) if config.HasField("logging_config") else None
    )
    policy, labels = config.model_version_policy, dict(config.version_labels)
    return ModelSettings(config.name, Path(base), policy, labels, logging)


def _local(model: str, base_path: str) -> str:
    """The folder that a base path or file:// URI names."""
    local = base_path.removeprefix(_FILE_SCHEME)
    if _OTHER_SCHEME.match(local):
        raise InvalidArgumentError(
            f"The base path of model {model} must be a folder of this machine; other file systems are not "
            f"read. Mount the bucket (gcsfuse, mountpoint-s3) or copy its versions. Received {base_path}"
        )
    return local


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
