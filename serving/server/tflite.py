"""One loaded version of a model that is a TFLite file: its signatures, and runs on a pool of interpreters.

What TensorFlow Serving does with --prefer_tflite_model, with three differences. The SignatureDefs that the
converter writes today are read, too. An input's axes may change only where the file leaves their size open:
elsewhere kernels read beyond their memory, or answer nonsense. And XNNPACK stays off: it ends the process
on inputs that any client can send, such as a picture too small for a convolution.

Reference: tensorflow_serving/servables/tensorflow/tflite_session.cc and tflite_interpreter_pool.cc, and
tensorflow/lite/tools/signature/signature_def_util.cc.
"""

import logging
import os
import struct
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np
import tensorflow as tf
from flatbuffers import flexbuffers
from google.protobuf.message import DecodeError
from tensorflow.lite.python import schema_py_generated as schema

from ..errors import (
    AlreadyExistsError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)
from ..wire import messages_pb2 as pb
from ..wire.dtypes import dtype_name, kind_of

FILE_NAME = "model.tflite"
_DEFAULT_SIGNATURE = "serving_default"
_PREDICT_METHOD = "tensorflow/serving/predict"
_METADATA_NAME = "signature_defs_metadata"

_log = logging.getLogger(__name__)

# What reading a broken file ends with: Python's readers of FlatBuffers and FlexBuffers check nothing, and the
# interpreter, which has verified the file before, checks neither indices nor names.
_UNREADABLE = (DecodeError, ValueError, TypeError, LookupError, AttributeError, struct.error)

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


class TfliteServable:
    """A version of a model whose folder holds model.tflite, ready to run. Any number of threads may call it.

    Args:
        model: the model's name.
        version: the version's number.
        path: the version's folder.
        threads: threads for one run; 0 leaves it to TFLite, which takes one.

    Attributes:
        signatures: name to SignatureDef, in which the tensors have the names that `run` takes.

    Raises:
        NotFoundError: the folder has no model.tflite.
        InvalidArgumentError: the file is broken, or TFLite lacks one of its operations.
        AlreadyExistsError: two of its inputs, or two of its outputs, have one name.
        UnimplementedError: an input or output has a type that no TensorProto carries.

    Example:
        servable = TfliteServable("half", 1, Path("models/half/1"), threads=1)
        [y] = servable.run({"x": np.ones(3, np.float32)}, ["y"], timeout=1.0)
    """

    def __init__(self, model: str, version: int, path: Path, threads: int):
        self.model = model
        self.version = version
        content = _content(path)
        self._pool = _Pool(content, threads)
        try:
            self.signatures, graphs = _signatures(schema.Model.GetRootAs(content, 0))
        except _UNREADABLE as error:
            raise InvalidArgumentError(f"Cannot build FlatBufferModel from buffer. {error}") from error
        self._inputs = _by_name(graph.inputs for graph in graphs)
        self._outputs = _by_name(graph.outputs for graph in graphs)
        # What a caller has to feed at least: one signature's inputs.
        self._required = [self._needed(signature) for signature in self.signatures.values()]

    def run(
        self, feeds: Mapping[str, np.ndarray], fetches: Sequence[str], timeout: float | None
    ) -> list[np.ndarray]:
        """The values of tensors for the values of others.

        Args:
            feeds: tensor name to array, strings as an object array of `bytes`; the inputs of a signature.
                Inputs of the file that are not in the signature are zeros.
            fetches: names of output tensors.
            timeout: seconds to wait for an interpreter; None for no limit. A run that has begun is not
                interrupted: TFLite has no deadline.

        Returns:
            An array for each fetch, in their order. They are copies.

        Raises:
            InvalidArgumentError: a tensor is unknown or missing, or an array has a wrong dtype or shape.
            DeadlineExceededError: no interpreter was free in time.
            CancelledError: the servable is closed.
        """
        arrays = {_resolve(self._inputs, name, _missing_input): array for name, array in feeds.items()}
        wanted = [_resolve(self._outputs, name, _missing_output) for name in fetches]
        subgraphs = {tensor.subgraph for tensor in (*arrays, *wanted)} or {0}
        if len(subgraphs) > 1:
            raise InvalidArgumentError(
                "All inputs and outputs of a run must belong to one signature. Received inputs "
                f"{_join(feeds)} and outputs {_join(fetches)}."
            )
        arrays |= self._unfed(subgraphs.pop(), arrays)
        checked = {tensor: _checked(tensor, array) for tensor, array in arrays.items()}
        return self._pool.run(checked, wanted, timeout)

    def close(self) -> None:
        """Frees the model once the runs on their way have ended; those that wait end with CANCELLED."""
        self._pool.close()

    def _needed(self, signature: pb.SignatureDef) -> tuple[int, frozenset[str]]:
        """The signature's subgraph and the names of its inputs."""
        tensors = [self._inputs[info.name] for info in signature.inputs.values()]
        results = [self._outputs[info.name] for info in signature.outputs.values()]
        subgraph = next((tensor.subgraph for tensor in (*tensors, *results)), 0)
        return subgraph, frozenset(tensor.name for tensor in tensors)

    def _unfed(self, subgraph: int, arrays: Mapping["_Tensor", np.ndarray]) -> dict["_Tensor", np.ndarray]:
        """Zeros for the inputs that a signature leaves out: they still hold another caller's values."""
        unfed = [each for each in self._inputs.values() if each.subgraph == subgraph and each not in arrays]
        fed = {tensor.name for tensor in arrays}
        if unfed and not any(place == subgraph and needed <= fed for place, needed in self._required):
            names = _join(tensor.name for tensor in unfed)
            raise InvalidArgumentError(f"You must feed a value for the input tensors {names}.")
        return {tensor: tensor.zeros() for tensor in unfed}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def has_tflite(path: Path) -> bool:
    """Whether a version's folder holds model.tflite.

    Example:
        >>> has_tflite(Path("models/half/1"))
        False
    """
    return (path / FILE_NAME).is_file()


