"""Learns the length of the ring in a graph, from graphs in a file, and asks about larger graphs.

    python examples/graphs.py [--epochs 8] [--output graphs]

A made-up graph is a ring of 3 to 6 nodes with trees that hang from it, as in a molecule. A node knows how
many edges it has, and nothing more: what closes the ring is in the distances between nodes.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_selfattn import data, layers

RINGS = (3, 4, 5, 6)


def made_up(sizes: range, count: int, seed: int) -> list[dict[str, Any]]:
    """Return graphs as `data.read_graphs` reads them, with the length of their ring as label."""
    draw, found = random.Random(seed), []
    for row in range(count):
        ring = RINGS[row % len(RINGS)]
        edges = [(node, (node + 1) % ring) for node in range(ring)]
        edges += [(draw.randrange(node), node) for node in range(ring, draw.choice(sizes))]
        size = max(node for edge in edges for node in edge) + 1
        names = draw.sample(range(size), size)  # the ring's nodes are anywhere
        found.append({"nodes": size, "edges": [[names[a], names[b]] for a, b in edges], "label": ring})
    return found


def inputs_of(rows: data.GraphRows) -> dict[str, np.ndarray]:
    """Return the model's inputs: the number of edges of each node, and the distances between nodes."""
    arrays = rows.arrays()
    edges = (arrays["distances"] == 1).sum(axis=2, keepdims=True)
    return {"nodes": edges.astype("float32"), "distances": arrays["distances"], "lengths": arrays["lengths"]}


def ring_model(classes: int) -> keras.Model:
    """Return a model of graphs of any size."""
    nodes = keras.Input((None, 1), name="nodes")
    distances = keras.Input((None, None), dtype="int32", name="distances")
    lengths = keras.Input((), dtype="int32", name="lengths")
    encoder = layers.Encoder(3, num_heads=4, position=layers.DistanceBias(max_distance=8))
    x = encoder(keras.layers.Dense(64)(nodes), valid_lens=lengths, distances=distances)
    x = ops.max(x, axis=1)  # over the nodes: a ring is somewhere
    inputs = {"nodes": nodes, "distances": distances, "lengths": lengths}
    return keras.Model(inputs, keras.layers.Dense(classes, activation="softmax")(x))


def main() -> None:
    """Make, read, learn, export, ask."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--output", type=Path, default=Path("graphs"), help="a new folder")
    given = parser.parse_args()

    given.output.mkdir(parents=True)
    parts = {"train": (range(8, 17), 4_000), "larger": (range(17, 33), 1_000)}
    for seed, (name, (sizes, count)) in enumerate(parts.items()):
        lines = "".join(json.dumps(graph) + "\n" for graph in made_up(sizes, count, seed))
        (given.output / f"{name}.jsonl").write_text(lines)
    train = data.read_graphs(given.output / "train.jsonl")
    larger = data.read_graphs(given.output / "larger.jsonl", like=train)
    print(f"Read {len(train):,} graphs of up to 16 nodes, and {len(larger):,} of up to 32.")

    names = sorted(set(train.labels or []))
    targets = [np.array([names.index(label) for label in rows.labels or []]) for rows in (train, larger)]
    model = ring_model(len(names))
    model.compile(keras.optimizers.AdamW(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(inputs_of(train), targets[0], epochs=given.epochs, batch_size=32, verbose=2)
    _, accuracy = model.evaluate(inputs_of(larger), targets[1], verbose=0)
    print(f"Rings of larger graphs: {accuracy:.1%} right, where guessing has {1 / len(names):.0%}.")

    model.export(given.output / "model", verbose=False)
    served = tf.saved_model.load(given.output / "model")
    hexagon = data.Graph(np.ones((6, 1)), np.array([(a, (a + 1) % 6) for a in range(6)]), np.ones(6, int))
    asked = inputs_of(data.GraphRows([hexagon]))
    found = served.serve({name: tf.constant(array) for name, array in asked.items()})
    print(f"The SavedModel says of a hexagon: a ring of {names[int(np.argmax(found))]}.")


if __name__ == "__main__":
    main()
