"""Management of models by all processes of a server together."""

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import NotFoundError, UnimplementedError
from ...wire import messages_pb2 as pb
from ..models.model_config import listed_models
from ..models.model_registry import ModelRegistry
from ..runtime.metrics import Metrics
from ..runtime.own_thread import in_own_thread
from ..workers.membership import METRICS, RELOAD, STATUS, AskAll
from ..workers.merging import merged_statuses, summed_metrics

# Seconds for the other workers: one that is too busy to answer is left out.
_PATIENCE_SECONDS = 2.0


class Management:
    """Report models and metrics, and change the list of models.

    Args:
        models: those of this process.
        metrics: those of this process.
        ask_all: runs an action in all processes of the server, including this one; None if this is the only.
        reloads: False if a reload would reach this server alone of several that look like one.

    Attributes:
        actions: the actions of this process for `ask_all`.

    Example:
        management = Management(models, metrics, ask_all=None)
        response = await management.status(pb.ModelSpec(name="half"))
    """

    def __init__(self, models: ModelRegistry, metrics: Metrics, ask_all: AskAll | None, reloads: bool = True):
        self._models = models
        self._metrics = metrics
        self._ask_all = ask_all
        self._reloads = reloads
        self.actions: Mapping[str, Callable[..., Any]] = {
            RELOAD: self._reload,
            STATUS: self._status_or_none,
            METRICS: self._own_metrics,
        }

    async def reload(self, config: pb.ModelServerConfig, timeout: float | None) -> None:
        """Serve the listed models and no others; return when all are available in all processes.

        Raises:
            UnimplementedError: a reload would reach one server of several.
            InvalidArgumentError: the list has an entry that cannot be served at all.
            ServingError: as in `ModelRegistry.reload`.
        """
        if not self._reloads:
            raise UnimplementedError(
                "A reload would reach one server of several on this port: change their model_config_file "
                "instead, and watch it with model_config_file_poll_wait_seconds"
            )
        # It looks at the folders of logs, and a disk may be slow.
        await in_own_thread(lambda: listed_models(config))
        await self._everybody(RELOAD, config.SerializeToString(), timeout, timeout=timeout)

    async def status(self, spec: pb.ModelSpec) -> pb.GetModelStatusResponse:
        """The states of a model's versions, newest first.

        Raises:
            NotFoundError: there is no such model or version.
        """
        if self._ask_all is not None:
            answers = await self._everybody(STATUS, spec.SerializeToString(), timeout=_PATIENCE_SECONDS)
            told = merged_statuses(pb.GetModelStatusResponse.FromString(each) for each in answers)
            if told.model_version_status:
                return told
        return self._status(spec)

    async def statuses(self) -> dict[str, pb.GetModelStatusResponse]:
        """The states of the versions of every model on the list; a model may have no version yet."""
        statuses: dict[str, pb.GetModelStatusResponse] = {}
        for name in self._models.available():
            try:
                statuses[name] = await self.status(pb.ModelSpec(name=name))
            except NotFoundError:
                statuses[name] = pb.GetModelStatusResponse()
        return statuses

    async def metrics(self) -> str:
        """Return all counts, in Prometheus' text format."""
        if self._ask_all is None:
            return self._own_metrics()
        return summed_metrics(await self._everybody(METRICS, timeout=_PATIENCE_SECONDS))

    def _own_metrics(self) -> str:
        return self._metrics.text(self._models.available())

    async def _everybody(self, action: str, *arguments: Any, timeout: float | None) -> list[Any]:
        ask_all = self._ask_all
        if ask_all is None:
            return [await in_own_thread(lambda: self.actions[action](*arguments))]
        return await in_own_thread(lambda: ask_all(action, arguments, timeout))

    def _reload(self, config: bytes, timeout: float | None) -> None:
        self._models.reload(listed_models(pb.ModelServerConfig.FromString(config)), timeout)

    def _status(self, spec: pb.ModelSpec) -> pb.GetModelStatusResponse:
        response = pb.GetModelStatusResponse()
        for state in self._models.states(spec):
            status = response.model_version_status.add(version=state.version, state=state.state)
            status.status.error_code = state.code.value[0]
            status.status.error_message = state.message
        return response

    def _status_or_none(self, spec: bytes) -> bytes:
        try:
            return self._status(pb.ModelSpec.FromString(spec)).SerializeToString()
        except NotFoundError:
            return b""
