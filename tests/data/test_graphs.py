"""Graphs are read from JSON Lines and TU Dortmund's folders, their distances are those of a plain search."""

import gzip
import json
import random
import re
import sys
from collections import deque

import numpy as np
import pytest

from keras_selfattn.data import Graph, GraphRows, graph_distances, read_graphs
from keras_selfattn.errors import ConfigError, DataError, MissingExtraError


def searched(size, edges, edge_kinds, directed):
    """The distances as DistanceBias documents them, by a breadth-first search from each node."""
    after = {node: {} for node in range(size)}
    for start, end, kind in edges:
        after[start][end] = kind
        if not directed:
            after[end][start] = kind
    found = [[-1] * size for _ in range(size)]
    for root in range(size):
        steps, waiting = {root: 0}, deque([root])
        while waiting:
            node = waiting.popleft()
            for neighbour in after[node]:
                if neighbour not in steps:
                    steps[neighbour] = steps[node] + 1
                    waiting.append(neighbour)
        for node, count in steps.items():
            if count == 1:
                found[root][node] = after[root][node]
            else:
                found[root][node] = edge_kinds + count - 1 if count else 0
    return found


def random_edges(random, size, edge_kinds, directed):
    """Edges of a random graph, each once and none from a node to itself: `(from, to, kind)`."""
    pairs = [(a, b) for a in range(size) for b in range(size) if (a != b if directed else a < b)]
    chosen = random.sample(pairs, random.randint(0, min(len(pairs), 2 * size)))
    turned = [pair if directed or random.random() < 0.5 else pair[::-1] for pair in chosen]
    return [(*pair, random.randint(1, edge_kinds)) for pair in turned]


def graph(size, edges, features=2):
    table = np.array(edges, np.int32).reshape(-1, 3)
    return Graph(np.ones((size, features), np.float32), table[:, :2], table[:, 2])


def lines(tmp_path, *records, name="g.jsonl"):
    """Writes each record, an object or a text as it is, in a line."""
    file = tmp_path / name
    texts = [record if isinstance(record, str) else json.dumps(record) for record in records]
    file.write_text("".join(f"{text}\n" for text in texts))
    return file


def row(nodes=3, edges=(), **fields):
    return {"nodes": nodes, "edges": list(edges), **fields}


EDGES = [[0, 1], [1, 2]]
# Two graphs: a triangle of C, C, O (single, double, single), and N alone with another N; in the documented
# form: both directions of each edge, all nodes and graphs counted from 1, commas with and without blanks.
TU = {
    "A": "1, 2\n2, 1\n2,3\n3,2\n3, 1\n1, 3\n5, 4\n4, 5\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "1\n-1\n",
}
MORE = {
    "node_labels": "6\n6\n8\n7\n7\n",
    "node_attributes": "0.5, 1\n-1.5, 2\n2e1, 3\n0, 4\n.25, 5\n",
    "edge_labels": "1\n1\n2\n2\n1\n1\n1\n1\n",
}


def tu(tmp_path, name="DS", **files):
    folder = tmp_path / "tu"
    folder.mkdir(exist_ok=True)
    for kind, text in {**TU, **files}.items():
        if text is not None:
            (folder / f"{name}_{kind}.txt").write_text(text)
    return folder


def parts(rows):
    return [(each.nodes.tolist(), each.edges.tolist(), each.kinds.tolist()) for each in rows.graphs]


@pytest.mark.parametrize("directed", [False, True])
def test_distances_are_those_of_a_breadth_first_search(directed):
    seeded, disconnected, joined = random.Random(7), 0, 0
    for _ in range(200):
        size, edge_kinds = seeded.randint(1, 13), seeded.randint(1, 3)
        edges = random_edges(seeded, size, edge_kinds, directed)
        found = graph_distances(graph(size, edges), edge_kinds=edge_kinds, directed=directed)
        expected = searched(size, edges, edge_kinds, directed)
        assert found.tolist() == expected
        assert found.dtype == np.int32
        disconnected += -1 in expected[0]
        joined += max(map(max, expected)) > edge_kinds
    assert min(disconnected, joined) > 20


def test_read_graphs_have_the_distances_of_the_search_too(tmp_path):
    """Through the files, where all graphs are one table, with names for the kinds."""
    seeded = random.Random(3)
    written = []
    for _ in range(40):
        size = seeded.randint(1, 11)
        written.append((size, random_edges(seeded, size, 3, directed=False)))
    file = lines(
        tmp_path, *(row(size, [[a, b, "xyz"[kind - 1]] for a, b, kind in edges]) for size, edges in written)
    )
    with pytest.warns(UserWarning, match="graphs without edges"):
        arrays = read_graphs(file).arrays()
    longest = max(size for size, _ in written)
    assert arrays["distances"].shape == (40, longest, longest)
    for found, (size, edges) in zip(arrays["distances"], written, strict=True):
        assert found[:size, :size].tolist() == searched(size, edges, 3, directed=False)
        assert (found[size:] == -1).all()
        assert (found[:, size:] == -1).all()


