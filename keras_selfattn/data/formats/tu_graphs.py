"""Graphs from a folder in the text form of TU Dortmund's collection, whose files are tables over all graphs.

Axes: N (nodes of all graphs), M (edges of all graphs), F (features).

Reference: Morris et al. 2020, "TUDataset"; chrsmrrs.github.io/datasets/docs/format.
"""

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_selfattn.data.formats.plain_numbers import bare, values_of
from keras_selfattn.data.formats.records import iter_lines
from keras_selfattn.errors import DataError
from keras_selfattn.rows.label_names import LabelReader, indices_of, sorted_names

_READ = ("A", "graph_indicator", "graph_labels", "node_labels", "node_attributes", "edge_labels")
# Files of the form that hold numbers in place of labels.
_UNREAD = ("graph_attributes", "edge_attributes")
_NAME = re.compile(rf"(.+)_({'|'.join((*_READ, *_UNREAD))})\.txt")
_BETWEEN = re.compile(r"[ \t]*,[ \t]*|[ \t]+")
_WHOLE = re.compile(r"[0-9]{1,18}")


class GraphTable(NamedTuple):
    """Graphs as one table of nodes and one of edges.

    Args:
        nodes: float32 `[N, F]`.
        graph_of: the graph of each node, int64 `[N]`, from 0 on; each graph has a node.
        edges: int64 `[M, 2]`, from and to, as they are written; nodes are counted from 0 over all graphs.
        kinds: int32 `[M]`, from 1 on.
        edge_place: from the number of an edge, its place and its nodes, to begin a message with.
        labels: the name of each graph's label, or None.
        node_kinds: the names of the first columns of `nodes`, which say the kind of a node.
        edge_kinds: the names of the kinds of edges; none for one without a name.
        counted: True if nothing is told of a node: the only feature is 1.
    """

    nodes: np.ndarray
    graph_of: np.ndarray
    edges: np.ndarray
    kinds: np.ndarray
    edge_place: Callable[[int], str]
    labels: list[str] | None
    node_kinds: list[str]
    edge_kinds: list[str]
    counted: bool


