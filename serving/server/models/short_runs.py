"""Select graph runs that are short enough to stay in the calling thread.

TensorFlow passes a run's operations to its own threads, which takes much of the time of a short run: a row of
64 tokens through two layers of width 128 takes a third less CPU time, and a fifth less time, in the calling
thread. Deadlines cannot stop such a run, and its asynchronous operations nest on the thread's stack. So it
must be short and have known operations only.
"""

import re
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np
from tensorflow.python.framework import op_def_registry

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