def test_directions_count_only_where_asked():
    way = graph(3, [(0, 1, 1), (1, 2, 2)])
    one_way = graph_distances(way, edge_kinds=2, directed=True)
    assert one_way.tolist() == [[0, 1, 3], [-1, 0, 2], [-1, -1, 0]]
    both_ways = graph_distances(way, edge_kinds=2)
    assert both_ways.tolist() == [[0, 1, 3], [1, 0, 2], [3, 2, 0]]


def test_more_kinds_of_edges_than_a_graph_has_leave_room_for_them():
    assert graph_distances(graph(3, [(0, 1, 1), (1, 2, 1)]), edge_kinds=4)[0].tolist() == [0, 1, 5]


@pytest.mark.parametrize("edge_kinds", [2, 0, 2.5, "3", None])
def test_fewer_kinds_than_the_edges_have_are_refused(edge_kinds):
    with pytest.raises(ConfigError, match=r"`edge_kinds` must be an integer of at least 3, .* Received "):
        graph_distances(graph(2, [(0, 1, 3)]), edge_kinds=edge_kinds)
    with pytest.raises(ConfigError, match="of at least 1"):
        graph_distances(graph(2, []), edge_kinds=0)


def test_without_scipy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingExtraError, match=r"graph_distances needs scipy.*keras-selfattn\[train\]"):
        graph_distances(graph(2, [(0, 1, 1)]))


def test_arrays_are_padded_to_the_largest_graph():
    rows = GraphRows([graph(2, [(0, 1, 2)], features=5), graph(3, [(2, 0, 1)], features=5)])
    arrays = rows.arrays()
    assert {name: (each.dtype, each.shape) for name, each in arrays.items()} == {
        "nodes": (np.float32, (2, 3, 5)),
        "distances": (np.int32, (2, 3, 3)),
        "lengths": (np.int32, (2,)),
    }
    assert arrays["lengths"].tolist() == [2, 3]
    assert arrays["nodes"].sum(axis=-1).tolist() == [[5, 5, 0], [5, 5, 5]]
    assert arrays["distances"].tolist() == [
        [[0, 2, -1], [2, 0, -1], [-1, -1, -1]],
        [[0, -1, 1], [-1, 0, -1], [1, -1, 0]],
    ]
    assert rows.num_edge_kinds == 2


def test_arrays_take_the_number_of_kinds_and_directions_from_the_rows():
    chain = graph(3, [(0, 1, 1), (1, 2, 1)])
    assert GraphRows([chain]).arrays()["distances"][0, 0].tolist() == [0, 1, 2]
    named = GraphRows([chain], edge_kinds=["a", "b"])
    assert (named.num_edge_kinds, named.arrays()["distances"][0, 0].tolist()) == (2, [0, 1, 3])
    assert named.arrays(edge_kinds=4)["distances"][0, 0].tolist() == [0, 1, 5]
    assert GraphRows([chain], directed=True).arrays()["distances"][0, 2].tolist() == [-1, -1, 0]
    with pytest.raises(ConfigError, match="of at least 2"):
        GraphRows([graph(2, [(0, 1, 2)])]).arrays(edge_kinds=1)


def test_arrays_of_graphs_with_other_features_are_refused_and_of_none_are_empty():
    with pytest.raises(DataError, match=r"made up: the nodes of all graphs .* as many features: \[2, 5\]"):
        GraphRows([graph(2, [], 5), graph(2, [], 2)], source="made up").arrays()
    assert {name: each.shape for name, each in GraphRows([]).arrays().items()} == {
        "nodes": (0, 0, 0),
        "distances": (0, 0, 0),
        "lengths": (0,),
    }


@pytest.mark.parametrize(
    ("nodes", "features", "kinds"),
    [
        (3, [[1], [1], [1]], []),
        ([1, 2.5, -3], [[1], [2.5], [-3]], []),
        ([[1, 2], [3.5, 4], [0, 0]], [[1, 2], [3.5, 4], [0, 0]], []),
        (["O", "C", "N"], [[0, 0, 1], [1, 0, 0], [0, 1, 0]], ["C", "N", "O"]),
        (["10", "9", "10"], [[0, 1], [1, 0], [0, 1]], ["9", "10"]),
    ],
)
def test_each_form_of_nodes_becomes_features(tmp_path, nodes, features, kinds):
    rows = read_graphs(lines(tmp_path, row(nodes, EDGES)))
    assert (parts(rows), rows.node_kinds) == ([(features, EDGES, [1, 1])], kinds)
    (only,) = rows.graphs
    assert (only.nodes.dtype, only.edges.dtype, only.kinds.dtype) == (np.float32, np.int32, np.int32)
    assert (rows.labels, rows.edge_kinds, rows.directed, len(rows)) == (None, [], False, 1)
    assert rows.source == str(tmp_path / "g.jsonl")


def test_names_of_kinds_are_those_of_the_whole_file(tmp_path):
    rows = read_graphs(lines(tmp_path, row(["O", "C"], [[0, 1, "="]]), row(["N", "N"], [[1, 0, "-"]])))
    assert (rows.node_kinds, rows.edge_kinds) == (["C", "N", "O"], ["-", "="])
    assert parts(rows) == [
        ([[0, 0, 1], [1, 0, 0]], [[0, 1]], [2]),
        ([[0, 1, 0], [0, 1, 0]], [[0, 1]], [1]),
    ]


