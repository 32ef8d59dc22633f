"""The SavedModel of a text classifier: every signature answers as the model does, whatever the shape."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from keras_selfattn import export, layers, models
from keras_selfattn.errors import ExportError

TEXTS = ["good film", "", "a word or two that it never saw", "bad " * 100, "\x00 ☃"]

RELOAD = """
import json, sys
sys.modules["keras"] = None
import tensorflow as tf
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
answers = serve(text=tf.constant(json.loads(sys.argv[2])))
print(json.dumps({"probabilities": answers["probabilities"].numpy().tolist(),
                  "label": [label.decode() for label in answers["label"].numpy()],
                  "score": answers["score"].numpy().tolist()}))
assert not [name for name in sys.modules if name.startswith("keras_selfattn")]
"""


def strings(*rows):
    return tf.constant(rows, tf.string)


def example(**features):
    lists = {name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[v])) for name, v in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=lists)).SerializeToString()


@pytest.mark.process
def test_a_fresh_process_without_keras_answers_as_the_model_does(model, version):
    command = [sys.executable, "-c", RELOAD, str(version), json.dumps(TEXTS)]
    answer = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)
    wanted = model.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(answer["probabilities"], wanted, atol=1e-5)
    assert answer["label"] == [model.labels[i] for i in wanted.argmax(-1)]
    np.testing.assert_allclose(answer["score"], wanted.max(-1), atol=1e-5)


@pytest.mark.process
def test_the_signatures_have_names_dtypes_and_open_shapes(signatures):
    def described(specs):
        return {name: (spec.dtype.name, spec.shape.as_list()) for name, spec in specs.items()}

    answer = {
        "probabilities": ("float32", [None, 3]),
        "label": ("string", [None]),
        "score": ("float32", [None]),
    }
    found = {
        name: (described(s.structured_input_signature[1]), described(s.structured_outputs))
        for name, s in signatures.items()
    }
    assert found == {
        "serving_default": ({"text": ("string", [None])}, answer),
        "classify": (
            {"inputs": ("string", [None])},
            {"classes": ("string", [None, 3]), "scores": ("float32", [None, 3])},
        ),
        "tokens": ({"tokens": ("string", [None, None])}, answer),
        "explain": (
            {"text": ("string", [None])},
            {"tokens": ("string", [None, None]), "weights": ("float32", [None, 2, 3, None, None])},
        ),
    }


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "inputs", "shapes"),
    [
        ("serving_default", {"text": tf.constant([], tf.string)}, {"probabilities": (0, 3), "label": (0,)}),
        ("classify", {"inputs": tf.constant([], tf.string)}, {"classes": (0, 3), "scores": (0, 3)}),
        ("tokens", {"tokens": tf.zeros([0, 5], tf.string)}, {"probabilities": (0, 3)}),
        ("tokens", {"tokens": tf.zeros([2, 0], tf.string)}, {"probabilities": (2, 3)}),
        ("explain", {"text": tf.constant([], tf.string)}, {"tokens": (0, 0), "weights": (0, 2, 3, 0, 0)}),
        ("explain", {"text": strings("", "")}, {"tokens": (2, 0), "weights": (2, 2, 3, 0, 0)}),
    ],
)
def test_nothing_is_an_answerable_question(signatures, name, inputs, shapes):
    answer = signatures[name](**inputs)
    assert {key: tuple(answer[key].shape) for key in shapes} == shapes


@pytest.mark.slow
def test_classify_gives_every_class_its_score(model, signatures):
    rows = [example(text=text.encode()) for text in TEXTS]
    answer = signatures["classify"](inputs=tf.constant(rows))
    np.testing.assert_allclose(answer["scores"], model.predict(TEXTS, verbose=0), atol=1e-5)
    assert [[label.decode() for label in row] for row in answer["classes"].numpy()] == [model.labels] * 5


@pytest.mark.process
def test_an_example_without_the_feature_is_an_error_that_names_it(signatures):
    with pytest.raises(tf.errors.InvalidArgumentError, match="text .*is required but could not be found"):
        signatures["classify"](inputs=tf.constant([example(txt=b"good")]))


@pytest.mark.process
def test_tokens_answer_as_the_text_they_make_up(model, signatures):
    answer = signatures["tokens"](
        tokens=strings(["Good", "film", ""], ["a", "never-seen", "bad"], ["", "", ""])
    )
    # The second row's unknown word is one token to the caller, where the tokenizer would see three.
    wanted = model.core(np.array([[2, 4, 0], [5, 1, 3], [0, 0, 0]]))
    np.testing.assert_allclose(answer["probabilities"], wanted, atol=1e-6)
    assert answer["label"].numpy().tolist() == [model.labels[i].encode() for i in np.argmax(wanted, -1)]


@pytest.mark.slow
def test_tokens_beyond_the_cut_change_nothing(model, signatures):
    long = [["good"] * model.config.max_tokens + ["bad"] * 3]
    alone = signatures["tokens"](tokens=strings(*[row[: model.config.max_tokens] for row in long]))
    np.testing.assert_array_equal(
        signatures["tokens"](tokens=strings(*long))["probabilities"], alone["probabilities"]
    )


@pytest.mark.process
def test_explain_gives_the_weights_of_every_layer_and_head(model, signatures):
    answer = signatures["explain"](text=strings("good film", "a never seen bad film"))
    assert [[t.decode() for t in row] for row in answer["tokens"].numpy()] == [
        ["good", "film", "", "", ""],
        ["a", "never", "seen", "bad", "film"],
    ]
    weights = answer["weights"].numpy()
    core = model.core
    positions = keras.Model(core.inputs[0], core.get_layer("positions").output)
    ids = np.array([[2, 4, 0, 0, 0], [5, 1, 1, 3, 4]])
    _, wanted = core.get_layer("encoder")(positions(ids), mask=ids > 0, return_weights=True)
    wanted = np.stack(wanted, axis=1)
    np.testing.assert_allclose(weights[1], wanted[1], atol=1e-6)
    np.testing.assert_allclose(weights[0, :, :, :2], wanted[0, :, :, :2], atol=1e-6)
    np.testing.assert_allclose(weights[1].sum(-1), 1, atol=1e-5)
    assert (weights[0, :, :, 2:] == 0).all(), "queries of padding"
    assert (weights[0, ..., 2:] == 0).all(), "keys of padding"
    assert np.abs(weights[1, 0] - weights[1, 1]).max() > 0.01, "layers differ"


@pytest.mark.process
def test_explain_is_cut_where_its_weights_would_fill_the_memory(signatures):
    answer = signatures["explain"](text=strings("bad " * 600))
    assert answer["tokens"].shape == (1, 512)
    assert answer["weights"].shape == (1, 2, 3, 512, 512)


def test_explaining_leaves_the_model_as_it_was(model):
    encoder = model.core.get_layer("encoder")
    assert "call" not in vars(encoder)
    assert isinstance(encoder, layers.Encoder)


@pytest.mark.slow
def test_a_long_neighbour_changes_an_answer_by_no_more_than_rounding(signatures):
    texts = ["good film", "", "a bad one"]
    alone = signatures["serving_default"](text=tf.constant(texts))["probabilities"]
    among = signatures["serving_default"](text=tf.constant([*texts, "film " * 200_000]))["probabilities"]
    np.testing.assert_allclose(among[:3], alone, rtol=2e-5)


@pytest.mark.process
@pytest.mark.parametrize("tokens", ["words", "characters"])
def test_warmup_holds_a_text_of_each_length_by_itself(tokens, tmp_path, unchecked):
    config = models.TextConfig(tokens=tokens, width=8, num_layers=1, num_heads=2, ngram_buckets=64)
    model = models.TextClassifier(config, vocabulary=["e", " ", "g"], labels=["+", "-"])
    path = export.export_saved_model(model, tmp_path) / "assets.extra" / "tf_serving_warmup_requests"
    lengths = set()
    for record in tf.data.TFRecordDataset(str(path)):
        request = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
        texts = request.inputs["text"].string_val
        if request.model_spec.signature_name == "serving_default" and len(texts) == 1:
            lengths.add(int(model.tokenizer(tf.constant([texts[0]])).row_lengths()[0]))
    assert lengths >= set(range(1, 65))


@pytest.mark.slow
def test_warmup_holds_requests_of_several_sizes_for_every_signature_and_each_is_answered(version):
    path = str(version / "assets.extra" / "tf_serving_warmup_requests")
    logs = [prediction_log_pb2.PredictionLog.FromString(r.numpy()) for r in tf.data.TFRecordDataset(path)]
    assert len(logs) <= 1000, "TensorFlow Serving refuses more"
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        definitions = tf.compat.v1.saved_model.load(session, ["serve"], str(version)).signature_def
        sizes = {}
        for log in logs:
            kind = log.WhichOneof("log_type")
            request = getattr(log, kind).request
            name = request.model_spec.signature_name
            definition = definitions[name]
            if kind == "predict_log":
                inputs = {key: tf.make_ndarray(proto) for key, proto in request.inputs.items()}
            else:
                examples = request.input.example_list.examples
                inputs = {"inputs": np.array([e.SerializeToString() for e in examples], dtype=object)}
            feeds = {definition.inputs[key].name: value for key, value in inputs.items()}
            session.run({key: info.name for key, info in definition.outputs.items()}, feeds)
            sizes.setdefault((kind, name), []).append(len(next(iter(inputs.values()))))
    assert set(sizes) == {
        ("predict_log", "serving_default"),
        ("classify_log", "classify"),
        ("predict_log", "tokens"),
        ("predict_log", "explain"),
    }
    assert all(len(set(counts)) >= 3 for counts in sizes.values()), sizes


@pytest.mark.process
def test_a_model_of_several_labels_a_row_names_those_that_are_likely(tmp_path, unchecked):
    texts = ["good fast", "good slow", "bad fast", "bad slow"] * 12
    labels = [[word for word in ("good", "fast") if word in text] for text in texts]
    keras.utils.set_random_seed(0)
    model = models.TextClassifier(models.TextConfig(width=8, num_layers=1, num_heads=2, ngram_buckets=64))
    model.compile(keras.optimizers.Adam(0.02))
    model.fit(texts, labels, epochs=12, verbose=0)
    signatures = tf.saved_model.load(str(export.export_saved_model(model, tmp_path))).signatures
    answer = signatures["serving_default"](text=tf.constant(texts[:4]))
    np.testing.assert_allclose(answer["probabilities"], model.predict(texts[:4], verbose=0), atol=1e-5)
    assert answer["labels"].numpy().tolist() == [
        [b"fast", b"good"],
        [b"", b"good"],
        [b"fast", b""],
        [b"", b""],
    ]
    scores = signatures["classify"](inputs=strings(example(text=b"bad slow")))["scores"]
    assert (scores.numpy() < 0.5).all()
    card = json.loads((tmp_path / "1/assets.extra/model_card.json").read_text())
    assert card["task"] == "text-multi-label"
    with pytest.raises(ExportError, match="The task of this model is text-multi-label"):
        export.export_saved_model(model, tmp_path, evaluation=(texts, labels))


@pytest.mark.process
def test_a_model_of_one_label_that_a_row_bears_or_not_is_exported(tmp_path, unchecked):
    model = models.TextClassifier(
        models.TextConfig(width=8, num_layers=1, num_heads=2, ngram_buckets=64),
        vocabulary=["word"],
        labels=["spam"],
        multi_label=True,
    )
    kernel, bias = model.core.get_layer("logits").weights
    kernel.assign(np.zeros_like(kernel))
    for logit, label in ((2.0, b"spam"), (-2.0, b"")):
        bias.assign([logit])
        path = export.export_saved_model(model, tmp_path)
        answer = tf.saved_model.load(str(path)).signatures["serving_default"](text=tf.constant(["a", "b"]))
        np.testing.assert_allclose(answer["probabilities"], [[1 / (1 + np.exp(-logit))]] * 2, atol=1e-5)
        assert answer["labels"].numpy().tolist() == [[label]] * 2
        assert answer["label"].numpy().tolist() == [b"spam"] * 2


@pytest.mark.process
def test_learned_pieces_are_read_and_shown_by_the_graph(tmp_path, unchecked):
    config = models.TextConfig(
        tokens="pieces", width=8, num_layers=1, num_heads=2, ngram_buckets=64, wide=False
    )
    model = models.TextClassifier(config, vocabulary=["g o", "go o", "goo d", "Ġ f"], labels=["+", "-"])
    path = export.export_saved_model(model, tmp_path)
    signatures = tf.saved_model.load(str(path)).signatures
    assert {"serving_default", "explain"} <= set(signatures)
    assert "tokens" not in signatures
    answers = signatures["serving_default"](text=tf.constant(TEXTS))
    np.testing.assert_allclose(answers["probabilities"], model.predict(TEXTS, verbose=0), rtol=2e-5)
    shown = signatures["explain"](text=tf.constant(["good film"]))["tokens"].numpy()[0].tolist()
    assert b"".join(shown).decode() == "⟨s⟩good film⟨/s⟩"
    assert b" f" in shown