class _Tensor(NamedTuple):
    """An input or output of a subgraph; a size of -1 is any."""

    name: str
    index: int
    subgraph: int
    code: int
    shape: tuple[int, ...]  # as the file has it
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


class _Graph(NamedTuple):
    inputs: list[_Tensor]
    outputs: list[_Tensor]


class _Pool:
    """Interpreters, each for one caller at a time; more are made as callers come, up to one for each CPU."""

    def __init__(self, content: bytes, threads: int):
        self._content = content
        self._threads = threads
        self._most = os.cpu_count() or 1
        self._changed = threading.Condition()
        self._idle = [_Interpreter(content, threads)]
        self._made = 1
        self._closed = False

    def run(
        self, feeds: Mapping[_Tensor, np.ndarray], fetches: Sequence[_Tensor], timeout: float | None
    ) -> list[np.ndarray]:
        interpreter = self._take(timeout)
        try:
            if interpreter is None:
                interpreter = _Interpreter(self._content, self._threads)
            arrays = interpreter.run(feeds, fetches)
        except BaseException:
            # Nothing says in what state a failed run leaves an interpreter.
            self._give_back(None)
            raise
        self._give_back(interpreter)
        return arrays

    def _take(self, timeout: float | None) -> "_Interpreter | None":
        """An idle interpreter, or None for leave to make one; either is to be given back."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._closed and not self._idle and self._made >= self._most:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise DeadlineExceededError("Timed out waiting for a TFLite interpreter.")
                self._changed.wait(left)
            if self._closed:
                raise CancelledError("Session has been closed.")
            if self._idle:
                return self._idle.pop()
            self._made += 1
            return None

    def _give_back(self, interpreter: "_Interpreter | None") -> None:
        with self._changed:
            if interpreter is None:
                self._made -= 1
            elif not self._closed:
                self._idle.append(interpreter)
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._idle.clear()
            self._changed.notify_all()


class _Interpreter:
    """A tf.lite.Interpreter that is resized only where a shape is not the last run's."""

    def __init__(self, content: bytes, threads: int):
        # Of its public methods none takes a subgraph; every signature but the first is in one of its own.
        self._owner = _new_interpreter(content, threads)
        self._wrapper: Any = self._owner._interpreter
        self._shapes: dict[tuple[int, int], tuple[int, ...]] = {}

    def run(self, feeds: Mapping[_Tensor, np.ndarray], fetches: Sequence[_Tensor]) -> list[np.ndarray]:
        subgraph = next((tensor.subgraph for tensor in (*feeds, *fetches)), 0)
        try:
            self._resize(subgraph, feeds)
            for tensor, array in feeds.items():
                self._wrapper.SetTensor(tensor.index, _settable(array), subgraph)
        except (RuntimeError, ValueError) as error:
            raise InvalidArgumentError(f"Failed to allocate tensors: {error}") from error
        try:
            self._wrapper.Invoke(subgraph)
        except RuntimeError as error:
            raise InvalidArgumentError(f"Failed to invoke TfLite interpreter: {error}") from error
        # GetTensor copies.
        return [
            np.asarray(self._wrapper.GetTensor(tensor.index, subgraph), tensor.dtype) for tensor in fetches
        ]

    def _resize(self, subgraph: int, feeds: Mapping[_Tensor, np.ndarray]) -> None:
        changed = {
            tensor.index: array.shape
            for tensor, array in feeds.items()
            if self._shapes.get((subgraph, tensor.index)) != array.shape
        }
        for index, shape in changed.items():
            self._wrapper.ResizeInputTensor(index, np.array(shape, np.int32), False, subgraph)
        if changed or not feeds:
            self._wrapper.AllocateTensors(subgraph)
        self._shapes |= {(subgraph, index): shape for index, shape in changed.items()}


