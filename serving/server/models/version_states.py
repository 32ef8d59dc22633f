"""States of a model's versions, as in GetModelStatus.

    START ─▶ LOADING ─▶ AVAILABLE ─▶ UNLOADING ─▶ END
               └────────────── failed ────────────▲

Reference: tensorflow_serving/apis/get_model_status.proto.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass

import grpc

from ...errors import ServingError
from ...wire import messages_pb2 as pb

State = pb.ModelVersionStatus
# TensorFlow Serving keeps every version it ever unloaded; a server that runs for a year should not.
_REMEMBERED_VERSIONS = 100


@dataclass(frozen=True)
class VersionState:
    """The state of a version, and the error that ended it."""

    version: int
    state: pb.ModelVersionStatus.State
    code: grpc.StatusCode = grpc.StatusCode.OK
    message: str = ""


class States:
    """The states of one model's versions. Safe to use from several threads.

    Example:
        states = States()
        states.set(3, State.LOADING)
        states.failed(3, OutOfRangeError("Read less bytes than requested"))
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[int, VersionState] = {}

    def set(self, version: int, state: pb.ModelVersionStatus.State) -> None:
        """Set the state of a version."""
        self._set(VersionState(version, state))

    def failed(self, version: int, error: Exception, message: str) -> None:
        """Record that a version did not load.

        Args:
            version: its number.
            error: the error that ended it.
            message: the error message for clients.
        """
        code = error.code if isinstance(error, ServingError) else grpc.StatusCode.UNKNOWN
        self._set(VersionState(version, State.END, code, message))

    def forget(self, versions: Iterable[int]) -> None:
        """Drop versions that are no longer selected."""
        with self._lock:
            for version in versions:
                self._states.pop(version, None)

    def of(self, version: int) -> int | None:
        """The state of a version; None if it is not known."""
        with self._lock:
            known = self._states.get(version)
            return known.state if known else None

    def in_state(self, state: pb.ModelVersionStatus.State) -> list[int]:
        """The versions in a state."""
        with self._lock:
            return [known.version for known in self._states.values() if known.state == state]

    def newest_first(self) -> list[VersionState]:
        """All states, in TensorFlow Serving's order."""
        with self._lock:
            return [self._states[version] for version in sorted(self._states, reverse=True)]

    def _set(self, known: VersionState) -> None:
        with self._lock:
            self._states.pop(known.version, None)
            self._states[known.version] = known
            ended = [each.version for each in self._states.values() if each.state == State.END]
            for version in ended[:-_REMEMBERED_VERSIONS]:
                del self._states[version]
