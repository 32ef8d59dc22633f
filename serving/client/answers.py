"""What a client learns about a model: its signatures and the states of its versions."""

from collections.abc import Mapping
from dataclasses import dataclass

import grpc

from ..errors import status_code
from ..wire import messages_pb2 as pb
from ..wire.dtypes import dtype_name


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
    shape: tuple[int | None, ...] | None

    def __repr__(self) -> str:
        shape = "[...]" if self.shape is None else f"[{', '.join(map(str, self.shape))}]"
        return f"{self.dtype} {shape}"


@dataclass(frozen=True, repr=False)
class Signature:
    """One way to call a model.

    Attributes:
        inputs: name to TensorSpec.
        outputs: name to TensorSpec.

    Example:
        >>> Signature({"text": TensorSpec("string", (None,))}, {"score": TensorSpec("float32", (None,))})
        (text: string [None]) -> (score: float32 [None])
    """

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]

    def __repr__(self) -> str:
        return f"({_named(self.inputs)}) -> ({_named(self.outputs)})"


def _named(specs: Mapping[str, TensorSpec]) -> str:
    return ", ".join(f"{name}: {spec!r}" for name, spec in specs.items())


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
        lines = [f"  {name}: {signature!r}" for name, signature in self.signatures.items()]
        return "\n".join([f"{self.model}, version {self.version}", *lines])


@dataclass(frozen=True)
class VersionStatus:
    """Where one version of a model is in its life.

    Attributes:
        version: the version's number.
        state: START, LOADING, AVAILABLE, UNLOADING or END.
        code: OK, or why it ended.
        message: the error that ended it; empty otherwise.

    Example:
        >>> VersionStatus(3, "AVAILABLE").available
        True
    """

    version: int
    state: str
    code: grpc.StatusCode = grpc.StatusCode.OK
    message: str = ""

    @property
    def available(self) -> bool:
        """Whether the version answers requests."""
        return self.state == "AVAILABLE"

    def __str__(self) -> str:
        error = f" ({self.code.name}: {self.message})" if self.message else ""
        return f"version {self.version} is {self.state}{error}"


def signatures_of(proto: pb.SignatureDefMap) -> dict[str, Signature]:
    """The signatures in a SignatureDefMap, in alphabetical order."""
    return {name: _signature(proto.signature_def[name]) for name in sorted(proto.signature_def)}


def _signature(proto: pb.SignatureDef) -> Signature:
    return Signature(inputs=_specs(proto.inputs), outputs=_specs(proto.outputs))


def _specs(infos: Mapping[str, pb.TensorInfo]) -> dict[str, TensorSpec]:
    return {name: TensorSpec(dtype_name(infos[name].dtype), _dims(infos[name])) for name in sorted(infos)}


def _dims(info: pb.TensorInfo) -> tuple[int | None, ...] | None:
    if info.tensor_shape.unknown_rank:
        return None
    return tuple(None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim)


def version_status(proto: pb.ModelVersionStatus) -> VersionStatus:
    """A version's state as the server told it."""
    known = proto.state in pb.ModelVersionStatus.State.values()
    return VersionStatus(
        version=proto.version,
        state=pb.ModelVersionStatus.State.Name(proto.state) if known else f"state {proto.state}",
        code=status_code(proto.status.error_code),
        message=proto.status.error_message,
    )
