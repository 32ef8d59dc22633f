"""The graph before a model of two texts: the ids of Python, and the answers of a SavedModel."""

import dataclasses
import json
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn import export, models
from keras_selfattn.export.signatures.raw_models import raw_front

CONFIG = models.TextConfig(width=8, num_layers=1, num_heads=2, ngram_buckets=64)
PAIRS = [("a good film", "it is good"), ("bad", "it is a film"), ("good", "")] * 4
ASKED = [("good film", "a film"), ("", "never seen ☃"), ("a " * 90, "good")]


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    made = models.TextClassifier(CONFIG)
    made.adapt(PAIRS, ["same", "other", "same"] * 4)
    return made


def columns(pairs):
    return {
        name: tf.constant([pair[place] for pair in pairs]) for place, name in enumerate(("text", "text_pair"))
    }


def test_the_graph_makes_the_ids_and_the_wide_logits_of_python(model):
    front = raw_front(model)
    graph = tf.function(front, input_signature=list(front.specs.values()), autograph=False)
    made = random.Random(0)
    pieces = ["good", "film", " ", "a", ".", "☃", "Ünknown", "日本", "\t"]
    pairs = [tuple("".join(made.choices(pieces, k=made.randrange(9))) for _ in range(2)) for _ in range(60)]
    ids, wide = graph(*columns(pairs).values())
    for row, wanted in zip(np.split(ids.values, ids.row_splits[1:-1]), model._features(pairs), strict=True):
        np.testing.assert_array_equal(row, wanted)
    np.testing.assert_allclose(wide, model._side_inputs(pairs, training=False), atol=1e-4)
    empty, _ = graph(tf.constant([], tf.string), tf.constant([], tf.string))
    assert empty.shape[0] == 0


def test_columns_of_unequal_lengths_are_refused_by_name(model):
    with pytest.raises(tf.errors.InvalidArgumentError, match="inputs text and text_pair differ in number"):
        raw_front(model)(tf.constant(["a", "b"]), tf.constant(["a"]))


@pytest.mark.process
def test_a_saved_model_of_pairs_answers_as_the_model(model, tmp_path):
    path = export.export_saved_model(model, tmp_path)
    signatures = tf.saved_model.load(str(path)).signatures
    inputs = signatures["serving_default"].structured_input_signature[1]
    assert {name: (spec.dtype, spec.shape.rank) for name, spec in inputs.items()} == {
        "text": (tf.string, 1),
        "text_pair": (tf.string, 1),
    }
    wanted = model.predict(ASKED, verbose=0)
    found = signatures["serving_default"](**columns(ASKED))
    np.testing.assert_allclose(found["probabilities"], wanted, atol=1e-5)
    of_bytes = tf.train.BytesList
    examples = [
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    name: tf.train.Feature(bytes_list=of_bytes(value=[text.encode()]))
                    for name, text in zip(("text", "text_pair"), pair, strict=True)
                }
            )
        ).SerializeToString()
        for pair in ASKED
    ]
    classified = signatures["classify"](inputs=tf.constant(examples))
    np.testing.assert_allclose(classified["scores"], wanted, atol=1e-5)
    explained = signatures["explain"](**columns(ASKED[:1]))
    assert [token.decode() for token in explained["tokens"].numpy()[0]] == model.explain(ASKED[:1])[0].tokens
    told = signatures["contributions"](**columns(PAIRS[:1]))
    kinds = set(told["kinds"].numpy()[0].tolist())
    assert {b"both", b"one", b"agreement"} <= kinds
    share = np.asarray(model.core.get_layer("mixture").shares)[1]
    whole = told["logits"].numpy()[0].sum(axis=0) + told["rest"].numpy()[0]
    np.testing.assert_allclose(whole, share * model._side_inputs(PAIRS[:1], training=False)[0], atol=1e-4)


@pytest.mark.process
def test_a_file_for_another_runtime_takes_ids_and_types(tmp_path):
    small = models.TextConfig(width=8, num_layers=1, num_heads=1, wide=False)
    settings = {"vocabulary": ["a", "good"], "labels": ["+", "-"], "text_pairs": True}
    made = models.TextClassifier(small, **settings)
    path = export.export_portable(made, tmp_path, "litert")
    card = json.loads((path / "assets.extra/model_card.json").read_text())
    assert sorted(card["signatures"]["serving_default"]["inputs"]) == ["ids", "types"]
    examples = json.loads((path / "tokenizer_examples.json").read_text())
    pairs = [(each["text"], each["text_pair"]) for each in examples]
    for row, each in zip(made._features(pairs), examples, strict=True):
        assert row.T.tolist() == [each["ids"], each["types"]]


@pytest.mark.slow
def test_of_a_symmetric_model_both_orders_have_one_answer_in_every_signature(tmp_path, unchecked):
    keras.utils.set_random_seed(0)
    made = models.TextClassifier(dataclasses.replace(CONFIG, symmetric=True))
    made.adapt(PAIRS, ["same", "other", "same"] * 4)
    signatures = tf.saved_model.load(str(export.export_saved_model(made, tmp_path))).signatures
    asked = [*PAIRS[:1], *ASKED]
    orders = [asked, [pair[::-1] for pair in asked]]
    answers = [signatures["serving_default"](**columns(each))["probabilities"] for each in orders]
    np.testing.assert_array_equal(*answers)
    np.testing.assert_allclose(answers[0], made.predict(asked, verbose=0), atol=1e-5)
    told = [signatures["contributions"](**columns(each)) for each in orders]
    for name in ("ngrams", "kinds", "logits", "rest"):
        np.testing.assert_array_equal(told[0][name], told[1][name])
    assert {b"either", b"both", b"one", b"agreement"} == {*told[0]["kinds"].numpy()[0].tolist()} - {b""}
    # The attention is that of the given order, of each row.
    explained = signatures["explain"](**columns(ASKED[:2]))
    assert explained["weights"].shape[0] == 2
    for row, wanted in enumerate(made.explain(ASKED[:2])):
        count = len(wanted.tokens)
        assert [token.decode() for token in explained["tokens"].numpy()[row]][:count] == wanted.tokens
        np.testing.assert_allclose(explained["weights"][row, ..., :count, :count], wanted.weights, atol=1e-5)


@pytest.mark.process
def test_a_file_of_a_symmetric_model_takes_both_orders(tmp_path):
    small = models.TextConfig(width=8, num_layers=1, num_heads=1, wide=False, symmetric=True)
    made = models.TextClassifier(small, vocabulary=["a", "good"], labels=["+", "-"], text_pairs=True)
    path = export.export_portable(made, tmp_path, "litert")
    card = json.loads((path / "assets.extra/model_card.json").read_text())
    names = ["ids", "types", "other_ids", "other_types"]
    assert sorted(card["signatures"]["serving_default"]["inputs"]) == sorted(names)
    assert card["config"]["symmetric"] is True
    examples = json.loads((path / "tokenizer_examples.json").read_text())
    pairs = [(each["text"], each["text_pair"]) for each in examples]
    for row, each in zip(made._features(pairs), examples, strict=True):
        assert row.T.tolist() == [each[name] for name in names]
