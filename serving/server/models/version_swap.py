"""The swap of one model's versions: found on disk, loaded, swapped in, drained, unloaded.

Each model has a thread that watches and loads, so a slow disk or a broken version delays no other model;
requests run in other threads. A newer version is loaded while older ones answer. Older versions are unloaded
when the newer one is available and their running requests have finished. A version that is still being copied
is waited for. If a version fails to load, it is tried again when its files change, and a few times anyway.
`version_policy.py` says which versions are loaded, and how many.

Reference: file_system_storage_path_source.cc in tensorflow/serving.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from keras_selfattn.errors import StorageError

from ..config import ServerConfig
from ..storage.base_paths import BasePath, Look, Version, Versions, is_stored, shown
from ..storage.version_folders import VersionFolders
from .loaded_versions import LoadedVersions
from .loader import Loader
from .model_config import ModelSettings
from .servable import Servable, without_path
from .version_policy import is_complete, selected
from .version_states import State, States

_log = logging.getLogger(__name__)

_CACHE = "~/.cache/keras-selfattn/models"


@dataclass(frozen=True)
class Problem:
    """A reason why a model, or one of its versions, is not served."""

    words: str
    may_pass: bool
    """True if waiting may help: something is missing, not wrong."""
    summary: str = ""
    """The words without what differs each time; empty for all of them. A problem is logged once."""

    @property
    def same_as(self) -> str:
        """The part of the words by which a problem is known again."""
        return self.summary or self.words


@dataclass(frozen=True)
class _Failure:
    """A version that did not load: the state of its files, the reason, and the time of the next try."""

    look: Look
    problem: Problem
    tries: int
    next_try: float


class VersionSwap:
    """Keep the selected versions of one model loaded: swap newer ones in, and older ones out.

    Args:
        settings: the model.
        config: the times between looks and between tries.
        loader: loads versions and warms them up.
        unloader: frees versions in its threads.
        on_change: called with True when the first version can answer, with False when none is left.

    Attributes:
        settings: the current settings of the model.
        states: the state of each of its versions.
        loaded: its versions that answer, for those who lease one.

    Example:
        model = VersionSwap(
            ModelSettings("half", Path("/models/half")), config, loader, unloader, on_change=print
        )
        model.start()
        model.wait_for_look(timeout=60)
        with model.loaded.lease(None) as servable:
            ...
        model.close()
    """

    def __init__(
        self,
        settings: ModelSettings,
        config: ServerConfig,
        loader: Loader,
        unloader: Executor,
        on_change: Callable[[bool], None],
    ):
        self.settings = settings
        self.states = States()
        self._config = config
        self._loader = loader
        # Loaded, but not answering yet.
        self._warming: Servable | None = None
        self.loaded = LoadedVersions(settings.name, self.states, unloader, on_change)
        self._lock = threading.Lock()
        self._looks: dict[int, Look] = {}
        self._failed: dict[int, _Failure] = {}
        self._listed: frozenset[int] = frozenset()
        self._problem: Problem | None = None
        self._found: tuple[BasePath, Versions] | None = None
        # The first look accepts the files it finds; later ones wait until files have stopped changing.
        self._trusting = True
        self._looked = threading.Event()
        self._woken = threading.Event()
        self._stopping = False
        self._watcher = threading.Thread(target=self._watch, name=f"watch-{settings.name}", daemon=True)

    @property
    def versions(self) -> list[int]:
        """The versions that answer."""
        return self.loaded.versions

    @property
    def running(self) -> int:
        """Return the number of requests that use a version."""
        return self.loaded.running

    @property
    def problem(self) -> Problem | None:
        """The reason why the last look did not find or load every selected version; None if it did."""
        return self._problem

    @property
    def looks_on_request(self) -> bool:
        """True if nothing but `start` and `update` leads to a look at the base path."""
        return not self._pause()

    def has_version(self, number: int) -> bool:
        """Return True if the last look found a version, selected or not, or its state is remembered."""
        return number in self._listed or self.states.of(number) is not None

    def start(self) -> None:
        """Begin to look at the base path; return at once."""
        self._watcher.start()

    def update(self, settings: ModelSettings) -> None:
        """Serve by `settings` from now on, and look at the base path anew; return at once."""
        with self._lock:
            if settings.base_path != self.settings.base_path:
                self._looks, self._failed = {}, {}
            if self.looks_on_request:
                self._failed = {}  # no later look tries a version again
            self.settings = settings
            self._trusting = True
            self._looked.clear()
        self._woken.set()

    def wait_for_look(self, timeout: float | None) -> bool:
        """Wait until a look since `start` or `update` has ended and its versions are loaded.

        Args:
            timeout: seconds to wait at most; None for no limit.

        Returns:
            True if it has.
        """
        return self._looked.wait(timeout)

    def retire(self) -> None:
        """Stop looking, and unload each version when its last request has finished; return at once."""
        self.stop_looking()
        self.loaded.retire(self.versions)

    def stop_looking(self) -> None:
        """Load nothing from now on, and end a running warmup; return at once."""
        with self._lock:
            self._stopping = True
            if self._warming is not None:
                self._warming.close()
        self._woken.set()

    def close(self, timeout: float | None = None) -> None:
        """Unload everything at once: current runs end with CANCELLED.

        Args:
            timeout: seconds to wait for a version that is being loaded; None for no limit.
        """
        self.stop_looking()
        if self._watcher.is_alive():
            self._watcher.join(timeout)
        self.loaded.close()

    def look(self) -> None:
        """Look at the base path once, and load and unload versions accordingly."""
        with self._lock:
            settings, trusting = self.settings, self._trusting
            self._trusting = False
        try:
            place = self._place(settings.base_path)
            versions = place.versions()
            self._serve(settings, versions, place.is_version(), trusting)
        except StorageError as error:
            # A file system that is unavailable for a moment is no reason to stop answering.
            self._note([Problem(str(error), error.may_pass, error.summary)], trusting)

    def _place(self, base: BasePath) -> Versions:
        """Return the versions under a base path: the same object at each look, which knows earlier ones."""
        if self._found is None or self._found[0] != base:
            self._found = base, _versions_at(base, self._config, lambda: self._stopping)
        return self._found[1]

    def _serve(
        self, settings: ModelSettings, versions: Mapping[int, Version], is_version: bool, trusting: bool
    ) -> None:
        """Load and unload versions, so that those are served that the settings select."""
        self._listed = frozenset(versions)
        self._forget_gone({*versions})
        candidates, wanted = selected(settings.policy, versions)
        problems = [] if candidates else [_nothing_to_serve(settings, is_version)]
        available: list[int] = []
        for number in candidates:
            if len(available) == wanted or self._stopping:
                break
            problem = self._ensure(number, versions[number], trusting)
            if problem is None:
                available.append(number)
            else:
                problems.append(problem)
        may_come_back = not versions and is_stored(settings.base_path)
        if is_complete(available, candidates, may_come_back):
            self.loaded.retire([number for number in self.versions if number not in available])
            self._forget_waiting(candidates, newest=max(available, default=0))
        self._note(problems, trusting)

    def _watch(self) -> None:
        while not self._stopping:
            self._woken.clear()
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - any error of the file system: the next look may succeed
                _log.exception("looking for versions of model %s failed", self.settings.name)
                self._problem = Problem(f"{type(error).__name__}: {error}", may_pass=True)
            with self._lock:
                if not self._trusting:  # no update has come in between
                    self._looked.set()
            self._woken.wait(self._pause() or None)

    def _pause(self) -> float:
        """Return the seconds until the next look; 0 for none."""
        stored = is_stored(self.settings.base_path)
        config = self._config
        return config.object_store_poll_wait_seconds if stored else config.file_system_poll_wait_seconds

    def _note(self, problems: list[Problem], first: bool) -> None:
        """Store a problem, and log it once; the caller reports the problems of the first look."""
        found = _joined(problems)
        known = self._problem is not None and found.same_as == self._problem.same_as
        if problems and not known and not first and not self._stopping:
            # While another version answers, one that is being copied is not a problem.
            level = logging.INFO if found.may_pass and self.versions else logging.WARNING
            _log.log(level, "model %s: %s", self.settings.name, found.words)
        self._problem = found if problems else None

    def _ensure(self, number: int, version: Version, trusting: bool) -> Problem | None:
        """Load a version unless it serves already. Return the problem that keeps it from serving, or None."""
        if self.loaded.place_of(number) == version.place:
            return None
        look, before = version.look(), self._looks.get(number)
        self._looks[number] = look
        failure = self._failed.get(number)
        if failure is not None and failure.look != look:
            failure = None
        if failure is not None and not self._may_try(failure):
            return failure.problem
        missing = version.missing(look)
        if missing is not None or not version.settled(look, before, trusting):
            self._wait_for_files(number)
            found = f"lacks {missing}" if missing else "is new or still changing"
            return Problem(f"version {number} in {shown(self.settings.base_path)} {found}", may_pass=True)
        try:
            problem = self._load(number, version, look)
        except StorageError as error:  # the files cannot be had now
            self._wait_for_files(number)
            number_in_base = f"version {number} in {shown(self.settings.base_path)}"
            summary = f"{number_in_base}: {error.summary}"
            return Problem(f"{number_in_base}: {error}", error.may_pass, summary)
        if problem is None:
            self._failed.pop(number, None)
        else:
            next_try = time.monotonic() + self._config.load_retry_interval_micros / 1e6
            self._failed[number] = _Failure(look, problem, failure.tries + 1 if failure else 0, next_try)
        return problem

    def _wait_for_files(self, number: int) -> None:
        if self.states.of(number) != State.START:
            self.states.set(number, State.START)

    def _may_try(self, failure: _Failure) -> bool:
        return failure.tries < self._config.max_num_load_retries and time.monotonic() >= failure.next_try

    def _load(self, number: int, version: Version, look: Look) -> Problem | None:
        """Load a version and let it answer. Return the problem if it does not load, or None."""
        self.states.set(number, State.LOADING)
        name, base = self.settings.name, shown(self.settings.base_path)
        place: Path | str = shown(version.place)
        try:
            with version.local(look) as path:
                place = path
                _log.info("loading version %s of model %s", number, name)
                servable = self._loader.load(name, number, path)
                self._warm_up(servable, path)
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001 - TensorFlow's loader raises six unrelated kinds
            told = without_path(str(error), place)
            self.states.failed(number, error, told)
            words = told if is_stored(self.settings.base_path) else error
            return Problem(f"version {number} in {base} does not load: {words}", may_pass=False)
        with self._lock:
            if self._stopping:
                servable.close()
                self.states.set(number, State.END)
                return None
            self.loaded.put(servable, version.place)
        _log.info("version %s of model %s is available", number, name)
        return None

    def _warm_up(self, servable: Servable, path: Path) -> None:
        with self._lock:
            self._warming = servable
        try:
            if not self._stopping:
                self._loader.warm_up(servable, path)
        except BaseException:
            servable.close()
            raise
        finally:
            with self._lock:
                self._warming = None

    def _forget_waiting(self, candidates: list[int], newest: int) -> None:
        """Drop the states of waiting versions that are no longer selected."""
        waiting = self.states.in_state(State.START)
        self.states.forget(number for number in waiting if number < newest or number not in candidates)

    def _forget_gone(self, versions: set[int]) -> None:
        for number in self._looks.keys() - versions:
            self._looks.pop(number)
            self._failed.pop(number, None)


def _versions_at(base: BasePath, config: ServerConfig, stopping: Callable[[], bool]) -> Versions:
    """Return the versions under a base path.

    Args:
        base: the base path.
        config: has the cache of object stores.
        stopping: returns True when waiting calls to a store shall end.

    Raises:
        StorageError: this machine cannot read such stores.
    """
    if isinstance(base, Path):
        return VersionFolders(base, config.prefer_tflite_model)
    try:
        from ..storage.model_cache import ModelCache
        from ..storage.stored_versions import StoredVersions
    except ImportError as error:  # file locks, which Windows lacks
        raise StorageError(f"{shown(base)} needs file locks, which this system lacks: {error}") from error
    try:
        folder = Path(str(config.model_cache_path) or _CACHE).expanduser()
    except RuntimeError as error:  # no home
        raise StorageError(f"model_cache_path must be a folder: {error}") from error
    cache = ModelCache(folder.absolute(), config.model_cache_max_bytes)
    return StoredVersions(base, cache, config.prefer_tflite_model, stopping)


def _joined(problems: Sequence[Problem]) -> Problem:
    """Return several problems as one."""
    return Problem(
        "; ".join(each.words for each in problems),
        all(each.may_pass for each in problems),
        "; ".join(each.same_as for each in problems),
    )


def _nothing_to_serve(settings: ModelSettings, is_version: bool) -> Problem:
    """Return the reason why a base path has no version that the settings select.

    Args:
        settings: the model.
        is_version: True if the base path is itself a version.
    """
    base = shown(settings.base_path)
    if is_version:
        words = f"{base} is a version, and not the folder that holds the versions. Pass its parent folder"
        return Problem(words, may_pass=False)
    if settings.policy.specific.versions:
        listed = ", ".join(map(str, settings.policy.specific.versions))
        return Problem(f"{base} has none of the versions {listed}", may_pass=True)
    words = f"{base} has no version: no folder with a number as its name. Export a model into it"
    return Problem(words, may_pass=True)