def _new_interpreter(content: bytes, threads: int) -> tf.lite.Interpreter:
    """An interpreter, ready to be run.

    Raises:
        InvalidArgumentError: the content is no TFLite file, or TFLite cannot run it.
    """
    # catch_warnings would restore other threads' filters; this adds one filter, however often it is called.
    warnings.filterwarnings("ignore", r"\s*Warning: tf\.lite\.Interpreter is deprecated", UserWarning)
    kernels = tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        interpreter = tf.lite.Interpreter(
            model_content=content, num_threads=threads or None, experimental_op_resolver_type=kernels
        )
    except ValueError as error:
        raise InvalidArgumentError(f"Cannot build FlatBufferModel from buffer. {error}") from error
    try:
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise InvalidArgumentError(f"Failed to allocate tensors: {error}") from error
    return interpreter


def _content(path: Path) -> bytes:
    try:
        return (path / FILE_NAME).read_bytes()
    except OSError as error:
        raise NotFoundError(f"{path.name}/{FILE_NAME}; {error.strerror}") from error


def _settable(array: np.ndarray) -> np.ndarray:
    """`array` as SetTensor reads it: of an object without axes it would take the address for the text."""
    if array.dtype == object and array.ndim == 0:
        text = array.item()
        return np.ndarray((), f"S{len(text)}", buffer=text)
    return array


def _checked(tensor: _Tensor, array: np.ndarray) -> np.ndarray:
    """`array` as the interpreter takes it: in the machine's byte order."""
    if array.dtype.newbyteorder("=") != tensor.dtype:
        received = "string" if array.dtype == object else array.dtype.name
        raise InvalidArgumentError(
            f"Input tensor '{tensor.name}' must be {dtype_name(tensor.code)}. Received {received}."
        )
    if tensor.limits is not None and not _fits(array.shape, tensor.limits):
        raise InvalidArgumentError(
            f"Input tensor '{tensor.name}' must have the shape {list(tensor.limits)}, where -1 is any size. "
            f"Received {list(array.shape)}."
        )
    if 0 in array.shape[1:]:
        # Some kernels divide by these sizes, or read an element that is not there.
        raise InvalidArgumentError(
            f"Input tensor '{tensor.name}' may be empty in its first axis only. Received the shape "
            f"{list(array.shape)}."
        )
    if tensor.code == pb.DT_STRING and not all(isinstance(item, bytes) for item in array.flat):
        raise InvalidArgumentError(f"Input tensor '{tensor.name}' must hold bytes only.")
    return array.astype(tensor.dtype, copy=False)


