"""Metadata of a served model: its signatures, with their inputs and outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Return whether an array of a shape fits."""
        if self.shape is None:
            return True
        same_rank = len(shape) == len(self.shape)
        return same_rank and all(want in (None, size) for want, size in zip(self.shape, shape, strict=True))

    def __repr__(self) -> str:
        shape = "[...]" if self.shape is None else f"[{', '.join(map(str, self.shape))}]"
        return f"{self.dtype} {shape}"


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
    return {name: TensorSpec(dtype_name(infos[name].dtype), _dims(infos[name])) for name in sorted(infos)}


def _dims(info: pb.TensorInfo) -> tuple[int | None, ...] | None:
    if info.tensor_shape.unknown_rank:
        return None
    return tuple(None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim)
