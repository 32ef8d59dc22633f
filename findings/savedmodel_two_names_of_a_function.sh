#!/usr/bin/env bash
# One function under two names of signatures is two graphs to a server: it prepares both, at full cost.
#
# Library     TensorFlow 2.21.0 on a CPU; graphs of 300 products, in a session as TensorFlow Serving runs them.
# Behaviour   `tf.saved_model.save(signatures={"a": f, "b": f})` writes a call of `f` for each name. Outputs of "b" are
#             other tensors than those of "a", so the first run of "b" prepares the graph again, whatever "a" has run.
# A guess     An alias is free, such as "predict" beside "serving_default": `f` is one function, it was traced once,
#             and is once in the file.
# Why wrong   It is once in the file, but called twice, and a session keeps what it prepared by the names of tensors. A
#             file whose second definition is a copy of the first has the alias for nothing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet tensorflow-cpu==2.21.0
cat >"$folder/try.py" <<'PY'
import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

folder = sys.argv[1]
module = tf.Module()
module.kernel = tf.Variable(np.eye(4, dtype="float32"))


@tf.function(input_signature=[tf.TensorSpec([None, 4], name="x")])
def f(x):
    for _ in range(300):
        x = tf.tanh(tf.matmul(x, module.kernel))
    return {"y": x}


tf.saved_model.save(module, folder, signatures={"a": f, "b": f})


def shown(what):
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        read = tf.compat.v1.saved_model.load(session, ["serve"], folder).signature_def
        names = [(read[name].inputs["x"].name, read[name].outputs["y"].name) for name in "ab"]
        seconds = []
        for place in (0, 0, 0, 1, 1, 1):
            started = time.perf_counter()
            session.run(names[place][1], {names[place][0]: np.ones((1, 4), "float32")})
            seconds.append(time.perf_counter() - started)
    print(f"{what}: one pair of tensors for both names: {names[0] == names[1]};", end=" ")
    print(f"the first run of b prepares again: {seconds[3] > 10 * min(seconds[4:])}")


shown("as written")
path = f"{folder}/saved_model.pb"
with open(path, "rb") as file:
    saved = saved_model_pb2.SavedModel.FromString(file.read())
graph = saved.meta_graphs[0]
copies = sum("_f_" in each.signature.name and "wrapper" not in each.signature.name for each in graph.graph_def.library.function)
print(f"f in the file: {copies} time")
graph.signature_def["b"].CopyFrom(graph.signature_def["a"])
with open(path, "wb") as file:
    file.write(saved.SerializeToString())
shown("b copied from a")
PY
"$folder/env/bin/python" "$folder/try.py" "$folder/model" 2>/dev/null | tee "$folder/seen"
diff "$folder/seen" - <<'EXPECTED'
as written: one pair of tensors for both names: False; the first run of b prepares again: True
f in the file: 1 time
b copied from a: one pair of tensors for both names: True; the first run of b prepares again: False
EXPECTED
echo "As found."