def test_kinds_of_edges_may_be_integers_and_are_ordered_by_value(tmp_path):
    rows = read_graphs(lines(tmp_path, row(3, [[0, 1, 10], [2, 1, 9]])))
    assert (rows.edge_kinds, parts(rows)[0][1:]) == (["9", "10"], ([[0, 1], [1, 2]], [2, 1]))


@pytest.mark.parametrize(
    ("labels", "names"),
    [(["+", "-"], ["+", "-"]), ([1, 0], ["1", "0"]), ([True, False], ["True", "False"])],
)
def test_labels_are_named_as_those_of_tables(tmp_path, labels, names):
    rows = read_graphs(lines(tmp_path, *(row(3, EDGES, label=label) for label in labels)))
    assert rows.labels == names


def test_packed_files_the_other_ending_and_empty_lines_are_read(tmp_path):
    record = json.dumps(row(3, EDGES, label="a"))
    file = tmp_path / "g.jsonl.gz"
    file.write_bytes(gzip.compress(f"{record}\n\n{record}\n".encode()))
    assert read_graphs(file).labels == ["a", "a"]
    assert read_graphs(lines(tmp_path, record, name="g.ndjson")).labels == ["a"]


def test_both_directions_are_one_edge_unless_directed(tmp_path, recwarn):
    file = lines(tmp_path, row(3, [[1, 0], [0, 1], [2, 1]]))
    assert parts(read_graphs(file))[0][1:] == ([[0, 1], [1, 2]], [1, 1])
    rows = read_graphs(file, directed=True)
    assert (parts(rows)[0][1:], rows.directed) == (([[0, 1], [1, 0], [2, 1]], [1, 1, 1]), True)
    assert rows.arrays()["distances"][0].tolist() == [[0, 1, -1], [1, 0, -1], [2, 1, 0]]
    assert not recwarn


def test_loops_repeated_edges_and_graphs_without_edges_are_counted_in_one_warning(tmp_path):
    file = lines(
        tmp_path,
        row(3, [[0, 0], [0, 1], [0, 1], [1, 0], [2, 1], [0, 1], [1, 1]]),
        row(2, [[1, 1]]),
        row(1),
    )
    with pytest.warns(UserWarning, match="3 edges") as caught:
        rows = read_graphs(file)
    (warned,) = caught
    assert str(warned.message) == (
        f"{file}: 3 edges from a node to itself, which are left out; 2 repeated edges, which are merged; "
        "2 graphs without edges."
    )
    assert warned.filename == __file__
    assert [edges for _, edges, _ in parts(rows)] == [[[0, 1], [1, 2]], [], []]
    assert rows.graphs[2].edges.shape == (0, 2)
    assert rows.arrays()["distances"][2].tolist() == [[0, -1, -1], [-1, -1, -1], [-1, -1, -1]]


def test_a_loop_of_another_kind_is_left_out_like_others(tmp_path):
    with pytest.warns(UserWarning, match=": 2 edges from a node to itself, which are left out.$"):
        rows = read_graphs(lines(tmp_path, row(2, [[0, 0, "a"], [0, 1, "b"], [0, 0, "c"]])))
    assert (rows.edge_kinds, rows.num_edge_kinds) == (["a", "b", "c"], 3)
    assert rows.arrays()["distances"][0].tolist() == [[0, 2], [2, 0]]


