"""Metadata of a served model (its signatures, with their inputs and outputs), and its cache in a client."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from ..errors import ServingError, UnimplementedError
from ..wire import messages_pb2 as pb
from ..wire import shapes
from ..wire.dtypes import dtype_name
from .server_ref import ServerRef, Version, check_version
from .steps import Pause, Steps
from .transport.base import GET_MODEL_METADATA, Request


@dataclass(frozen=True, repr=False)
class TensorSpec:
    """One input or output of a signature.

    Attributes:
        dtype: a NumPy dtype name, or `string`.
        shape: one entry per axis, None where any size is accepted; None for an unknown rank.

    Example:
        >>> TensorSpec("float32", (None, 4))
        float32 [None, 4]
    """

    dtype: str
    shape: shapes.Shape

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Return whether an array of a shape fits."""
        return shapes.takes(self.shape, shape)

    def __repr__(self) -> str:
        return shapes.described(self.dtype, self.shape)


@dataclass(frozen=True, repr=False)
class Signature:
    """A signature of a model.

    Attributes:
        inputs: name to TensorSpec.
        outputs: name to TensorSpec.
        defaults: names of the inputs that may be left out.
        method_name: the call of TensorFlow Serving that it is for, such as "tensorflow/serving/predict".

    Example:
        >>> Signature({"text": TensorSpec("string", (None,))}, {"score": TensorSpec("float32", (None,))})
        (text: string [None]) -> (score: float32 [None])
    """

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    defaults: frozenset[str] = field(default=frozenset())
    method_name: str = ""

    def __repr__(self) -> str:
        inputs = [_named(name, spec, name in self.defaults) for name, spec in self.inputs.items()]
        outputs = [_named(name, spec) for name, spec in self.outputs.items()]
        return f"({', '.join(inputs)}) -> ({', '.join(outputs)})"


def _named(name: str, spec: TensorSpec, has_default: bool = False) -> str:
    return f"{name}: {spec!r}" + (" = default" if has_default else "")


@dataclass(frozen=True, repr=False)
class ModelMetadata:
    """The signatures of one version of a model.

    Attributes:
        model: the model's name.
        version: the version that answered.
        signatures: name to Signature, in alphabetical order.

    Example:
        >>> spec = TensorSpec("float32", ())
        >>> ModelMetadata("half", 3, {"serving_default": Signature({"x": spec}, {"y": spec})})
        half, version 3
          serving_default: (x: float32 []) -> (y: float32 [])
    """

    model: str
    version: int
    signatures: Mapping[str, Signature]

    def __repr__(self) -> str:
        # TensorFlow's savers write initializers among the signatures; they are not for callers.
        shown = [name for name in self.signatures if not name.startswith("__")]
        lines = [f"  {name}: {self.signatures[name]!r}" for name in shown]
        return "\n".join([f"{self.model}, version {self.version}", *lines])


def signatures_of(proto: pb.SignatureDefMap) -> dict[str, Signature]:
    """The signatures in a SignatureDefMap, in alphabetical order."""
    return {name: _signature(proto.signature_def[name]) for name in sorted(proto.signature_def)}


def _signature(proto: pb.SignatureDef) -> Signature:
    return Signature(
        inputs=_specs(proto.inputs),
        outputs=_specs(proto.outputs),
        defaults=frozenset(proto.defaults),
        method_name=proto.method_name,
    )


def _specs(infos: Mapping[str, pb.TensorInfo]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(dtype_name(infos[name].dtype), shapes.declared_shape(infos[name]))
        for name in sorted(infos)
    }


# Not all callers have a type checker.
# pyright: reportUnnecessaryIsInstance=false


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
        self._known: dict[Version, ModelMetadata | None] = {}
        self._checked_at: dict[Version, float] = {}
        self._seen: set[int] = set()
        self._asking: set[Version] = set()

    def known(self, which: Version, signature: str = "") -> Steps[ModelMetadata | None]:
        """The metadata from the cache or the server, for a call of `signature`; None if there is none."""
        check_version(which)  # before it is looked up: a list is no key, and True is the key 1
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

    def fresh(self, which: Version, error: ServingError, signature: str) -> Steps[ModelMetadata | None]:
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

    def ask(self, which: Version, signature: str = "") -> Steps[ModelMetadata]:
        """The signatures of a version, fresh from the server, for a call of `signature`."""
        model = self._server.model
        request = pb.GetModelMetadataRequest(
            model_spec=self._server.spec(which), metadata_field=["signature_def"]
        )
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

    def answered(self, which: Version, version: int) -> None:
        """Note that a call was answered by a version."""
        if self._known.get(which) is not None and version not in self._seen:
            self._seen.add(version)
            self.forget(which)

    def forget(self, which: Version) -> None:
        """Clear the cache; the next call requests the metadata again."""
        self._known.pop(which, None)
        self._checked_at.pop(which, None)
