#!/usr/bin/env bash
# LiteRT and OpenVINO put the outputs of Keras' SavedModel in another order than the model: by name alone they are right.
#
# Libraries   Keras 3.15.1 on TensorFlow 2.21.0 (`export`), its LiteRT converter and interpreter, OpenVINO 2026.4.1.
#             Each output i of the model is the input times i.
# Behaviour   LiteRT's `get_output_details()` has four and twelve outputs out of order. OpenVINO has four in order,
#             and twelve as 0 1 8 9 10 11 2 3 4 5 6 7. Neither warns. LiteRT's signature runner and the names of
#             OpenVINO's ports give each output its own name in all cases.
# A guess     Positions are the model's where there are few, and at most sorted by name (0 1 10 11 2) where there are
#             many.
# Why wrong   A SavedModel's outputs are a map. The function returns them sorted by name as text; OpenVINO sorts those
#             places as text again, which shows from eleven on; LiteRT follows neither names nor places. Scores of
#             twelve attention layers that are read by position are other layers' scores.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet tensorflow==2.21.0 keras==3.15.1 openvino==2026.4.1
cd "$folder"
export TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow
"$folder/env/bin/python" -W ignore - <<'PY' >all.txt 2>errors.txt || { cat errors.txt; exit 1; }
import keras
import numpy as np
import openvino
import tensorflow as tf

one = np.ones((1, 3), "float32")
for count in (4, 12):
    x = keras.Input((3,))
    keras.Model(x, [keras.layers.Rescaling(float(place))(x) for place in range(count)]).export("model", verbose=False)
    interpreter = tf.lite.Interpreter(model_content=tf.lite.TFLiteConverter.from_saved_model("model").convert())
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], one)
    interpreter.invoke()
    by_position = [int(interpreter.get_tensor(each["index"])[0, 0]) for each in interpreter.get_output_details()]
    runner = interpreter.get_signature_runner("serving_default")
    by_name = runner(**{name: one for name in runner.get_input_details()})
    named = all(by_name[f"output_{place}"][0, 0] == place for place in range(count))
    print(f"seen: {count} outputs, LiteRT: in order {by_position == list(range(count))}, by name {named}")
    compiled = openvino.Core().compile_model("model", "CPU")
    answer = compiled([one])
    named = all(answer[f"output_{place}"][0, 0] == place for place in range(count))
    print(f"seen: {count} outputs, OpenVINO:", *(int(value[0, 0]) for value in answer.values()), "- by name", named)
PY
grep '^seen: ' all.txt >seen.txt
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
seen: 4 outputs, LiteRT: in order False, by name True
seen: 4 outputs, OpenVINO: 0 1 2 3 - by name True
seen: 12 outputs, LiteRT: in order False, by name True
seen: 12 outputs, OpenVINO: 0 1 8 9 10 11 2 3 4 5 6 7 - by name True
SEEN