def test_two_kinds_between_two_nodes_are_refused_unless_each_has_its_direction(tmp_path):
    file = lines(tmp_path, row(2, [[0, 1, "z"]]), row(3, [[1, 2, "a"], [2, 1, "b"]]))
    said = (
        f"{file}: line 2: edge [2, 1] is of kind 'b', and another one between these nodes of 'a'. Keep one, "
        "or read the graphs with `directed=True` if each direction has its own."
    )
    with pytest.raises(DataError, match=f"^{re.escape(said)}$"):
        read_graphs(file)
    assert parts(read_graphs(file, directed=True))[1][1:] == ([[1, 2], [2, 1]], [1, 2])
    file = lines(tmp_path, row(3, [[1, 2, "a"], [1, 2, "b"]]))
    with pytest.raises(DataError, match=r"edge \[1, 2\] is of kind 'b', .* of 'a'. Keep one.$"):
        read_graphs(file, directed=True)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"nodes": 1, "edges": [], "labels": "a"}, "has the unknown field 'labels'. Fields are nodes, edges"),
        ({"edges": [], "label": "a"}, "has no 'nodes'. Give it, even if it is empty"),
        ({"nodes": 1, "label": "a"}, "has no 'edges'. Give it"),
        (row(3), "is without a label, where line 1 is with a label. Write all rows of the file in one form"),
        (row(3, label=None), "the label is missing. Received None"),
        (row(3, label=""), "the label is missing"),
        (row(3, label=["a"]), "the label must be one name or number. Received .'a'."),
        (row(3, label=7), "the label is an integer, 7, where others are text: .*line 1: the label is '7'"),
        (row(3, label=0.5), "the label must be a text, an integer or true or false. Received 0.5"),
        (row(0, label="a"), "the graph has no nodes. Leave it out, or give it one"),
        (row([], label="a"), "the graph has no nodes"),
        (row(-1, label="a"), "`nodes` must be a list, or a number of nodes below 2..31. Received -1"),
        (row(True, label="a"), "`nodes` must be a list, or a number of nodes below 2..31. Received True"),
        (row(2.0, label="a"), "`nodes` must be a list, or a number of nodes below 2..31. Received 2.0"),
        (row(10**30, label="a"), "`nodes` must be a list, or a number of nodes below 2..31. Received 1000"),
        (row("C", label="a"), "`nodes` must be a list, or a number of nodes below 2..31. Received 'C'"),
        (row([1], label="a"), "node 0 is a number, where `nodes` in line 1 is a number of nodes"),
        (row(3, {"0": 1}, label="a") | {"edges": {"0": 1}}, "`edges` must be a list. Received {"),
        (row(3, [[0, 3]], label="a"), r"edge \[0, 3\] must join two of the graph's 3 nodes, .* from 0 on"),
        (row(3, [[-1, 2]], label="a"), r"edge \[-1, 2\] must join two of the graph's 3 nodes"),
        (row(3, [[0, 1.0]], label="a"), r"edge \[0, 1.0\] must join two of the graph's 3 nodes"),
        (row(3, [[0, True]], label="a"), r"edge \[0, True\] must join two of the graph's 3 nodes"),
        (row(3, [["0", 1]], label="a"), r"edge \['0', 1\] must join"),
        (row(3, [[0]], label="a"), r"an edge must be \[from, to\] or \[from, to, kind\]. Received \[0\]"),
        (row(3, [[0, 1, 2, 3]], label="a"), r"an edge must be .* Received \[0, 1, 2, 3\]"),
        (row(3, [0, 1], label="a"), "an edge must be .* Received 0"),
        (row(3, [[0, 1, "x"]], label="a"), r"with a kind, where edge \[0, 1\] in line 1 is without a kind"),
        ('{"nodes": 1, "edges": [', "is not JSON"),
        ("[1, 2]", "must be a JSON object"),
        ('{"nodes": 1, "nodes": 2, "edges": []}', "has two values of 'nodes'"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_line(tmp_path, second, said):
    file = lines(tmp_path, row(3, EDGES, label="7"), second)
    with pytest.raises(DataError, match=f"line 2:? (.* )?{said}") as caught:
        read_graphs(file)
    assert str(caught.value).startswith(f"{file}")


def test_a_label_that_the_first_line_lacks_is_refused(tmp_path):
    with pytest.raises(DataError, match="line 2 is with a label, where line 1 is without a label"):
        read_graphs(lines(tmp_path, row(3, EDGES), row(3, EDGES, label="a")))


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([1, True], "node 1 must be a number, a list of numbers, or a kind as a text. Received True"),
        ([1, None], "node 1 must be a number, .* Received None"),
        ([1, "C"], "node 1 is a text, where node 0 in line 1 is a number"),
        ([[1, 2], [1]], "node 1 is a list of 1 numbers, where node 0 in line 1 is a list of 2 numbers"),
        ([[1, 2], 3], "node 1 is a number, where node 0 in line 1 is a list of 2 numbers"),
        ([[]], r"node 0 must be a number, a list of numbers, .* Received \[\]"),
        ([[1, "2"]], r"node 0 must be .* Received \[1, '2'\]"),
        ([[1, [2]]], "node 0 must be"),
        (["C", ""], "node 1 is missing. Received ''"),
        ([1, float("nan")], "node 1 must have finite numbers in the range of float32. Received nan"),
        ([[1], [float("inf")]], r"node 1 must have finite numbers .* Received \[inf\]"),
        ([1, 1e39], "node 1 must have finite numbers in the range of float32. Received 1e.39"),
        ([10**400], "node 0 must have finite numbers in the range of float32"),
    ],
)
def test_nodes_of_no_or_another_form_are_refused(tmp_path, nodes, said):
    with pytest.raises(DataError, match=f"g.jsonl: line 1: {said}"):
        read_graphs(lines(tmp_path, row(nodes)))


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ([1, 2], 2, "line 2: `nodes` is a number of nodes, where node 0 in line 1 is a number"),
        ([1, 2], ["C"], "line 2: node 0 is a text, where node 0 in line 1 is a number"),
        ([[1, 2]], [[1]], "line 2: node 0 is a list of 1 numbers, where node 0 in line 1 is a list of 2"),
    ],
)
def test_nodes_of_all_lines_have_one_form(tmp_path, first, second, said):
    with pytest.raises(DataError, match=said):
        read_graphs(lines(tmp_path, row(first), row(second)))


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (["a", True], r"the kind of edge \[1, 2, True\] must be a text or an integer. Received True"),
        (["a", 1.5], r"the kind of edge \[1, 2, 1.5\] must be a text or an integer. Received 1.5"),
        (["a", None], "must be a text or an integer. Received None"),
        (["a", ""], r"the kind of edge \[1, 2, ''\] is missing"),
        (["1", 1], r"the kind of edge \[1, 2, 1\] is an integer, 1, where others are text"),
    ],
)
def test_kinds_of_edges_are_texts_or_integers(tmp_path, kinds, said):
    edges = [[0, 1, kinds[0]], [1, 2, kinds[1]]]
    with pytest.raises(DataError, match=f"g.jsonl: line 1: .*{said}"):
        read_graphs(lines(tmp_path, row(3, edges)))


