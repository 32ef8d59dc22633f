#!/usr/bin/env bash
# Keras' attention answers differently at inference by the dropout rate and by whether the scores are asked for.
#
# Libraries   Keras 3.15.1 on TensorFlow 2.21.0: MultiHeadAttention, equal weights, a query that may attend to
#             nothing.
# Behaviour   With `dropout=0` the query gets the average of all values. With `dropout=0.1`, or with
#             `return_attention_scores=True`, the same layer in inference gives it zeros (its output is the bias).
#             Queries that have something to attend to do not differ.
# A guess     Dropout has no effect without `training=True`, and returning the scores changes no output.
# Why wrong   Rate and flag choose the path: fused attention, which gives masked scores a large negative number, or a
#             softmax layer that also clears the masked weights. A model that is made anew with another rate, from the
#             same weights, answers padded rows anew.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet tensorflow==2.21.0 keras==3.15.1
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/env/bin/python" - <<'PY' >seen.txt 2>errors.txt || { cat errors.txt; exit 1; }
import keras
import numpy as np

x = np.random.default_rng(0).normal(size=(1, 3, 8)).astype("float32")
mask = np.ones((1, 3, 3), bool)
mask[:, 0] = False
for rate in (0.0, 0.1):
    layer = keras.layers.MultiHeadAttention(2, 4, dropout=rate)
    layer.build(x.shape, x.shape)
    for seed, weight in enumerate(layer.weights):
        weight.assign(np.random.default_rng(seed).normal(size=weight.shape))
    alone = np.asarray(layer(x, x, attention_mask=mask, training=False))
    scored = np.asarray(layer(x, x, attention_mask=mask, training=False, return_attention_scores=True)[0])
    bias = np.asarray(layer.weights[-1])
    for name, found in (("alone", alone), ("with scores", scored)):
        print(rate, name, "the bias" if np.allclose(found[0, 0], bias, atol=1e-6) else "an average")
    print(rate, "other queries equal:", np.allclose(alone[0, 1:], scored[0, 1:], atol=1e-5))
PY
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
0.0 alone an average
0.0 with scores the bias
0.0 other queries equal: True
0.1 alone the bias
0.1 with scores the bias
0.1 other queries equal: True
SEEN
