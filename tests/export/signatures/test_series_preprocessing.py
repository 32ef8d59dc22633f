"""The SavedModel of models of series: padded frames in, the model's own answers out."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.errors import ExportError
from keras_selfattn.export import export_saved_model
from keras_selfattn.models.batches.length_sorted import padded

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2, "max_positions": 4}
NAN = float("nan")


def made_up(rows, features=2):
    random = np.random.default_rng(1)
    lengths = random.integers(1, 12, rows)
    return [(100 + 9 * random.normal(size=(length, features))).astype("float32") for length in lengths]


def fitted(model, targets):
    keras.utils.set_random_seed(0)
    model.compile(keras.optimizers.Adam(0.05))
    model.fit(made_up(len(targets)), targets, epochs=2, verbose=0)
    return model


@pytest.fixture(scope="module")
def classifier():
    return fitted(models.SeriesClassifier({**SMALL, "kernels": 30}), ["a", "b", "ü"] * 8)


@pytest.fixture(scope="module")
def exported(classifier, tmp_path_factory):
    path = export_saved_model(classifier, tmp_path_factory.mktemp("base") / "series")
    return tf.saved_model.load(str(path))  # checked in a fresh process without Keras


def example(row):
    values = tf.train.Feature(float_list=tf.train.FloatList(value=row.reshape(-1)))
    return tf.train.Example(features=tf.train.Features(feature={"values": values})).SerializeToString()


@pytest.mark.process
def test_the_answers_are_the_models_whatever_is_missing(classifier, exported):
    rows = made_up(9)
    rows[2][0, 1] = NAN
    rows[3] = np.zeros((0, 2), "float32")
    wanted = classifier.predict(rows, verbose=0)
    answer = exported.signatures["serving_default"](values=padded(rows))
    np.testing.assert_allclose(answer["probabilities"], wanted, atol=1e-5)
    assert [label.decode() for label in answer["label"].numpy()] == [
        classifier.labels[place] for place in wanted.argmax(-1)
    ]


@pytest.mark.process
@pytest.mark.parametrize("shape", [(0, 5, 2), (2, 0, 2), (0, 0, 2), (1, 1, 2), (2, 300, 2)])
def test_every_batch_and_length_is_answered(exported, shape):
    for values in (
        np.zeros(shape, "float32"),
        np.full(shape, NAN, "float32"),
        np.full(shape, np.inf, "float32"),
    ):
        found = exported.signatures["serving_default"](values=values)["probabilities"]
        assert found.shape == (shape[0], 3)
        assert np.isfinite(found).all()


@pytest.mark.process
def test_examples_of_different_lengths_are_padded_as_the_model_wants(classifier, exported):
    rows = made_up(6)
    answer = exported.signatures["classify"](inputs=tf.constant([example(row) for row in rows]))
    np.testing.assert_allclose(answer["scores"], classifier.predict(rows, verbose=0), atol=1e-5)


@pytest.mark.process
def test_explain_gives_weights_between_positions(classifier, exported):
    rows = padded(made_up(5))
    weights = exported.signatures["explain"](values=rows)["weights"].numpy()
    positions = -(-rows.shape[1] // classifier.stride)
    assert weights.shape == (5, 1, 2, positions, positions)
    np.testing.assert_allclose(weights[:, :, :, 0].sum(-1), 1, atol=1e-5)


@pytest.mark.process
def test_explain_says_which_frames_each_position_averages(classifier, exported):
    assert classifier.stride == 3
    values = np.zeros((3, 7, 2), "float32")
    values[0, 2] = NAN  # missing
    values[1, 4:] = NAN  # padding
    values[2] = NAN
    found = exported.signatures["explain"](values=values)["frames"].numpy()
    assert found.tolist() == [[[0, 3], [3, 6], [6, 7]], [[0, 3], [3, 4], [4, 4]], [[0, 0], [0, 0], [0, 0]]]


@pytest.mark.process
def test_a_regressor_has_the_signature_regress(unchecked, tmp_path):
    model = fitted(models.SeriesRegressor(SMALL), np.arange(12.0) * 1000)
    loaded = tf.saved_model.load(str(export_saved_model(model, tmp_path / "number")))
    rows = made_up(4)
    wanted = model.predict(rows, verbose=0)
    found = loaded.signatures["serving_default"](values=padded(rows))["predictions"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    found = loaded.signatures["regress"](inputs=tf.constant([example(row) for row in rows]))["outputs"]
    np.testing.assert_allclose(found, wanted[:, 0], rtol=1e-5)
    with pytest.raises(ExportError, match="Accuracy is measured of classifiers"):
        export_saved_model(model, tmp_path / "number", evaluation=(rows, wanted[:, 0]))


@pytest.mark.process
def test_a_forecaster_answers_its_horizon(unchecked, tmp_path):
    model = fitted(models.SeriesForecaster({**SMALL, "season": 2}), np.zeros((12, 3)))
    loaded = tf.saved_model.load(str(export_saved_model(model, tmp_path / "next")))
    rows = made_up(4)
    found = loaded.signatures["serving_default"](values=padded(rows))["predictions"]
    np.testing.assert_allclose(found, model.predict(rows, verbose=0), rtol=1e-5)
    assert "regress" not in loaded.signatures, "there are three numbers"


@pytest.mark.process
def test_precisions_are_compared_on_rows_of_any_lengths(classifier, unchecked, tmp_path):
    seen = []
    rows, labels = made_up(12), ["a", "b", "ü"] * 4
    for precision in ("int8-weights", "bfloat16"):
        export_saved_model(
            classifier, tmp_path, precision=precision, evaluation=(rows, labels), report=seen.append
        )
    assert [(each.rows, each.after.precision) for each in seen] == [(12, "int8-weights"), (12, "bfloat16")]
