#!/usr/bin/env bash
# `keras.ops.map` on TensorFlow computes the first element twice, and a graph holds the function twice.
#
# Library     Keras 3.15.1 with TensorFlow 2.21.0 and JAX 0.10.2, on a CPU.
# Behaviour   Over 3 elements the function runs 4 times in eager TensorFlow, and 4 times in a graph, if it has operations
#             with state. Over no element it raises; on JAX that is an empty array.
# A guess     It runs once for each element: the documentation shows the equivalent `np.stack([f(x) for x in xs])`.
# Why wrong   TensorFlow's `map_fn` wants the type of the results, and Keras computes the first one to know it.
#             A graph does not drop that copy where it has operations with state, so a served model of layers in a map
#             holds them twice, and is prepared for longer.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet keras==3.15.1 jax==0.10.2 tensorflow-cpu==2.21.0
cat >"$folder/try.py" <<'PY'
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
import numpy as np
from keras import ops

backend = keras.backend.backend()
calls = []


def doubled(x):
    calls.append(None)
    return 2 * x


ops.map(doubled, ops.arange(3))
print(backend, "calls in Python over 3 elements:", len(calls))
try:
    print(backend, "no element:", ops.map(doubled, ops.zeros((0, 2))).shape)
except Exception as error:
    print(backend, "no element:", type(error).__name__)

if backend == "tensorflow":
    import tensorflow as tf

    weight, runs = tf.Variable(2.0), tf.Variable(0)

    def counted(x):
        def taken():
            runs.assign_add(1)
            return weight * x

        return tf.cond(x >= 0, taken, lambda: x)

    tf.function(lambda x: ops.map(counted, x))(tf.constant([1.0, 2.0, 3.0]))
    print(backend, "runs in a graph over 3 elements:", int(runs))
PY
for backend in tensorflow jax; do
    KERAS_BACKEND=$backend "$folder/env/bin/python" "$folder/try.py" 2>/dev/null
done | tee "$folder/seen"
diff "$folder/seen" - <<'EXPECTED'
tensorflow calls in Python over 3 elements: 4
tensorflow no element: InvalidArgumentError
tensorflow runs in a graph over 3 elements: 4
jax calls in Python over 3 elements: 1
jax no element: (0, 2)
EXPECTED
echo "As found."
