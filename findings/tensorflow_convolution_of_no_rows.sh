#!/usr/bin/env bash
# TensorFlow's convolution of a batch without rows returns its input, in its shape.
#
# Library     TensorFlow 2.21.0 on a CPU with oneDNN, its default: `tf.nn.conv2d`, which `Conv2D` of Keras calls.
# Behaviour   Of [0, 12, 12, 1], a kernel [3, 3, 1, 2] and a step of 2 it returns [0, 12, 12, 1], eagerly and in a
#             traced function, with bias and ReLU, too. Of one row it returns [1, 5, 5, 2].
# A guess     [0, 5, 5, 2], as TensorFlow's own inference of shapes says.
# Why wrong   Kernels for empty inputs hand the input through. A second convolution, or a layer behind a reshape, then
#             fails on the number of channels: a served model answers a request whose rows were all filtered out with
#             an error. Padding by a row in front of the convolution becomes a part of it, and does not help; a row that
#             is joined by `tf.concat`, and left out again behind it, does.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet tensorflow==2.21.0
cat >"$folder/try.py" <<'PY'
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf

kernel, bias, step = tf.ones([3, 3, 1, 2]), tf.ones([2]), 2
ANY = [tf.TensorSpec([None, 12, 12, 1])]


@tf.function(input_signature=[tf.TensorSpec([0, 12, 12, 1])])
def known(x):
    return tf.nn.conv2d(x, kernel, step, "VALID")


@tf.function(input_signature=ANY)
def with_bias(x):
    return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, step, "VALID"), bias))


@tf.function(input_signature=ANY)
def joined(x):
    more = tf.concat([x, tf.zeros([tf.maximum(1 - tf.shape(x)[0], 0), 12, 12, 1])], axis=0)
    return with_bias(more)[: tf.shape(x)[0]]


def told(function, rows):
    try:
        return str(tuple(function(tf.zeros([rows, 12, 12, 1])).shape))
    except tf.errors.OpError as error:
        return type(error).__name__


print("inferred:", tuple(known.get_concrete_function().structured_outputs.shape))
print("eagerly, no rows:", told(lambda x: tf.nn.conv2d(x, kernel, step, "VALID"), 0))
print("eagerly, one row:", told(lambda x: tf.nn.conv2d(x, kernel, step, "VALID"), 1))
print("traced, no rows, with a bias:", told(with_bias, 0))
print("traced, one row, with a bias:", told(with_bias, 1))
print("traced, a joined row that is left out again:", told(joined, 0))
PY
"$folder/env/bin/python" "$folder/try.py" 2>/dev/null | tee "$folder/seen"
diff "$folder/seen" - <<'EXPECTED'
inferred: (0, 5, 5, 2)
eagerly, no rows: (0, 12, 12, 1)
eagerly, one row: (1, 5, 5, 2)
traced, no rows, with a bias: (0, 12, 12, 1)
traced, one row, with a bias: (1, 5, 5, 2)
traced, a joined row that is left out again: (0, 5, 5, 2)
EXPECTED
echo "As found."
