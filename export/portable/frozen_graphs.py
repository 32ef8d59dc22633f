"""Graphs without variables, in operations that converters know."""

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from ..signatures.model_signatures import Signature, specs_of

_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def frozen(signature: Signature) -> Any:
    """Return the function of a signature with its weights as constants, and the same names."""
    graph = convert_variables_to_constants_v2(signature.concrete, lower_control_flow=False)
    definition = with_expanded_axes(graph.graph.as_graph_def())
    names = sorted(signature.concrete.structured_outputs)  # the order of a flattened dict
    imported = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(definition, name=""), [])
    found: Any = imported.graph.as_graph_element
    pruned = imported.prune(
        [found(tensor.name) for tensor in graph.inputs], [found(tensor.name) for tensor in graph.outputs]
    )
    return tf.function(
        lambda *raw: dict(zip(names, pruned(*raw), strict=True)),
        input_signature=specs_of(signature.function),
        autograph=False,
    )


def with_expanded_axes(definition: Any) -> Any:
    """Return a graph in which slices that only add an axis, `x[..., None]`, are `ExpandDims`.

    The converter knows such slices only where all sizes are known.
    """
    constants = {node.name: node for node in definition.node if node.op == "Const"}
    made = tf.compat.v1.GraphDef(versions=definition.versions, library=definition.library)
    made.node.extend(each for node in definition.node for each in _expanded(node, constants))
    return made


def _expanded(node: Any, constants: Mapping[str, Any]) -> Iterator[Any]:
    axis = _new_axis(node, constants) if node.op == "StridedSlice" else None
    if axis is None:
        yield node
        return
    number = tf.compat.v1.NodeDef(name=f"{node.name}/axis", op="Const")
    number.attr["dtype"].type = tf.int32.as_datatype_enum
    number.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(axis, tf.int32))
    yield number
    expanded = tf.compat.v1.NodeDef(name=node.name, op="ExpandDims", input=[node.input[0], number.name])
    expanded.attr["T"].CopyFrom(node.attr["T"])
    expanded.attr["Tdim"].type = tf.int32.as_datatype_enum
    yield expanded


def _new_axis(node: Any, constants: Mapping[str, Any]) -> int | None:
    """Return the place of the axis that a slice adds, if it does nothing else; otherwise None."""
    begin, end, ellipsis, new, shrink = (node.attr[name].i for name in _MASKS)
    strides = constants.get(node.input[3].partition(":")[0])
    if strides is None or shrink or new.bit_count() != 1:
        return None
    size = int(tf.make_ndarray(strides.attr["value"].tensor).size)
    every = (1 << size) - 1
    if begin | new | ellipsis != every or end | new | ellipsis != every:
        return None
    place = new.bit_length() - 1
    return place - size if 0 < ellipsis < new else place
