#!/usr/bin/env bash
# A model made within `keras.RematScope("full")` cannot be fitted on TensorFlow, not even one of `Dense` alone.
#
# Library     Keras 3.15.1 with TensorFlow 2.21.0 and JAX 0.10.2, on a CPU.
# Behaviour   `fit` raises ValueError: custom gradients support keyword arguments in eager execution only. So it does
#             with "larger_than". A call outside of a graph, `run_eagerly=True`, "activations" and JAX work.
# A guess     `fit` works and needs less memory: the documentation's example makes layers within the scope, and names
#             no backend.
# Why wrong   `fit` calls each layer in a graph with `training=True`, a keyword, and Keras hands it on to
#             `tf.custom_gradient`. A first try, a call of the layer, is eager and shows nothing of it.
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

x = np.ones((4, 8), "float32")


def made(scope):
    with keras.RematScope(**scope):
        return keras.Sequential([keras.Input((8,)), keras.layers.Dense(8)])


def told(run):
    try:
        run()
        return "works"
    except ValueError as error:
        return "keyword arguments" if "keywords arguments only when eager" in str(error) else repr(error)


def fitted(scope, **settings):
    model = made(scope)
    model.compile("sgd", "mse", **settings)
    model.fit(x, x, verbose=0)


backend, full = keras.backend.backend(), {"mode": "full"}
print(backend, "full, a call:", told(lambda: made(full)(x, training=True)))
print(backend, "full, fit:", told(lambda: fitted(full)))
print(backend, "larger_than, fit:", told(lambda: fitted({"mode": "larger_than", "output_size_threshold": 1})))
print(backend, "activations, fit:", told(lambda: fitted({"mode": "activations"})))
if backend == "tensorflow":
    print(backend, "full, fit, run_eagerly:", told(lambda: fitted(full, run_eagerly=True)))
PY
for backend in tensorflow jax; do
    KERAS_BACKEND=$backend "$folder/env/bin/python" "$folder/try.py" 2>/dev/null
done | tee "$folder/seen"
diff "$folder/seen" - <<'EXPECTED'
tensorflow full, a call: works
tensorflow full, fit: keyword arguments
tensorflow larger_than, fit: keyword arguments
tensorflow activations, fit: works
tensorflow full, fit, run_eagerly: works
jax full, a call: works
jax full, fit: works
jax larger_than, fit: works
jax activations, fit: works
EXPECTED
echo "As found."
