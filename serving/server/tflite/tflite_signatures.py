"""Signatures of a TFLite file: its SignatureDefs, and the tensors they name.

Reference: tensorflow/lite/tools/signature/signature_def_util.cc and tensorflow_serving/servables/tensorflow/
tflite_session.cc.
"""

import logging
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from flatbuffers import flexbuffers
from google.protobuf.message import DecodeError
from tensorflow.lite.python import schema_py_generated as schema

from ...errors import AlreadyExistsError, InvalidArgumentError, UnimplementedError
from ...wire import messages_pb2 as pb
from ...wire.dtypes import kind_of
from ...wire.signature_names import DEFAULT_SIGNATURE

_PREDICT_METHOD = "tensorflow/serving/predict"
_METADATA_NAME = "signature_defs_metadata"

_log = logging.getLogger(__name__)

# Errors from reading a broken file: Python's readers of FlatBuffers and FlexBuffers check nothing, and the
# interpreter, which has verified the file before, checks neither indices nor names.
UNREADABLE = (DecodeError, ValueError, TypeError, LookupError, AttributeError, struct.error)
_TYPES: dict[int, int] = {
    schema.TensorType.FLOAT16: pb.DT_HALF,
    schema.TensorType.FLOAT32: pb.DT_FLOAT,
    schema.TensorType.FLOAT64: pb.DT_DOUBLE,
    schema.TensorType.INT8: pb.DT_INT8,
    schema.TensorType.INT16: pb.DT_INT16,
    schema.TensorType.INT32: pb.DT_INT32,
    schema.TensorType.INT64: pb.DT_INT64,
    schema.TensorType.UINT8: pb.DT_UINT8,
    schema.TensorType.UINT16: pb.DT_UINT16,
    schema.TensorType.UINT32: pb.DT_UINT32,
    schema.TensorType.UINT64: pb.DT_UINT64,
    schema.TensorType.BOOL: pb.DT_BOOL,
    schema.TensorType.COMPLEX64: pb.DT_COMPLEX64,
    schema.TensorType.COMPLEX128: pb.DT_COMPLEX128,
    schema.TensorType.STRING: pb.DT_STRING,
}


class Tensor(NamedTuple):
    """An input or output of a subgraph; -1 stands for any size."""

    name: str
    index: int
    subgraph: int
    code: int
    shape: tuple[int, ...]  # as in the file
    limits: tuple[int, ...] | None  # the shapes that an input may have; None for all

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(object) if self.code == pb.DT_STRING else kind_of(self.code).dtype.newbyteorder("=")

    def info(self) -> pb.TensorInfo:
        shape = pb.TensorShapeProto(dim=[pb.TensorShapeProto.Dim(size=size) for size in self.shape])
        return pb.TensorInfo(name=self.name, dtype=cast("pb.DataType", self.code), tensor_shape=shape)

    def zeros(self) -> np.ndarray:
        shape = [max(size, 1) for size in self.shape]
        return np.full(shape, b"", dtype=object) if self.code == pb.DT_STRING else np.zeros(shape, self.dtype)


class Graph(NamedTuple):
    """A subgraph's inputs and outputs."""

    inputs: list[Tensor]
    outputs: list[Tensor]


def signatures_of(file: Any) -> tuple[dict[str, pb.SignatureDef], list[Graph]]:
    """The file's signatures, and the subgraphs that they run."""
    main = _graph(file, 0)
    for kind, tensors in zip(("Input", "Output"), main, strict=True):
        _check_names(kind, tensors)
    stored = _stored_signatures(file)
    if stored:
        for signature in stored.values():
            _fix_names(signature, main)
        return stored, [main]
    if file.SignatureDefsLength():
        return _own_signatures(file)
    _log.warning("No signature def found in TFLite model. Generating one.")
    return {DEFAULT_SIGNATURE: _generated_signature(main)}, [main]


def _stored_signatures(file: Any) -> dict[str, pb.SignatureDef]:
    """TensorFlow's SignatureDefs in the file's metadata, if its writer put them there."""
    for place in range(file.MetadataLength()):
        metadata = file.Metadata(place)
        if metadata.Name() != _METADATA_NAME.encode():
            continue
        try:
            entries: Any = flexbuffers.GetRoot(bytes(file.Buffers(metadata.Buffer()).DataAsNumpy())).AsMap
            return {
                key.AsKey: pb.SignatureDef.FromString(bytes(value.AsStringBytes))
                for key, value in zip(entries.Keys, entries.Values, strict=True)
            }
        except UNREADABLE as error:
            raise InvalidArgumentError(
                "Invalid SignatureDefs found in TfLite model: Cannot parse signature def found in flatbuffer."
            ) from error
    return {}


def _fix_names(signature: pb.SignatureDef, graph: Graph) -> None:
    """Rename the signature's tensors as in the file, where converters removed the ":0"."""
    for kind, infos, tensors in (
        ("input", signature.inputs, graph.inputs),
        ("output", signature.outputs, graph.outputs),
    ):
        table = by_name([tensors])
        for alias, info in infos.items():
            text = f"Unknown tensor '{info.name}'.\n\tSignature {kind} {alias} references an unknown tensor"
            info.name = resolve(table, info.name, lambda _, text=text: text).name


