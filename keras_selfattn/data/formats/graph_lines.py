"""Graphs from JSON Lines: one a line, as `{"nodes": [...], "edges": [...], "label": ...}`.

Axes: n (nodes of a graph), F (features).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_selfattn.data.formats.tu_graphs import GraphTable, one_hot
from keras_selfattn.errors import DataError
from keras_selfattn.rows.label_names import LabelReader, indices_of, sorted_names

_FIELDS = ("nodes", "edges", "label")
_COUNT = "a number of nodes"


class GraphLines:
    """The graphs of a file of JSON Lines so far; each must be of the form of those before it.

    Args:
        file: for messages.
    """

    def __init__(self, file: Path):
        self._file = file
        self._nodes: list[Any] = []
        self._sizes: list[int] = []
        self._before = 0  # nodes of the graphs before the last one
        self._edges: list[tuple[int, int]] = []
        self._edge_kinds: list[str] = []
        # The line of each edge, and the number of its graph's first node among all.
        self._edge_lines: list[tuple[int, int]] = []
        self._labels: list[str] = []
        # What all lines, nodes or edges must have alike, by what it is of: the first one's, and its place.
        self._first: dict[str, tuple[str, str]] = {}
        self._label_name, self._node_name, self._edge_name = LabelReader(), LabelReader(), LabelReader()

    def add(self, line: int, record: Mapping[str, Any]) -> None:
        """Read a graph."""
        where = f"{self._file}: line {line}"
        for name in record:
            if name not in _FIELDS:
                raise DataError(f"{where} has the unknown field {name!r}. Fields are {', '.join(_FIELDS)}.")
        for name in ("nodes", "edges"):
            if name not in record:
                raise DataError(f"{where} has no {name!r}. Give it, even if it is empty: [].")
        labelled = "with a label" if "label" in record else "without a label"
        self._check_alike("rows", where, f"line {line}", labelled)
        self._add_nodes(where, line, record["nodes"])
        self._add_edges(where, line, record["edges"])
        if "label" in record:
            label = record["label"]
            if isinstance(label, float):
                raise DataError(
                    f"{where}: the label must be a text, an integer or true or false. Received {label!r}."
                )
            self._labels.append(self._label_name(f"{where}: the label", label))

    def table(self) -> GraphTable:
        """Return all graphs as one table."""
        form, _ = self._first["nodes"]
        node_kinds: list[str] = []
        if form == "a text":
            nodes, node_kinds = one_hot(self._nodes)
        elif form == _COUNT:
            nodes = np.ones((sum(self._sizes), 1), np.float32)
        else:
            nodes = np.concatenate(self._nodes)
        kinds = np.ones(len(self._edges), np.int32)
        edge_kinds = sorted_names(set(self._edge_kinds))
        if edge_kinds:
            kinds = (indices_of(self._edge_kinds, edge_kinds) + 1).astype(np.int32)
        graph_of = np.repeat(np.arange(len(self._sizes)), self._sizes)
        edges = np.array(self._edges, np.int64).reshape(-1, 2)
        labels = self._labels or None
        place = self._edge_place
        return GraphTable(
            nodes, graph_of, edges, kinds, place, labels, node_kinds, edge_kinds, form == _COUNT
        )

    def _edge_place(self, edge: int) -> str:
        line, before = self._edge_lines[edge]
        return f"{self._file}: line {line}: edge {[end - before for end in self._edges[edge]]}"

    def _check_alike(self, what: str, where: str, place: str, form: str) -> None:
        """Note the first form of something in the file; refuse another one."""
        first, there = self._first.setdefault(what, (form, place))
        if form != first:
            raise DataError(
                f"{where} is {form}, where {there} is {first}. Write all {what} of the file in one form."
            )

    def _add_nodes(self, where: str, line: int, nodes: Any) -> None:
        size = nodes if type(nodes) is int else len(nodes) if isinstance(nodes, list) else None
        if size is None or not 0 <= size < 2**31:  # int32 numbers them
            raise DataError(
                f"{where}: `nodes` must be a list, or a number of nodes below 2**31. Received {nodes!r:.60}."
            )
        if not size:
            raise DataError(f"{where}: the graph has no nodes. Leave it out, or give it one.")
        self._before += self._sizes[-1] if self._sizes else 0
        self._sizes.append(size)
        if isinstance(nodes, int):
            self._check_alike("nodes", f"{where}: `nodes`", f"`nodes` in line {line}", _COUNT)
            return
        for place, node in enumerate(nodes):
            self._check_alike(
                "nodes", f"{where}: node {place}", f"node {place} in line {line}", _form(where, place, node)
            )
        if isinstance(nodes[0], str):
            names = (self._node_name(f"{where}: node {place}", node) for place, node in enumerate(nodes))
            self._nodes.extend(names)
        else:
            self._nodes.append(_features(where, nodes))

    def _add_edges(self, where: str, line: int, edges: Any) -> None:
        if not isinstance(edges, list):
            raise DataError(f"{where}: `edges` must be a list. Received {edges!r:.60}.")
        size, before = self._sizes[-1], self._before
        for edge in edges:
            if not isinstance(edge, list) or len(edge) not in (2, 3):
                raise DataError(
                    f"{where}: an edge must be [from, to] or [from, to, kind]. Received {edge!r:.60}."
                )
            start, end, *kind = edge
            if not all(type(each) is int and 0 <= each < size for each in (start, end)):
                raise DataError(
                    f"{where}: edge {edge!r:.60} must join two of the graph's {size} nodes, by their numbers "
                    "from 0 on."
                )
            named, form = f"edge {edge!r:.60}", "with a kind" if kind else "without a kind"
            self._check_alike("edges", f"{where}: {named}", f"{named} in line {line}", form)
            self._edge_kinds += [self._kind(f"{where}: the kind of {named}", each) for each in kind]
            self._edges.append((before + start, before + end))
            self._edge_lines.append((line, before))

    def _kind(self, where: str, kind: Any) -> str:
        if isinstance(kind, bool) or not isinstance(kind, str | int):
            raise DataError(f"{where} must be a text or an integer. Received {kind!r:.60}.")
        return self._edge_name(where, kind)


def _form(where: str, place: int, node: Any) -> str:
    """Return the form of a node in words."""
    if isinstance(node, str):
        return "a text"
    if type(node) in (int, float):
        return "a number"
    if isinstance(node, list) and node and set(map(type, node)) <= {int, float}:
        return f"a list of {len(node)} numbers"
    raise DataError(
        f"{where}: node {place} must be a number, a list of numbers, or a kind as a text. Received "
        f"{node!r:.60}."
    )


def _features(where: str, nodes: list[Any]) -> np.ndarray:
    """Return numbers or lists of them as features, float32 `[n, F]`."""
    try:
        with np.errstate(over="ignore"):  # too large for float32 is infinite
            found = np.array(nodes, np.float64).astype(np.float32).reshape(len(nodes), -1)
    except OverflowError:
        found = np.full((1, 1), np.inf)
    endless = ~np.isfinite(found).all(axis=1)
    if endless.any():
        place = int(np.argmax(endless))
        raise DataError(
            f"{where}: node {place} must have finite numbers in the range of float32. Received "
            f"{nodes[place]!r:.60}."
        )
    return found
