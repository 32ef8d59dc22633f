#!/usr/bin/env bash
# Keras' EarlyStopping takes a first epoch of NaN for the best, and gives its weights back.
#
# Libraries   keras 3.15.1 on tensorflow 2.21.0: `keras.callbacks.EarlyStopping(monitor="val_loss",
#             restore_best_weights=True)`.
# Behaviour   If the first epoch's value is NaN, as of a validation set with one bad row or of a warm-up that overflows
#             once, no later value counts as better. Training ends after `patience` epochs, and the weights of the epoch
#             of NaN are restored. NaN in any later epoch is passed over.
# A guess     NaN is never an improvement, as in every comparison of numbers, so the first finite value becomes the best.
# Why wrong   The best value begins as None, and the first value of all replaces it without a comparison. From then on
#             each value is compared with NaN, and none is less.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet keras==3.15.1 tensorflow-cpu==2.21.0
cd "$folder"
KERAS_BACKEND=tensorflow "$folder/env/bin/python" - <<'PY' >seen.txt 2>errors.txt
import keras
import numpy as np


class ValueOfEpoch(keras.callbacks.Callback):
    """The values of a validation loss, and weights that name their epoch."""

    def __init__(self, values):
        super().__init__()
        self.values = values

    def on_epoch_end(self, epoch, logs=None):
        self.model.set_weights([np.full((1, 1), epoch + 1.0)])
        logs["val_loss"] = self.values[epoch]


def kept(values):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.compile("sgd", "mse")
    stopping = keras.callbacks.EarlyStopping("val_loss", mode="min", patience=3, restore_best_weights=True)
    done = model.fit(
        np.zeros((1, 1)), np.zeros(1), epochs=6, verbose=0, callbacks=[ValueOfEpoch(values), stopping]
    )
    return len(done.epoch), int(model.get_weights()[0][0, 0])


nan = float("nan")
for values in ([3, 2, 1, 0.5, 0.4, 0.3], [nan, 2, 1, 0.5, 0.4, 0.3], [3, nan, 1, 0.5, 0.4, 0.3]):
    epochs, best = kept(values)
    print(f"{values}: {epochs} epochs, weights of epoch {best}")
PY
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
[3, 2, 1, 0.5, 0.4, 0.3]: 6 epochs, weights of epoch 6
[nan, 2, 1, 0.5, 0.4, 0.3]: 4 epochs, weights of epoch 1
[3, nan, 1, 0.5, 0.4, 0.3]: 6 epochs, weights of epoch 6
SEEN
