"""Files for ONNX Runtime and LiteRT give the model's answers to raw rows, read with the files beside them."""

import json
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from tokenizers import Tokenizer

from keras_selfattn import data, layers, models
from keras_selfattn.errors import ExportError
from keras_selfattn.export import export_portable, read_card

sys.path.insert(0, str(Path(__file__).parents[2]))
from pretrained_folders import MPNET, write_folder

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
SMALL = {"width": 8, "num_layers": 1, "num_heads": 2}
TEXTS = ["Good film!", "a bad film, a bore", "it's", "ΣΑΣ 日本"]
WITH_PADDING = [*TEXTS, "<pad> a good <pad> film", "<pad>"]
TOKENS = [["A", "good", "film"], ["Bores", "1999"], ["x"]]


def perturbed(model):
    """The model with weights that tell rows apart, and a temperature as calibration sets it."""
    random = np.random.default_rng(0)
    for weight in model.core.weights:
        values = np.asarray(weight)
        if values.dtype.kind == "f":
            weight.assign(values + 0.3 * random.normal(size=values.shape))
    for layer in model.core.layers:
        if hasattr(layer, "temperature"):
            layer.temperature.assign(1.7)
    return model


def text_model(_folder):
    config = models.TextConfig(**SMALL, wide=False, ngram_buckets=64, max_ngram=3, members=2)
    labels = {"labels": ["+", "-", "ü"], "multi_label": True}
    return perturbed(models.TextClassifier(config, vocabulary=["good", "bad", "film", ",", "a"], **labels))


def token_model(_folder):
    config = {**SMALL, "hash_buckets": 64}
    labels = {"labels": ["B-X", "I-X", "O"], "spans": True}
    return perturbed(models.TokenClassifier(config, vocabulary=["good", "film"], **labels))


def series_model(_folder):
    config = {**SMALL, "kernels": 50, "max_positions": 8}
    return perturbed(models.SeriesClassifier(config, num_features=2, longest=20, labels=["a", "b", "c"]))


def image_model(_folder):
    return perturbed(models.ImageClassifier(SMALL, image_shape=(8, 9, 3), labels=["a", "b"]))


def sound_model(_folder):
    config = {**SMALL, "channels": 4, "kernels": 50}
    learned = {"sample_rate": 8000, "longest": 100, "labels": ["a", "b", "c"]}
    return perturbed(models.AudioClassifier(config, **learned))


def pretrained_model(folder):
    """Its positions count the tokens that are not padding."""
    return models.TextEncoder(start=write_folder(folder / "mpnet", MPNET))


def series_rows():
    random = np.random.default_rng(1)
    rows = [random.normal(size=(length, 2)).astype("float32") for length in (20, 3, 11)]
    rows[2][4, 0] = np.nan
    return rows


def image_rows():
    return list(np.random.default_rng(1).uniform(0, 255, (3, 8, 9, 3)).astype("float32"))


def sound_rows():
    """Recordings of 0.4, 12 and 10.01 s: one window of 10 s, and more."""
    random = np.random.default_rng(1)
    times = [np.arange(round(seconds * 8000)) / 8000 for seconds in (0.4, 12, 10.01)]
    tones = [np.sin(2 * np.pi * hertz * time) for hertz, time in zip((300, 900, 2500), times, strict=True)]
    return [(tone + 0.1 * random.normal(size=len(tone)), 8000) for tone in tones]


def padded(rows, value):
    longest = max(map(len, rows))
    found = np.full((len(rows), longest, *np.shape(rows[0])[1:]), value, np.asarray(rows[0]).dtype)
    for row, given in zip(found, rows, strict=True):
        row[: len(given)] = given
    return found


def ids_of(path, texts):
    """The ids by the package, and as docs/savedmodel.md says for padding that a text has."""
    rows = Tokenizer.from_file(str(path / "tokenizer.json")).encode_batch(texts)
    ids, real = (
        np.array([getattr(row, name) for row in rows], "int32") for name in ("ids", "attention_mask")
    )
    return np.where((ids == 0) & (real == 1), read_card(path)["vocabulary_size"], ids)


KINDS = {
    "texts": (text_model, TEXTS, lambda path, model: {"ids": ids_of(path, TEXTS)}),
    "pretrained texts": (
        pretrained_model,
        WITH_PADDING,
        lambda path, model: {"ids": ids_of(path, WITH_PADDING)},
    ),
    "tokens": (
        token_model,
        TOKENS,
        lambda path, model: {"features": padded([model.tokenizer(row).numpy() for row in TOKENS], 0)},
    ),
    "series": (series_model, series_rows(), lambda path, model: {"values": padded(series_rows(), np.nan)}),
    "images": (image_model, image_rows(), lambda path, model: {"image": np.stack(image_rows())}),
    "sound": (
        sound_model,
        sound_rows(),
        lambda path, model: {
            "frames_of_bands": padded([model.bank(samples) for samples, _ in sound_rows()], np.nan)
        },
    ),
}


