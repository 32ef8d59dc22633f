"""All models of a server: which there are, which version a request means, and how the list is changed.

Reference: tensorflow_serving/model_servers/{server_core,get_model_status_impl}.cc, whose error texts these
are.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

from ..errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ServerStartError,
    UnknownError,
)
from ..wire import messages_pb2 as pb
from .config import ServerConfig
from .leases import servable_not_found
from .lifecycle import Load, Model
from .model_config import ModelSettings
from .servable import Servable, without_path
from .states import VersionState

_log = logging.getLogger(__name__)

# What is not there yet may come; whoever asked for it is told before they stop waiting for the answer.
_PATIENCE_SECONDS = 10.0
_ANSWER_SECONDS = 0.5
_REMEMBERED_MODELS = 100


class Models:
    """The models of a server.

    Args:
        config: how often to look for versions, and how to treat labels.
        load: loads a version.
        on_change: called with a model's name and whether it has a version to answer, when that changes.

    Example:
        models = Models(config, load, on_change=print)
        models.start(configured_models(config))
        with models.lease(pb.ModelSpec(name="half")) as servable:
            ...
        models.close()
    """

    def __init__(self, config: ServerConfig, load: Load, on_change: Callable[[str, bool], None]):
        self._config = config
        self._load = load
        self._on_change = on_change
        self._unloader = ThreadPoolExecutor(1, "unload")
        self._lock = threading.Lock()
        self._reloading = threading.Lock()
        self._changed = threading.Condition()
        self._models: dict[str, Model] = {}
        self._labels: dict[str, dict[str, int]] = {}
        # What has been taken off the list, and may still be finishing requests.
        self._former: dict[str, Model] = {}

    def start(self, settings: Mapping[str, ModelSettings]) -> None:
        """Loads the models. Returns when there is something to serve; what is missing is waited for later.

        Raises:
            ServerStartError: no model has a version that can be served, and waiting does not help or has been
                long enough.
        """
        self._apply(settings)
        for model in list(self._models.values()):
            model.wait_for_look(None)
        if not self._has_something() and self._config.startup_wait_seconds:
            _log.warning("nothing to serve yet: %s; waiting", self._problems())
            self._wait_for(self._has_something, time.monotonic() + self._config.startup_wait_seconds)
        if self._models and not any(model.versions for model in self._models.values()):
            raise ServerStartError(f"nothing to serve: {self._problems()}")
        if self._problems():
            _log.warning("not served yet: %s", self._problems())
        for name, each in settings.items():
            unavailable = self._unavailable_labels(name, each.labels)
            if unavailable and not self._config.allow_version_labels_for_unavailable_models:
                _log.warning("labels of model %s for versions that are not available: %s", name, unavailable)
            self._labels[name] = dict(each.labels)

    def reload(self, settings: Mapping[str, ModelSettings], timeout: float | None) -> None:
        """Serves what is listed, and nothing else. Returns when all of it is available.

        Args:
            settings: the models, by name.
            timeout: seconds until whoever asked stops waiting; None for no limit.

        Raises:
            DeadlineExceededError: loading takes longer; it goes on.
            UnknownError: a model has no version that can be served. All others are, and it is waited for.
            FailedPreconditionError: a label is for a version that is not available; it is not assigned.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._reloading.acquire(timeout=-1 if timeout is None else timeout):
            raise DeadlineExceededError("another reload has not finished yet; try again")
        try:
            self._apply(settings)
            for name in settings:
                if not self._models[name].wait_for_look(_left(deadline)):
                    raise DeadlineExceededError(
                        f"model {name} is still being loaded, and will be served then"
                    )
            patience = time.monotonic() + _PATIENCE_SECONDS
            until = patience if deadline is None else min(patience, deadline - _ANSWER_SECONDS)
            self._wait_for(lambda: self._all_settled(settings), until)
            self._check_available(settings)
            for name, each in settings.items():
                self._assign_labels(name, each.labels)
        finally:
            self._reloading.release()

    def lease(self, spec: pb.ModelSpec) -> AbstractContextManager[Servable]:
        """The servable that a request means, which stays loaded until the block ends.

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
        return model.lease(version)

    def states(self, spec: pb.ModelSpec) -> list[VersionState]:
        """The states of a model's versions, newest first; of one, if the request names it.

        Raises:
            NotFoundError: there is no such model or version.
        """
        model = self._models.get(spec.name) or self._former.get(spec.name)
        version = self._version(spec)
        states = model.states.newest_first() if model else []
        if version is not None:
            states = [state for state in states if state.version == version]
        if not states:
            wanted = "any versions" if version is None else f"version {version}"
            raise NotFoundError(f"Could not find {wanted} of model {spec.name}")
        return states

    def knows(self, name: str) -> bool:
        """Whether a model of that name is on the list."""
        return name in self._models

    def available(self) -> dict[str, list[int]]:
        """The versions that answer, of every model on the list."""
        return {name: model.versions for name, model in list(self._models.items())}

    def close(self, timeout: float | None = None) -> None:
        """Unloads everything at once.

        Args:
            timeout: seconds to wait for what is being loaded; None for no limit.
        """
        for model in [*self._models.values(), *self._former.values()]:
            model.close(timeout)
        self._unloader.shutdown()

    def _apply(self, settings: Mapping[str, ModelSettings]) -> None:
        """Begins to serve what is listed; what is not, leaves."""
        with self._lock:
            for name in self._models.keys() - settings.keys():
                _log.info("model %s is not on the list any more", name)
                model = self._models.pop(name)
                self._labels.pop(name, None)
                self._former[name] = model
                model.retire()
            for name, each in settings.items():
                if name not in self._models:
                    self._add(each)
                elif (each.base_path, each.policy) != _source(self._models[name]):
                    self._models[name].update(each)
            for name in list(self._former)[:-_REMEMBERED_MODELS]:
                del self._former[name]

    def _add(self, settings: ModelSettings) -> None:
        def changed(available: bool) -> None:
            with self._changed:
                self._changed.notify_all()
            self._on_change(settings.name, available)

        self._former.pop(settings.name, None)
        model = Model(settings, self._config, self._load, self._unloader, changed)
        self._models[settings.name] = model
        model.start()

    def _version(self, spec: pb.ModelSpec) -> int | None:
        """The version that a request asks for; None for the latest."""
        if spec.HasField("version_label"):
            labels = self._labels.get(spec.name, {})
            if spec.version_label not in labels:
                raise InvalidArgumentError(f"Unrecognized servable version label: {spec.version_label}")
            return labels[spec.version_label]
        return spec.version.value if spec.HasField("version") else None

    def _wait_for(self, condition: Callable[[], bool], until: float) -> None:
        with self._changed:
            while not condition():
                left = until - time.monotonic()
                if left <= 0:
                    return
                # Versions come with a notice, problems without: look again now and then.
                self._changed.wait(min(left, 1.0))

    def _has_something(self) -> bool:
        """Whether a model answers, or none ever will."""
        models = list(self._models.values())
        hopeless = any(model.problem is not None and not model.problem.may_pass for model in models)
        return hopeless or not models or any(model.versions for model in models)

    def _all_settled(self, names: Iterable[str]) -> bool:
        """Whether each model answers, or never will."""
        models = [self._models[name] for name in names]
        return all(model.versions or (model.problem and not model.problem.may_pass) for model in models)

    def _problems(self) -> str:
        """What keeps models from being served as they should."""
        found = {name: model.problem for name, model in self._models.items() if model.problem}
        return "; ".join(f"model {name!r}: {problem.words}" for name, problem in found.items())

    def _check_available(self, settings: Mapping[str, ModelSettings]) -> None:
        failed: list[str] = []
        for name, each in settings.items():
            model = self._models[name]
            if not model.versions:
                words = model.problem.words if model.problem else "no version"
                failed.append(f"{{name: {name}}} due to error: {without_path(words, each.base_path)}")
        if failed:
            listed = "".join(f"{{{each}}}, " for each in failed)
            raise UnknownError(f"{len(failed)} model(s) did not become available: {{{listed}}}")

    def _assign_labels(self, name: str, labels: Mapping[str, int]) -> None:
        unavailable = self._unavailable_labels(name, labels)
        if unavailable and not self._config.allow_version_labels_for_unavailable_models:
            raise FailedPreconditionError(
                f"Request to assign label to version {min(unavailable.values())} of model {name}, which is "
                f"not currently available for inference"
            )
        self._labels[name] = dict(labels)

    def _unavailable_labels(self, name: str, labels: Mapping[str, int]) -> dict[str, int]:
        versions = self._models[name].versions
        return {label: version for label, version in labels.items() if version not in versions}


def _source(model: Model) -> tuple[object, object]:
    return model.settings.base_path, model.settings.policy


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
