"""How time and memory of attention grow with the length: ours and Keras' own, each in a fresh process.

    python benchmarks/attention_growth.py [--repeats 5]

One sequence of width 64, 4 heads, inference. CPU seconds are of the whole process, all threads, median of the
repeats, the layers interleaved by length; memory is what the peak of the resident set grew by.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

LENGTHS = (1_024, 2_048, 4_096, 8_192)
WIDTH, HEADS, WINDOW = 64, 4, 64
LAYERS = (
    "ours, all pairs",
    f"ours, window {WINDOW}",
    "ours, linear",
    "ours, causal linear",
    "Keras, all pairs",
)
LAYERS += (f"Keras, banded mask {WINDOW}",)


def make(name):
    """Returns a function from `[1, length, width]` to the layer's output."""
    import keras
    import numpy as np

    from keras_selfattn import layers

    if name.startswith("Keras"):
        theirs = keras.layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
        if "banded" not in name:
            return lambda x: theirs(x, x)

        def banded(x):
            positions = np.arange(x.shape[1], dtype="int32")
            band = np.abs(positions[None] - positions[:, None]) <= WINDOW
            return theirs(x, x, attention_mask=band[None])

        return banded
    return {
        "ours, all pairs": lambda: layers.MultiHeadSelfAttention(HEADS),
        f"ours, window {WINDOW}": lambda: layers.MultiHeadSelfAttention(HEADS, window=WINDOW),
        "ours, linear": lambda: layers.LinearSelfAttention(HEADS),
        "ours, causal linear": lambda: layers.LinearSelfAttention(HEADS, causal=True),
    }[name]()


def measure(name, length):
    """Prints CPU seconds and bytes of one call, after a first that builds and traces."""
    import numpy as np
    import tensorflow as tf

    layer = tf.function(make(name))
    layer(tf.zeros([1, 128, WIDTH]))
    x = tf.constant(np.random.default_rng(0).normal(size=(1, length, WIDTH)).astype("float32"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    layer(x)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, wall = time.process_time(), time.perf_counter()
    layer(x)
    seconds = [time.process_time() - start, time.perf_counter() - wall]
    print(json.dumps({"cpu": seconds[0], "wall": seconds[1], "bytes": (peak - before) * 1024}))


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--measure", nargs=2, metavar=("LAYER", "LENGTH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.repeats < 1:
        parser.error(f"--repeats must be at least 1. Received {arguments.repeats}.")
    if arguments.measure:
        measure(arguments.measure[0], int(arguments.measure[1]))
        return
    found = {}
    for repeat in range(arguments.repeats):
        for length in LENGTHS:
            for name in LAYERS:
                command = [sys.executable, __file__, "--measure", name, str(length)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found.setdefault((name, length), []).append(json.loads(done.stdout))
        print(f"repeat {repeat + 1} of {arguments.repeats} done", file=sys.stderr)
    for key, unit, factor in (("cpu", "CPU ms", 1e3), ("wall", "wall ms", 1e3), ("bytes", "MB more", 1e-6)):
        print(f"\n{unit:24}" + "".join(f"{length:>10,}" for length in LENGTHS))
        for name in LAYERS:
            values = [
                statistics.median(run[key] for run in found[name, length]) * factor for length in LENGTHS
            ]
            print(f"{name:24}" + "".join(f"{value:10.1f}" for value in values))


if __name__ == "__main__":
    main()
