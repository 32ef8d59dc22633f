#!/usr/bin/env bash
# On TensorFlow, Keras' clipping of gradients by norm does not bound the step of a row that occurs often in a batch.
#
# Libraries   Keras 3.15.1 on TensorFlow 2.21.0 and on JAX 0.10.2: an `Embedding`, a row of 100 equal ids, `SGD` with
#             a rate of 1 and `global_clipnorm=1` or `clipnorm=1`.
# Behaviour   The table moves by 10 on TensorFlow and by 1 on JAX, with both settings. No warning.
# A guess     A step of rate 1 moves the weights by the norm of the clipped gradient, which is at most 1, on any
#             backend.
# Why wrong   On TensorFlow the gradient of a table is a list of rows, with one entry for each occurrence. The norm is
#             that of the entries side by side, the step their sum: 100 entries of norm 1/10 add up to 10. Frequent
#             tokens, such as padding that is not masked, escape the limit the most.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet tensorflow==2.21.0 keras==3.15.1 jax==0.10.2
cd "$folder"
cat >step.py <<'PY'
import keras
import numpy as np

for setting in ("global_clipnorm", "clipnorm"):
    table = keras.layers.Embedding(5, 4, embeddings_initializer="zeros")
    model = keras.Sequential([keras.Input((100,), dtype="int32"), table])
    model.compile(keras.optimizers.SGD(1.0, **{setting: 1.0}), loss=lambda y, found: -keras.ops.sum(found))
    model.fit(np.full((1, 100), 3), np.zeros((1, 100, 4)), verbose=0)
    print(f"{keras.backend.backend()}, {setting}=1: the table moved by {np.linalg.norm(table.get_weights()[0]):.2f}")
PY
for backend in tensorflow jax; do
    TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=$backend "$folder/env/bin/python" step.py 2>errors.txt || { cat errors.txt; exit 1; }
done >seen.txt
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
tensorflow, global_clipnorm=1: the table moved by 10.00
tensorflow, clipnorm=1: the table moved by 10.00
jax, global_clipnorm=1: the table moved by 1.00
jax, clipnorm=1: the table moved by 1.00
SEEN
