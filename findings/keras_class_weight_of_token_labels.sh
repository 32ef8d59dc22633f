#!/usr/bin/env bash
# Keras' `class_weight` reads one integer label per token as one-hot: the place of a row's largest label is its class.
#
# Libraries   Keras 3.15.1 on TensorFlow 2.21.0: SparseCategoricalCrossentropy, labels of shape (batch, time), `fit`
#             with `class_weight={0: 1, 1: 10, 2: 100}`, a model that gives every class the same probability.
# Behaviour   At one row a batch the labels 2 2 2 weigh 1, as 0 0 0 do; 0 2 0 weigh 10, and 0 1 2 weigh 100. No
#             warning. At two rows of three positions the product of shapes fails, with words that do not name class
#             weights.
# A guess     Each position weighs as its label's class (100, 1, 34 and 37 on average), or an error says that labels
#             per token have no class weights.
# Why wrong   A label of more than one axis is taken for one-hot: an argmax over the last axis, here time, gives one
#             weight per row. Loss and gradient follow the position of a label, and not the label.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet tensorflow==2.21.0 keras==3.15.1
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/env/bin/python" - <<'PY' >seen.txt 2>errors.txt || { cat errors.txt; exit 1; }
import warnings

import keras
import numpy as np

weights = {0: 1.0, 1: 10.0, 2: 100.0}
uniform = keras.layers.Dense(3, activation="softmax", kernel_initializer="zeros")
model = keras.Sequential([keras.Input((3, 1)), uniform])
model.compile(keras.optimizers.SGD(0.0), "sparse_categorical_crossentropy")


def weight(labels: list) -> str:
    x = np.zeros((len(labels), 3, 1), "float32")
    history = model.fit(x, np.array(labels), class_weight=weights, verbose=0).history
    return f"{history['loss'][0] / np.log(3):.2f}"


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for row in ([0, 0, 0], [2, 2, 2], [0, 2, 0], [0, 1, 2]):
        print(*row, "weigh", weight([row]), "- their classes", f"{np.mean([weights[label] for label in row]):.2f}")
print("warnings of class weights:", sum("class_weight" in str(each.message) for each in caught))
try:
    weight([[0, 0, 0], [2, 2, 2]])
except Exception as error:
    print("two rows:", type(error).__name__, "- names class_weight:", "class_weight" in str(error))
PY
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
0 0 0 weigh 1.00 - their classes 1.00
2 2 2 weigh 1.00 - their classes 100.00
0 2 0 weigh 10.00 - their classes 34.00
0 1 2 weigh 100.00 - their classes 37.00
warnings of class weights: 0
two rows: InvalidArgumentError - names class_weight: False
SEEN
