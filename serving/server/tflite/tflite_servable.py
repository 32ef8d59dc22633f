"""One loaded version of a model that is a TFLite file: its signatures, and runs on a pool of interpreters.

It does the same as TensorFlow Serving with --prefer_tflite_model, with three differences. It also reads the
SignatureDefs that the converter writes today. An input's axes may change only if the file leaves their size
unknown: otherwise kernels read beyond their memory, or return nonsense. XNNPACK stays off: it ends the
process on inputs that any client can send, such as a picture too small for a convolution.

Reference: tensorflow_serving/servables/tensorflow/tflite_session.cc.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

from ...errors import InvalidArgumentError, NotFoundError
from ...wire import messages_pb2 as pb
from ...wire.dtypes import dtype_name
from ...wire.shapes import Shape
from ..runtime.batching_parameters import BatchingParameters
from ..runtime.row_padding import RowPadding
from ..runtime.search_cost import SearchCost
from .interpreter_pool import InterpreterPool
from .tflite_signatures import UNREADABLE, Tensor, by_name, resolve, signatures_of

TFLITE_FILE = "model.tflite"


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
        self.row_tensors: frozenset[str] = frozenset()
        self.padding: RowPadding | None = None
        self.batching: BatchingParameters | None = None
        self.card: dict[str, Any] | None = None
        self.search: SearchCost | None = None
        content = _content(path)
        self._pool = InterpreterPool(content, threads)
        try:
            self.signatures, graphs = signatures_of(schema.Model.GetRootAs(content, 0))
        except UNREADABLE as error:
            raise InvalidArgumentError(f"Cannot build FlatBufferModel from buffer. {error}") from error
        self._inputs = by_name(graph.inputs for graph in graphs)
        self._outputs = by_name(graph.outputs for graph in graphs)
        self.input_limits: Mapping[str, Shape] = self._limits()
        self.takes_declared_shapes_only = True
        # A caller must feed at least one signature's inputs.
        self._required = [self._needed(signature) for signature in self.signatures.values()]

    def run(
        self, feeds: Mapping[str, np.ndarray], fetches: Sequence[str], timeout: float | None
    ) -> list[np.ndarray]:
        """Compute the values of output tensors from input tensors.

        Args:
            feeds: tensor name to array, strings as an object array of `bytes`; the inputs of a signature.
                Inputs of the file that are not in the signature are zeros.
            fetches: names of output tensors.
            timeout: seconds to wait for an interpreter; None for no limit. A running run is not
                interrupted: TFLite has no deadline.

        Returns:
            An array for each fetch, in their order. They are copies.

        Raises:
            InvalidArgumentError: a tensor is unknown or missing, or an array has a wrong dtype or shape.
            DeadlineExceededError: no interpreter was free in time.
            CancelledError: the servable is closed.
        """
        arrays = {resolve(self._inputs, name, _missing_input): array for name, array in feeds.items()}
        wanted = [resolve(self._outputs, name, _missing_output) for name in fetches]
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
        """Free the model once current runs have ended; waiting ones end with CANCELLED."""
        self._pool.close()

    def _limits(self) -> dict[str, Shape]:
        """The shapes that inputs take, by the tensors' names in the signatures."""
        infos = [info for signature in self.signatures.values() for info in signature.inputs.values()]
        limits = {info.name: resolve(self._inputs, info.name, _missing_input).limits for info in infos}
        return {
            name: sizes and tuple([None if size < 0 else size for size in sizes])
            for name, sizes in limits.items()
        }

    def _needed(self, signature: pb.SignatureDef) -> tuple[int, frozenset[str]]:
        """The signature's subgraph and the names of its inputs."""
        tensors = [self._inputs[info.name] for info in signature.inputs.values()]
        results = [self._outputs[info.name] for info in signature.outputs.values()]
        subgraph = next((tensor.subgraph for tensor in (*tensors, *results)), 0)
        return subgraph, frozenset(tensor.name for tensor in tensors)

    def _unfed(self, subgraph: int, arrays: Mapping["Tensor", np.ndarray]) -> dict["Tensor", np.ndarray]:
        """Zeros for the inputs that a signature leaves out: they still hold an earlier caller's values."""
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
    """Return True if a version's folder holds model.tflite.

    Example:
        >>> has_tflite(Path("models/half/1"))
        False
    """
    return (path / TFLITE_FILE).is_file()


def _content(path: Path) -> bytes:
    try:
        return (path / TFLITE_FILE).read_bytes()
    except OSError as error:
        raise NotFoundError(f"{path.name}/{TFLITE_FILE}; {error.strerror}") from error


def _checked(tensor: Tensor, array: np.ndarray) -> np.ndarray:
    """`array` in the interpreter's form: in the machine's byte order."""
    if array.dtype.newbyteorder("=") != tensor.dtype:
        received = "string" if array.dtype == object else (array.dtype.names or [array.dtype.name])[0]
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


def _missing_input(name: str) -> str:
    return f"Unknown tensor '{name}'.\n\tMissing input TFLite tensor: {name}"


def _missing_output(name: str) -> str:
    return f"Missing output TFLite tensor: {name}: Unknown tensor '{name}'."


def _join(names: Iterable[str]) -> str:
    return "{" + ",".join(sorted(names)) + "}"
