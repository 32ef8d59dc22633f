"""`benchmarks graphs`: what a bias by distance learns of graphs that a mask of their edges does not.

Axes: n (nodes of a graph).
"""

import statistics
import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.accuracy.own_process import in_own_process
from benchmarks.accuracy.store import Key, Store, fingerprint
from benchmarks.machine import versions
from benchmarks.process import one_thread
from benchmarks.results import Result, Table
from benchmarks.rounds import Settings
from keras_selfattn.data.graphs import Graph, GraphRows, graph_distances

FIGURE = "larger"
# Nodes of the graphs of training and test, and of larger ones.
_SIZES, _LARGER = range(8, 17), range(17, 33)
_TEST = 1_000
_QUICK = 20
_MOST_EDGES = 10  # of a node; more count as so many
_WIDTH, _LAYERS, _HEADS = 64, 3, 4
_NOTES = [
    f"Made-up graphs, with as many of each class. Training graphs have {_SIZES[0]} to {_SIZES[-1]} nodes "
    f"and 0.7 to 1.6 edges a node, larger ones {_LARGER[0]} to {_LARGER[-1]} nodes; {_TEST:,} test graphs of "
    "each. Features are the number of a node's edges, one-hot.",
    f"Both contestants are an `Encoder` of {_LAYERS} blocks, {_HEADS} heads and width {_WIDTH}, then the sum "
    "and the largest of the nodes, and one hidden layer; AdamW, cosine decay from 1e-3, batches of 32, the "
    "same epochs. They differ in one thing: attention to all nodes with `DistanceBias`, or to neighbours "
    "(`attention_mask`) without it.",
]


