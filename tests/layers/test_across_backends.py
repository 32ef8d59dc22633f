"""A model trained and saved on one backend is loaded, asked and exported on another, each in a process."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from backend import tensorflow_only

pytestmark = tensorflow_only  # once is enough

TRAIN = """
import json, sys
import keras, numpy as np
from keras_selfattn import layers

assert keras.backend.backend() == sys.argv[1]
keras.utils.set_random_seed(0)
ids = keras.Input((None,), dtype="int32")
x = keras.layers.Embedding(20, 16, mask_zero=True)(ids)
x = layers.SinusoidalPositionEncoding()(x)
x = layers.Encoder(2, 4, dropout=0.1, position=layers.RotaryPositions(), norm="rms", gated=True, seed=1)(x)
x = layers.AttentionPooling(2, seed=1)(x)
model = keras.Model(ids, keras.layers.Dense(2, activation="softmax")(x))
model.compile(keras.optimizers.Adam(0.003), "sparse_categorical_crossentropy", metrics=["accuracy"])
rows = np.random.default_rng(0).integers(1, 20, (512, 9))
history = model.fit(rows, (rows > 10).sum(1) > 4, epochs=10, verbose=0).history
model.save(sys.argv[2] + "/model.keras")
answers = model.predict(rows[:5], verbose=0).tolist()
print(json.dumps({"accuracy": history["accuracy"][-1], "answers": answers}))
"""

EXPORT = """
import json, sys
import keras, numpy as np
import tensorflow as tf
from keras_selfattn.export import export_saved_model
from keras_selfattn.models import load

assert keras.backend.backend() == "tensorflow"
model = load(sys.argv[1])
rows = np.random.default_rng(0).integers(1, 20, (512, 9)).astype("int32")[:5]
saved = tf.saved_model.load(str(export_saved_model(model, sys.argv[1] + "/saved", labels=["few", "many"])))
served = saved.signatures["serving_default"](tf.constant(rows))
answers = {"probabilities": served["probabilities"].numpy().tolist(),
           "label": [label.decode() for label in served["label"].numpy()]}
print(json.dumps({"loaded": model.predict(rows, verbose=0).tolist(), "served": answers}))
"""


def answer(program, backend, *arguments):
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "-W", "error::UserWarning", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_trained_and_saved_on_one_backend_it_answers_and_exports_on_tensorflow(backend, tmp_path):
    pytest.importorskip(backend)
    trained = answer(TRAIN, backend, backend, str(tmp_path))
    assert trained["accuracy"] > 0.85  # about half of the rows have each label
    found = answer(EXPORT, "tensorflow", str(tmp_path))
    np.testing.assert_allclose(found["loaded"], trained["answers"], atol=1e-5)
    np.testing.assert_allclose(found["served"]["probabilities"], trained["answers"], atol=1e-5)
    assert found["served"]["label"] == [("few", "many")[row[1] > row[0]] for row in trained["answers"]]
