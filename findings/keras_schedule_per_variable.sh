#!/usr/bin/env bash
# Keras' optimizers compute a learning rate schedule once for each variable in each step, not once a step.
#
# Libraries   Keras 3.15.1 on TensorFlow 2.21.0: AdamW with CosineDecay and a warmup, `apply` as a graph on a CPU.
# Behaviour   The graph of a step of 2 variables holds 3 branches (warmup or decay), that of 20 variables 21. After
#             TensorFlow's optimiser of graphs, and in the program that XLA makes of it, there are as many cosines.
# A guess     The rate is one number of a step: it is computed once and all variables share it, or at the latest the
#             compiler merges what is equal.
# Why wrong   Each variable's update asks for the learning rate again, and each time it is made of operations of its
#             own. Neither TensorFlow nor XLA merges them here. Models of many small variables pay for it in nodes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet tensorflow==2.21.0 keras==3.15.1
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/env/bin/python" - <<'PY' >seen.txt 2>errors.txt || { cat errors.txt; exit 1; }
import keras
import tensorflow as tf
from tensorflow.python.eager import context

schedule = keras.optimizers.schedules.CosineDecay(1e-3, 1000, warmup_steps=10, warmup_target=1e-3)


def run_graphs(step) -> list:
    context.enable_run_metadata()
    step()
    found = context.export_run_metadata()
    context.disable_run_metadata()
    return [graphs.post_optimization_graph for graphs in found.function_graphs]


for count in (2, 20):
    for rate in (1e-3, schedule):
        variables = [keras.Variable(tf.ones([3])) for _ in range(count)]
        optimizer = keras.optimizers.AdamW(rate)
        optimizer.build(variables)
        gradients = [tf.ones([3])] * count
        step = tf.function(lambda: optimizer.apply(gradients, variables))
        traced = step.get_concrete_function().graph.get_operations()
        branches = sum("If" in operation.type for operation in traced)
        cosines = sum(node.op == "Cos" for graph in run_graphs(step) for node in graph.node)
        compiled = tf.function(lambda: optimizer.apply(gradients, variables), jit_compile=True)
        program = compiled.experimental_get_compiler_ir()(stage="optimized_hlo")
        print(f"{count} variables, {type(rate).__name__}: {branches} branches traced,", end=" ")
        print(f"{cosines} cosines in the graph that runs, {program.count(' cosine(')} in XLA's program")
PY
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
2 variables, float: 0 branches traced, 0 cosines in the graph that runs, 0 in XLA's program
2 variables, CosineDecay: 3 branches traced, 3 cosines in the graph that runs, 3 in XLA's program
20 variables, float: 0 branches traced, 0 cosines in the graph that runs, 0 in XLA's program
20 variables, CosineDecay: 21 branches traced, 21 cosines in the graph that runs, 21 in XLA's program
SEEN