def test_all_edges_have_kinds_or_none_has(tmp_path):
    with pytest.raises(DataError, match=r"edge \[1, 2\] is without a kind, where edge \[0, 1, 'a'\] in line"):
        read_graphs(lines(tmp_path, row(3, [[0, 1, "a"], [1, 2]])))
    with pytest.raises(DataError, match=r"line 2: edge \[0, 1\] is without a kind, .* in line 1 is with a"):
        read_graphs(lines(tmp_path, row(2, [[0, 1, "a"]]), row(2, [[0, 1]])))


def test_places_without_graphs_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"There is no file .*gone.jsonl"):
        read_graphs(tmp_path / "gone.jsonl")
    with pytest.raises(DataError, match=r"There is no file .*gone"):
        read_graphs(tmp_path / "gone")
    with pytest.raises(DataError, match=r"g.jsonl is empty"):
        read_graphs(lines(tmp_path))
    with pytest.raises(DataError, match=r"g.jsonl is empty"):
        read_graphs(lines(tmp_path, "", ""))
    with pytest.raises(DataError, match=r"g.csv has no known ending. Give a file ending in .jsonl, .ndjson"):
        read_graphs(lines(tmp_path, "nodes,edges", name="g.csv"))


def test_a_folder_of_tu_dortmund_is_read(tmp_path, recwarn):
    rows = read_graphs(tu(tmp_path))
    assert parts(rows) == [
        ([[1], [1], [1]], [[0, 1], [0, 2], [1, 2]], [1, 1, 1]),
        ([[1], [1]], [[0, 1]], [1]),
    ]
    assert (rows.labels, rows.node_kinds, rows.edge_kinds) == (["1", "-1"], [], [])
    assert (rows.directed, rows.source) == (False, str(tmp_path / "tu"))
    assert not recwarn


def test_node_labels_become_columns_and_attributes_follow_them(tmp_path):
    rows = read_graphs(tu(tmp_path, "MUTAG_2", **MORE))
    assert (rows.node_kinds, rows.edge_kinds) == (["6", "7", "8"], ["1", "2"])
    assert parts(rows) == [
        (
            [[1, 0, 0, 0.5, 1], [1, 0, 0, -1.5, 2], [0, 0, 1, 20, 3]],
            [[0, 1], [0, 2], [1, 2]],
            [1, 1, 2],
        ),
        ([[0, 1, 0, 0, 4], [0, 1, 0, 0.25, 5]], [[0, 1]], [1]),
    ]
    assert rows.graphs[0].nodes.dtype == np.float32
    assert rows.arrays()["distances"].tolist() == [
        [[0, 1, 1], [1, 0, 2], [1, 2, 0]],
        [[0, 1, -1], [1, 0, -1], [-1, -1, -1]],
    ]


def test_attributes_alone_are_the_features(tmp_path):
    rows = read_graphs(tu(tmp_path, node_attributes="1\n2\n3\n4\n5\n"))
    assert ([nodes for nodes, _, _ in parts(rows)], rows.node_kinds) == ([[[1], [2], [3]], [[4], [5]]], [])


def test_several_columns_of_labels_are_named_by_their_column(tmp_path):
    labels = {"node_labels": "0, 10\n1, 10\n0, 9\n0, 10\n0, 10\n", "edge_labels": "0, 1\n" * 6 + "0 2\n" * 2}
    rows = read_graphs(tu(tmp_path, **labels))
    assert rows.node_kinds == ["1=0", "1=1", "2=9", "2=10"]
    assert rows.graphs[0].nodes.tolist() == [[1, 0, 0, 1], [0, 1, 0, 1], [1, 0, 1, 0]]
    assert (rows.edge_kinds, [kinds for *_, kinds in parts(rows)]) == (["0,1", "0,2"], [[1, 1, 1], [2]])


def test_nodes_of_graphs_may_be_mixed_and_keep_their_order(tmp_path):
    """Nodes 2, 4 and 5 are the first graph, 1 and 3 the second."""
    files = {"graph_indicator": "2\n1\n2\n1\n1\n", "A": "5, 2\n3, 1\n2, 4\n"}
    rows = read_graphs(tu(tmp_path, **files, node_attributes="10\n20\n30\n40\n50\n"))
    assert parts(rows) == [
        ([[20], [40], [50]], [[0, 1], [0, 2]], [1, 1]),
        ([[10], [30]], [[0, 1]], [1]),
    ]
    rows = read_graphs(tmp_path / "tu", directed=True)
    assert [edges for _, edges, _ in parts(rows)] == [[[0, 1], [2, 0]], [[1, 0]]]


