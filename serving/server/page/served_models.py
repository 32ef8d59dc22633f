"""Data of the models that the APIs do not give and the page shows: their list, labels and model cards."""

import math
from collections.abc import Callable
from typing import Any

from keras_selfattn import __version__

from ...wire import messages_pb2 as pb
from ..api.management import Management
from ..config import ServerConfig
from ..models.model_registry import ModelRegistry


class ServedModels:
    """The models, as the page shows them; nothing of it can be changed here.

    Args:
        models: those of this process.
        management: reports the states of models in all processes.
        config: says whether gRPC is encrypted.
        metrics_path: the path of the metrics; empty for none.
        grpc_port: returns the gRPC port.

    Example:
        told = await ServedModels(models, management, config, DEFAULT_PATH, lambda: 8500).listed()
    """

    def __init__(
        self,
        models: ModelRegistry,
        management: Management,
        config: ServerConfig,
        metrics_path: str,
        grpc_port: Callable[[], int],
    ):
        self._models = models
        self._management = management
        self._config = config
        self._metrics_path = metrics_path
        self._grpc_port = grpc_port

    async def listed(self) -> dict[str, Any]:
        """Return the models with their versions and labels, and how else the server can be asked.

        Versions are strings: JavaScript's numbers have 53 bits.
        """
        statuses = await self._management.statuses()
        config = self._config
        return {
            "server": __version__,
            "grpc_port": self._grpc_port(),
            "grpc_tls": bool(str(config.ssl_config_file)),
            "rest_tls": config.rest_tls,
            "needs_token": bool(str(config.auth_token_file)),
            "metrics_path": self._metrics_path,
            "models": [
                {"name": name, "labels": self._labels(name), "versions": _versions(status)}
                for name, status in statuses.items()
            ],
        }

    def card(self, name: str, version: int) -> dict[str, Any]:
        """Return the model card of a version that answers, None without one; NaN and infinities are None.

        Raises:
            NotFoundError: the version does not answer.
        """
        spec = pb.ModelSpec(name=name)
        spec.version.value = version
        with self._models.lease(spec) as servable:
            return {"card": _finite(servable.card)}

    def _labels(self, name: str) -> dict[str, str]:
        return {label: str(version) for label, version in self._models.labels(name).items()}


def _versions(status: pb.GetModelStatusResponse) -> list[dict[str, str]]:
    return [
        {
            "version": str(each.version),
            "state": pb.ModelVersionStatus.State.Name(each.state),
            "error": each.status.error_message,
        }
        for each in status.model_version_status
    ]


def _finite(value: Any) -> Any:
    """Return JSON types in which NaN and infinities are None: browsers read no others."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