def one_hot(names: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Return a column for each name, float32, 1 in the rows that have it; and the names, in order.

    Example:

        >>> one_hot(["N", "C"])[0].tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    known = sorted_names(set(names))
    return np.eye(len(known), dtype=np.float32)[indices_of(names, known)], known


def read_tu(folder: Path) -> GraphTable:
    """Return the graphs of a folder with `DS_A.txt` and the files beside it, for any name DS.

    Raises:
        DataError: for a folder without them, or of several names; for a file of the form that is not read;
            for a line that does not fit its file or the other files.

    Example:

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     folder = Path(name)
        ...     _ = (folder / "X_A.txt").write_text("1, 2\\n2, 1\\n")
        ...     _ = (folder / "X_graph_indicator.txt").write_text("1\\n1\\n2\\n")
        ...     _ = (folder / "X_graph_labels.txt").write_text("1\\n-1\\n")
        ...     table = read_tu(folder)
        >>> table.graph_of.tolist(), table.edges.tolist(), table.labels
        ([0, 0, 1], [[0, 1], [1, 0]], ['1', '-1'])
    """
    files = _files(folder)
    labels = _labels(files["graph_labels"]) if "graph_labels" in files else None
    graph_of = _graph_of(files["graph_indicator"], labels)
    nodes, node_kinds = _features(files, len(graph_of))
    edges = _edges(files["A"], graph_of)
    kinds, edge_kinds = np.ones(len(edges), np.int32), []
    if "edge_labels" in files:
        # Several columns are one kind for each combination.
        names = [",".join(cells) for cells in _cells(files["edge_labels"], len(edges), "edges")]
        edge_kinds = sorted_names(set(names))
        kinds = (indices_of(names, edge_kinds) + 1).astype(np.int32)

    def edge_place(edge: int) -> str:
        one, other = edges[edge] + 1
        return f"{files['A']}: line {edge + 1}: edge ({one}, {other})"

    counted = not {"node_labels", "node_attributes"} & files.keys()
    return GraphTable(nodes, graph_of, edges, kinds, edge_place, labels, node_kinds, edge_kinds, counted)


def _files(folder: Path) -> dict[str, Path]:
    """Return the files that are read, by what they hold."""
    try:
        seen = sorted(file for file in folder.iterdir() if not file.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}.") from error
    sets: dict[str, dict[str, Path]] = {}
    for file in seen:
        if match := _NAME.fullmatch(file.name):
            sets.setdefault(match[1], {})[match[2]] = file
    if len(sets) > 1:
        raise DataError(
            f"{folder} holds {len(sets)} sets of graphs: {', '.join(sets)}. Give a folder with one of them."
        )
    name, files = next(iter(sets.items()), ("DS", {}))
    for needed in ("A", "graph_indicator"):
        if needed not in files:
            raise DataError(
                f"{folder} holds no graphs: it has no {name}_{needed}.txt. Give a folder in the form of TU "
                "Dortmund (DS_A.txt, DS_graph_indicator.txt, DS_graph_labels.txt), or a file ending in "
                ".jsonl."
            )
    _check_all_read(name, files, seen)
    return files


def _check_all_read(name: str, files: dict[str, Path], seen: Sequence[Path]) -> None:
    """Refuse files of the set that would be left out silently."""
    without = {
        "graph_attributes": ("graph_labels", "the graphs then have no labels"),
        "edge_attributes": ("edge_labels", "all edges are then of one kind"),
    }
    for kind, (beside, otherwise) in without.items():
        if kind in files:
            then = f"{files[beside].name} is read" if beside in files else otherwise
            raise DataError(
                f"{files[kind]} is not read: it has numbers for each {kind.partition('_')[0]}. Move the file "
                f"elsewhere to leave them out: {then}."
            )
    for file in seen:
        # Mutagenicity of the collection has a Mutagenicity_label_readme.txt.
        is_prose = file.name.lower().endswith("readme.txt")
        is_of_set = file.name.startswith(f"{name}_") and file.suffix == ".txt"
        if is_of_set and file not in files.values() and not is_prose:
            raise DataError(
                f"{file} is not read: read are {', '.join(f'{name}_{kind}.txt' for kind in _READ)}. Rename "
                "it if it is one of these, or move it elsewhere to leave it out."
            )


def _labels(file: Path) -> list[str]:
    rows = _cells(file)
    if len(rows[0]) > 1:
        raise DataError(f"{file}: line 1 has {len(rows[0])} labels. Write one for each graph.")
    read = LabelReader()
    return [read(f"{file}: the label in line {line}", label) for line, (label,) in enumerate(rows, start=1)]


def _graph_of(file: Path, labels: Sequence[str] | None) -> np.ndarray:
    """Return the graph of each node, from 0 on; each has one, and as many are there as have labels."""
    found = _whole_numbers(file, "the number of a graph")[:, 0]
    present = np.unique(found)
    count = int(present[-1]) if labels is None else len(labels)
    wrong = (found < 1) | (found > count)
    if wrong.any():
        node = int(np.argmax(wrong))
        of = "" if labels is None else f", which the labels count to {count}"
        raise DataError(
            f"{file}: line {node + 1} names graph {found[node]}, which is not there: graphs are counted from "
            f"1 on{of}."
        )
    if len(present) < count:
        without = int(np.argmax(np.append(present, 0) != np.arange(1, len(present) + 2))) + 1
        raise DataError(f"{file}: graph {without} of {count} has no nodes. Leave it out, or give it one.")
    return found - 1


def _features(files: dict[str, Path], count: int) -> tuple[np.ndarray, list[str]]:
    """Return the features of nodes, and the names of those that are kinds: first labels, then attributes."""
    columns, names = [], []
    if "node_labels" in files:
        labels = list(zip(*_cells(files["node_labels"], count, "nodes"), strict=True))
        for number, column in enumerate(labels, start=1):
            found, known = one_hot(column)
            columns.append(found)
            names += known if len(labels) == 1 else [f"{number}={name}" for name in known]
    if "node_attributes" in files:
        columns.append(_numbers(files["node_attributes"], count))
    return np.concatenate(columns or [np.ones((count, 1), np.float32)], axis=1), names


def _edges(file: Path, graph_of: np.ndarray) -> np.ndarray:
    edges = _whole_numbers(file, "the numbers of two nodes", 2) - 1
    absent = ((edges < 0) | (edges >= len(graph_of))).any(axis=1)
    if absent.any():
        edge = int(np.argmax(absent))
        raise DataError(
            f"{file}: line {edge + 1}: edge ({edges[edge, 0] + 1}, {edges[edge, 1] + 1}) must join two of "
            f"the {len(graph_of)} nodes, which are counted from 1."
        )
    graphs = graph_of[edges] + 1
    apart = graphs[:, 0] != graphs[:, 1]
    if apart.any():
        edge = int(np.argmax(apart))
        raise DataError(
            f"{file}: line {edge + 1}: edge ({edges[edge, 0] + 1}, {edges[edge, 1] + 1}) joins a node of "
            f"graph {graphs[edge, 0]} and one of graph {graphs[edge, 1]}. An edge is within one graph."
        )
    return edges


def _filled_lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers, which say what they are of: so only the last may be empty."""
    filled = empty = 0
    for number, line in iter_lines(file):
        text = bare(line)
        if text and empty:
            raise DataError(f"{file}: line {empty} is empty. Each line is of one node, edge or graph.")
        if text:
            filled = number
            yield number, text
        else:
            empty = empty or number
    if not filled:
        raise DataError(f"{file} is empty.")


def _whole_numbers(file: Path, what: str, columns: int = 1) -> np.ndarray:
    """Return a table of whole numbers, int64 `[lines, columns]`."""
    # An array, for sets of graphs with tens of millions of edges: lists of numbers take ten times as much.
    found = array("q")
    for number, text in _filled_lines(file):
        cells = _BETWEEN.split(text)
        if len(cells) != columns or not all(map(_WHOLE.fullmatch, cells)):
            raise DataError(f"{file}: line {number} must hold {what}, counted from 1. Received {text!r:.60}.")
        found.extend(map(int, cells))
    return np.array(found, np.int64).reshape(-1, columns)


def _cells(file: Path, count: int | None = None, of: str = "") -> list[list[str]]:
    """Return the cells of each line, as many in each; `count` is the number of lines, if it is known."""
    found = [_BETWEEN.split(text) for _, text in _filled_lines(file)]
    _check_sizes(file, list(map(len, found)), count, of)
    return found


def _numbers(file: Path, count: int) -> np.ndarray:
    """Return a table of finite numbers, float32 `[N, columns]`."""
    rows = [values_of(f"{file}: line {line}", _BETWEEN.split(text)) for line, text in _filled_lines(file)]
    _check_sizes(file, list(map(len, rows)), count, "nodes")
    found = np.stack(rows)
    endless = ~np.isfinite(found).all(axis=1)
    if endless.any():
        raise DataError(
            f"{file}: line {int(np.argmax(endless)) + 1} must hold finite numbers in the range of float32, "
            "without missing ones."
        )
    return found


def _check_sizes(file: Path, widths: Sequence[int], count: int | None, of: str) -> None:
    for line, width in enumerate(widths, start=1):
        if width != widths[0]:
            raise DataError(f"{file}: line {line} has {width} values, where line 1 has {widths[0]}.")
    if count not in (None, len(widths)):
        raise DataError(f"{file} has {len(widths)} lines, where there are {count} {of}. Each has a line.")
