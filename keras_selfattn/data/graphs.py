"""Graphs with their labels, from JSON Lines or a folder of TU Dortmund's form, and their arrays for models.

Axes: n (nodes of a graph), m (edges of a graph), F (features).
"""

from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path

import numpy as np

from keras_selfattn.data.formats.endings import checked_ending
from keras_selfattn.data.formats.graph_lines import GraphLines
from keras_selfattn.data.formats.records import iter_records
from keras_selfattn.data.formats.tu_graphs import GraphTable, read_tu
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.extras import require
from keras_selfattn.user_warnings import warn_user


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph.

    Args:
        nodes: the features of each node, float32 `[n, F]`.
        edges: from and to, int32 `[m, 2]`, nodes counted from 0; an undirected edge is there once.
        kinds: the kind of each edge, int32 `[m]`, from 1 on.
    """

    nodes: np.ndarray
    edges: np.ndarray
    kinds: np.ndarray


@dataclass(frozen=True, eq=False)
class GraphRows:
    """Graphs with a label each, or without labels.

    Args:
        graphs: all with as many features.
        labels: the name of each graph's label, or None.
        node_kinds: the names of the first columns of all `nodes`, which are 1 for nodes of that kind; none if
            nodes have no kinds.
        edge_kinds: the names of the kinds 1, 2, …; none for one kind without a name.
        directed: True if edges lead one way only.
        source: the name of their source.
        counted: True if nothing is told of a node: the only feature is 1.

    Example: two nodes with an edge, beside one node.

        >>> one = Graph(np.ones((2, 3)), np.array([[0, 1]]), np.array([1]))
        >>> other = Graph(np.ones((1, 3)), np.zeros((0, 2), int), np.zeros(0, int))
        >>> arrays = GraphRows([one, other]).arrays()
        >>> arrays["distances"].tolist(), arrays["lengths"].tolist()
        ([[[0, 1], [1, 0]], [[0, -1], [-1, -1]]], [2, 1])
    """

    graphs: list[Graph]
    labels: list[str] | None = None
    node_kinds: list[str] = field(default_factory=list)
    edge_kinds: list[str] = field(default_factory=list)
    directed: bool = False
    source: str = "graphs"
    counted: bool = False

    def __len__(self) -> int:
        return len(self.graphs)

    @property
    def num_edge_kinds(self) -> int:
        """The number of kinds of edges, at least 1: `edge_kinds` of `DistanceBias`."""
        largest = max((int(graph.kinds.max(initial=1)) for graph in self.graphs), default=1)
        return max(largest, len(self.edge_kinds))

    def arrays(self, edge_kinds: int | None = None) -> dict[str, np.ndarray]:
        """Return the graphs as arrays, padded to the nodes of the largest.

        Args:
            edge_kinds: as for `graph_distances`; by default `num_edge_kinds`. For other graphs than those of
                a training, give its number: a distance means the same only then.

        Returns:
            "nodes" float32 `[graphs, n, F]`, 0 at padding; "distances" int32 `[graphs, n, n]`, as
            `graph_distances` counts them, -1 at padding, 4 bytes each; "lengths" int32 `[graphs]`.

        Raises:
            ConfigError: for `edge_kinds` below the kind of an edge.
            DataError: for graphs with different numbers of features.
        """
        edge_kinds = self.num_edge_kinds if edge_kinds is None else edge_kinds
        lengths = np.array([len(graph.nodes) for graph in self.graphs], np.int32)
        widths = sorted({graph.nodes.shape[1] for graph in self.graphs})
        if len(widths) > 1:
            raise DataError(f"{self.source}: the nodes of all graphs must have as many features: {widths}.")
        longest = int(lengths.max(initial=0))
        nodes = np.zeros((len(self), longest, *(widths or [0])), np.float32)
        distances = np.full((len(self), longest, longest), -1, np.int32)
        for row, (graph, size) in enumerate(zip(self.graphs, lengths, strict=True)):
            nodes[row, :size] = graph.nodes
            distances[row, :size, :size] = graph_distances(
                graph, edge_kinds=edge_kinds, directed=self.directed
            )
        return {"nodes": nodes, "distances": distances, "lengths": lengths}


def read_graphs(path: str | Path, directed: bool = False, *, like: GraphRows | None = None) -> GraphRows:
    """Read graphs and their labels.

    - `.jsonl`, `.ndjson`: a graph a line, as `{"nodes": ["C", "O"], "edges": [[0, 1]], "label": "polar"}`.
      `nodes` is a list of a number, a list of numbers, or a kind as a text, for each; or how many there are,
      whose only feature is 1. `edges` is a list of `[from, to]`, or `[from, to, kind]`, nodes counted from 0.
      `label` is a text, an integer or true or false. All lines are of one form, all with a label or none.
    - a folder in the form of TU Dortmund's collection: `DS_A.txt`, `DS_graph_indicator.txt`,
      `DS_graph_labels.txt` and, if they are there, `DS_node_labels.txt`, `DS_node_attributes.txt` and
      `DS_edge_labels.txt`.

    Kinds of nodes become a column each, 1 for nodes of that kind; attributes follow them. The order of these
    columns and the numbers of the kinds of edges are those of the file's names, sorted. Another file may have
    fewer of them: `like` gives it those of the first.

    Edges from a node to itself are left out, and repeated ones merged, with a warning that counts them and
    the graphs without edges. The edges of a graph are sorted by their nodes.

    Args:
        path: the file or the folder.
        directed: True if an edge leads from its first node to its second only; else the two directions of an
            edge are one.
        like: graphs read before, those of the training, whose kinds and features these are to have.

    Raises:
        DataError: if `path` does not exist or is of another kind; for a graph without nodes, an edge to a
            node that is not there, two edges of different kinds between the same nodes, kinds, features or a
            form of nodes that `like` does not have, and whatever is of another form than is said above, with
            the line.
        ConfigError: if `directed` contradicts `like`.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "molecules.jsonl")
        ...     _ = file.write_text('{"nodes": ["C", "O", "H"], "edges": [[0, 1], [1, 2]], "label": "a"}\\n')
        ...     rows = read_graphs(file)
        >>> rows.labels, rows.node_kinds, rows.arrays()["distances"][0].tolist()
        (['a'], ['C', 'H', 'O'], [[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    """
    place = Path(path)
    if not isinstance(directed, bool):
        raise ConfigError(
            f"`directed` is True if edges lead one way only, else False. Received {directed!r}."
        )
    if like is not None and like.directed != directed:
        raise ConfigError(f"`directed` must be that of `like`, {like.directed}. Received {directed}.")
    if place.is_dir():
        table = read_tu(place)
    else:
        checked_ending(place, (".jsonl", ".ndjson"))
        lines = GraphLines(place)
        for line, record in iter_records(place):
            lines.add(line, record)
        table = lines.table()
    if like is not None:
        table = _with_kinds_of(like, table, str(place))
    kept = _kept_edges(table, str(place), directed)
    graphs = _graphs_of(table, kept, directed)
    kinds = table.node_kinds, table.edge_kinds
    return GraphRows(graphs, table.labels, *kinds, directed, str(place), table.counted)


def graph_distances(graph: Graph, *, edge_kinds: int = 1, directed: bool = False) -> np.ndarray:
    """Return the distances between the nodes of a graph, which the layer `DistanceBias` reads.

    Args:
        graph: the graph.
        edge_kinds: the number of kinds of edges; that of the training, for a model.
        directed: True if edges lead one way only.

    Returns:
        int32 `[n, n]`, from the first axis to the second: -1 if no path leads there, 0 for a node itself, the
        kind of the edge that joins two, else `edge_kinds` + d - 1 for a shortest path of d edges.

    Raises:
        ConfigError: for `edge_kinds` below the kind of an edge, and for a kind below 1.

    Example: three nodes in a row, joined by edges of kinds 1 and 2.

        >>> row = Graph(np.ones((3, 1)), np.array([[0, 1], [1, 2]]), np.array([1, 2]))
        >>> graph_distances(row, edge_kinds=2).tolist()
        [[0, 1, 3], [1, 0, 2], [3, 2, 0]]
    """
    if graph.kinds.min(initial=1) < 1:
        raise ConfigError(f"Kinds of edges are counted from 1. Received {graph.kinds.min()} in a graph.")
    least = int(graph.kinds.max(initial=1))
    if not isinstance(edge_kinds, Integral) or edge_kinds < least:
        raise ConfigError(
            f"`edge_kinds` must be an integer of at least {least}, the largest kind of the graph's edges. "
            f"Received {edge_kinds!r}. Give the number of kinds in the training."
        )
    require("train", "graph_distances", "scipy")
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    start, end = graph.edges.T.astype(np.int32)  # scipy's searches read no wider indices
    joined = csr_array((np.ones(len(graph.edges)), (start, end)), shape=(len(graph.nodes),) * 2)
    edges = shortest_path(joined, directed=directed, unweighted=True)  # [n, n], infinite without a path
    found = np.where(np.isinf(edges), -1, edges + edge_kinds - 1).astype(np.int32)
    found[start, end] = graph.kinds
    if not directed:
        found[end, start] = graph.kinds
    np.fill_diagonal(found, 0)
    return found


def _with_kinds_of(like: GraphRows, table: GraphTable, source: str) -> GraphTable:
    """Return a table whose columns of kinds of nodes, and kinds of edges, are those of `like`."""
    forms = _node_form(table), _node_form(like)
    if like.graphs and forms[0] != forms[1]:  # their columns may be as many, and mean something else
        raise DataError(
            f"{source} says of its nodes {forms[0]}, and {like.source} {forms[1]}. Write the nodes of both "
            "in one form."
        )
    for what, known, found in (
        ("nodes", like.node_kinds, table.node_kinds),
        ("edges", like.edge_kinds, table.edge_kinds),
    ):
        if unknown := [name for name in found if name not in known]:
            raise DataError(
                f"{source} has {what} of kinds that {like.source} does not have: {', '.join(unknown[:3])}. "
                "Train on graphs with all kinds, or leave these out."
            )
        if known and not found and len(table.nodes if what == "nodes" else table.edges):
            raise DataError(f"{source} has {what} without kinds, and {like.source} has kinds. Write them.")
    nodes = np.zeros((len(table.nodes), len(like.node_kinds)), np.float32)
    nodes[:, [like.node_kinds.index(name) for name in table.node_kinds]] = table.nodes[
        :, : len(table.node_kinds)
    ]
    nodes = np.concatenate([nodes, table.nodes[:, len(table.node_kinds) :]], axis=1)
    width = like.graphs[0].nodes.shape[1] if like.graphs else nodes.shape[1]
    if nodes.shape[1] != width:
        raise DataError(f"{source} has {nodes.shape[1]} features a node, and {like.source} has {width}.")
    kinds = table.kinds
    if table.edge_kinds:
        numbers = np.array([like.edge_kinds.index(name) + 1 for name in table.edge_kinds], np.int32)
        kinds = numbers[table.kinds - 1]
    return table._replace(nodes=nodes, kinds=kinds, node_kinds=like.node_kinds, edge_kinds=like.edge_kinds)


def _node_form(graphs: GraphRows | GraphTable) -> str:
    """Return in words what is known of nodes; attributes may follow kinds."""
    return "their kinds" if graphs.node_kinds else "how many there are" if graphs.counted else "their numbers"


def _kept_edges(table: GraphTable, source: str, directed: bool) -> np.ndarray:
    """Return the numbers of the edges that are kept, in the order of their nodes; warn of the others."""
    edges, size = table.edges, len(table.nodes)
    others = np.flatnonzero(edges[:, 0] != edges[:, 1])
    written = edges[others] @ [size, 1]  # a number for each pair of nodes
    pairs = written if directed else np.sort(edges[others], axis=1) @ [size, 1]
    _, first, same = np.unique(pairs, return_index=True, return_inverse=True)
    clash = np.flatnonzero(table.kinds[others] != table.kinds[others[first]][same])
    if clash.size:
        edge, before = clash[0], first[same[clash[0]]]
        _refuse_two_kinds(table, int(others[edge]), int(others[before]), directed)
    kept = others[first]
    counts = {
        "edges from a node to itself, which are left out": len(edges) - len(others),
        # The two directions of an edge are no repetition: files of undirected graphs list both.
        "repeated edges, which are merged": len(others) - len(np.unique(written)),
        "graphs without edges": len(np.setdiff1d(table.graph_of, table.graph_of[edges[kept, 0]])),
    }
    if any(counts.values()):
        warn_user(f"{source}: {'; '.join(f'{count:,} {what}' for what, count in counts.items() if count)}.")
    return kept


def _refuse_two_kinds(table: GraphTable, edge: int, before: int, directed: bool) -> None:
    kind, other = (table.edge_kinds[table.kinds[each] - 1] for each in (edge, before))
    hint = "" if directed else ", or read the graphs with `directed=True` if each direction has its own"
    raise DataError(
        f"{table.edge_place(edge)} is of kind {kind!r}, and another one between these nodes of {other!r}. "
        f"Keep one{hint}."
    )


def _graphs_of(table: GraphTable, kept: np.ndarray, directed: bool) -> list[Graph]:
    """Divide a table with the edges that are kept."""
    order = np.argsort(table.graph_of, kind="stable")  # of nodes, which files may mix
    sizes = np.bincount(table.graph_of)
    ends = np.cumsum(sizes)
    number = np.empty(len(order), np.int32)  # of each node in its graph
    number[order] = np.arange(len(order)) - np.repeat(ends - sizes, sizes)
    graph_of = table.graph_of[table.edges[kept, 0]]
    kept = kept[np.argsort(graph_of, kind="stable")]
    edges = number[table.edges[kept]]
    edges = edges if directed else np.sort(edges, axis=1)
    edge_ends = np.cumsum(np.bincount(graph_of, minlength=len(sizes)))
    return [
        Graph(*parts)
        for parts in zip(
            np.split(table.nodes[order], ends[:-1]),
            np.split(edges, edge_ends[:-1]),
            np.split(table.kinds[kept], edge_ends[:-1]),
            strict=True,
        )
    ]
