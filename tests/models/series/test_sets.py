"""Rows that are sets: no answer of a model with `positions=False` depends on the order of the frames."""

import numpy as np
import pytest

from export import export_saved_model
from keras_selfattn import models
from keras_selfattn.errors import ConfigError

SMALL = {"width": 16, "num_layers": 1, "num_heads": 2, "positions": False}


def points(rows=200, seed=0):
    """Sets of points in the plane; the label says whether most of them lie on the right."""
    random = np.random.default_rng(seed)
    sets = [random.normal(size=(int(random.integers(3, 16)), 2)).astype("float32") for _ in range(rows)]
    return sets, ["right" if np.median(each[:, 0]) > 0 else "left" for each in sets]


def trained(kind, sets, targets, epochs=1):
    model = kind(SMALL)
    model.compile()
    model.fit(sets, targets, epochs=epochs, batch_size=32, verbose=0)
    return model


@pytest.fixture(scope="module")
def classifier():
    return trained(models.SeriesClassifier, *points())


@pytest.fixture(scope="module")
def regressor():
    sets, _ = points()
    return trained(models.SeriesRegressor, sets, [float(each[:, 1].max()) for each in sets])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_the_order_of_the_frames_changes_no_answer(kind, seed, request):
    model, random = request.getfixturevalue(kind), np.random.default_rng(seed)
    sets, _ = points(20, seed=seed + 1)
    sets[0][1, 0] = np.nan  # a value is missing, and a whole frame
    sets[1][1] = np.nan
    before = model.predict(sets, verbose=0)
    permuted = model.predict([random.permutation(each) for each in sets], verbose=0)
    np.testing.assert_allclose(permuted, before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_a_model_of_series_does_depend_on_it(kind, request):
    """Else the test above would say nothing of `positions`."""
    sets, labels = points(60)
    ordered = type(request.getfixturevalue(kind))({**SMALL, "positions": True})
    ordered.compile()
    ordered.fit(sets, labels if kind == "classifier" else np.arange(60.0), epochs=1, verbose=0)
    turned = ordered.predict([each[::-1] for each in sets], verbose=0)
    assert np.abs(turned - ordered.predict(sets, verbose=0)).max() > 1e-3


def test_every_frame_is_a_position_and_nothing_else_reads_it(classifier, regressor):
    assert classifier.stride == regressor.stride == 1
    assert classifier.parts_beside() == {}
    assert not any("wide" in layer.name or "convolution" in layer.name for layer in classifier.core.layers)
    assert classifier.config.attended is None


@pytest.mark.slow
def test_sets_are_learned():
    model = trained(models.SeriesClassifier, *points(1000), epochs=12)
    assert model.evaluate(*points(400, seed=5), verbose=0)[1] > 0.9


@pytest.mark.process
def test_an_export_answers_sets_in_any_order(classifier, tmp_path):
    import tensorflow as tf

    loaded = tf.saved_model.load(export_saved_model(classifier, tmp_path / "sets"))
    sets, _ = points(3, seed=9)
    answers = []
    for order in (slice(None), slice(None, None, -1)):
        values = np.full((3, 15, 2), np.nan, "float32")
        for row, each in enumerate(sets):
            values[row, : len(each)] = each[order]
        found = loaded.signatures["serving_default"](values=values)
        answers.append(found["probabilities"].numpy())
    np.testing.assert_allclose(answers[0], classifier.predict(sets, verbose=0), atol=1e-5)
    np.testing.assert_allclose(answers[1], answers[0], atol=1e-5)


def test_a_saved_model_is_still_one_of_sets(classifier, tmp_path):
    classifier.save(tmp_path / "model.keras")
    loaded = models.load(tmp_path / "model.keras")
    sets, _ = points(5)
    assert loaded.config.positions is False
    np.testing.assert_allclose(
        loaded.predict(sets, verbose=0), classifier.predict(sets, verbose=0), atol=1e-6
    )


def test_a_config_of_sets_says_nothing_of_what_they_do_not_have():
    config = models.SeriesClassifier(SMALL).config
    assert not {"kernels", "kernel_size", "max_positions"} & config.to_dict().keys()
    assert type(config)(**config.to_dict()) == config
    assert models.SeriesClassifier({**SMALL, "kernels": 0}).config.convolutions == 0
    assert models.SeriesClassifier().config.to_dict()["kernels"] == 4000


@pytest.mark.parametrize(
    ("kind", "field", "message"),
    [
        (models.SeriesClassifier, {"kernel_size": 5}, "`kernel_size` is about neighbouring frames"),
        (models.SeriesClassifier, {"kernels": 100}, "`kernels` is about neighbouring frames"),
        (models.SeriesRegressor, {"max_positions": 9}, "`max_positions` is about neighbouring frames"),
        (models.SeriesRegressor, {"positions": 1}, "`positions` must be True or False"),
        (models.SeriesForecaster, {}, "A forecast continues a series"),
    ],
)
def test_what_a_set_has_no_use_for_is_refused(kind, field, message):
    with pytest.raises(ConfigError, match=message):
        kind({**SMALL, **field})
