"""Runs of a graph that are so short that they stay in the thread that asks for them.

TensorFlow hands a run's operations to its own threads. For a short one that is much of its time: a row of 64
tokens through two layers of width 128 takes a third less CPU time, and a fifth less time, in the thread that
is there. Deadlines do not reach such a run, and its asynchronous operations nest on the thread's stack: so it
must be short, and of operations that are known.
"""

import re
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np
from tensorflow.python.framework import op_def_registry

# Handing it over gains more from here on: operations that do not need each other run side by side.
_LONGEST_SECONDS = 0.005
# The newest run counts for so much of what is expected, unless it was long.
_NEWEST = 0.125
# Signatures, sizes and filters of outputs; clients choose the last.
_MOST_KINDS = 1000
_LOOPS = frozenset(["While", "StatelessWhile", "Enter", "RefEnter", "NextIteration", "RefNextIteration"])
_CALLS = frozenset(
    ["PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "Case", "StatelessCase"]
)
# A few thousand calls in a chain, which TensorFlow does not always inline, overflow a stack.
_MOST_CALLS = 300
# Operations with a state whose time is that of what they are given, and which wait for nobody.
_PROMPT = frozenset(
    [
        *("VarHandleOp", "VarIsInitializedOp", "ReadVariableOp", "AssignVariableOp", "DisableCopyOnRead"),
        *("ResourceGather", "ResourceGatherNd", "VariableV2", "Assert", "RestoreV2", "SaveV2", "Timestamp"),
        *("MergeV2Checkpoints", "HashTableV2", "InitializeTableV2", "InitializeTableFromTextFileV2"),
        *("LookupTableFindV2", "LookupTableSizeV2", "LookupTableImportV2", "LookupTableExportV2"),
    ]
)
# Operations without one of which that is not so.
_NOT_PROMPT = re.compile(r"^For$|Batch$|^BatchFunction$|Barrier|Queue|Dataset|MapDefun|SymbolicGradient")


class ShortRuns:
    """Tells which runs will be short, by how long others of their kind took. Safe to use from threads.

    Args:
        ends: whether every run is sure to end, and may be run so.

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
        """Return whether a run is expected to be short; the first of a kind never is."""
        return self._ends and self._seconds.get(kind, _LONGEST_SECONDS) < _LONGEST_SECONDS

    def took(self, kind: Hashable, seconds: float) -> None:
        """Note how long one took that came to its end."""
        before = self._seconds.get(kind, seconds)
        if len(self._seconds) >= _MOST_KINDS:
            self._seconds.clear()
        is_long = seconds >= _LONGEST_SECONDS
        self._seconds[kind] = max(seconds, before) if is_long else before + _NEWEST * (seconds - before)


def kind_of_run(fetches: Iterable[str], arrays: Iterable[np.ndarray]) -> Hashable:
    """Return a key that runs share which take about as long: what they fetch, and how much they are fed."""
    size = sum(
        sum(map(len, array.reshape(-1).tolist())) if array.dtype == object else array.nbytes
        for array in arrays
    )
    return (*fetches, size.bit_length())


def is_sure_to_end(graph_def: Any, loops_end: bool) -> bool:
    """Return whether whatever a graph is fed, it ends, waits for nobody, and needs no deep stack.

    Args:
        graph_def: a GraphDef.
        loops_end: whether that is known of its loops and of its functions that are not inlined.
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
