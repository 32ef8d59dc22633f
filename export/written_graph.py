"""Check the operations of a written graph, and correct the parts that `tf.saved_model.save` leaves wrong.

Reference: tensorflow/core/protobuf/{saved_model,meta_graph}.proto, tensorflow/core/framework/graph.proto.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import (  # pyright: ignore[reportMissingImports]
    fingerprint_pb2,
    saved_model_pb2,
)
from tensorflow.python.framework import op_def_registry
from tensorflow.python.saved_model import fingerprinting_utils

from keras_selfattn.errors import ExportError

from .kernels import Operation, read, registered, type_name
from .signatures.model_signatures import Signature

OLDEST = "2.16"  # the oldest TensorFlow Serving that can load our graphs

# Operations that a served model does not need, or that make its answers change.
_FORBIDDEN = re.compile(
    r"Random|Normal(?!iz)|Stateful.*Uniform|Multinomial|CandidateSampler|Rng|Dropout"
    r"|Grad$|Grad[A-Z_]|Gradient|^ResourceApply|PyFunc"
)
_HARMLESS = {"StopGradient", "PreventGradient"}  # the identity where nothing is trained


def read_saved_model(path: Path) -> Any:
    """Return the message in a file `saved_model.pb` or `saved_model.pbtxt`."""
    if path.suffix == ".pbtxt":
        return text_format.Parse(path.read_text(encoding="utf-8"), saved_model_pb2.SavedModel())
    return saved_model_pb2.SavedModel.FromString(path.read_bytes())


def count_operations(saved_model: Any) -> Counter[str]:
    """Return the count of each operation in the first graph and its functions; calls are not counted."""
    return Counter(node.op for node in _nodes(saved_model))


def finish(folder: Path, signatures: Mapping[str, Signature]) -> list[str]:
    """Check a graph that `tf.saved_model.save` wrote, and set its signatures' method names and defaults.

    Args:
        folder: the SavedModel's, which is not visible yet.
        signatures: by name.

    Returns:
        The names of its operations.

    Raises:
        ExportError: for an operation that draws random numbers or trains, or that this process's TensorFlow,
            or the oldest supported one, lacks.
    """
    path = folder / "saved_model.pb"
    saved_model = read_saved_model(path)
    _check(saved_model)
    definitions = saved_model.meta_graphs[0].signature_def
    for name, signature in signatures.items():
        definition = definitions[name]
        # TensorFlow calls a function once for each name, and a server would prepare each call's graph.
        first = next(other for other, each in signatures.items() if each.function is signature.function)
        if first != name:
            definition.CopyFrom(definitions[first])
            definition.defaults.clear()
        definition.method_name = signature.method_name
        # TensorFlow's own way needs defaults of Python functions, which concrete ones do not have.
        for alias, value in signature.defaults.items():
            definition.defaults[alias].CopyFrom(tf.make_tensor_proto(value))
    path.write_bytes(saved_model.SerializeToString(deterministic=True))
    _renew_fingerprint(folder)
    return sorted(count_operations(saved_model))


def _check(saved_model: Any) -> None:
    oldest = read(Path(__file__).with_name(f"tensorflow-{OLDEST}.txt").read_text(encoding="utf-8"))
    here = registered()
    if saved_model.meta_graphs[0].graph_def.library.gradient:
        raise ExportError("The graph holds gradients, which a served model does not need.")
    for node in _nodes(saved_model):
        if _FORBIDDEN.search(node.op) and node.op not in _HARMLESS:
            raise ExportError(
                f"The graph holds the operation {node.op} ({node.name!r}), which trains, draws random "
                "numbers or leaves TensorFlow. Let the model do that only where `training` is True."
            )
        for operations, where in ((here, "this TensorFlow"), (oldest, f"TensorFlow Serving {OLDEST}")):
            reason = _unknown(node, operations)
            if reason:
                raise ExportError(f"{where} cannot run the operation {node.op} ({node.name!r}): {reason}.")


def _nodes(saved_model: Any) -> Iterator[Any]:
    graph = saved_model.meta_graphs[0].graph_def
    functions = {function.signature.name for function in graph.library.function}
    for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
        yield from (node for node in nodes if node.op not in functions)


def _unknown(node: Any, operations: Mapping[str, Operation]) -> str | None:
    operation = operations.get(node.op)
    if operation is None:
        return "it has no such operation for CPUs"
    new = {name for name in node.attr if not name.startswith("_")} - operation.attributes
    if new:
        return f"it does not know the attribute {min(new)}"
    types = _types(node)
    if not operation.takes(types):
        return "it has no kernel for " + ", ".join(f"{name}={type_}" for name, type_ in sorted(types.items()))
    return None


def _types(node: Any) -> dict[str, str]:
    """Return the types of a node by attribute, with the defaults that the file leaves out."""
    definition: Any = op_def_registry.get(node.op)
    values = {attribute.name: attribute.default_value for attribute in getattr(definition, "attr", ())}
    values |= dict(node.attr)
    return {
        name: type_name(value.type) for name, value in values.items() if value.WhichOneof("value") == "type"
    }


def _renew_fingerprint(folder: Path) -> None:
    """Recompute the fingerprint from the changed file, without the random number that TensorFlow adds."""
    fingerprinting_utils.write_fingerprint(str(folder))
    path = folder / "fingerprint.pb"
    fingerprint: Any = fingerprint_pb2.FingerprintDef.FromString(path.read_bytes())
    content = (folder / "saved_model.pb").read_bytes() + (folder / "variables/variables.index").read_bytes()
    fingerprint.uuid = str(int(hashlib.sha256(content).hexdigest()[:16], 16))
    path.write_bytes(fingerprint.SerializeToString(deterministic=True))
