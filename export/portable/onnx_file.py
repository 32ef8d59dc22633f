"""Convert a traced function to an ONNX file, with tf2onnx, and correct what tf2onnx gets wrong."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import EncodeError

from keras_selfattn.errors import ExportError, first_line

from ..signatures.model_signatures import Signature, specs_of
from .frozen_graphs import frozen
from .onnx_einsum import einsum

# The first with operations on bits, which hashed n-grams of ids need. ONNX Runtime has it since 1.14.
OPSET = 18


def onnx_file(
    signature: Signature, metadata: Mapping[str, str], *, by_position: bool
) -> tuple[bytes, list[str]]:
    """Return a signature as the content of an ONNX file, and the names of its operations.

    Args:
        signature: its function takes and returns numbers.
        metadata: properties of the file, by name.
        by_position: True if the second axis of the outputs is the length of the input.

    Raises:
        ExportError: if the graph cannot be converted.
    """
    import onnx  # pyright: ignore[reportMissingImports]

    proto = _converted(signature)
    nodes = list(_nodes(proto.graph))
    foreign = sorted({node.op_type for node in nodes if node.domain or not onnx.defs.has(node.op_type)})
    if foreign:
        raise ExportError(
            f"ONNX has no counterpart of the operations {', '.join(foreign)}, which the model computes with."
        )
    constants = {node.output[0] for node in nodes if node.op_type == "Constant"} | _initialized(proto.graph)
    for node in nodes:
        # In a computed shape 0 is a size; in tf2onnx' constants it is "as before", as ONNX has it by default.
        if node.op_type == "Reshape" and node.input[1] not in constants:
            del node.attribute[:]
            node.attribute.append(onnx.helper.make_attribute("allowzero", 1))
    _name_axes(proto.graph, by_position=by_position)
    onnx.helper.set_model_props(proto, dict(metadata))
    try:
        onnx.checker.check_model(proto)
        content = proto.SerializeToString(deterministic=True)
    except (ValueError, EncodeError, onnx.checker.ValidationError) as error:  # more than 2 GB, too
        raise ExportError(f"The converted graph is no ONNX file: {first_line(error)}.") from error
    return content, sorted({node.op_type for node in nodes})


def _converted(signature: Signature) -> Any:
    import tf2onnx  # pyright: ignore[reportMissingImports]

    with _silenced("tf2onnx"):
        try:
            graph = _tf2onnx_graph(signature)
            graph = tf2onnx.optimizer.optimize_graph(graph, optimizers=_optimizers())
            _count_axes_from_the_first(graph)
            return graph.make_model("keras-selfattn")
        except Exception as error:  # tf2onnx raises many kinds
            raise ExportError(f"tf2onnx cannot convert the model: {first_line(error)}.") from error


def _tf2onnx_graph(signature: Signature) -> Any:
    """Return a signature as tf2onnx' own graph, its inputs and outputs under their names."""
    import tf2onnx  # pyright: ignore[reportMissingImports]

    function = frozen(signature).get_concrete_function()
    names = [tensor.name for tensor in function.inputs], [tensor.name for tensor in function.outputs]
    renamed = {tensor.name: name for name, tensor in function.structured_outputs.items()}
    given = [spec.name for spec in specs_of(signature.function)]
    renamed |= dict(zip(names[0], given, strict=True))
    definition = tf2onnx.tf_loader.from_function(function, *names)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        return tf2onnx.tfonnx.process_tf_graph(
            graph,
            opset=OPSET,
            custom_op_handlers=_HANDLERS,
            input_names=names[0],
            output_names=names[1],
            tensors_to_rename=renamed,
        )


def _optimizers() -> dict[str, Any]:
    """Return tf2onnx' optimizers without the one that makes computed shapes constant.

    In its shapes 0 is "as the input's", which is wrong once another optimizer joins two reshapes, and -1 is
    "the rest", which is unknown if there are no numbers, so that ONNX Runtime refuses an empty batch.
    """
    import tf2onnx  # pyright: ignore[reportMissingImports]

    known = tf2onnx.optimizer._get_optimizers()
    return {name: each for name, each in known.items() if name != "reshape_optimizer"}


