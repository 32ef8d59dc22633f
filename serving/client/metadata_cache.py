"""A cache of a model's metadata, with the rules for its renewal."""

# Not all callers have a type checker.
# pyright: reportUnnecessaryIsInstance=false

import math
import time
from dataclasses import dataclass

import numpy as np
from google.protobuf.message import DecodeError

from ..errors import InvalidInputError, ServingError, UnimplementedError
from ..wire import messages_pb2 as pb
from .failures import ServerRef
from .rpc_methods import GET_MODEL_METADATA
from .signatures import ModelMetadata, signatures_of
from .steps import Pause, Request, Steps

# After a renewal that changed nothing, an input that does not fit causes no other one for so long.
_TRUSTED_SECONDS = 1.0

# Pauses of a call that waits for another call's metadata; after the last one it requests them itself.
_LOOKS = (0.002, 0.005, 0.01, 0.02, 0.04, *[0.08] * 25)  # seconds


@dataclass(frozen=True)
class Which:
    """The requested version of a model: by number, by label, or the latest.

    Args:
        version: a version's number, or None.
        label: a version's label, such as "stable", or None.

    Raises:
        InvalidInputError: both are given, or one is of the wrong type.
    """

    version: int | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        version, label = self.version, self.label
        if version is not None and (isinstance(version, bool) or not isinstance(version, int | np.integer)):
            raise InvalidInputError(f"version must be an integer, or None: the latest. Received {version!r}")
        if version is not None and not 0 <= version < 2**63:
            raise InvalidInputError(f"version must be at least 0 and fit 64 bits. Received {version}")
        if label is not None and not is_name(label):
            raise InvalidInputError(f"label must be a version's label, or None. Received {label!r}")
        if version is not None and label is not None:
            raise InvalidInputError(f"give version or label, not both. Received {version} and {label!r}")

    def spec(self, model: str, signature: str = "") -> pb.ModelSpec:
        """The ModelSpec that requests it."""
        spec = pb.ModelSpec(name=model, signature_name=signature, version_label=self.label)
        if self.version is not None:
            spec.version.value = int(self.version)
        return spec


class MetadataCache:
    """The metadata of a model's versions, each requested once.

    The latest version, and the version with a label, can change at any time. Every answer names its version,
    and a new version clears the cache; but once for each, since some of several servers may have the old
    version for long. Metadata are also requested again if they, or the server, refuse an input.

    Args:
        server: the server and the model.
    """

    def __init__(self, server: ServerRef):
        self._server = server
        # None: the server does not know the call.
        self._known: dict[Which, ModelMetadata | None] = {}
        self._checked_at: dict[Which, float] = {}
        self._seen: set[int] = set()
        self._asking: set[Which] = set()

    def known(self, which: Which, signature: str = "") -> Steps[ModelMetadata | None]:
        """The metadata from the cache or the server, for a call of `signature`; None if there is none."""
        for pause in _LOOKS:
            try:
                return self._known[which]
            except KeyError:
                pass  # not requested yet, or another thread has just dropped it
            if which not in self._asking:
                break
            yield Pause(pause)  # of many simultaneous first calls, one requests it
        self._asking.add(which)
        try:
            return (yield from self.ask(which, signature))
        except UnimplementedError:
            self._known[which] = None
            return None
        finally:
            self._asking.discard(which)

    def fresh(self, which: Which, error: ServingError, signature: str) -> Steps[ModelMetadata | None]:
        """The renewed metadata after `error`, if `signature` has changed in it.

        If it is unavailable, or was renewed within the last second, `error` is raised.
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

    def ask(self, which: Which, signature: str = "") -> Steps[ModelMetadata]:
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

    def answered(self, which: Which, version: int) -> None:
        """Note that a call was answered by a version."""
        if self._known.get(which) is not None and version not in self._seen:
            self._seen.add(version)
            self.forget(which)

    def forget(self, which: Which) -> None:
        """Clear the cache; the next call requests the metadata again."""
        self._known.pop(which, None)
        self._checked_at.pop(which, None)


def is_name(value: object) -> bool:
    """Return whether a value is a str that a request can hold, and not empty."""
    if not isinstance(value, str) or not value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