def answer_of_onnx(file, inputs):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(file)
    (name,) = (output.name for output in session.get_outputs())
    return {name: session.run(None, inputs)[0]}


def answer_of_litert(file, inputs):
    import tensorflow as tf

    return tf.lite.Interpreter(str(file)).get_signature_runner()(**inputs)


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        *((kind, "onnx") for kind in KINDS),
        *((kind, "litert") for kind in ("texts", "pretrained texts", "series", "sound")),
    ],
)
def test_a_file_gives_the_model_s_answers(kind, form, tmp_path):
    if form == "onnx":
        pytest.importorskip("tf2onnx")
    make, rows, inputs_of = KINDS[kind]
    model = make(tmp_path)
    path = export_portable(model, tmp_path / "base", form)
    inputs = inputs_of(path, model)
    file = path / ("model.onnx" if form == "onnx" else "model.tflite")
    found = (answer_of_onnx if form == "onnx" else answer_of_litert)(file, inputs)
    (answers,) = found.values()
    wanted = model.predict(rows, verbose=0)
    assert set(found) == set(read_card(path)["signatures"]["serving_default"]["outputs"])
    for answer, row in zip(answers, wanted, strict=True):
        np.testing.assert_allclose(answer[: len(row)] if kind == "tokens" else answer, row, atol=1e-5)
        assert not answer[len(row) :].any() or kind != "tokens", "zeros at padding"
    assert np.ptp(np.concatenate([np.ravel(row) for row in wanted])) > 0.01, "rows are told apart"


@pytest.mark.parametrize("form", ["onnx", "litert"])
def test_a_file_of_a_model_of_graphs_gives_its_answers(form, tmp_path):
    if form == "onnx":
        pytest.importorskip("tf2onnx")
    random = np.random.default_rng(1)
    edges = [np.array([[0, 1], [1, 2], [0, 2], [2, 3]]), np.array([[0, 1]]), np.zeros((0, 2), int)]
    graphs = [
        data.Graph(random.normal(size=(size, 3)).astype("float32"), pairs, np.arange(len(pairs)) % 2 + 1)
        for size, pairs in zip((5, 2, 1), edges, strict=True)
    ]
    inputs = data.GraphRows(graphs).arrays()
    model = graph_model()
    path = export_portable(model, tmp_path, form, labels=["chain", "ring"])
    file = path / ("model.onnx" if form == "onnx" else "model.tflite")
    found = (answer_of_onnx if form == "onnx" else answer_of_litert)(file, inputs)["probabilities"]
    np.testing.assert_allclose(found, model.predict(inputs, verbose=0), atol=1e-5)
    assert np.ptp(found[:, 0]) > 0.01, "graphs are told apart"


def graph_model():
    """The model of docs/graphs.md, with weights that tell distances apart."""
    nodes = keras.Input((None, 3), name="nodes")
    distances = keras.Input((None, None), dtype="int32", name="distances")
    lengths = keras.Input((), dtype="int32", name="lengths")
    encoder = layers.Encoder(2, num_heads=2, position=layers.DistanceBias(max_distance=4, edge_kinds=2))
    x = encoder(keras.layers.Dense(8)(nodes), valid_lens=lengths, distances=distances)
    outputs = keras.layers.Dense(2, activation="softmax")(layers.AveragePooling()(x, valid_lens=lengths))
    model = keras.Model({"nodes": nodes, "distances": distances, "lengths": lengths}, outputs)
    random = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(np.asarray(weight) + 0.3 * random.normal(size=weight.shape))
    return model


class Stepwise(keras.layers.Layer):
    """A loop over the frames of a batch, of sizes that are not known."""

    def call(self, inputs):
        return keras.ops.map(lambda frame: keras.ops.matmul(frame, keras.ops.transpose(frame)), inputs)


def test_the_operations_that_a_runtime_lacks_are_named(tmp_path):
    values = keras.Input((None, 3), name="values")
    with pytest.raises(ExportError, match="LiteRT has no counterpart of TensorListReserve"):
        export_portable(keras.Model(values, Stepwise()(values)), tmp_path / "base", "litert")
    assert not (tmp_path / "base").exists()


def test_an_onnx_file_names_its_axes_and_its_labels(tmp_path):
    pytest.importorskip("tf2onnx")
    onnx = pytest.importorskip("onnx")
    values = keras.Input((None, 3), name="values")
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.Dense(4, "gelu")(values))
    model = keras.Model(values, keras.layers.Dense(2, activation="softmax")(x))
    path = export_portable(model, tmp_path, "onnx", labels=["rest", "walk"])
    proto = onnx.load(path / "model.onnx")
    axes = [size.dim_param or size.dim_value for size in proto.graph.input[0].type.tensor_type.shape.dim]
    assert (proto.graph.input[0].name, axes) == ("values", ["batch", "length", 3])
    properties = {each.key: each.value for each in proto.metadata_props}
    assert json.loads(properties["labels"]) == ["rest", "walk"]