def test_one_direction_alone_is_the_edge_and_directions_are_kept_where_asked(tmp_path):
    rows = read_graphs(tu(tmp_path, A="1 2\n3\t2\n4 ,  5\n"))
    assert [edges for _, edges, _ in parts(rows)] == [[[0, 1], [1, 2]], [[0, 1]]]
    rows = read_graphs(tmp_path / "tu", directed=True)
    assert [edges for _, edges, _ in parts(rows)] == [[[0, 1], [2, 1]], [[0, 1]]]
    assert rows.arrays()["distances"][0].tolist() == [[0, 1, -1], [-1, 0, -1], [-1, 1, 0]]


def test_loops_repetitions_and_graphs_without_edges_of_a_folder_are_counted(tmp_path):
    with pytest.warns(UserWarning, match="tu: 1 edges from a node .*; 1 repeated edges, .*; 1 graphs w"):
        read_graphs(tu(tmp_path, A="1, 1\n2, 3\n3, 2\n2, 3\n"))


def test_windows_line_ends_and_empty_last_lines_are_read(tmp_path):
    files = {kind: text.replace("\n", "\r\n") + "\r\n\r\n" for kind, text in (TU | MORE).items()}
    assert read_graphs(tu(tmp_path, **files)).labels == ["1", "-1"]


def test_a_folder_without_labels_gives_none(tmp_path):
    assert read_graphs(tu(tmp_path, graph_labels=None)).labels is None


def test_notes_beside_the_files_and_hidden_files_are_no_trouble(tmp_path):
    folder = tu(tmp_path, label_readme="all about labels")
    for name in ("README.txt", "DS.pdf", "._DS_A.txt", "notes.txt"):
        (folder / name).write_text("x")
    assert len(read_graphs(folder)) == 2


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"graph_attributes": "1.5\n2\n"},
            r"DS_graph_attributes.txt is not read: it has numbers for each graph. Move the file elsewhere to "
            r"leave them out: DS_graph_labels.txt is read",
        ),
        (
            {"graph_attributes": "1\n2\n", "graph_labels": None},
            "elsewhere .*: the graphs then have no labels",
        ),
        ({"edge_attributes": "1\n"}, "it has numbers for each edge. .*: all edges are then of one kind"),
        ({"edge_attributes": "1\n", **MORE}, "DS_edge_attributes.txt is not .*: DS_edge_labels.txt is read"),
        ({"coordinates": "1\n"}, "DS_coordinates.txt is not read: read are DS_A.txt, .* Rename it if"),
        ({"graph_indicator": None}, "tu holds no graphs: it has no DS_graph_indicator.txt. Give a folder in"),
        ({"A": None}, "tu holds no graphs: it has no DS_A.txt"),
        ({"A": "1, 2\n2, 6\n"}, r"DS_A.txt: line 2: edge \(2, 6\) must join two of the 5 nodes, .* from 1"),
        ({"A": "0, 1\n"}, r"DS_A.txt: line 1: edge \(0, 1\) must join two of the 5 nodes"),
        ({"A": "1, 2\n3, 4\n"}, r"line 2: edge \(3, 4\) joins a node of graph 1 and one of graph 2. An edge"),
        ({"A": "1, 2\n-1, 2\n"}, "DS_A.txt: line 2 must hold the numbers of two nodes, .* Received '-1, 2'"),
        ({"A": "1, 2.0\n"}, "line 1 must hold the numbers of two nodes, counted from 1. Received '1, 2.0'"),
        ({"A": "1, 2, 3\n"}, "line 1 must hold the numbers of two nodes"),
        ({"A": "1,, 2\n"}, "line 1 must hold the numbers of two nodes"),
        ({"A": "1\n"}, "line 1 must hold the numbers of two nodes"),
        ({"A": "1, 2\n\n2, 1\n"}, "DS_A.txt: line 2 is empty. Each line is of one node, edge or graph"),
        ({"A": ""}, "DS_A.txt is empty"),
        ({"A": "\n \n"}, "DS_A.txt is empty"),
        ({"graph_indicator": "1\n1\n1\n1\n1\n"}, "DS_graph_indicator.txt: graph 2 of 2 has no nodes. Leave"),
        ({"graph_indicator": "2\n" * 5}, "graph 1 of 2 has no nodes"),
        (
            {"graph_indicator": "1\n1\n1\n3\n3\n"},
            "line 4 names graph 3, .* from 1 on, which the labels count",
        ),
        ({"graph_indicator": "1\n1\n1\n3\n3\n", "graph_labels": None}, "graph 2 of 3 has no nodes"),
        (
            {"graph_indicator": "0\n1\n1\n2\n2\n"},
            "DS_graph_indicator.txt: line 1 names graph 0, which is not",
        ),
        (
            {"graph_indicator": "1\nx\n"},
            "line 2 must hold the number of a graph, counted from 1. Received 'x",
        ),
        ({"graph_labels": "1, 2\n3, 4\n"}, "DS_graph_labels.txt: line 1 has 2 labels. Write one for each"),
        ({"graph_labels": "1\n3, 4\n"}, "DS_graph_labels.txt: line 2 has 2 values, where line 1 has 1"),
        ({"node_labels": "1\n2\n"}, "DS_node_labels.txt has 2 lines, where there are 5 nodes. Each has a"),
        ({"node_labels": "1\n2, 3\n"}, "DS_node_labels.txt: line 2 has 2 values, where line 1 has 1"),
        ({"edge_labels": "1\n2\n"}, "DS_edge_labels.txt has 2 lines, where there are 8 edges"),
        ({"node_attributes": "1\n2\n"}, "DS_node_attributes.txt has 2 lines, where there are 5 nodes"),
        ({"node_attributes": "1\n2, 3\n"}, "DS_node_attributes.txt: line 2 has 2 values, where line 1 has 1"),
        ({"node_attributes": "1\nx\n3\n4\n5\n"}, "DS_node_attributes.txt: line 2 has 'x' in place of a numb"),
        ({"node_attributes": "1\n2\nNaN\n4\n5\n"}, "line 3 must hold finite numbers in the range of float32"),
        ({"node_attributes": "1\n2\n3\n1e39\n5\n"}, "line 4 must hold finite numbers"),
        (
            {"edge_labels": "1\n2\n" + "1\n" * 6},
            r"DS_A.txt: line 2: edge \(2, 1\) is of kind '2', and another one between these nodes of '1'. "
            "Keep one, or",
        ),
    ],
)
def test_a_folder_that_does_not_fit_its_form_is_refused(tmp_path, files, said):
    with pytest.raises(DataError, match=said) as caught:
        read_graphs(tu(tmp_path, **files))
    assert str(caught.value).startswith(f"{tmp_path / 'tu'}")


