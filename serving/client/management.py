"""Calls about a server's models: states of versions, readiness, the list of models.

Reference: tensorflow_serving/apis/{get_model_status,model_management}.proto and
tensorflow_serving/config/model_server_config.proto.
"""

# Not all callers have a type checker.
# pyright: reportUnnecessaryIsInstance=false

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from google.protobuf import text_format

from ..errors import DeadlineExceededError, InvalidInputError, NotFoundError, UnavailableError, status_code
from ..wire import messages_pb2 as pb
from .answers import VersionStatus, version_status
from .operations import Operations
from .server_ref import Label, is_name
from .steps import Pause, Steps
from .transport.base import GET_MODEL_STATUS, RELOAD, Request

_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class ModelConfig:
    """A model for a server to serve.

    Args:
        name: the name clients ask for.
        base_path: the absolute path, on the server, of a folder with one numbered folder for each version.
        versions: numbers of the versions to serve, or "all"; None for the latest.
        labels: names for versions, such as {"stable": 3}, that clients can ask for instead of numbers.

    Raises:
        InvalidInputError: one of them is of the wrong type.

    Example:
        >>> ModelConfig("half", "/models/half", labels={"stable": 3}).name
        'half'
    """

    name: str
    base_path: str
    versions: Sequence[int] | str | None = None
    labels: Mapping[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        for name, value in (("name", self.name), ("base_path", str(self.base_path))):
            if not is_name(value):
                raise InvalidInputError(f"{name} must be a str. Received {value!r}")
        versions = self.versions
        listed = isinstance(versions, Sequence) and bool(versions) and all(map(_is_version, versions))
        if not (versions is None or versions == "all" or listed):
            raise InvalidInputError(
                f'versions must be a list of numbers, "all" or None. Received {versions!r}'
            )
        named = isinstance(self.labels, Mapping) and all(map(is_name, self.labels))
        if not named or not all(map(_is_version, self.labels.values())):
            raise InvalidInputError(f"labels must be a dict from names to versions. Received {self.labels!r}")

    def proto(self) -> pb.ModelConfig:
        """The message of this configuration."""
        policy = pb.FileSystemStoragePathSourceConfig.ServableVersionPolicy()
        if self.versions == "all":
            policy.all.SetInParent()
        elif self.versions is not None:
            policy.specific.versions.extend(int(number) for number in self.versions)
        return pb.ModelConfig(
            name=self.name,
            base_path=str(self.base_path),
            model_platform="tensorflow",
            model_version_policy=None if self.versions is None else policy,
            version_labels={label: int(version) for label, version in self.labels.items()},
        )


def _is_version(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return False
    return 0 <= int(value) < 2**63  # pyright: ignore[reportUnknownArgumentType]


def server_config(config: str | Sequence[ModelConfig]) -> pb.ModelServerConfig:
    """The configuration of a server.

    Args:
        config: the models; or the text of a --model_config_file, a ModelServerConfig.

    Raises:
        InvalidInputError: the text does not parse, or the list holds something else.
    """
    if isinstance(config, str):
        try:
            return text_format.Parse(config, pb.ModelServerConfig())
        except text_format.ParseError as error:
            raise InvalidInputError(
                f"config must be a ModelServerConfig in protobuf's text format: {error}"
            ) from error
    if isinstance(config, ModelConfig) or not isinstance(config, Iterable):
        raise InvalidInputError(f"config must be a list of ModelConfig, or text. Received {config!r:.60}")
    models = list(config)
    for model in models:
        if not isinstance(model, ModelConfig):
            raise InvalidInputError(
                f"config must be a list of ModelConfig, or text. Received {type(model).__name__} in it"
            )
    return pb.ModelServerConfig(
        model_config_list=pb.ModelConfigList(config=[each.proto() for each in models])
    )


def reload(operations: Operations, config: str | Sequence[ModelConfig]) -> Steps[None]:
    """Make the server serve the models that `config` lists, and no others."""
    request = pb.ReloadConfigRequest(config=server_config(config))
    answer = yield Request(RELOAD, request.SerializeToString())
    status = operations.parsed(pb.ReloadConfigResponse, answer).status
    if status.error_code:
        raise operations.server.error(status_code(status.error_code), status.error_message)


def status(
    operations: Operations, which: int | None, connection: int | None = None
) -> Steps[list[VersionStatus]]:
    """The state of every known version, newest first. A call on a given `connection` waits for the server."""
    if isinstance(which, Label):
        raise InvalidInputError(f"version must be an integer, or None for all. Received {which!r}")
    message = pb.GetModelStatusRequest(model_spec=operations.server.spec(which)).SerializeToString()
    wait = connection is not None
    answer = yield Request(GET_MODEL_STATUS, message, wait_for_ready=wait, connection=connection)
    response = operations.parsed(pb.GetModelStatusResponse, answer)
    found = [version_status(version) for version in response.model_version_status]
    return sorted(found, key=lambda each: each.version, reverse=True)


def wait_until_ready(
    operations: Operations, which: int | None, timeout: float, connections: int
) -> Steps[list[VersionStatus]]:
    """The state of every version, once one is available on each connection, until the transport's deadline.

    Each connection may reach another process of the server.
    """
    statuses: list[VersionStatus] = []
    for connection in range(connections):
        statuses = yield from _ready(operations, which, timeout, connection)
    return statuses


def _ready(
    operations: Operations, which: int | None, timeout: float, connection: int
) -> Steps[list[VersionStatus]]:
    reason = "the server did not answer"
    while True:
        try:
            statuses = yield from status(operations, which, connection)
            if any(version.available for version in statuses):
                return statuses
            reason = "; ".join(map(str, statuses)) or "the server knows no version"
        except (NotFoundError, UnavailableError) as error:
            reason = f"{error.code.name}: {error.details}"
        except DeadlineExceededError as error:
            raise _not_ready(operations, which, timeout, reason) from error
        try:
            yield Pause(_POLL_SECONDS)
        except DeadlineExceededError as error:
            raise _not_ready(operations, which, timeout, reason) from error


def _not_ready(
    operations: Operations, which: int | None, timeout: float, reason: str
) -> DeadlineExceededError:
    server = operations.server
    version = "no version" if which is None else f"version {which} not"
    return DeadlineExceededError(
        f"{version} of model {server.model!r} at {server.target} was ready within {timeout:g} s: {reason}. "
        f"Is a server running at {server.target}, and does it serve this model?",
        details=reason,
        target=server.target,
        model=server.model,
    )
