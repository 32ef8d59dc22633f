"""The life of a model's versions: found on disk, loaded, swapped in, drained, unloaded.

    START ─▶ LOADING ─▶ AVAILABLE ─▶ UNLOADING ─▶ END
               └────────────── failed ────────────▲

The latest version in the base path is served. A newer one is loaded on the watcher's thread while the old
one answers; the old one leaves when the newer is available and its running requests have finished. A version
that is still being copied, or that fails to load, is tried again when its files change.

Reference: AvailabilityPreservingPolicy and file_system_storage_path_source.cc in tensorflow/serving.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc

from ..errors import NotFoundError, ServerStartError, ServingError
from ..wire import messages_pb2 as pb
from .config import ServerConfig
from .servable import Servable, without_path
from .versions import Look, look_at, missing_file, versions_in

_log = logging.getLogger(__name__)

_State = pb.ModelVersionStatus
# TensorFlow Serving remembers every version it ever unloaded; a server that runs for a year should not.
_REMEMBERED_VERSIONS = 100


@dataclass(frozen=True)
class VersionState:
    """Where a version is in its life, and the error that ended it."""

    version: int
    state: pb.ModelVersionStatus.State
    code: grpc.StatusCode = grpc.StatusCode.OK
    message: str = ""


class _Leased:
    """A servable and how many requests are using it."""

    def __init__(self, servable: Servable):
        self.servable = servable
        self.running = 0
        self.retired = False


class ModelManager:
    """Keeps the latest version of one model loaded.

    Args:
        config: what to serve.
        on_change: called with True when there is a version to answer and there was none, with False when none
            is left; from the thread that loads.

    Example:
        manager = ModelManager(ServerConfig("default", "models/sentiment"), on_change=print)
        manager.start()
        with manager.lease(None) as servable:
            response = servable.predict(request, timeout=1.0)
        manager.stop()
    """

    def __init__(self, config: ServerConfig, on_change: Callable[[bool], None]):
        self._config = config
        # Absolute, but a link stays a link: switching it over is a way to deploy.
        self._base = Path(config.model_base_path).expanduser().absolute()
        self._on_change = on_change
        self._lock = threading.RLock()
        self._current: _Leased | None = None
        self._retiring: set[_Leased] = set()
        self._states: dict[int, VersionState] = {}
        self._looks: dict[int, Look] = {}
        self._failed: dict[int, Look] = {}
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="model-watcher", daemon=True)

    def start(self) -> None:
        """Loads the latest complete version, then starts to watch for newer ones.

        Raises:
            ServerStartError: the base path is missing, is a file, has no complete version, or its latest
                complete version does not load.
        """
        versions = self._first_versions()
        complete = {number: path for number, path in versions.items() if missing_file(path) is None}
        if not complete:
            number = max(versions)
            raise ServerStartError(
                f"no version in model_base_path {self._base} is complete: version {number} lacks "
                f"{missing_file(versions[number])}. Export the model again, or wait until it is copied"
            )
        latest = max(complete)
        error = self._load(latest, complete[latest])
        if error is not None:
            raise ServerStartError(
                f"version {latest} of model {self._config.model_name!r} in {self._base} does not load: "
                f"{error}. Export the model again, or remove this version"
            ) from error
        self._watcher.start()

    def stop(self) -> None:
        """Unloads everything at once: runs that are still on their way end with CANCELLED."""
        self._stopping.set()
        if self._watcher.is_alive():
            self._watcher.join()
        with self._lock:
            leases = {*self._retiring, *([self._current] if self._current else [])}
            self._current = None
            self._retiring.clear()
        for lease in leases:
            lease.servable.close()
            self._set_state(lease.servable.version, _State.END)

    @contextlib.contextmanager
    def lease(self, version: int | None) -> Iterator[Servable]:
        """The available servable, which stays loaded until the block ends.

        Args:
            version: the version asked for; None for the latest.

        Raises:
            NotFoundError: that version is not available, in TensorFlow Serving's words.
        """
        with self._lock:
            lease = self._current
            if lease is None or version not in (None, lease.servable.version):
                raise servable_not_found(self._config.model_name, version)
            lease.running += 1
        try:
            yield lease.servable
        finally:
            with self._lock:
                lease.running -= 1
                unused = self._unused(lease)
            if unused:
                self._unload(lease)

    def states(self) -> list[VersionState]:
        """The state of every version that is known, newest first."""
        with self._lock:
            return [self._states[number] for number in sorted(self._states, reverse=True)]

    def poll(self) -> None:
        """Looks at the base path once and loads or unloads what that asks for."""
        versions = versions_in(self._base)
        if versions is None:
            # A file system that is away for a moment is no reason to stop answering.
            _log.warning("model_base_path %s cannot be listed", self._base)
            return
        self._forget_gone(versions)
        if not versions:
            self._replace(None)
            return
        # The latest that can be served: what is half copied or broken leaves those before it in place.
        for number in sorted(versions, reverse=True):
            if self._serves(number) or self._try_version(number, versions[number]):
                self._forget_waiting(number)
                break

    def _first_versions(self) -> dict[int, Path]:
        versions = versions_in(self._base)
        if versions is None:
            problem = "is a file, not a folder" if self._base.is_file() else "does not exist"
            raise ServerStartError(
                f"model_base_path {self._base} {problem}. Pass the folder that holds the model's versions, "
                f"whose names are numbers"
            )
        if not versions:
            advice = (
                "Pass its parent folder" if missing_file(self._base) is None else "Export a model into it"
            )
            raise ServerStartError(
                f"model_base_path {self._base} has no version: no folder with a number as its name. {advice}"
            )
        return versions

    def _watch(self) -> None:
        while not self._stopping.wait(self._config.file_system_poll_wait_seconds):
            try:
                self.poll()
            except Exception:  # noqa: BLE001 - outlive whatever a file system does: the next look may go well
                _log.exception("looking for versions of model %s failed", self._config.model_name)

    def _serves(self, number: int) -> bool:
        return self._current is not None and self._current.servable.version == number

    def _try_version(self, number: int, path: Path) -> bool:
        """Loads a version once its files have stopped changing. True if it is available afterwards."""
        look = look_at(path)
        settled = self._looks.get(number) == look
        self._looks[number] = look
        if self._failed.get(number) == look:
            return False
        missing = missing_file(path)
        if not settled or missing is not None:
            if self._known_state(number) != _State.START:
                _log.info("version %s is incomplete or still changing; waiting (lacks %s)", number, missing)
                self._set_state(number, _State.START)
            return False
        if self._load(number, path) is None:
            return True
        self._failed[number] = look
        return False

    def _load(self, number: int, path: Path) -> Exception | None:
        """Makes a version the one that answers. Returns the error if it does not load."""
        self._set_state(number, _State.LOADING)
        name = self._config.model_name
        try:
            servable = Servable(name, number, path, self._config.tensorflow_intra_op_parallelism)
        except Exception as error:  # noqa: BLE001 - TensorFlow's loader raises six unrelated kinds
            _log.warning("version %s of model %s does not load: %s", number, name, error)
            code = error.code if isinstance(error, ServingError) else grpc.StatusCode.UNKNOWN
            self._set_state(number, _State.END, code, without_path(str(error), path))
            return error
        _log.info("version %s of model %s is available", number, name)
        self._replace(servable)
        return None

    def _replace(self, servable: Servable | None) -> None:
        """Lets `servable` answer from now on; the one before leaves when its last request has finished."""
        unused = False
        with self._lock:
            old, self._current = self._current, _Leased(servable) if servable else None
            if servable is not None:
                self._set_state(servable.version, _State.AVAILABLE)
            if old is not None:
                old.retired = True
                self._retiring.add(old)
                self._set_state(old.servable.version, _State.UNLOADING)
                unused = self._unused(old)
        if (old is None) != (servable is None):
            self._on_change(servable is not None)
        if old is not None and unused:
            self._unload(old)

    def _unused(self, lease: _Leased) -> bool:
        """Whether this caller, and nobody else, is to unload it. Hold the lock."""
        if lease.retired and lease.running == 0 and lease in self._retiring:
            self._retiring.discard(lease)
            return True
        return False

    def _unload(self, lease: _Leased) -> None:
        version = lease.servable.version
        lease.servable.close()
        self._set_state(version, _State.END)
        _log.info("version %s of model %s is unloaded", version, self._config.model_name)

    def _known_state(self, number: int) -> int | None:
        with self._lock:
            known = self._states.get(number)
            return known.state if known else None

    def _set_state(
        self,
        number: int,
        state: pb.ModelVersionStatus.State,
        code: grpc.StatusCode = grpc.StatusCode.OK,
        message: str = "",
    ) -> None:
        with self._lock:
            self._states.pop(number, None)
            self._states[number] = VersionState(number, state, code, message)
            ended = [version for version, known in self._states.items() if known.state == _State.END]
            for version in ended[:-_REMEMBERED_VERSIONS]:
                del self._states[version]

    def _forget_waiting(self, served: int) -> None:
        """Drops the versions below the served one that were waited for: nobody waits for them any more."""
        with self._lock:
            for number, known in list(self._states.items()):
                if number < served and known.state == _State.START:
                    del self._states[number]

    def _forget_gone(self, versions: dict[int, Path]) -> None:
        for number in self._looks.keys() - versions.keys():
            self._looks.pop(number)
            self._failed.pop(number, None)


def servable_not_found(model: str, version: int | None) -> NotFoundError:
    """The error for a model or version that is not available, in TensorFlow Serving's words."""
    wanted = f"Latest({model})" if version is None else f"Specific({model}, {version})"
    return NotFoundError(f"Servable not found for request: {wanted}")