def _fits(shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    return len(shape) == len(expected) and all(
        wanted in (-1, size) for size, wanted in zip(shape, expected, strict=True)
    )


def _signatures(file: Any) -> tuple[dict[str, pb.SignatureDef], list[_Graph]]:
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
    return {_DEFAULT_SIGNATURE: _generated_signature(main)}, [main]


def _stored_signatures(file: Any) -> dict[str, pb.SignatureDef]:
    """The SignatureDefs in the file's metadata, where whoever wrote it put TensorFlow's own."""
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
        except _UNREADABLE as error:
            raise InvalidArgumentError(
                "Invalid SignatureDefs found in TfLite model: Cannot parse signature def found in flatbuffer."
            ) from error
    return {}


def _fix_names(signature: pb.SignatureDef, graph: _Graph) -> None:
    """Gives the signature's tensors the names they have in the file, from which converters took the ":0"."""
    for kind, infos, tensors in (
        ("input", signature.inputs, graph.inputs),
        ("output", signature.outputs, graph.outputs),
    ):
        table = _by_name([tensors])
        for alias, info in infos.items():
            text = f"Unknown tensor '{info.name}'.\n\tSignature {kind} {alias} references an unknown tensor"
            info.name = _resolve(table, info.name, lambda _, text=text: text).name


def _own_signatures(file: Any) -> tuple[dict[str, pb.SignatureDef], list[_Graph]]:
    """The SignatureDefs of TFLite's own schema, each with its subgraph."""
    graphs: dict[int, _Graph] = {}
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
        signatures[key.decode() if key else _DEFAULT_SIGNATURE] = pb.SignatureDef(
            inputs=_infos(inputs, [own.Inputs(i) for i in range(own.InputsLength())]),
            outputs=_infos(outputs, [own.Outputs(i) for i in range(own.OutputsLength())]),
            method_name=_PREDICT_METHOD,
        )
    return signatures, list(graphs.values())


def _infos(tensors: Mapping[int, _Tensor], entries: Iterable[Any]) -> dict[str, pb.TensorInfo]:
    try:
        return {entry.Name().decode(): tensors[entry.TensorIndex()].info() for entry in entries}
    except KeyError as error:
        raise InvalidArgumentError(
            f"Invalid SignatureDefs found in TfLite model: Unknown tensor {error}."
        ) from None


def _generated_signature(graph: _Graph) -> pb.SignatureDef:
    return pb.SignatureDef(
        inputs=_aliases(graph.inputs), outputs=_aliases(graph.outputs), method_name=_PREDICT_METHOD
    )


def _aliases(tensors: Sequence[_Tensor]) -> dict[str, pb.TensorInfo]:
    """Alias to tensor: its name without ":0", unless two would then be one."""
    short = [_legacy_name(tensor.name) for tensor in tensors]
    return {
        alias if short.count(alias) == 1 else tensor.name: tensor.info()
        for alias, tensor in zip(short, tensors, strict=True)
    }


def _graph(file: Any, subgraph: int, taken: Sequence[str] = ()) -> _Graph:
    """The inputs and outputs of a subgraph, renamed where another has `taken` a name."""
    graph = file.Subgraphs(subgraph)
    inputs = [graph.Inputs(i) for i in range(graph.InputsLength())]
    outputs = [graph.Outputs(i) for i in range(graph.OutputsLength())]
    # A file that leaves any size open says of every size whether it is. Others write 1 for an open size.
    says = any(-1 in _sizes(graph.Tensors(index)) for index in inputs)

    def tensor(index: int) -> _Tensor:
        each = graph.Tensors(index)
        if each.Type() not in _TYPES:
            raise UnimplementedError(f"Unknown TfLite type: {each.Type()}")
        name = (each.Name() or b"").decode()
        unique = f"{name}@{subgraph}" if name in taken else name
        shape = _sizes(each)
        limits = shape if says else tuple([-1 if size == 1 else size for size in shape])
        # Files without HasRank, from before there was one, hold [] or [1, 1] for an unknown rank, too.
        known_rank = says or each.HasRank() or any(size != 1 for size in shape)
        return _Tensor(unique, index, subgraph, _TYPES[each.Type()], shape, limits if known_rank else None)

    return _Graph([tensor(index) for index in inputs], [tensor(index) for index in outputs])


def _sizes(tensor: Any) -> tuple[int, ...]:
    """The tensor's shape, -1 where the file leaves the size open."""
    if tensor.ShapeSignatureLength():
        return tuple([tensor.ShapeSignature(i) for i in range(tensor.ShapeSignatureLength())])
    return tuple([tensor.Shape(i) for i in range(tensor.ShapeLength())])


def _check_names(kind: str, tensors: Iterable[_Tensor]) -> None:
    seen: dict[str, int] = {}
    for tensor in tensors:
        if seen.setdefault(tensor.name, tensor.index) != tensor.index:
            raise AlreadyExistsError(f"{kind} tensor name: {tensor.name} has multiple indices")


def _by_name(groups: Iterable[Iterable[_Tensor]]) -> dict[str, _Tensor]:
    return {tensor.name: tensor for group in groups for tensor in group}


def _resolve(tensors: Mapping[str, _Tensor], name: str, message: Callable[[str], str]) -> _Tensor:
    """The tensor with a name, or with what TFLite's converter used to make of it."""
    tensor = tensors.get(name) or tensors.get(_legacy_name(name))
    if tensor is None:
        raise InvalidArgumentError(message(name))
    return tensor


def _legacy_name(name: str) -> str:
    return name.partition(":")[0]


def _missing_input(name: str) -> str:
    return f"Unknown tensor '{name}'.\n\tMissing input TFLite tensor: {name}"


def _missing_output(name: str) -> str:
    return f"Missing output TFLite tensor: {name}: Unknown tensor '{name}'."


def _join(names: Iterable[str]) -> str:
    return "{" + ",".join(sorted(names)) + "}"