def test_a_folder_with_several_sets_or_none_is_refused(tmp_path):
    tu(tmp_path)
    tu(tmp_path, "PTC", A=None, graph_labels=None)
    with pytest.raises(DataError, match="tu holds 2 sets of graphs: DS, PTC. Give a folder with one of them"):
        read_graphs(tmp_path / "tu")
    with pytest.raises(DataError, match="holds no graphs: it has no DS_A.txt. Give a folder in the form of"):
        read_graphs(tmp_path)


def test_the_graphs_of_a_folder_have_the_distances_of_the_search(tmp_path):
    """Random graphs whose nodes are mixed, written in one direction or both."""
    seeded = random.Random(5)
    sizes = [seeded.randint(2, 9) for _ in range(30)]
    of = [graph for graph, size in enumerate(sizes, start=1) for _ in range(size)]
    seeded.shuffle(of)
    numbers = [[node for node, graph in enumerate(of, start=1) if graph == each] for each in range(1, 31)]
    edges = [random_edges(seeded, size, 2, directed=False) or [(0, 1, 1)] for size in sizes]
    written = [
        (nodes[a], nodes[b], kind) for nodes, own in zip(numbers, edges, strict=True) for a, b, kind in own
    ]
    written += [(b, a, kind) for a, b, kind in written if seeded.random() < 0.5]
    seeded.shuffle(written)
    folder = tu(
        tmp_path,
        A="".join(f"{a}, {b}\n" for a, b, _ in written),
        edge_labels="".join(f"{kind}\n" for *_, kind in written),
        graph_indicator="".join(f"{graph}\n" for graph in of),
        graph_labels="0\n" * 30,
    )
    distances = read_graphs(folder).arrays()["distances"]
    for found, size, own in zip(distances, sizes, edges, strict=True):
        assert found[:size, :size].tolist() == searched(size, own, 2, directed=False)


def test_the_layer_reads_the_arrays(tmp_path):
    """An unreachable node and padding have other numbers than an edge: the outputs follow the edges."""
    from keras_selfattn import layers

    rows = read_graphs(tu(tmp_path, **MORE))
    arrays = rows.arrays()
    position = layers.DistanceBias(edge_kinds=rows.num_edge_kinds)
    layer = layers.MultiHeadSelfAttention(2, head_dim=4, position=position, seed=0)
    given = {"distances": arrays["distances"], "valid_lens": arrays["lengths"]}
    output = np.asarray(layer(arrays["nodes"], **given))
    assert output.shape == arrays["nodes"].shape
    assert (output[1, 2] == 0).all()
    assert np.abs(output[1, :2]).min() > 0


