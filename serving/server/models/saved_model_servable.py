"""One loaded version of a model: a SavedModel in a TensorFlow session.

The session is TensorFlow 1's, fed and fetched below its Python checks, as in TensorFlow Serving. So the error
texts are the same as there. The check of shapes is in `api/input_shapes.py`. A call costs 40 microseconds.

TensorFlow passes a run's operations to its own threads, which takes much of the time of a short run: a row of
64 tokens through two layers of width 128 takes a third less CPU time, and a fifth less time, in the calling
thread. Deadlines cannot stop such a run, and its asynchronous operations nest on the thread's stack. So it
must be short and have known operations only.
"""

import math
import re
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tensorflow.core.protobuf import (  # pyright: ignore[reportMissingImports]
    config_pb2,
    rewriter_config_pb2,
)
from tensorflow.python import pywrap_tfe
from tensorflow.python.client import pywrap_tf_session as session_api
from tensorflow.python.client.session import Session
from tensorflow.python.framework import errors, op_def_registry, ops
from tensorflow.python.saved_model.loader_impl import SavedModelLoader

from ...errors import ERROR_OF_CODE, InvalidArgumentError, ServingError, status_code
from ...wire import messages_pb2 as pb
from ...wire.shapes import Shape
from ..config import ServerConfig
from ..runtime.batching_parameters import BatchingParameters
from ..runtime.row_padding import RowPadding
from ..runtime.search_cost import SearchCost
from ..runtime.text_files import read_text_file
from .free_outputs import FreeOutputs
from .quantized_tensors import record_of
from .servable import without_path

try:
    from tensorflow.python.util import _pywrap_util_port as _port
except ImportError:  # TensorFlow has no public name for it
    _port: Any = None

# The stub's types forbid None for "no options" and "no metadata"; Session.run passes both.
_session_run: Any = session_api.TF_SessionRun_wrapper

