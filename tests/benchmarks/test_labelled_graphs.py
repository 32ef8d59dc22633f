"""Answers about graphs that a benchmark asks for are right; its graphs are balanced and those of a seed."""

import numpy as np
import pytest

from benchmarks import graphs
from keras_selfattn.data import Graph, graph_distances


def random_graph(random):
    size = int(random.integers(3, 11))
    pairs = [(a, b) for b in range(size) for a in range(b)]
    chosen = random.choice(len(pairs), int(random.integers(0, len(pairs) + 1)) // 2, replace=False)
    return graphs.of_edges(size, [pairs[place] for place in chosen])


def without_edge(graph, place):
    return Graph(graph.nodes, np.delete(graph.edges, place, axis=0), np.delete(graph.kinds, place))


def test_answers_are_those_of_other_ways_to_count():
    random = np.random.default_rng(0)
    for _ in range(300):
        graph = random_graph(random)
        back = [
            int(graph_distances(without_edge(graph, place))[tuple(edge)])
            for place, edge in enumerate(graph.edges)
        ]
        assert graphs.shortest_cycle(graph) == min((way + 1 for way in back if way > 0), default=0)
        edges = {tuple(sorted(edge)) for edge in graph.edges.tolist()}
        corners = range(len(graph.nodes))
        three = [(a, b, c) for a in corners for b in range(a) for c in range(b)]
        assert graphs.triangles(graph) == sum({(b, a), (c, a), (c, b)} <= edges for a, b, c in three)
        sides = range(2 ** len(graph.nodes))
        divided = any(all((side >> a ^ side >> b) & 1 for a, b in edges) for side in sides)
        assert graphs.is_bipartite(graph) == divided


@pytest.mark.parametrize("question", graphs.QUESTIONS)
def test_graphs_are_balanced_and_those_of_their_seed(question):
    count = 5 * graphs.QUESTIONS[question][1]
    arrays, labels = graphs.made_up(question, range(8, 17), count, seed=3)
    assert np.bincount(labels).tolist() == [5] * graphs.QUESTIONS[question][1]
    again, _ = graphs.made_up(question, range(8, 17), count, seed=3)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, again[name])
    assert arrays["nodes"].sum(axis=2).tolist() == arrays["real"].astype(float).tolist()
