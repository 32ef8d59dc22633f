"""Quantized models of raw rows: close to themselves, the same in a file and in an export."""

import keras
import numpy as np
import pytest
from test_classifier import LABELS, SMALL, TEXTS

from keras_selfattn import layers, models
from keras_selfattn.errors import ConfigError, DataError, ExportError, RunError
from keras_selfattn.export import export_portable, export_saved_model

TINY = {"width": 8, "num_layers": 1, "num_heads": 2}
RANDOM = np.random.default_rng(0)
SERIES = [RANDOM.normal(size=(20, 2)).astype("float32") for _ in LABELS]
NAMES = [["short" if len(word) < 4 else "long" for word in text.split()] for text in TEXTS]
MODELS = {
    "text": lambda: (models.TextClassifier({**SMALL.to_dict(), "wide": False}), TEXTS, LABELS),
    "tokens": lambda: (models.TokenClassifier(TINY), [text.split() for text in TEXTS], NAMES),
    "series": lambda: (models.SeriesClassifier({**TINY, "kernels": 0}), SERIES, LABELS),
    "regression": lambda: (models.SeriesRegressor(TINY), SERIES, RANDOM.normal(size=len(SERIES))),
    "images": lambda: (
        models.ImageClassifier(TINY),
        [RANDOM.integers(0, 255, (16, 16, 3)).astype("uint8") for _ in LABELS],
        LABELS,
    ),
    "answers": lambda: (
        models.SequenceToSequence({**TINY, "tokens": "characters"}),
        TEXTS,
        [text[::-1] for text in TEXTS],
    ),
}


def numbers(model, rows):
    if isinstance(model, models.SequenceToSequence):
        return np.concatenate(model.score_target(rows[:6], [text[::-1] for text in rows[:6]]))
    return np.concatenate([np.ravel(each) for each in model.predict(rows[:6], verbose=0)])


@pytest.mark.slow
@pytest.mark.usefixtures("eager_steps")
@pytest.mark.parametrize("kind", MODELS)
def test_a_quantized_model_is_close_to_itself_and_its_file_is_it(tmp_path, kind):
    model, rows, targets = MODELS[kind]()
    model.adapt(rows, targets)
    before = numbers(model, rows)
    model.quantize("int8")
    found = numbers(model, rows)
    assert 0 < np.abs(found - before).max() < 0.05
    assert "core/encoder/block_0/attention" in layers.quantized_parts(model)
    model.save(tmp_path / "model.keras")
    loaded = models.load(tmp_path / "model.keras")
    assert np.array_equal(numbers(loaded, rows), found)
    assert layers.quantized_parts(loaded).keys() == layers.quantized_parts(model).keys()


@pytest.mark.slow
@pytest.mark.usefixtures("eager_steps")
def test_what_is_left_is_trained_with_an_optimizer_for_it():
    model, rows, targets = MODELS["text"]()
    model.compile()
    model.fit(rows, targets, verbose=0)
    model.quantize("int8")
    before = [keras.ops.convert_to_numpy(weight) for weight in model.weights]
    model.fit(rows, targets, verbose=0)
    changed = {
        weight.name
        for weight, value in zip(model.weights, before, strict=True)
        if not np.array_equal(keras.ops.convert_to_numpy(weight), value)
    }
    assert {"output_bias", "gamma"} <= changed
    assert not any("kernel" in name for name in changed)


def test_no_model_begins_with_a_quantized_one(tmp_path):
    model = models.MaskedTokenModel(SMALL, vocabulary=["good", "bad", "film"])
    model.quantize("int8", filters="^attention$")
    model.save(tmp_path / "model.keras")
    with pytest.raises(
        RunError, match="model.keras is quantized, so no other model begins with it. Give the"
    ):
        models.TextClassifier(SMALL, start=tmp_path / "model.keras")


def quantized(**settings):
    model = models.TextClassifier(SMALL, vocabulary=["good", "bad"], labels=["+", "-"], **settings)
    model.quantize("int8")
    return model


def test_what_cannot_be_quantized_is_refused_before_anything_changes(tmp_path):
    model = models.TextClassifier(SMALL, vocabulary=["good", "bad"], labels=["+", "-"])
    with pytest.raises(ConfigError, match='`mode` must be "int8".*Received .int4'):
        model.quantize("int4")
    assert layers.quantized_parts(model) == {}
    with pytest.raises(ConfigError, match="quantized already, in . layers.*Load the file of the model"):
        quantized().quantize("int8")
    with pytest.raises(DataError, match="has not seen any rows"):
        models.TextClassifier(SMALL).quantize("int8")
    with pytest.raises(ExportError, match="`precision` is for models of floats.*Received 'int8-weights'"):
        export_saved_model(quantized(), "nowhere", precision="int8-weights")
    with pytest.raises(
        ExportError, match="quantized to int8, which other runtimes round differently. Export the"
    ):
        export_portable(quantized(), tmp_path / "none", "litert")
    assert not (tmp_path / "none").exists()


def test_shared_vectors_of_a_quantized_table_are_those_it_holds():
    model = models.MaskedTokenModel(SMALL.to_dict() | {}, vocabulary=["good", "bad", "film"])
    table = model.core.get_layer("embedding")
    before = keras.ops.convert_to_numpy(table.vectors)
    model.quantize("int8")
    found = keras.ops.convert_to_numpy(table.vectors)
    assert 0 < np.abs(found - before).max() < 0.01 * np.abs(before).max()


@pytest.mark.process
@pytest.mark.slow
def test_an_export_of_a_quantized_model_passes_its_check_and_holds_int8(tmp_path):
    import tensorflow as tf

    model = quantized()
    path = export_saved_model(model, tmp_path)
    wanted = model.predict(["a good film", "bad"], verbose=0)
    loaded = tf.saved_model.load(str(path))
    found = loaded.signatures["serving_default"](text=tf.constant(["a good film", "bad"]))
    np.testing.assert_allclose(found["probabilities"].numpy(), wanted, atol=1e-2)
    stored = tf.train.load_checkpoint(str(path / "variables" / "variables"))
    assert list(stored.get_variable_to_dtype_map().values()).count(tf.int8) >= 5
