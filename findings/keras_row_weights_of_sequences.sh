#!/usr/bin/env bash
# Keras gives a row's `sample_weight` to positions of the sequence in the loss, and to the row in weighted metrics.
#
# Libraries   Keras 3.15.1 on TensorFlow 2.21.0: a model of (batch, time, 1), `evaluate` with one weight per row.
# Behaviour   4 rows of 4 positions, row 0 wrong by 1 everywhere, weight 1 for row 0 and 0 for the others: the loss is
#             1/16 (one position of row 0), the weighted metric of the same call 1. At 6 positions the same weights
#             are an error about shapes. A column of weights, (4, 1), gives the loss 4/16 at both lengths.
# A guess     Weights of rows are the rows' for loss and metrics alike: loss 4/16 and metric 1, whatever the length.
# Why wrong   The loss has a value per position, (batch, time), and weights of (batch,) broadcast along its last axis,
#             time. Metrics average over time first. Where a batch is as long as its sequences nothing tells, and the
#             last, shorter batch ends in an error that does not name the weights.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet tensorflow==2.21.0 keras==3.15.1
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/env/bin/python" - <<'PY' >seen.txt 2>errors.txt || { cat errors.txt; exit 1; }
import keras
import numpy as np

rows = 4
for time in (4, 6):
    model = keras.Sequential([keras.Input((time, 1)), keras.layers.Dense(1)])
    x, y = np.zeros((2, rows, time, 1), "float32")
    y[0] = 1.0
    weights = np.eye(rows, dtype="float32")[0]
    for given in (weights, weights[:, None], np.repeat(weights[:, None], time, axis=1)):
        model.compile(loss="mse", weighted_metrics=["mse"])
        try:
            found = "loss {}, metric {}".format(*model.evaluate(x, y, sample_weight=given, verbose=0))
        except Exception as error:
            found = f"{type(error).__name__}, names sample_weight: {'sample_weight' in str(error)}"
        print(f"{time} positions, weights {given.shape}: {found}")
PY
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
4 positions, weights (4,): loss 0.0625, metric 1.0
4 positions, weights (4, 1): loss 0.25, metric 1.0
4 positions, weights (4, 4): loss 0.25, metric 1.0
6 positions, weights (4,): InvalidArgumentError, names sample_weight: False
6 positions, weights (4, 1): loss 0.25, metric 1.0
6 positions, weights (4, 6): loss 0.25, metric 1.0
SEEN
