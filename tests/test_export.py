"""SavedModels: stock ops, the model's own answers in a process without Keras, whole or not at all."""

import json
import subprocess
import sys
from collections import Counter

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_selfattn import models
from keras_selfattn.errors import ExportError
from keras_selfattn.export import export_saved_model, latest_version, list_versions, saved_model

CONFIG = models.TextConfig(width=12, num_layers=2, num_heads=3, ngram_buckets=64, max_ngram=3, dropout=0.5)
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


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    made = models.TextClassifier(CONFIG, vocabulary=["good", "bad", "film", "a"], labels=["+", "-", "ü"])
    random = np.random.default_rng(0)
    made.core.set_weights([random.normal(size=w.shape) * 0.3 for w in made.core.weights])
    return made


@pytest.fixture(scope="module")
def version(model, tmp_path_factory):
    return export_saved_model(model, tmp_path_factory.mktemp("base"))


def test_a_fresh_process_without_keras_answers_as_the_model_does(model, version):
    command = [sys.executable, "-c", RELOAD, str(version), json.dumps(TEXTS)]
    answer = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)
    wanted = model.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(answer["probabilities"], wanted, atol=1e-5)
    assert answer["label"] == [model.labels[i] for i in wanted.argmax(-1)]
    np.testing.assert_allclose(answer["score"], wanted.max(-1), atol=1e-5)


def test_the_signature_is_raw_text_in_and_names_out(version):
    signature = tf.saved_model.load(str(version)).signatures["serving_default"]
    (spec,) = signature.structured_input_signature[1].values()
    assert (spec.name, spec.dtype, spec.shape.as_list()) == ("text", tf.string, [None])
    shapes = {name: (s.dtype, s.shape.as_list()) for name, s in signature.structured_outputs.items()}
    assert shapes == {
        "probabilities": (tf.float32, [None, 3]),
        "label": (tf.string, [None]),
        "score": (tf.float32, [None]),
    }


def test_an_empty_batch_is_answered(version):
    signature = tf.saved_model.load(str(version)).signatures["serving_default"]
    assert signature(text=tf.constant([], tf.string))["probabilities"].shape == (0, 3)


def test_no_random_number_and_no_gradient_is_left_in_the_graph(version):
    proto = saved_model_pb2.SavedModel.FromString((version / "saved_model.pb").read_bytes())
    graph = proto.meta_graphs[0].graph_def
    ops = Counter(node.op for node in graph.node)
    for function in graph.library.function:
        ops.update(node.op for node in function.node_def)
    # Of two layers, each for few tokens and for many, and of the head.
    assert ops["Softmax"] == 2 * 2 + 1, "the graph is the one looked at"
    # StopGradient is the identity where nothing is trained; the moments of a normalisation hold one.
    parts = ("Random", "Dropout", "Grad", "PyFunc")
    forbidden = [op for op in ops if any(part in op for part in parts) and op != "StopGradient"]
    assert forbidden == []


def test_versions_count_up_and_a_given_one_is_never_replaced(model, tmp_path, monkeypatch):
    monkeypatch.setattr(saved_model, "_check_answers", lambda *_: None)  # that one is tested above
    base = tmp_path / "deep" / "base"
    assert export_saved_model(model, base).name == "1"
    assert export_saved_model(model, base, version=7).name == "7"
    assert export_saved_model(model, base).name == "8"
    with pytest.raises(ExportError, match="has a version 7 already"):
        export_saved_model(model, base, version=7)
    assert list_versions(base) == [1, 7, 8]
    assert latest_version(base) == 8
    assert sorted(path.name for path in base.iterdir()) == ["1", "7", "8"]


def test_a_version_that_another_export_took_meanwhile_is_passed_over(model, tmp_path, monkeypatch):
    def other_export(*_):
        (tmp_path / "1" / "variables").mkdir(parents=True)

    monkeypatch.setattr(saved_model, "_check_answers", other_export)
    assert export_saved_model(model, tmp_path).name == "2"


def test_a_graph_that_answers_differently_is_refused_and_nothing_is_left(model, tmp_path, monkeypatch):
    class Wrong(saved_model.TextModule):
        def __init__(self, given):
            other = models.TextClassifier(
                CONFIG, vocabulary=["good", "bad", "film", "a"], labels=["+", "-", "ü"]
            )
            super().__init__(other)

    monkeypatch.setattr(saved_model, "TextModule", Wrong)
    with pytest.raises(ExportError, match="failed its check, nothing was written: probabilities differ"):
        export_saved_model(model, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_checking_leaves_nothing(model, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(saved_model, "_check_answers", interrupt)
    with pytest.raises(KeyboardInterrupt):
        export_saved_model(model, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_weights_that_are_not_finite_are_refused(tmp_path):
    broken = models.TextClassifier(CONFIG, vocabulary=["good"], labels=["+", "-"])
    weights = broken.core.get_weights()
    weights[3].flat[0] = np.nan
    broken.core.set_weights(weights)
    with pytest.raises(ExportError, match="is not finite everywhere"):
        export_saved_model(broken, tmp_path)


@pytest.mark.parametrize("version", [0, -1, "1", True, 1.0, 2**63])
def test_a_bad_version_is_named(model, tmp_path, version):
    with pytest.raises(ExportError, match=f"positive integer below .* Received {version!r}"):
        export_saved_model(model, tmp_path, version)


def test_a_base_path_that_is_a_file_or_below_one_is_refused(model, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ExportError, match="is a file; choose another name"):
        export_saved_model(model, tmp_path / "file")
    with pytest.raises(ExportError, match="cannot be written"):
        export_saved_model(model, tmp_path / "file" / "base")


def test_a_path_that_tensorflow_cannot_load_from_is_refused(model, tmp_path):
    with pytest.raises(ExportError, match="must hold no brackets"):
        export_saved_model(model, tmp_path / "a[b]")


def test_files_and_padded_numbers_are_no_versions_but_never_overwritten(model, tmp_path, monkeypatch):
    monkeypatch.setattr(saved_model, "_check_answers", lambda *_: None)
    (tmp_path / "3").touch()
    (tmp_path / "0005").mkdir()
    (tmp_path / "2").mkdir()
    assert list_versions(tmp_path) == [2]
    assert export_saved_model(model, tmp_path).name == "6"


def test_a_half_precision_model_passes_its_check(tmp_path):
    half = models.TextClassifier(CONFIG, vocabulary=["good"], labels=["+", "-"], dtype="mixed_float16")
    assert export_saved_model(half, tmp_path).name == "1"


def test_another_kind_of_model_is_refused(tmp_path):
    with pytest.raises(ExportError, match="must be a TextClassifier. Received Sequential"):
        export_saved_model(keras.Sequential(), tmp_path)