def _own_signatures(file: Any) -> tuple[dict[str, pb.SignatureDef], list[Graph]]:
    """The SignatureDefs of TFLite's own schema, each with its subgraph."""
    graphs: dict[int, Graph] = {}
    signatures: dict[str, pb.SignatureDef] = {}
    for place in range(file.SignatureDefsLength()):
        own = file.SignatureDefs(place)
        subgraph = own.SubgraphIndex()
        if subgraph not in graphs:
            taken = [tensor.name for graph in graphs.values() for tensor in (*graph.inputs, *graph.outputs)]
            graphs[subgraph] = _graph(file, subgraph, taken)
        inputs = {tensor.index: tensor for tensor in graphs[subgraph].inputs}
        outputs = {tensor.index: tensor for tensor in graphs[subgraph].outputs}
        key = own.SignatureKey()
        signatures[key.decode() if key else DEFAULT_SIGNATURE] = pb.SignatureDef(
            inputs=_infos(inputs, [own.Inputs(i) for i in range(own.InputsLength())]),
            outputs=_infos(outputs, [own.Outputs(i) for i in range(own.OutputsLength())]),
            method_name=_PREDICT_METHOD,
        )
    return signatures, list(graphs.values())


def _infos(tensors: Mapping[int, Tensor], entries: Iterable[Any]) -> dict[str, pb.TensorInfo]:
    try:
        return {entry.Name().decode(): tensors[entry.TensorIndex()].info() for entry in entries}
    except KeyError as error:
        raise InvalidArgumentError(
            f"Invalid SignatureDefs found in TfLite model: Unknown tensor {error}."
        ) from None


def _generated_signature(graph: Graph) -> pb.SignatureDef:
    return pb.SignatureDef(
        inputs=_aliases(graph.inputs), outputs=_aliases(graph.outputs), method_name=_PREDICT_METHOD
    )


def _aliases(tensors: Sequence[Tensor]) -> dict[str, pb.TensorInfo]:
    """Map aliases to tensors, by name without ":0" unless two names would then be equal."""
    short = [_legacy_name(tensor.name) for tensor in tensors]
    return {
        alias if short.count(alias) == 1 else tensor.name: tensor.info()
        for alias, tensor in zip(short, tensors, strict=True)
    }


def _graph(file: Any, subgraph: int, taken: Sequence[str] = ()) -> Graph:
    """The inputs and outputs of a subgraph, renamed if a name is `taken` by another."""
    graph = file.Subgraphs(subgraph)
    inputs = [graph.Inputs(i) for i in range(graph.InputsLength())]
    outputs = [graph.Outputs(i) for i in range(graph.OutputsLength())]
    # A file with an unknown size marks all of its sizes as known or unknown. Other files write 1 for unknown.
    says = any(-1 in _sizes(graph.Tensors(index)) for index in inputs)

    def tensor(index: int) -> Tensor:
        each = graph.Tensors(index)
        if each.Type() not in _TYPES:
            raise UnimplementedError(f"Unknown TfLite type: {each.Type()}")
        name = (each.Name() or b"").decode()
        unique = f"{name}@{subgraph}" if name in taken else name
        shape = _sizes(each)
        limits = shape if says else tuple([-1 if size == 1 else size for size in shape])
        # Older files without HasRank also hold [] or [1, 1] for an unknown rank.
        known_rank = says or each.HasRank() or any(size != 1 for size in shape)
        return Tensor(unique, index, subgraph, _TYPES[each.Type()], shape, limits if known_rank else None)

    return Graph([tensor(index) for index in inputs], [tensor(index) for index in outputs])


def _sizes(tensor: Any) -> tuple[int, ...]:
    """The tensor's shape, with -1 for sizes that the file leaves unknown."""
    if tensor.ShapeSignatureLength():
        return tuple([tensor.ShapeSignature(i) for i in range(tensor.ShapeSignatureLength())])
    return tuple([tensor.Shape(i) for i in range(tensor.ShapeLength())])


def _check_names(kind: str, tensors: Iterable[Tensor]) -> None:
    seen: dict[str, int] = {}
    for tensor in tensors:
        if seen.setdefault(tensor.name, tensor.index) != tensor.index:
            raise AlreadyExistsError(f"{kind} tensor name: {tensor.name} has multiple indices")


def by_name(groups: Iterable[Iterable[Tensor]]) -> dict[str, Tensor]:
    """All tensors of some groups, by name."""
    return {tensor.name: tensor for group in groups for tensor in group}


def resolve(tensors: Mapping[str, Tensor], name: str, message: Callable[[str], str]) -> Tensor:
    """The tensor with a name, or with the name that TFLite's converter used to write."""
    tensor = tensors.get(name) or tensors.get(_legacy_name(name))
    if tensor is None:
        raise InvalidArgumentError(message(name))
    return tensor


def _legacy_name(name: str) -> str:
    return name.partition(":")[0]
