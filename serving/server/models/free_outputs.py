"""The outputs of a signature that share the work of others, and so cost almost nothing more.

TensorFlow prepares a graph for every set of fetched tensors, which takes seconds. So a request for some
outputs also fetches those that share their work, and uses the graph that the warmup has prepared.

Reference: GetOrCreateExecutors in tensorflow/core/common_runtime/direct_session.cc.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ...wire import messages_pb2 as pb

# Operations that read each number once, and take less time than writing the message of their result.
_LIGHT = frozenset(
    [
        *("Identity", "IdentityN", "StopGradient", "PreventGradient", "EnsureShape", "Const", "Placeholder"),
        *("NoOp", "VarHandleOp", "ReadVariableOp", "VariableV2", "HashTableV2", "Cast", "Bitcast", "Shape"),
        *("Reshape", "ExpandDims", "Squeeze", "StridedSlice", "Slice", "Pack", "Unpack", "Rank", "Size"),
        *("ArgMax", "ArgMin", "Max", "Min", "Sum", "Mean", "Prod", "All", "Any", "TopKV2", "Softmax"),
        *("Sigmoid", "LogSoftmax", "Relu", "Tanh", "Exp", "Log", "Sqrt", "Rsqrt", "Square", "Neg", "Abs"),
        *("Floor", "Round", "Sign", "Maximum", "Minimum", "AddV2", "Add", "Sub", "Mul", "RealDiv", "BiasAdd"),
        *("FloorDiv", "FloorMod", "Pow", "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"),
        *("LogicalAnd", "LogicalOr", "LogicalNot", "SelectV2", "Select", "GatherV2", "ResourceGather"),
        *("LookupTableFindV2", "AsString", "StringJoin", "StringFormat"),
    ]
)
_CALLS = frozenset(["PartitionedCall", "StatefulPartitionedCall"])
_OUTSIDE = ""  # outside all functions


class _Place(NamedTuple):
    """A node of the graph itself, or of a function, with the chain of calls that leads to it."""

    calls: tuple[str, ...]
    function: str
    node: str
    output: int | None = None


class FreeOutputs:
    """Find the outputs of a signature that can be fetched together at almost no cost.

    Args:
        graph_def: a GraphDef.
        signature: one of its signatures, whose outputs are tensors.

    Example:
        shared = FreeOutputs(meta_graph.graph_def, signature)
        shared.widened(["label:0"])  # ("label:0", "probabilities:0", "score:0")
    """

    def __init__(self, graph_def: Any, signature: pb.SignatureDef):
        self.inputs = frozenset(info.name for info in signature.inputs.values())
        self.outputs = tuple(sorted({info.name for info in signature.outputs.values()}))
        self._groups = _Trace(graph_def).groups(self.outputs) if len(self.outputs) > 1 else None

    def widened(self, fetches: Iterable[str]) -> tuple[str, ...]:
        """Return `fetches` and all outputs that need no more work than these."""
        asked = frozenset(fetches)
        if self._groups is None:
            return tuple(sorted(asked))
        bits = sum(1 << place for place, name in enumerate(self.outputs) if name in asked)
        extra = [group for group in self._groups if not group & bits]
        along = (
            name
            for place, name in enumerate(self.outputs)
            if name not in self.inputs and not any(group >> place & 1 for group in extra)
        )
        return tuple(sorted(asked.union(along)))


class _Trace:
    """Follow tensors back to the operations that make them, into the bodies of called functions."""

    def __init__(self, graph_def: Any):
        self._nodes: dict[str, Mapping[str, Any]] = {_OUTSIDE: {node.name: node for node in graph_def.node}}
        self._functions = {function.signature.name: function for function in graph_def.library.function}

    def groups(self, outputs: Iterable[str]) -> set[int] | None:
        """Return the outputs that need each costly operation, as a bit for each output.

        Returns:
            The different sets of bits; None for a graph with loops, where dependencies have no order.
        """
        needed: dict[_Place, int] = {}
        roots = [self._place((), _OUTSIDE, name) for name in outputs]
        order = self._in_order(roots)
        if order is None:
            return None
        for bit, root in enumerate(roots):
            needed[root] = needed.get(root, 0) | 1 << bit
        found: set[int] = set()
        for place in order:
            if self._is_work(place):
                found.add(needed[place])
            for source in self._sources(place):
                needed[source] = needed.get(source, 0) | needed[place]
        return found

    def _in_order(self, roots: Iterable[_Place]) -> list[_Place] | None:
        """Return all places that roots need, each before its own dependencies; None for a circle."""
        finished: list[_Place] = []
        under_way: dict[_Place, bool] = {}
        for root in roots:
            if root in under_way:
                continue
            under_way[root] = True
            stack = [(root, self._sources(root))]
            while stack:
                place, sources = stack[-1]
                source = next(sources, None)
                if source is None:
                    under_way[place] = False
                    finished.append(place)
                    stack.pop()
                elif source not in under_way:
                    under_way[source] = True
                    stack.append((source, self._sources(source)))
                elif under_way[source]:
                    return None
        return finished[::-1]

    def _is_work(self, place: _Place) -> bool:
        node = self._node(place)
        return node is not None and node.op not in _LIGHT and not self._is_call(node)

    def _is_call(self, node: Any) -> bool:
        return node.op in _CALLS and node.attr["f"].func.name in self._functions

    def _node(self, place: _Place) -> Any:
        """Return the node at a place; None for an argument of a function."""
        if place.function not in self._nodes:
            body = self._functions[place.function].node_def
            self._nodes[place.function] = {node.name: node for node in body}
        return self._nodes[place.function].get(place.node)

    def _place(self, calls: tuple[str, ...], function: str, tensor: str) -> _Place:
        name, *rest = tensor.removeprefix("^").split(":")
        place = _Place(calls, function, name)
        node = self._node(place)
        # The dependencies of a call depend on the output; those of other operations do not.
        if node is None or tensor.startswith("^") or not self._is_call(node):
            return place
        return place._replace(output=int(rest[-1]) if rest else 0)

    def _sources(self, place: _Place) -> Iterator[_Place]:
        """Yield the direct dependencies of a place."""
        node = self._node(place)
        if node is None:
            yield from self._argument(place)
        elif self._is_call(node):
            function = self._functions[node.attr["f"].func.name]
            for tensor in node.input:
                if tensor.startswith("^"):
                    yield self._place(place.calls, place.function, tensor)
            inside = (*place.calls, place.function, place.node)
            for tensor in self._returned(function, place.output):
                yield self._place(inside, function.signature.name, tensor)
        else:
            for tensor in node.input:
                yield self._place(place.calls, place.function, tensor)

    def _returned(self, function: Any, output: int | None) -> Iterable[str]:
        """Return the source of a function's output, if one is meant, and its control outputs."""
        done = [f"^{node}" for node in function.control_ret.values()]
        return done if output is None else [*done, function.ret[function.signature.output_arg[output].name]]

    def _argument(self, place: _Place) -> Iterator[_Place]:
        """Yield the value that a function's caller passes for an argument."""
        if not place.calls:
            return
        *calls, function, name = place.calls
        arguments = [each.name for each in self._functions[place.function].signature.input_arg]
        if place.node in arguments:
            caller = self._nodes[function][name]
            yield self._place(tuple(calls), function, caller.input[arguments.index(place.node)])
