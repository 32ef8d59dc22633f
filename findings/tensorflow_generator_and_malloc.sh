#!/usr/bin/env bash
# After the first dataset from a Python generator, which `model.fit` of Keras makes of a `PyDataset`, each NumPy array
# of 128 KB or more in the process is new pages of the system, and given back when it is freed.
#
# Libraries   TensorFlow 2.21.0 and Keras 3.15.1 on Python 3.11, NumPy 2.4.1; Linux with glibc.
# Behaviour   100 arrays of 8 MB, made and freed one after the other, hardly cause page faults, as glibc keeps freed
#             memory. After one `model.fit` of a `PyDataset`, or after one element of `tf.data.Dataset.from_generator`,
#             they cause 500 to 2,000 each, one for each page or each few: the kernel of generators calls
#             `mallopt(M_MMAP_THRESHOLD, 131072)`, for the whole process and its rest. `model.fit` of arrays does not.
# A guess     How a dataset is read has no effect on memory that others in the process allocate.
# Why wrong   The call also switches off glibc's own adaption, so nothing raises the limit again, and it overrules
#             `MALLOC_MMAP_THRESHOLD_` of the environment.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet tensorflow==2.21.0 keras==3.15.1 numpy==2.4.1
cd "$folder"
cat >faults.py <<'PY'
import resource
import sys

import keras
import numpy as np
import tensorflow as tf


class Rows(keras.utils.PyDataset):
    def __len__(self):
        return 1

    def __getitem__(self, at):
        return np.ones((4, 2), "float32"), np.ones((4, 1), "float32")


def faults():
    others = [np.ones(2**20) for _ in range(9)]  # take what earlier ones have left behind
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        np.ones(2**20)
    del others
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 100


def fit(*rows):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(*rows, verbose=0)


def generator():
    kind = tf.TensorSpec([], tf.float32)
    next(iter(tf.data.Dataset.from_generator(lambda: iter([1.0]), output_signature=kind)))


ways = {"arrays": lambda: fit(*Rows()[0]), "PyDataset": lambda: fit(Rows()), "from_generator": generator}
way = sys.argv[1]
for _ in range(3):
    faults()  # glibc adapts
ways["arrays"]()
before = faults()
ways[way]()
after = faults()
few = 2 * 2048 / 100  # the first of a hundred may be new
print(f"{way}: {'few' if before < few else before} before, {'few' if after < few else 'hundreds' if after > 100 else after} after")
PY
for way in arrays PyDataset from_generator; do
    TF_CPP_MIN_LOG_LEVEL=3 "$folder/env/bin/python" faults.py $way 2>errors.txt || { cat errors.txt; exit 1; }
done >seen.txt
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
arrays: few before, few after
PyDataset: few before, hundreds after
from_generator: few before, hundreds after
SEEN