def written(folder, *lines, name="graphs.jsonl"):
    file = folder / name
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_other_graphs_have_the_kinds_of_those_of_the_training(tmp_path):
    """Read alone, O would be the first column of the second file, and its edges of the first kind."""
    training = read_graphs(
        written(tmp_path, {"nodes": ["C", "N", "O"], "edges": [[0, 1, "single"], [1, 2, "double"]]})
    )
    file = written(tmp_path, {"nodes": ["O", "C"], "edges": [[0, 1, "single"]]}, name="others.jsonl")
    others = read_graphs(file, like=training)
    assert others.node_kinds == ["C", "N", "O"]
    assert others.edge_kinds == training.edge_kinds == ["double", "single"]
    assert others.graphs[0].nodes.tolist() == [[0, 0, 1], [1, 0, 0]]
    assert others.graphs[0].kinds.tolist() == [2]
    assert others.num_edge_kinds == 2
    assert others.arrays()["distances"].tolist() == [[[0, 2], [2, 0]]]
    assert read_graphs(file).graphs[0].nodes.tolist() == [[0, 1], [1, 0]]
    bare = written(tmp_path, {"nodes": ["O", "C"], "edges": []}, name="bare.jsonl")
    with pytest.warns(UserWarning, match="1 graphs without edges"):
        assert read_graphs(bare, like=training).num_edge_kinds == 2


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            {"nodes": ["S", "C"], "edges": []},
            "others.jsonl has nodes of kinds that .*graphs.jsonl does not .*: S",
        ),
        ({"nodes": ["C", "N"], "edges": [[0, 1, "triple"]]}, "has edges of kinds that .*: triple"),
        ({"nodes": ["C", "N"], "edges": [[0, 1]]}, "has edges without kinds, and .* has kinds"),
        (
            {"nodes": [1.0, 2.0], "edges": [[0, 1, "single"]]},
            "others.jsonl says of its nodes their numbers, and .*graphs.jsonl their kinds",
        ),
    ],
)
def test_other_graphs_with_kinds_of_their_own_are_refused(graph, message, tmp_path):
    training = read_graphs(written(tmp_path, {"nodes": ["C", "N"], "edges": [[0, 1, "single"]]}))
    file = written(tmp_path, graph, name="others.jsonl")
    with pytest.raises(DataError, match=message):
        read_graphs(file, like=training)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        # All of one width: two columns, or one.
        (["C", "N"], [[0.5, 1], [0, 2]], "its nodes their numbers, and .* their kinds"),
        ([[0.5, 1], [0, 2]], ["C", "N"], "its nodes their kinds, and .* their numbers"),
        (2, [0.5, 3], "its nodes their numbers, and .* how many there are"),
        ([[0.5], [3]], 2, "its nodes how many there are, and .* their numbers"),
        (2, ["C", "C"], "its nodes their kinds, and .* how many there are"),
        (["C", "C"], 2, "its nodes how many there are, and .* their kinds"),
    ],
)
def test_other_graphs_whose_nodes_have_another_meaning_are_refused(first, second, message, tmp_path):
    training = read_graphs(written(tmp_path, {"nodes": first, "edges": [[0, 1]]}))
    file = written(tmp_path, {"nodes": second, "edges": [[0, 1]]}, name="others.jsonl")
    with pytest.raises(DataError, match=f"others.jsonl says of {message}. Write the nodes of both in one"):
        read_graphs(file, like=training)
    again = written(tmp_path, {"nodes": first, "edges": [[0, 1]]}, name="others.jsonl")
    assert read_graphs(again, like=training).counted is (first == 2) is training.counted


def test_a_folder_and_a_file_that_count_nodes_are_alike(tmp_path):
    folder = read_graphs(tu(tmp_path))
    assert folder.counted
    file = written(tmp_path, {"nodes": 2, "edges": [[0, 1]]})
    assert read_graphs(file, like=folder).graphs[0].nodes.tolist() == [[1], [1]]
    with pytest.raises(DataError, match="graphs.jsonl says of its nodes how many there are, and .*tu their"):
        read_graphs(file, like=read_graphs(tu(tmp_path, node_attributes="1\n1\n1\n1\n1\n")))


def test_a_number_and_a_list_of_one_are_the_same_feature(tmp_path):
    training = read_graphs(written(tmp_path, {"nodes": [0.5, 2], "edges": [[0, 1]]}))
    file = written(tmp_path, {"nodes": [[3], [4]], "edges": [[0, 1]]}, name="others.jsonl")
    assert read_graphs(file, like=training).graphs[0].nodes.tolist() == [[3], [4]]


def test_other_graphs_have_as_many_features_and_the_same_directions(tmp_path):
    training = read_graphs(written(tmp_path, {"nodes": [[1, 2], [3, 4]], "edges": [[0, 1]]}))
    file = written(tmp_path, {"nodes": [[1, 2, 3], [0, 0, 0]], "edges": [[0, 1]]}, name="others.jsonl")
    with pytest.raises(DataError, match="has 3 features a node, and .* has 2"):
        read_graphs(file, like=training)
    with pytest.raises(ConfigError, match="`directed` must be that of `like`, False. Received True"):
        read_graphs(file, directed=True, like=training)


def test_kinds_are_counted_from_one_and_a_flag_is_a_flag(tmp_path):
    graph = Graph(np.ones((3, 1)), np.array([[0, 1], [1, 2]]), np.array([1, 0]))
    with pytest.raises(ConfigError, match="Kinds of edges are counted from 1. Received 0"):
        graph_distances(graph)
    with pytest.raises(
        ConfigError, match="`directed` is True if edges lead one way only, else False. Received 'no'"
    ):
        read_graphs(written(tmp_path, {"nodes": 1, "edges": []}), directed="no")
