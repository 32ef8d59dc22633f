"""A model's loaded versions, and leases that keep a version loaded while requests use it."""

import logging
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from contextlib import AbstractContextManager

from ...errors import NotFoundError
from .freed_memory import give_memory_back
from .servable import Servable
from .version_states import State, States

_log = logging.getLogger(__name__)


class _LoadedVersion:
    """A servable, the place of its files, and the number of requests that use it."""

    def __init__(self, servable: Servable, place: str):
        self.servable = servable
        self.place = place
        self.running = 0
        self.retired = False


class LoadedVersions:
    """The versions of one model that answer, and those that finish their last requests.

    Args:
        model: the model's name.
        states: records the versions that answer, unload and have ended.
        unloader: frees versions in its threads, so that no request waits for it.
        on_change: called with True when the first version can answer, with False when none is left.

    Example:
        loaded = LoadedVersions("half", States(), ThreadPoolExecutor(1), on_change=print)
        loaded.put(servable, place)
        with loaded.lease(None) as servable:
            servable.run(feeds, fetches, timeout=1.0)
        loaded.retire([1])
    """

    def __init__(self, model: str, states: States, unloader: Executor, on_change: Callable[[bool], None]):
        self._model = model
        self._states = states
        self._unloader = unloader
        self._on_change = on_change
        self._lock = threading.Lock()
        self._serving: dict[int, _LoadedVersion] = {}
        self._retiring: set[_LoadedVersion] = set()

    @property
    def versions(self) -> list[int]:
        """The versions that answer."""
        with self._lock:
            return list(self._serving)

    @property
    def running(self) -> int:
        """Return the number of requests that use a version."""
        with self._lock:
            return sum(lease.running for lease in (*self._serving.values(), *self._retiring))

    def place_of(self, version: int) -> str | None:
        """Return the place of the files of a version that answers; None if it does not."""
        with self._lock:
            lease = self._serving.get(version)
            return lease.place if lease else None

    def put(self, servable: Servable, place: str) -> None:
        """Let a version answer from now on; it replaces a loaded version of the same number."""
        with self._lock:
            was_available = bool(self._serving)
            before = self._serving.get(servable.version)
            self._serving[servable.version] = _LoadedVersion(servable, place)
            self._states.set(servable.version, State.AVAILABLE)
            if before is not None:
                self._let_go(before)
        if not was_available:
            self._on_change(True)

    def retire(self, versions: Collection[int]) -> None:
        """Retire versions; each is unloaded when its last request has finished."""
        with self._lock:
            was_available = bool(self._serving)
            for version in versions:
                lease = self._serving.pop(version, None)
                if lease is not None:
                    self._states.set(version, State.UNLOADING)
                    self._let_go(lease)
            none_is_left = was_available and not self._serving
        if none_is_left:
            self._on_change(False)

    def lease(self, version: int | None) -> AbstractContextManager[Servable]:
        """A version that answers, which stays loaded until the block ends.

        Args:
            version: the requested version; None for the latest.

        Raises:
            NotFoundError: on entry, that version does not answer, in TensorFlow Serving's words.
        """
        return _Lease(self, version)

    def _take(self, version: int | None) -> _LoadedVersion:
        with self._lock:
            number = max(self._serving, default=None) if version is None else version
            lease = None if number is None else self._serving.get(number)
            if lease is None:
                raise servable_not_found(self._model, version)
            lease.running += 1
            return lease

    def _give_back(self, lease: _LoadedVersion) -> None:
        with self._lock:
            lease.running -= 1
            if lease.retired and lease.running == 0:
                self._unload_later(lease)

    def close(self) -> None:
        """Unload everything at once: current runs end with CANCELLED."""
        with self._lock:
            leases = {*self._retiring, *self._serving.values()}
            self._serving.clear()
            self._retiring.clear()
        for lease in leases:
            lease.servable.close()
            self._states.set(lease.servable.version, State.END)

    def _let_go(self, lease: _LoadedVersion) -> None:
        """Retire a version. The caller holds the lock."""
        lease.retired = True
        self._retiring.add(lease)
        if lease.running == 0:
            self._unload_later(lease)

    def _unload_later(self, lease: _LoadedVersion) -> None:
        """Unload once, even if several threads see the last request end. The caller holds the lock."""
        if lease in self._retiring:
            self._retiring.discard(lease)
            self._unloader.submit(self._unload, lease)

    def _unload(self, lease: _LoadedVersion) -> None:
        version = lease.servable.version
        lease.servable.close()
        del lease.servable
        give_memory_back()
        if version not in self.versions:  # another version of the same number may have replaced it
            self._states.set(version, State.END)
        _log.info("version %s of model %s is unloaded", version, self._model)


class _Lease:
    """A use of a version. A class, because a generator takes three times as long."""

    __slots__ = ("_taken", "_version", "_versions")

    def __init__(self, versions: LoadedVersions, version: int | None):
        self._versions = versions
        self._version = version

    def __enter__(self) -> Servable:
        self._taken = self._versions._take(self._version)
        return self._taken.servable

    def __exit__(self, *_: object) -> None:
        self._versions._give_back(self._taken)


def servable_not_found(model: str, version: int | None) -> NotFoundError:
    """The error for a model or version that does not answer, in TensorFlow Serving's words."""
    wanted = f"Latest({model})" if version is None else f"Specific({model}, {version})"
    return NotFoundError(f"Servable not found for request: {wanted}")
