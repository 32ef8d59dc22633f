#!/usr/bin/env bash
# TensorFlow's gradient of a bias in bfloat16 stops growing at 256 on a CPU.
#
# Library     TensorFlow 2.21.0 on a CPU: the gradient of `tf.nn.bias_add`, as `Dense` has under mixed_bfloat16.
# Behaviour   Of 1,000 and of 10,000 rows that each have the gradient 1 the bias gets 256. `tf.reduce_sum` and a
#             product with ones give 1,000 and 9,984, the sum rounded once.
# A guess     Sums run in float32 and are rounded once at the end, as in products of bfloat16.
# Why wrong   The kernel adds up in bfloat16, whose steps are 2 above 256: 256 + 1 is 256. So a layer of many
#             positions learns its bias from a gradient that is many times too small, without a warning.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet tensorflow==2.21.0
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 "$folder/env/bin/python" - <<'PY' >seen.txt 2>errors.txt || { cat errors.txt; exit 1; }
import tensorflow as tf

for rows in (100, 1_000, 10_000):
    x = tf.ones([rows, 4], tf.bfloat16)
    bias = tf.Variable(tf.zeros([4], tf.bfloat16))
    with tf.GradientTape() as tape:
        found = tf.nn.bias_add(x, bias)
    gradient = tape.gradient(found, bias, output_gradients=tf.ones_like(found))
    ones = tf.ones([1, rows], tf.bfloat16)
    summed, product = tf.reduce_sum(x, axis=0), ones @ x
    print(rows, "rows:", *(float(each) for each in (gradient[0], summed[0], product[0, 0])))
PY
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
100 rows: 100.0 100.0 100.0
1000 rows: 256.0 1000.0 1000.0
10000 rows: 256.0 9984.0 9984.0
SEEN
