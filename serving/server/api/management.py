"""Management of models by all processes of a server together."""

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import NotFoundError
from ...wire import messages_pb2 as pb
from ..batching.runner import in_own_thread
from ..models.model_config import listed_models
from ..models.served_models import Models
from ..runtime.metrics import Metrics
from ..workers.membership import METRICS, RELOAD, STATUS, AskAll
from ..workers.merging import merged_statuses, summed_metrics

# For the others: a worker that is too busy to tell is left out.
_PATIENCE_SECONDS = 2.0


class Management:
    """Tells of models and metrics, and changes the list of models.

    Args:
        models: this process' own.
        metrics: this process' own.
        ask_all: asks all processes of the server, this one among them; None if there is no other.

    Attributes:
        actions: what `ask_all` has this process do.

    Example:
        management = Management(models, metrics, ask_all=None)
        response = await management.status(pb.ModelSpec(name="half"))
    """

    def __init__(self, models: Models, metrics: Metrics, ask_all: AskAll | None):
        self._models = models
        self._metrics = metrics
        self._ask_all = ask_all
        self.actions: Mapping[str, Callable[..., Any]] = {
            RELOAD: self._reload,
            STATUS: self._status_or_none,
            METRICS: metrics.text,
        }

    async def reload(self, config: pb.ModelServerConfig, timeout: float | None) -> None:
        """Serve what is listed, and nothing else; return when all of it is available everywhere.

        Raises:
            InvalidArgumentError: something on the list cannot be served at all.
            ServingError: as in `Models.reload`.
        """
        listed_models(config)
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
        """The states of the versions of every model on the list, some of which may have none yet."""
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
            return self._metrics.text()
        return summed_metrics(await self._everybody(METRICS, timeout=_PATIENCE_SECONDS))

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
