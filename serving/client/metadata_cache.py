"""A cache of a model's metadata, with the rules for its renewal."""

# Not all callers have a type checker.
# pyright: reportUnnecessaryIsInstance=false

import math
import time

from google.protobuf.message import DecodeError

from ..errors import ServingError, UnimplementedError
from ..wire import messages_pb2 as pb
from .failures import ServerRef
from .model_metadata import ModelMetadata, signatures_of
from .rpc_methods import GET_MODEL_METADATA
from .steps import Pause, Request, Steps
from .version_selector import VersionSelector

# Seconds after a renewal that changed nothing, in which a refused input causes no other renewal.
_TRUSTED_SECONDS = 1.0

# Pauses of a call that waits for another call's metadata; after the last one it requests them itself.
_LOOKS = (0.002, 0.005, 0.01, 0.02, 0.04, *[0.08] * 25)  # seconds


class MetadataCache:
    """The metadata of a model's versions, each requested once.

    The latest version, and the version with a label, can change at any time. Every answer names its version,
    and a new version clears the cache. Each version does so only once: some of several servers may keep the
    old version for long, so that answers of both alternate. If the metadata or the server refuse an input,
    the metadata are requested again, too.

    Args:
        server: the server and the model.
    """

    def __init__(self, server: ServerRef):
        self._server = server
        # None: the server does not know the call.
        self._known: dict[VersionSelector, ModelMetadata | None] = {}
        self._checked_at: dict[VersionSelector, float] = {}
        self._seen: set[int] = set()
        self._asking: set[VersionSelector] = set()

    def known(self, which: VersionSelector, signature: str = "") -> Steps[ModelMetadata | None]:
        """The metadata from the cache or the server, for a call of `signature`; None if there is none."""
        for pause in _LOOKS:
            try:
                return self._known[which]
            except KeyError:
                pass  # not requested yet, or another thread has just dropped it
            if which not in self._asking:
                break
            yield Pause(pause)  # only one of many simultaneous first calls requests the metadata
        self._asking.add(which)
        try:
            return (yield from self.ask(which, signature))
        except UnimplementedError:
            self._known[which] = None
            return None
        finally:
            self._asking.discard(which)

    def fresh(
        self, which: VersionSelector, error: ServingError, signature: str
    ) -> Steps[ModelMetadata | None]:
        """The renewed metadata after `error`; None if `signature` has not changed.

        It is also None if the metadata were renewed within the last second. If they are unavailable, `error`
        is raised.
        """
        before, now = self._known.get(which), time.monotonic()
        if now - self._checked_at.get(which, -math.inf) < _TRUSTED_SECONDS:
            return None
        self._checked_at[which] = now
        try:
            fresh = yield from self.ask(which, signature)
        except ServingError:
            raise error from error.__cause__
        same = before is not None and before.signatures.get(signature) == fresh.signatures.get(signature)
        return None if same else fresh

    def ask(self, which: VersionSelector, signature: str = "") -> Steps[ModelMetadata]:
        """The signatures of a version, fresh from the server, for a call of `signature`."""
        model = self._server.model
        request = pb.GetModelMetadataRequest(model_spec=which.spec(model), metadata_field=["signature_def"])
        answer = yield Request(GET_MODEL_METADATA, request.SerializeToString(), signature)
        try:
            response = pb.GetModelMetadataResponse.FromString(answer)
            # Not Any.Unpack: the server names its own message type, which is not registered here.
            signatures = pb.SignatureDefMap.FromString(response.metadata["signature_def"].value)
        except DecodeError as error:
            raise self._server.malformed(f"GetModelMetadataResponse does not parse: {error}") from error
        metadata = ModelMetadata(model, response.model_spec.version.value, signatures_of(signatures))
        self._known[which] = metadata
        self._seen.add(metadata.version)
        return metadata

    def answered(self, which: VersionSelector, version: int) -> None:
        """Note that a call was answered by a version."""
        if self._known.get(which) is not None and version not in self._seen:
            self._seen.add(version)
            self.forget(which)

    def forget(self, which: VersionSelector) -> None:
        """Clear the cache; the next call requests the metadata again."""
        self._known.pop(which, None)
        self._checked_at.pop(which, None)