# From this length on TensorFlow's threads gain more: independent operations run side by side.
_LONGEST_SECONDS = 0.005
# Weight of the newest run in the expected time, unless it was long.
_NEWEST = 0.125
# The most kinds of runs to remember: each has a signature, a size and an output filter that clients choose.
_MOST_KINDS = 1000
_LOOPS = frozenset(["While", "StatelessWhile", "Enter", "RefEnter", "NextIteration", "RefNextIteration"])
_CALLS = frozenset(
    ["PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "Case", "StatelessCase"]
)
# A few thousand calls in a chain, which TensorFlow does not always inline, overflow a stack.
_MOST_CALLS = 300
# Stateful operations whose time depends on their inputs only, and which never wait.
_PROMPT = frozenset(
    [
        *("VarHandleOp", "VarIsInitializedOp", "ReadVariableOp", "AssignVariableOp", "DisableCopyOnRead"),
        *("ResourceGather", "ResourceGatherNd", "VariableV2", "Assert", "RestoreV2", "SaveV2", "Timestamp"),
        *("MergeV2Checkpoints", "HashTableV2", "InitializeTableV2", "InitializeTableFromTextFileV2"),
        *("LookupTableFindV2", "LookupTableSizeV2", "LookupTableImportV2", "LookupTableExportV2"),
    ]
)
# Stateless operations that may wait, or whose time depends on more than their inputs.
_NOT_PROMPT = re.compile(r"^For$|Batch$|^BatchFunction$|Barrier|Queue|Dataset|MapDefun|SymbolicGradient")


class SavedModelServable:
    """A SavedModel, ready to answer.

    Args:
        model: the model's name.
        version: the version's number.
        path: the version's folder, a SavedModel.
        tags: of the graph to load.
        config: of the session; `session_config` makes it.
        is_ours: True if this project exported it. Then its loops end, as in `is_sure_to_end`; its outputs
            come from one computation, which succeeds or fails as a whole, so a run can fetch more outputs;
            and its inputs take the declared shapes only.

    Raises:
        ServingError: TensorFlow's runtime cannot load it, for example because a checkpoint is cut short.
        Exception: TensorFlow's Python cannot: an OSError, ValueError or RuntimeError among others.

    Example:
        servable = SavedModelServable("half", 1, Path("models/half/1"), ["serve"], config_pb2.ConfigProto())
        y, = servable.run({"x:0": np.float32([2])}, ["y:0"], timeout=1.0)
    """

    def __init__(
        self,
        model: str,
        version: int,
        path: Path,
        tags: Sequence[str],
        config: Any,
        is_ours: bool = False,
    ):
        self.model = model
        self.version = version
        self.row_tensors: frozenset[str] = frozenset()
        self.input_limits: Mapping[str, Shape] = {}
        self.takes_declared_shapes_only = is_ours
        self.padding: RowPadding | None = None
        self.batching: BatchingParameters | None = None
        self.card: dict[str, Any] | None = None
        self.search: SearchCost | None = None
        self._path = path
        self._session = Session(graph=ops.Graph(), config=config)
        try:
            with self._session.graph.as_default():
                loader: Any = SavedModelLoader(str(path))
                meta_graph = loader.load(self._session, list(tags))
            signatures = {name: proto.SerializeToString() for name, proto in meta_graph.signature_def.items()}
            self.signatures = {name: pb.SignatureDef.FromString(data) for name, data in signatures.items()}
            tensors = dict(self._named_tensors())
            self._tensors = {name: tensor._as_tf_output() for name, tensor in tensors.items()}
            records = {name: record_of(tensor.dtype.as_datatype_enum) for name, tensor in tensors.items()}
            self._records = {name: record for name, record in records.items() if record is not None}
            whole = self._whole_signatures(tensors) if is_ours else ()
            self._free_outputs = [FreeOutputs(meta_graph.graph_def, each) for each in whole]
            ends = is_sure_to_end(meta_graph.graph_def, is_ours)
            self._short_runs = ShortRuns(ends and self._has_default_threads(config))
        except errors.OpError as error:
            self._session.close()
            raise self._serving_error(error) from error
        except BaseException:
            self._session.close()
            raise

    def run(
        self, feeds: Mapping[str, np.ndarray], fetches: Sequence[str], timeout: float | None
    ) -> list[np.ndarray]:
        """As in `Servable`."""
        fed = {self._tensor(name): array for name, array in feeds.items()}
        asked, fetches = fetches, self._with_free_outputs(feeds, fetches)
        fetched = [self._tensor(name) for name in fetches]
        kind = kind_of_run(fetches, feeds.values())
        # Of a search inputs do not tell the time, and no deadline stops a run in this thread.
        is_short = self.search is None and self._short_runs.expected(kind)
        options = _IN_THIS_THREAD if is_short else _options(timeout)
        started = time.perf_counter()
        try:
            # Every public call checks shapes before it feeds a session.
            values = _session_run(self._session._session, options, fed, fetched, [], None)
        except errors.OpError as error:
            raise self._serving_error(error) from error
        except UnicodeDecodeError as error:
            # TensorFlow's message quotes bytes of the request, and Python's binding expects text.
            message = bytes(error.object).decode(errors="replace")
            raise InvalidArgumentError(without_path(message, self._path)) from error
        finally:
            if options not in (None, _IN_THIS_THREAD):
                session_api.TF_DeleteBuffer(options)
        self._short_runs.took(kind, time.perf_counter() - started)
        found = dict(zip(fetches, values, strict=True))
        return [self._array(name, found[name]) for name in asked]

    def close(self) -> None:
        """As in `Servable`."""
        self._session.close()
        # The graph and its operations form a cycle; Python's collector would stop all threads to find it.
        ops.dismantle_graph(self._session.graph)

    def _serving_error(self, error: errors.OpError) -> ServingError:
        return ERROR_OF_CODE[status_code(error.error_code)](without_path(error.message, self._path))

    def _named_tensors(self) -> Iterable[tuple[str, Any]]:
        for signature in self.signatures.values():
            for info in (*signature.inputs.values(), *signature.outputs.values()):
                # Sparse and composite tensors have parts instead of a name; __saved_model_init_op names an
                # operation. Neither can be fed or fetched.
                if ":" in info.name:
                    yield info.name, self._session.graph.get_tensor_by_name(info.name)

    def _has_default_threads(self, config: Any) -> bool:
        """Return True if no other threads are configured, and the CPU is the only device."""
        asked = (
            config.inter_op_parallelism_threads
            or config.session_inter_op_thread_pool
            or config.use_per_session_threads
            or config.experimental.executor_type
        )
        return not asked and len(self._session.list_devices()) == 1

    def _whole_signatures(self, tensors: Mapping[str, Any]) -> Iterable[pb.SignatureDef]:
        """Yield the signatures whose outputs can all be fetched."""
        for signature in self.signatures.values():
            if all(info.name in tensors for info in signature.outputs.values()):
                yield signature

    def _with_free_outputs(self, feeds: Mapping[str, np.ndarray], fetches: Sequence[str]) -> Sequence[str]:
        """Return `fetches`, with the other outputs that cost almost nothing more."""
        for each in self._free_outputs:
            if each.inputs == feeds.keys() and set(fetches).issubset(each.outputs):
                return each.widened(fetches)
        return fetches

    def _array(self, name: str, value: object) -> np.ndarray:
        """Return a fetched value with its quantized type, which TensorFlow's Python returns as integers."""
        array = value if isinstance(value, np.ndarray) else _scalar(value)
        record = self._records.get(name)
        return array if record is None else array.view(record)

    def _tensor(self, name: str) -> Any:
        if name not in self._tensors:
            raise InvalidArgumentError(
                f"Tensor {name or '(sparse or composite)'}, specified in either feed_devices or "
                f"fetch_devices was not found in the Graph"
            )
        return self._tensors[name]


def _options(timeout: float | None) -> Any:
    """A TF_Buffer of RunOptions, which the caller deletes; None without a timeout."""
    if timeout is None:
        return None
    milliseconds = max(1, math.ceil(timeout * 1000))
    return _buffer(config_pb2.RunOptions(timeout_in_ms=milliseconds))


def _buffer(options: Any) -> Any:
    return session_api.TF_NewBufferFromString(options.SerializeToString())


# Runs the graph outside TensorFlow's threads; shared by all sessions, for the life of the process.
_IN_THIS_THREAD = _buffer(config_pb2.RunOptions(inter_op_thread_pool=-1))


def _scalar(value: object) -> np.ndarray:
    """Return a scalar as an array. TensorFlow returns a string as bytes, a number as a NumPy scalar."""
    return np.array(value, dtype=object if isinstance(value, bytes) else None)


class ShortRuns:
    """Predict short runs from the times of earlier runs of their kind. Safe to use from threads.

    Args:
        ends: True if every run is sure to end, so it may run in the calling thread.

    Example:
        >>> runs = ShortRuns(ends=True)
        >>> runs.expected("predict")
        False
        >>> runs.took("predict", seconds=0.001)
        >>> runs.expected("predict"), runs.expected("explain")
        (True, False)
    """

    def __init__(self, ends: bool):
        self._seconds: dict[Hashable, float] = {}
        self._ends = ends

    def expected(self, kind: Hashable) -> bool:
        """Return True if a run is expected to be short; the first of a kind never is."""
        return self._ends and self._seconds.get(kind, _LONGEST_SECONDS) < _LONGEST_SECONDS

    def took(self, kind: Hashable, seconds: float) -> None:
        """Record the time of a finished run."""
        before = self._seconds.get(kind, seconds)
        if len(self._seconds) >= _MOST_KINDS:
            self._seconds.clear()
        is_long = seconds >= _LONGEST_SECONDS
        self._seconds[kind] = max(seconds, before) if is_long else before + _NEWEST * (seconds - before)


def kind_of_run(fetches: Iterable[str], arrays: Iterable[np.ndarray]) -> Hashable:
    """Return the common key of runs of similar length: their fetches, and the size of their feeds."""
    size = sum(
        sum(map(len, array.reshape(-1).tolist())) if array.dtype == object else array.nbytes
        for array in arrays
    )
    return (*fetches, size.bit_length())


def is_sure_to_end(graph_def: Any, loops_end: bool) -> bool:
    """Return True if a graph, for any feeds, ends, never waits, and needs no deep stack.

    Args:
        graph_def: a GraphDef.
        loops_end: True if its loops, and its functions that are not inlined, are known to end.
    """
    calls = 0
    for node in _nodes(graph_def):
        calls += node.op in _CALLS
        if node.op in _LOOPS:
            if not loops_end:
                return False
        elif not _is_prompt(node.op):
            return False
    inlined = not any(function.attr["_noinline"].b for function in graph_def.library.function)
    return calls <= _MOST_CALLS and (inlined or loops_end)


def _nodes(graph_def: Any) -> Iterator[Any]:
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def _is_prompt(name: str) -> bool:
    if name in _CALLS or name in _PROMPT:
        return True
    definition = op_def_registry.get(name)
    return definition is not None and not definition.is_stateful and not _NOT_PROMPT.search(name)


def runs_onednn() -> bool:
    """Return True if this process' TensorFlow runs oneDNN's kernels, or does not say."""
    return _port is None or _port.IsMklEnabled()


def _has_gpu() -> bool:
    return any(b":GPU:" in device for device in pywrap_tfe.TF_ListPhysicalDevices())


def session_config(config: ServerConfig) -> Any:
    """The settings of TensorFlow's sessions, a ConfigProto.

    Raises:
        TextFileError: tensorflow_session_config_file cannot be read.
    """
    proto: Any = config_pb2.ConfigProto()
    if str(config.tensorflow_session_config_file):
        proto = read_text_file(
            config.tensorflow_session_config_file, config_pb2.ConfigProto, "tensorflow.ConfigProto"
        )
    both = config.tensorflow_session_parallelism
    proto.intra_op_parallelism_threads = (
        proto.intra_op_parallelism_threads or both or config.tensorflow_intra_op_parallelism
    )
    proto.inter_op_parallelism_threads = (
        proto.inter_op_parallelism_threads or both or config.tensorflow_inter_op_parallelism
    )
    rewriting = proto.graph_options.rewrite_options
    if not rewriting.meta_optimizer_iterations:
        # A graph's first run takes a third less than with TensorFlow's two passes, and without TFG's another
        # fifth; later ones take as long. A file that sets the passes decides on both.
        rewriting.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
        rewriting.disable_tfg_optimizer = True
    if not rewriting.memory_optimization and not _has_gpu():
        # A plan for a GPU's memory, which TensorFlow makes for CPUs as well, is a tenth of a first run.
        rewriting.memory_optimization = rewriter_config_pb2.RewriterConfig.NO_MEM_OPT
    if config.per_process_gpu_memory_fraction:
        proto.gpu_options.per_process_gpu_memory_fraction = config.per_process_gpu_memory_fraction
    return proto
