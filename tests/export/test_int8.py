"""Exports that multiply in int8: what the graph holds, how close its answers are, and who refuses it."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import jsonschema
import keras
import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from film_model import make_model
from pretrained_folders import BERT, write_folder

from keras_selfattn import layers, models
from keras_selfattn.cli.main import main
from keras_selfattn.errors import ExportError
from keras_selfattn.export import export_portable, export_saved_model, inspect_saved_model, read_card
from keras_selfattn.export.precision import at_precision
from keras_selfattn.layers.tensorflow.int8_products import runs_int8_products
from keras_selfattn.layers.weights.quantized import multiplied_kernels
from keras_selfattn.serving.errors import FailedPreconditionError
from keras_selfattn.serving.server import ServerConfig
from keras_selfattn.serving.server.models import loader

pytestmark = [
    pytest.mark.skipif(not runs_int8_products(), reason="TensorFlow runs no kernels of oneDNN here"),
    pytest.mark.filterwarnings(r"ignore:`precision=\"int8\"` makes a model smaller, but not faster"),
]
PRODUCT = "QuantizedMatMulWithBiasAndDequantize"
TEXTS = ["good film", "bad film", "a", "", "never seen", "good " * 31]


def series_model():
    values = keras.Input((None, 16), name="values")
    x = layers.Encoder(num_layers=2, num_heads=2, feed_forward_dim=128, seed=0)(values)
    x = layers.AveragePooling()(x)
    model = keras.Model(values, keras.layers.Dense(3, activation="softmax", name="head")(x))
    random = np.random.default_rng(1)
    model.set_weights([random.normal(size=w.shape) * 0.3 for w in model.weights])
    return model


def token_model():
    small = models.TokenConfig(width=16, num_layers=1, num_heads=2, hash_buckets=64)
    return models.TokenClassifier(small, vocabulary=["good", "bad", "film"], labels=["O", "B-X", "I-X"])


def answers(path, **inputs):
    loaded = tf.saved_model.load(str(path))
    found = loaded.signatures["serving_default"](**{name: tf.constant(v) for name, v in inputs.items()})
    return {name: value.numpy() for name, value in found.items()}


def kernels(layer):
    """The shapes of the matrices of the encoders' attention and feed-forward layers, without LoRA's."""
    return sorted(tuple(w.shape) for w in layer.weights if "kernel" in w.path and "encoder" in w.path)


@pytest.mark.parametrize(("width", "warned"), [(128, True), (256, False)])
def test_a_narrow_model_is_told_that_it_gets_no_faster(width, warned):
    model = keras.Sequential([keras.Input((None, width)), layers.EncoderBlock(num_heads=2, seed=0)])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        at_precision(model, "int8")
    texts = [str(each.message) for each in said]
    assert len(texts) == warned
    assert all(
        f"fewer than 256 features; those of {model.name} have {width} at most" in each for each in texts
    )


def test_a_model_of_doubles_is_made_again_in_float32():
    model = keras.Sequential([keras.Input((None, 8)), layers.EncoderBlock(num_heads=2, dtype="float64")])
    made, _ = at_precision(model, "int8")
    assert {each.compute_dtype for each in made.layers} == {"float32"}


@pytest.mark.process
def test_the_graph_holds_int8_kernels_alone_and_answers_like_the_model(tmp_path):
    """Checked in a fresh process, as ever."""
    model, values = series_model(), np.random.default_rng(0).normal(size=(6, 9, 16)).astype("float32")
    path = export_saved_model(model, tmp_path, precision="int8", labels=["a", "b", "c"])
    found = answers(path, values=values)["probabilities"]
    wanted = model(values).numpy()
    assert 0 < np.abs(found - wanted).max() < 0.05
    inspected = inspect_saved_model(path)
    stored = sorted(tuple(each.shape) for each in inspected.variables.values() if len(each.shape) == 2)
    of_head = [tuple(model.get_layer("head").kernel.shape)]
    assert stored == of_head
    assert inspected.operations[PRODUCT] == len(kernels(model)), "one for each kernel, in one function"
    card = read_card(path)
    assert card["precision"] == "int8"
    assert card["requires"]["onednn"] is True
    schema = Path(__file__).parents[2] / "docs" / "model-card.schema.json"
    jsonschema.validate(card, json.loads(schema.read_text("utf-8")))
    shown = CliRunner().invoke(main, ["inspect", str(path)])
    assert "TF_ENABLE_ONEDNN_OPTS=1" in shown.output


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "rows"),
    [(make_model, {"text": TEXTS}), (token_model, {"tokens": [["good", "film", "x"], ["bad", "", ""]]})],
    ids=["texts", "tokens"],
)
def test_models_of_rows_are_exported_and_answer_like_themselves(tmp_path, make, rows):
    model = make()
    before = export_saved_model(model, tmp_path / "as it is")
    path = export_saved_model(model, tmp_path / "int8", precision="int8")
    wanted, found = (answers(each, **rows)["probabilities"] for each in (before, path))
    assert 0 < np.abs(found - wanted).max() < 0.05
    assert PRODUCT in inspect_saved_model(path).operations


@pytest.mark.slow
def test_a_text_gets_the_same_vector_alone_and_in_any_batch(tmp_path, unchecked):
    folder = write_folder(tmp_path / "bert", BERT)
    path = export_saved_model(models.TextEncoder(start=folder), tmp_path, precision="int8")
    together = answers(path, text=TEXTS)
    (name,) = (key for key, value in together.items() if value.ndim == 2)
    alone = [answers(path, text=[text])[name][0] for text in TEXTS]
    np.testing.assert_allclose(together[name], alone, atol=1e-6)


def test_a_comparison_counts_the_bytes_of_constants(tmp_path, unchecked):
    seen = []
    model, evaluation = make_model(), (["good film", "bad film"], ["+", "-"])
    export_saved_model(model, tmp_path, precision="int8", evaluation=evaluation, report=seen.append)
    before, after = seen[0].before, seen[0].after
    shapes = [kernel.shape for kernel in multiplied_kernels(model)]
    numbers, columns = sum(rows * width for rows, width in shapes), sum(width for _, width in shapes)
    assert before.weight_bytes - after.weight_bytes == 3 * numbers - 8 * columns


def test_a_model_without_such_kernels_is_refused(tmp_path):
    model = keras.Sequential([keras.Input((4,), name="x"), keras.layers.Dense(2)])
    with pytest.raises(ExportError, match="attention and feed-forward layers .* has none.*int8-weights"):
        export_saved_model(model, tmp_path, precision="int8")


@pytest.mark.process
@pytest.mark.parametrize("make", [series_model, token_model])
def test_kernels_are_constants_and_not_variables_as_well(tmp_path, unchecked, make):
    model = make()
    path = export_saved_model(model, tmp_path, precision="int8")
    held = {kernel.path for kernel in multiplied_kernels(model)}
    others = sum(each.value.shape.num_elements() * 4 for each in model.weights if each.path not in held)
    written = [each for each in tf.saved_model.load(str(path)).tracked if isinstance(each, tf.Variable)]
    assert held
    assert sum(each.shape.num_elements() * 4 for each in written) <= others


class Tied(keras.layers.Layer):
    """A product with the kernel of another layer, in float32."""

    def __init__(self, owner, **kwargs):
        super().__init__(**kwargs)
        self._owner = [owner]  # in a list, or its weights would be this layer's, too

    def call(self, inputs):
        kernel = next(w for w in self._owner[0].weights if w.path.endswith("feed_forward/hidden/kernel"))
        return keras.ops.matmul(inputs, kernel)


@pytest.mark.process
def test_a_kernel_that_is_read_elsewhere_too_is_written_in_both_forms(tmp_path, unchecked):
    values, encoder = keras.Input((16,), name="values"), layers.Encoder(1, 2, feed_forward_dim=128, seed=0)
    x = encoder(keras.layers.Reshape((1, 16))(values))
    model = keras.Model(values, Tied(encoder)(keras.layers.Flatten()(x)))
    asked = np.random.default_rng(0).normal(size=(5, 16)).astype("float32")
    path = export_saved_model(model, tmp_path, precision="int8")
    variables = [tuple(each.shape) for each in tf.saved_model.load(str(path)).tracked]
    assert (16, 128) in variables
    assert (128, 16) not in variables
    wanted = np.asarray(model(asked))
    (found,) = answers(path, values=asked).values()
    assert 0 < np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


def test_a_quantized_model_is_refused(tmp_path):
    model = series_model()
    model.get_layer("head").quantize("int8")
    with pytest.raises(ExportError, match="quantized to int8: leave it out"):
        export_saved_model(model, tmp_path, precision="int8")


@pytest.mark.parametrize("form", ["onnx", "litert"])
def test_other_runtimes_are_refused(tmp_path, form):
    with pytest.raises(ExportError, match="must be \"float32\" or None. Received 'int8'"):
        export_portable(series_model(), tmp_path, form, precision="int8")


def test_a_server_without_onednn_refuses_the_version_by_name(tmp_path, unchecked, monkeypatch):
    path = export_saved_model(series_model(), tmp_path, precision="int8", labels=["a", "b", "c"])
    monkeypatch.setattr(loader, "runs_onednn", lambda: False)
    with pytest.raises(FailedPreconditionError, match="TF_ENABLE_ONEDNN_OPTS=1 .* another --precision"):
        loader.Loader(ServerConfig("series", tmp_path)).load("series", 1, path)


@pytest.mark.process
@pytest.mark.slow
def test_without_onednn_export_and_server_say_what_to_set(tmp_path, unchecked):
    """In fresh processes: the setting counts when TensorFlow is imported."""
    path = export_saved_model(series_model(), tmp_path, precision="int8", labels=["a", "b", "c"])
    off = os.environ | {"TF_ENABLE_ONEDNN_OPTS": "0"}
    program = (
        "import keras\nfrom keras_selfattn.export.precision import at_precision\n"
        "at_precision(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]), 'int8')"
    )
    command = [
        sys.executable,
        "-c",
        "from keras_selfattn.cli.main import main; main()",
        "serve",
        "--model_name=x",
        "--port=0",
        f"--model_base_path={path.parent}",
        "--load_retry_interval_micros=0",
        "--max_num_load_retries=0",
    ]
    for arguments in ([sys.executable, "-c", program], command):
        done = subprocess.run(arguments, env=off, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode
        assert "TF_ENABLE_ONEDNN_OPTS=1" in done.stdout + done.stderr, json.dumps(done.stderr[-2000:])
