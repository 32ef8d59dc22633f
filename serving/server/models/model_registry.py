"""All models of a server: their list, the version for a request, and changes of the list.

Reference: tensorflow_serving/model_servers/{server_core,get_model_status_impl}.cc, whose error texts these
are.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

from ...errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ServerStartError,
    UnknownError,
)
from ...wire import messages_pb2 as pb
from ..config import ServerConfig
from ..storage.base_paths import shown
from .loaded_versions import servable_not_found
from .loader import Loader
from .model_config import ModelSettings
from .servable import Servable, without_path
from .version_states import VersionState
from .version_swap import VersionSwap

_log = logging.getLogger(__name__)

# Longest wait of a reload for a missing version that may still come; the caller is answered in time.
_PATIENCE_SECONDS = 10.0
_ANSWER_SECONDS = 0.5
_REMEMBERED_MODELS = 100
# Longest wait at the start for slow models, once another model can answer.
_OTHERS_SECONDS = 60.0
_LOOK_SECONDS = 0.1


class ModelRegistry:
    """The models of a server.

    Args:
        config: the seconds between looks for versions, and the rule for labels.
        loader: loads versions and warms them up.
        on_change: called with a model's name, and True if it has a version that answers: when the model is
            added, and when this changes.
        on_list: called with the list of models when it may have changed.

    Example:
        loader = Loader(config, Warmup(config, Metrics()))
        models = ModelRegistry(config, loader, on_change=print, on_list=print)
        models.begin(configured_models(config))
        models.wait_until_served()
        with models.lease(pb.ModelSpec(name="half")) as servable:
            ...
        models.close()
    """

    def __init__(
        self,
        config: ServerConfig,
        loader: Loader,
        on_change: Callable[[str, bool], None],
        on_list: Callable[[Mapping[str, ModelSettings]], None],
    ):
        self._config = config
        self._loader = loader
        self._on_change = on_change
        self._on_list = on_list
        self._unloader = ThreadPoolExecutor(config.num_unload_threads or 1, "unload")
        self._lock = threading.Lock()
        self._reloading = threading.Lock()
        self._changed = threading.Condition()
        self._models: dict[str, VersionSwap] = {}
        self._labels: dict[str, dict[str, int]] = {}
        # Models removed from the list, which may still be finishing requests; the newest last.
        self._former: list[VersionSwap] = []

    def begin(self, settings: Mapping[str, ModelSettings]) -> None:
        """Begin to load the models; return at once."""
        self._apply(settings)
        self._labels = {name: dict(each.labels) for name, each in settings.items()}

    def wait_until_served(self) -> None:
        """Return when there is something to serve; wait for missing models later.

        Raises:
            ServerStartError: no model has a version that can be served, and waiting cannot help or has timed
                out.
        """
        self._wait_for(self._all_looked, _OTHERS_SECONDS, unless=lambda: not self._answers())
        if not self._has_something() and self._config.startup_wait_seconds:
            _log.warning("nothing to serve yet: %s; waiting", self._problems())
            self._wait_for(self._has_something, self._config.startup_wait_seconds)
        if self._models and not self._answers():
            raise ServerStartError(f"nothing to serve: {self._problems()}")
        if self._problems():
            _log.warning("not served yet: %s", self._problems())

    def reload(self, settings: Mapping[str, ModelSettings], timeout: float | None) -> None:
        """Serve the listed models and no others. Return when all are available.

        A model that is listed as before looks for versions when its time comes; if it has none, because looks
        are off, it looks now, as at the start.

        Args:
            settings: the models, by name.
            timeout: seconds until the caller stops waiting; None for no limit.

        Raises:
            DeadlineExceededError: loading takes longer; it continues.
            UnknownError: a model has no version that can be served. The other models are served, and the
                server waits for this one.
            FailedPreconditionError: a label is for a version that is not available; the labels of its
                model stay as they were.
        """
        started = time.monotonic()
        if not self._reloading.acquire(timeout=-1 if timeout is None else timeout):
            raise DeadlineExceededError("another reload has not finished yet; try again")
        try:
            changed = self._apply(settings)
            patience = None if timeout is None else timeout - (time.monotonic() - started) - _ANSWER_SECONDS
            looked = self._wait_for(self._all_looked, patience)
            if looked:
                waiting = _PATIENCE_SECONDS if patience is None else min(_PATIENCE_SECONDS, patience)
                self._wait_for(lambda: self._all_settled(changed), waiting)
            refused = self._assign_labels(settings)
            if not looked:
                raise DeadlineExceededError("models are still being loaded, and will be served then")
            self._check_available(settings, changed)
            if refused:
                raise FailedPreconditionError(refused)
        finally:
            self._reloading.release()

    def lease(self, spec: pb.ModelSpec) -> AbstractContextManager[Servable]:
        """The servable for a request, which stays loaded until the block ends.

        Raises:
            InvalidArgumentError: the request names no model, or an unknown label.
            NotFoundError: that model or version is not available.
        """
        if not spec.name:
            raise InvalidArgumentError("ModelSpec has no name specified.")
        version = self._version(spec)
        model = self._models.get(spec.name)
        if model is None:
            raise servable_not_found(spec.name, version)
        return model.loaded.lease(version)

    def states(self, spec: pb.ModelSpec) -> list[VersionState]:
        """The states of a model's versions, newest first; of one, if the request names it.

        Raises:
            NotFoundError: there is no such model or version.
        """
        former = [model for model in self._former if model.settings.name == spec.name]
        model = self._models.get(spec.name) or (former[-1] if former else None)
        version = self._version(spec)
        states = model.states.newest_first() if model else []
        if version is not None:
            states = [state for state in states if state.version == version]
        if not states:
            wanted = "any versions" if version is None else f"version {version}"
            raise NotFoundError(f"Could not find {wanted} of model {spec.name}")
        return states

    def knows(self, name: str) -> bool:
        """Return True if a model of that name is on the list."""
        return name in self._models

    def available(self) -> dict[str, list[int]]:
        """The versions that answer, of every model on the list."""
        return {name: model.versions for name, model in list(self._models.items())}

    def labels(self, name: str) -> dict[str, int]:
        """The versions of a model by label, as last assigned."""
        return dict(self._labels.get(name, {}))

    def close(self, timeout: float | None = None) -> None:
        """Unload everything at once.

        Args:
            timeout: seconds to wait for versions that are being loaded; None for no limit.
        """
        models = [*self._models.values(), *self._former]
        for model in models:
            model.stop_looking()
        ends = None if timeout is None else time.monotonic() + timeout
        for model in models:
            model.close(None if ends is None else max(0.0, ends - time.monotonic()))
        self._unloader.shutdown()

    def _apply(self, settings: Mapping[str, ModelSettings]) -> list[str]:
        """Begin to serve the listed models and stop the others. Return the names of those that look anew."""
        changed: list[str] = []
        with self._lock:
            self._on_list(settings)
            for name in self._models.keys() - settings.keys():
                _log.info("model %s is not on the list any more", name)
                model = self._models.pop(name)
                self._labels.pop(name, None)
                self._former.append(model)
                model.retire()
            for name, each in settings.items():
                if name not in self._models:
                    self._add(each)
                elif self._looks_anew(each):
                    self._models[name].update(each)
                else:
                    continue
                changed.append(name)
            del self._former[:-_REMEMBERED_MODELS]
        return changed

    def _looks_anew(self, settings: ModelSettings) -> bool:
        """Return True if a known model has to look for versions because of a reload."""
        model = self._models[settings.name]
        changed = (settings.base_path, settings.policy) != (model.settings.base_path, model.settings.policy)
        return changed or model.looks_on_request

    def _add(self, settings: ModelSettings) -> None:
        def changed(available: bool) -> None:
            with self._changed:
                self._changed.notify_all()
            self._on_change(settings.name, available)

        model = VersionSwap(settings, self._config, self._loader, self._unloader, changed)
        self._models[settings.name] = model
        self._on_change(settings.name, False)
        model.start()

    def _version(self, spec: pb.ModelSpec) -> int | None:
        """The version that a request names; None for the latest."""
        if spec.HasField("version_label"):
            labels = self._labels.get(spec.name, {})
            if spec.version_label not in labels:
                raise InvalidArgumentError(f"Unrecognized servable version label: {spec.version_label}")
            return labels[spec.version_label]
        if not spec.HasField("version"):
            return None
        model = self._models.get(spec.name)
        # OpenVINO's client cannot leave the version out: its 0 is the newest, unless a version 0 exists.
        is_newest = spec.version.value == 0 and model is not None and not model.has_version(0)
        return None if is_newest else spec.version.value

    def _wait_for(
        self, condition: Callable[[], bool], seconds: float | None, unless: Callable[[], bool] = lambda: False
    ) -> bool:
        """Wait until a condition holds. Return True if it does.

        Args:
            condition: the condition.
            seconds: the longest wait; None for no limit.
            unless: a condition; while it holds, the wait has no limit.
        """
        ends = None if seconds is None else time.monotonic() + seconds
        with self._changed:
            while not condition():
                if ends is not None and time.monotonic() >= ends and not unless():
                    return False
                # New versions send a notice, problems do not: check again periodically.
                self._changed.wait(_LOOK_SECONDS)
        return True

    def _answers(self) -> bool:
        """Return True if a model answers."""
        return any(model.versions for model in self._models.values())

    def _all_looked(self) -> bool:
        """Return True if a look at every base path has ended, and its versions are loaded."""
        return all(model.wait_for_look(0) for model in self._models.values())

    def _has_something(self) -> bool:
        """Return True if a model answers, or none ever will."""
        hopeless = any(model.problem and not model.problem.may_pass for model in self._models.values())
        return hopeless or not self._models or self._answers()

    def _all_settled(self, names: Iterable[str]) -> bool:
        """Return True if each model is served as configured, or no look to come will change that."""
        problems = [self._models[name].problem for name in names if not self._models[name].looks_on_request]
        return all(problem is None or not problem.may_pass for problem in problems)

    def _problems(self) -> str:
        """Return the problems that keep models from being served as configured."""
        found = {name: model.problem for name, model in self._models.items() if model.problem}
        return "; ".join(f"model {name!r}: {problem.words}" for name, problem in found.items())

    def _check_available(self, settings: Mapping[str, ModelSettings], changed: Collection[str]) -> None:
        failed: list[str] = []
        for name, each in settings.items():
            model = self._models[name]
            if not model.versions or (name in changed and model.problem):
                words = model.problem.words if model.problem else "no version"
                told = without_path(words, shown(each.base_path))
                failed.append(f"{{name: {name}}} due to error: {told}")
        if failed:
            _log.warning("not served after a reload: %s", self._problems())
            listed = "".join(f"{{{each}}}, " for each in failed)
            raise UnknownError(f"{len(failed)} model(s) did not become available: {{{listed}}}")

    def _assign_labels(self, settings: Mapping[str, ModelSettings]) -> str:
        """Assign all labels that can be assigned. Return why a label cannot be; empty if all can."""
        refused = ""
        for name, each in settings.items():
            missing = self._unavailable_labels(name, each.labels)
            # Labels of a model that is not available yet are all assigned later.
            late = not self._models[name].versions
            if not missing or late or self._config.allow_version_labels_for_unavailable_models:
                self._labels[name] = dict(each.labels)
            else:
                refused = (
                    f"Request to assign label to version {min(missing.values())} of model {name}, which is "
                    f"not currently available for inference"
                )
        return refused

    def _unavailable_labels(self, name: str, labels: Mapping[str, int]) -> dict[str, int]:
        versions = self._models[name].versions
        return {label: version for label, version in labels.items() if version not in versions}
