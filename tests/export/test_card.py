"""The card beside a SavedModel: its schema, sources and examples."""

import base64
import dataclasses
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import tensorflow as tf
from film_model import CONFIG, TRAINING, make_model

from keras_selfattn import models
from keras_selfattn.errors import ExportError
from keras_selfattn.export import export_saved_model, read_card
from keras_selfattn.export.signatures.answers import Classification, Labelling, Numbers
from keras_selfattn.models.classifier import Classifier
from keras_selfattn.models.heads.class_heads import ClassHead, MultiLabelHead
from keras_selfattn.models.pretrained.text_encoder import VectorHead
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.models.text.text_model import TextModel
from keras_selfattn.rows.text_pairs import TEXT_PAIRS
from keras_selfattn.rows.texts import TEXTS

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs" / "model-card.schema.json").read_text(encoding="utf-8")
)
SMALL = {"width": 8, "num_layers": 1, "num_heads": 1}


def token_model():
    made = models.TokenClassifier(SMALL | {"hash_buckets": 64})
    made.adapt([["one"], ["two"]] * 2, [["a"], ["b"]] * 2)
    return made


def series_model():
    made = models.SeriesClassifier(SMALL | {"kernels": 0})
    made.adapt([np.arange(4.0), np.ones(3)] * 2, ["a", "b"] * 2)
    return made


def image_model():
    made = models.ImageClassifier(SMALL)
    pixels = np.zeros((4, 2, 2), "uint8")
    pixels[::2] = 200
    made.adapt(list(pixels), ["a", "b"] * 2)
    return made


@pytest.mark.slow
def test_the_card_is_what_its_schema_says(version):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(read_card(version), SCHEMA)


def _tasks_of(kind):
    """The tasks that a class of models has in the card: its kind of rows, and those of its heads."""
    if issubclass(kind, Classifier):
        heads = (ClassHead, MultiLabelHead)
    elif kind is models.TextEncoder:  # it is not trained, and makes its head itself
        heads = (VectorHead,)
    elif kind is models.TextRegressor:  # its settings decide; the task is the same
        heads = (models.TextRegressor().head_type([]),)
    else:
        heads = (kind.head_type(None, []),)
    # The first rows of a model of texts decide if they are two.
    rows = (TEXTS, TEXT_PAIRS) if issubclass(kind, TextModel) else (kind.row_kind,)
    return {f"{each.subject}-{head.task}" for each in rows for head in heads}


def test_the_schema_knows_each_task_that_an_export_can_write():
    public = [getattr(models, name) for name in models.__all__]
    raw = [each for each in public if isinstance(each, type) and issubclass(each, RawModel)]
    exported = [each for each in raw if each is not models.MaskedTokenModel]  # which export refuses
    written = {task for kind in exported for task in _tasks_of(kind)}
    assert {"text-multi-label", "token-labelling", "series-regression", "text-embedding"} <= written
    plain = {
        each.task for each in (Classification, Labelling, Numbers)
    }  # of models that are not this library's
    assert sorted(SCHEMA["properties"]["task"]["enum"]) == sorted(written | plain)


@pytest.mark.process
def test_the_schema_refuses_what_is_no_card(version):
    for broken in ({"task": "poetry"}, {"files": {"bytes": 1, "digest": "md5:0"}}, {"novel": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**read_card(version), **broken}, SCHEMA)


@pytest.mark.process
def test_the_card_is_written_for_people_with_short_lines_and_lists_on_one(version):
    lines = (version / "assets.extra" / "model_card.json").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "{"
    assert lines[1].startswith('  "')
    assert any(line.strip().startswith('"labels": ["') and line.endswith("],") for line in lines)


@pytest.mark.process
def test_the_card_tells_where_the_model_comes_from(model, version):
    card = read_card(version)
    assert card["task"] == "text-classification"
    assert card["labels"] == model.labels
    assert card["vocabulary_size"] == 6
    assert card["config"] == CONFIG.to_dict()
    assert card["training"] == {"data": TRAINING.data, "settings": TRAINING.settings}
    assert card["metrics"] == TRAINING.metrics
    assert card["requires"]["tensorflow_serving"] == ">=2.16"
    assert "Softmax" in card["requires"]["operations"]
    assert card["measured"]["request_ms"] > 0
    assert card["versions"]["tensorflow"] == tf.__version__


@pytest.mark.slow
def test_the_examples_of_the_card_are_answered_as_it_says(version):
    loaded = tf.saved_model.load(str(version))
    for name, signature in read_card(version)["signatures"].items():
        example = signature["example"]
        inputs = {key: tf.constant(value) for key, value in example["request"].items()}
        answer = loaded.signatures[name](**inputs)
        assert len(example["answer"]) >= 2
        for key, wanted in example["answer"].items():
            found = answer[key].numpy()
            if found.dtype == object:
                assert [[v.decode() for v in np.ravel(found)]] == [np.ravel(wanted).tolist()]
            else:
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.process
@pytest.mark.parametrize(
    ("make", "row", "request_of"),
    [
        (lambda: make_model(), "a good film", {"text": ["a good film"]}),
        (token_model, ["one", "two"], {"tokens": [["one", "two"]]}),
        (series_model, [[1.0], [None], [3.0]], {"values": [[[1.0], ["nan"], [3.0]]]}),
        (image_model, [[0, 9], [8, 7]], {"image": [[[[0.0], [9.0]], [[8.0], [7.0]]]]}),
    ],
)
def test_the_example_is_the_row_of_the_data_that_is_given(make, row, request_of, tmp_path, unchecked):
    training = dataclasses.replace(TRAINING, example=row)
    card = read_card(export_saved_model(make(), tmp_path / "base", training=training))
    jsonschema.validate(card, SCHEMA)
    examples = {name: signature["example"] for name, signature in card["signatures"].items()}
    assert examples["serving_default"]["request"] == request_of
    assert examples["explain"]["request"] == request_of
    assert not any(example["made_up"] for example in examples.values())
    if "tokens" in examples:
        assert examples["tokens"]["request"] == {"tokens": [["a", "good", "film"]]}
    if "encoded" in examples:
        file = base64.b64decode(examples["encoded"]["request"]["encoded"][0]["b64"])
        assert tf.io.decode_png(file).numpy()[..., 0].tolist() == row


@pytest.mark.process
def test_an_example_of_no_data_is_said_to_be_made_up(version, tmp_path, unchecked):
    card = read_card(version)
    assert all(signature["example"]["made_up"] for signature in card["signatures"].values())
    samples = {"text": ["good film", "bad"]}
    card = read_card(export_saved_model(make_model(), tmp_path / "base", samples=samples))
    assert not card["signatures"]["tokens"]["example"]["made_up"]
    assert card["signatures"]["tokens"]["example"]["request"] == {"tokens": [["good", "film"]]}


def test_an_example_that_is_no_row_of_the_model_is_refused(tmp_path):
    training = dataclasses.replace(TRAINING, example=[["a", "b"]])
    with pytest.raises(ExportError, match="The example of the training is not a row for the model"):
        export_saved_model(image_model(), tmp_path / "base", training=training)
    assert not (tmp_path / "base").exists()
