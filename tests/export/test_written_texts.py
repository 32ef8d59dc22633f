"""A SavedModel that writes texts: checked, described, and asked where nothing but TensorFlow is."""

import json
import subprocess
import sys

import jsonschema
import keras
import pytest

from keras_selfattn import models
from keras_selfattn.export import Training, export_saved_model, inspect_saved_model, read_card
from keras_selfattn.layers.tensorflow.int8_products import runs_int8_products

ASKED = ["a b c", "", "c a", "b " * 40, "a ☃"]
# What a server has: no Keras, and none of our modules.
_ALONE = """
import json, sys
sys.modules.update(dict.fromkeys(("keras", "keras_selfattn")))
import tensorflow as tf
loaded = tf.saved_model.load(sys.argv[1])
found = loaded.signatures["serving_default"](text=tf.constant(json.loads(sys.argv[2])))
texts = [text.decode() for text in found["text"].numpy()]
print(json.dumps([texts, found["score"].numpy().tolist(), found["ended"].numpy().tolist()]))
"""


def made(**settings):
    keras.utils.set_random_seed(0)
    small = {"width": 8, "num_layers": 1, "decoder_layers": 1, "num_heads": 2, "min_count": 1}
    bounds = {"max_new_tokens": 7, "max_tokens": 30, "tokens": "words"}
    model = models.SequenceToSequence({**small, **bounds, **settings})
    model.adapt(["a b c", "c b", "b a"] * 4, ["x y z", "z y", "y x"] * 4)
    return model


@pytest.mark.process
def test_a_fresh_process_without_keras_has_the_answers_of_generate(tmp_path, schema):
    model = made(beams=2)
    training = Training({"train": {"source": "pairs.csv", "rows": 12}}, {"split": "test"}, {}, "c b a")
    path = export_saved_model(model, tmp_path, training=training)
    command = [sys.executable, "-c", _ALONE, str(path), json.dumps(ASKED)]
    done = subprocess.run(command, capture_output=True, check=True, timeout=300)
    texts, scores, ended = json.loads(done.stdout.decode().splitlines()[-1])
    wanted = model.generate(ASKED)
    assert texts == [answer.text for answer in wanted]
    assert scores == pytest.approx([answer.score for answer in wanted], abs=1e-5)
    assert ended == [answer.ended for answer in wanted]
    check_card(read_card(path), model, schema)
    inspected = inspect_saved_model(tmp_path)
    assert inspected.intact
    assert {"serving_default", "generate", "score_target", "explain"} == set(inspected.signatures)
    assert inspected.signatures["serving_default"].outputs["candidates"].shape == (None, 2)


def check_card(card, model, schema):
    """The card is what the schema says, and tells the bounds of the search."""
    jsonschema.validate(card, schema)
    assert (card["task"], card["labels"], card["vocabulary_size"]) == (
        "text-to-text",
        None,
        model.symbols.size,
    )
    decoding = dict(card["decoding"])
    # Keys and values of 7 symbols of two candidates, and of 30 of the source.
    assert decoding.pop("row_bytes") >= (2 * 7 + 30) * 2 * 8 * 4
    assert decoding.pop("beam_bytes") >= 7 * 2 * 8 * 4
    assert decoding == {
        "symbols": "words",
        "max_tokens": 30,
        "max_new_tokens": 7,
        "beams": 2,
        "length_penalty": 1.0,
        "normalization": None,
    }
    example = card["signatures"]["serving_default"]["example"]
    (answer,) = model.generate(["c b a"])
    assert (example["request"], example["answer"]["text"]) == ({"text": ["c b a"]}, [answer.text])


@pytest.mark.process
@pytest.mark.filterwarnings(r"ignore:`precision=\"int8\"` makes a model smaller, but not faster")
@pytest.mark.parametrize(
    "precision",
    [
        "bfloat16",
        "int8-weights",
        pytest.param("int8", marks=pytest.mark.skipif(not runs_int8_products(), reason="no oneDNN here")),
    ],
)
def test_narrower_exports_pass_the_check(tmp_path, precision):
    path = export_saved_model(made(), tmp_path, precision=precision)
    assert read_card(path)["precision"] == precision


@pytest.mark.process
def test_a_quantized_model_passes_the_check(tmp_path):
    model = made(beams=3)
    model.quantize("int8")
    assert export_saved_model(model, tmp_path).name == "1"
