#!/usr/bin/env bash
# Once TensorFlow has looked rows of a Keras variable up, reading it takes three times its memory.
#
# Libraries   keras 3.15.1 on tensorflow 2.21.0, CPU: a variable of 200 MB, of which `tf.gather` takes one row.
# Behaviour   `np.array(variable)`, as `model.save` reads each weight, has two copies at its peak before the lookup and
#             three after it. The lookup changes no value.
# A guess     Looking rows up only reads, so the copies are as many as before it.
# Why wrong   The kernel that gathers from a resource variable marks it as read by parts, so that rows can be written
#             in place; from then on each read of all of it is a copy, besides that of `numpy()` and that of `np.array`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet keras==3.15.1 tensorflow-cpu==2.21.0
cd "$folder"
KERAS_BACKEND=tensorflow "$folder/env/bin/python" - <<'PY' >seen.txt 2>errors.txt
import pathlib

import keras
import numpy as np
import tensorflow as tf


def megabytes(name):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(name))


def copies():
    """Return how many copies of the variable are there at once while it is read."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak is what is there now
    before = megabytes("VmRSS")
    np.array(variable)
    return round((megabytes("VmHWM") - before) / 200)


variable = keras.Variable(np.ones((52_428_800 // 64, 64), "float32"), name="table")
found = [copies()]
tf.gather(variable.value, [1])
found.append(copies())
print(f"copies at the peak: {found[0]} before a lookup, {found[1]} after it")
PY
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
copies at the peak: 2 before a lookup, 3 after it
SEEN