def _count_axes_from_the_first(graph: Any) -> None:
    """Count the axes of reductions from 0: ONNX Runtime before 1.32 ignores -1 if there are no numbers."""
    for node in graph.get_nodes():
        for body in (node.get_body_graphs() or {}).values():
            _count_axes_from_the_first(body)
        if not node.type.startswith("Reduce") or len(node.input) < 2 or not node.inputs[1].is_const():
            continue
        axes, rank = node.inputs[1].get_tensor_value(as_list=False), graph.get_rank(node.input[0])
        if rank is not None and (axes < 0).any():
            constant = graph.make_const(f"{node.name}_axes", axes % rank)
            graph.replace_input(node, node.input[1], constant.output[0], 1)


def _erfc(ctx: Any, node: Any, name: str, args: Sequence[Any]) -> None:
    """Convert `erfc(x)` of Keras' GELU, which ONNX has not, to `1 - erf(x)`."""
    _subtracted(ctx, node, name, lambda one: [one, ctx.make_node("Erf", node.input[:]).output[0]])


def _expm1(ctx: Any, node: Any, name: str, args: Sequence[Any]) -> None:
    """Convert `expm1(x)` of CELU, which ONNX has not, to `exp(x) - 1`."""
    _subtracted(ctx, node, name, lambda one: [ctx.make_node("Exp", node.input[:]).output[0], one])


def _subtracted(ctx: Any, node: Any, name: str, sides: Callable[[str], list[str]]) -> None:
    """Replace a node by a difference; `sides` makes its two sides, given the name of 1."""
    shapes, dtypes, outputs = node.output_shapes, node.output_dtypes, list(node.output)
    one = ctx.make_const(f"{name}_one", np.ones((), _numpy_type(dtypes[0]))).output[0]
    inputs = sides(one)
    ctx.remove_node(node.name)
    ctx.make_node("Sub", inputs, outputs=outputs, name=name, shapes=shapes, dtypes=dtypes)


def _numpy_type(code: int) -> Any:
    import onnx  # pyright: ignore[reportMissingImports]

    return onnx.helper.tensor_dtype_to_np_dtype(code)


def _where(ctx: Any, node: Any, name: str, args: Sequence[Any]) -> None:
    """Convert a choice between values to one; tf2onnx' products with 0 and 1 let NaN in padding through."""
    node.type = "Where"
    node.domain = ""


def _nodes(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a graph and of the graphs in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def _initialized(graph: Any) -> set[str]:
    """Return the names of the constants of a graph and of the graphs in it."""
    inner = [each.g for node in _nodes(graph) for each in node.attribute if each.HasField("g")]
    return {tensor.name for each in (graph, *inner) for tensor in each.initializer}


def _name_axes(graph: Any, *, by_position: bool) -> None:
    """Name the unknown axes: the first is the batch, that of an only input's positions the length."""
    for value in [*graph.input, *graph.output]:
        known = len(graph.input) == 1 and (by_position or value in list(graph.input))
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            if size.HasField("dim_value") and size.dim_value > 0:
                continue
            size.dim_param = "batch" if axis == 0 else f"{value.name}_{axis}"
            if axis == 1 and known:
                size.dim_param = "length"


@contextmanager
def _silenced(name: str) -> Iterator[None]:
    """Let a logger say nothing: what fails is raised, with other words."""
    logger = logging.getLogger(name)
    before = logger.disabled, logger.level
    logger.disabled, logger.level = True, logging.CRITICAL
    try:
        yield
    finally:
        logger.disabled, logger.level = before


_HANDLERS = {
    "Einsum": (einsum, []),
    "Erfc": (_erfc, []),
    "Expm1": (_expm1, []),
    "SelectV2": (_where, []),
}