def triangles(graph: Graph) -> int:
    """Return the number of triangles.

    Example:

        >>> triangles(of_edges(4, [(0, 1), (1, 2), (0, 2), (2, 3)]))
        1
    """
    joined = graph_distances(graph) == 1
    return int(np.trace(np.linalg.matrix_power(joined.astype(np.int64), 3)) // 6)


def shortest_cycle(graph: Graph) -> int:
    """Return the number of edges of the shortest cycle, 0 if there is none.

    Example:

        >>> shortest_cycle(of_edges(5, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)]))
        4
    """
    distances = graph_distances(graph)  # [n, n]
    # Seen from a node of the shortest cycle, it closes where an edge joins two nodes that are equally far, or
    # where a node has two neighbours that are nearer.
    ends = distances[:, graph.edges]  # [n, edges, 2]
    odd = 2 * ends[(ends[:, :, 0] == ends[:, :, 1]) & (ends[:, :, 0] >= 0)][:, 0] + 1
    nearer = (distances[:, :, None] >= 0) & (distances[:, :, None] + 1 == distances[:, None, :])
    even = 2 * distances[(nearer & (distances == 1)).sum(axis=1) > 1]
    return int(min([*odd, *even], default=0))


def is_bipartite(graph: Graph) -> bool:
    """Return True if no cycle has an odd number of edges.

    Example:

        >>> is_bipartite(of_edges(4, [(0, 1), (1, 2), (2, 3), (3, 0)]))
        True
    """
    distances = graph_distances(graph)
    ends = distances[:, graph.edges]  # [n, edges, 2]
    # From a node that reaches an edge, both of its ends are equally far only on an odd cycle.
    return not ((ends[:, :, 0] == ends[:, :, 1]) & (ends[:, :, 0] >= 0)).any()


# By the name of the question: from a graph to its class, or None; the classes; training graphs and epochs.
QUESTIONS: dict[str, tuple[Callable[[Graph], int | None], int, int, int]] = {
    "triangles, 0 to 3 or more": (lambda graph: min(triangles(graph), 3), 4, 4_000, 20),
    "triangles, odd or even": (lambda graph: _parity(triangles(graph)), 2, 16_000, 12),
    "shortest cycle": (lambda graph: min(shortest_cycle(graph), 6), 5, 4_000, 20),
    "bipartite": (lambda graph: int(is_bipartite(graph)), 2, 4_000, 20),
}
CONTESTANTS = "DistanceBias", "mask of edges"


def of_edges(size: int, edges: list[tuple[int, int]]) -> Graph:
    """Return the graph of so many nodes, whose only feature is 1, with these edges."""
    pairs = np.array(edges, np.int32).reshape(-1, 2)
    return Graph(np.ones((size, 1), np.float32), pairs, np.ones(len(pairs), np.int32))


def made_up(question: str, sizes: range, count: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return random graphs as arrays, with as many of each class, and their classes; the seed decides."""
    answer, classes, _, _ = QUESTIONS[question]
    random = np.random.default_rng(seed)
    found: dict[int, list[Graph]] = {}
    each = -(-count // classes)
    while len(found) < classes or min(map(len, found.values())) < each:
        graph = _drawn(random, int(random.choice(sizes)))
        label = answer(graph)
        if label is not None and len(found.setdefault(label, [])) < each:
            found[label].append(graph)
    labelled = [(graph, place) for place, label in enumerate(sorted(found)) for graph in found[label]]
    chosen = [labelled[row] for row in random.permutation(len(labelled))[:count]]
    arrays = GraphRows([graph for graph, _ in chosen]).arrays()
    degrees = (arrays["distances"] == 1).sum(axis=2).clip(0, _MOST_EDGES)
    real = np.arange(degrees.shape[1]) < arrays["lengths"][:, None]
    arrays["nodes"] = np.eye(_MOST_EDGES + 1, dtype=np.float32)[degrees] * real[:, :, None]
    return {**arrays, "real": real}, np.array([label for _, label in chosen])


def trained(question: str, contestant: str, seed: int, quick: bool) -> dict[str, float]:
    """Return the percentages of right answers, the weights and the time of a training."""
    import keras

    _, classes, count, epochs = QUESTIONS[question]
    if quick:
        count, epochs = _QUICK, 1
    tests = _QUICK if quick else _TEST
    rows = made_up(question, _SIZES, count, seed)
    parts = {"same size": made_up(question, _SIZES, tests, 1_000 + seed)}
    parts[FIGURE] = made_up(question, _LARGER, tests, 2_000 + seed)
    keras.utils.set_random_seed(seed)
    model = _model(contestant == CONTESTANTS[0], classes)
    steps = epochs * -(-count // 32)
    rate: Any = keras.optimizers.schedules.CosineDecay(1e-3, steps)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # Without XLA, which would compile the graph again for each length.
    optimizer = keras.optimizers.AdamW(rate, weight_decay=0.01)
    model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=False)
    begun = time.process_time()
    model.fit(*rows, epochs=epochs, batch_size=32, verbose=0)
    figures = {"cpu s": time.process_time() - begun, "weights": float(model.count_params())}
    scored = {name: 100 * model.evaluate(*part, verbose=0)[1] for name, part in parts.items()}
    return {**scored, **figures}


def run(settings: Settings, seeds: int, store: Store | None = None) -> Table:
    """Return the accuracy of both contestants for each question, means over seeds."""
    results = []
    for question in QUESTIONS:
        for contestant in CONTESTANTS:
            if not settings.chosen(question, contestant):
                continue
            found = []
            for seed in range(1 if settings.quick else seeds):
                settings.progress(f"{question}, seed {seed}: {contestant}")
                found.append(_figures(question, contestant, seed, settings.quick, store))
            means = {name: statistics.mean(each[name] for each in found) for name in found[0]}
            least, most = (pick(each[FIGURE] for each in found) for pick in (min, max))
            note = f"larger {least:.1f} to {most:.1f}" if len(found) > 1 else ""
            results.append(Result(question, contestant, means, note))
    return Table(results, list(_NOTES))


def _figures(question: str, contestant: str, seed: int, quick: bool, store: Store | None) -> dict[str, float]:
    configuration = fingerprint(question=QUESTIONS[question][1:], quick=quick, versions=versions())
    key = Key(question, contestant, seed, 0, configuration)
    if store is not None and (known := store.get(key)) is not None:
        return known["figures"]
    with one_thread():
        figures = in_own_process(trained, question, contestant, seed, quick)
    if store is not None:
        store.add(key, {"figures": figures})
    return figures


def _drawn(random: np.random.Generator, size: int) -> Graph:
    pairs = list(combinations(range(size), 2))
    edges = min(round(size * random.uniform(0.7, 1.6)), len(pairs))
    return of_edges(size, [pairs[place] for place in random.choice(len(pairs), edges, replace=False)])


def _parity(count: int) -> int | None:
    """Return whether a number is odd; None for more than 5, which larger graphs have more often."""
    return count % 2 if count <= 5 else None


def _model(by_distance: bool, classes: int) -> Any:
    import keras
    from keras import ops

    from keras_selfattn import layers

    nodes = keras.Input((None, _MOST_EDGES + 1), name="nodes")
    distances = keras.Input((None, None), dtype="int32", name="distances")
    real = keras.Input((None,), dtype="bool", name="real")
    lengths = keras.Input((), dtype="int32", name="lengths")
    position = layers.DistanceBias() if by_distance else None
    encoder = layers.Encoder(_LAYERS, _HEADS, 2 * _WIDTH, dropout=0.0, position=position)
    shortest: Any = distances
    near = ops.logical_and(shortest >= 0, shortest <= 1)
    which = {"distances": distances} if by_distance else {"attention_mask": near}
    x = encoder(keras.layers.Dense(_WIDTH)(nodes), mask=real, **which)
    # What is no node is 0, in the sum as in the maximum.
    x = ops.concatenate([ops.sum(x, axis=1) / _SIZES[-1], ops.max(x, axis=1)], axis=-1)
    x = keras.layers.Dense(classes)(keras.layers.Dense(_WIDTH, activation="gelu")(x))
    inputs = {"nodes": nodes, "distances": distances, "real": real, "lengths": lengths}
    return keras.Model(inputs, x)
