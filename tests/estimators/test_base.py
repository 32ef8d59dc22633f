"""scikit-learn's own checks of the estimators; folds, searches, pipelines and files of them."""

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import TimeSeriesSplit, cross_val_predict, cross_val_score
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.estimator_checks import (
    check_estimator_cloneable,
    check_estimator_repr,
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
    estimator_checks_generator,
)

from keras_selfattn import estimators, models
from keras_selfattn.errors import ConfigError, RunError
from keras_selfattn.models.heads.class_heads import ClassHead

SMALL = {"width": 4, "num_layers": 1, "num_heads": 1, "epochs": 1, "batch_size": 256}
TEXTS = ["good film", "a fine film indeed", "bad film", "poor"] * 6
OPINIONS = np.array([1, 1, 0, 0] * 6)
TOKENS, TAGS = [["a", "film"], ["the", "best", "film"]] * 6, [["D", "N"], ["D", "A", "N"]] * 6
RANDOM = np.random.default_rng(0)
WAVES = np.sin(np.arange(12) / 2 + RANDOM.uniform(0, 6, (24, 1))) + [[0.0], [3.0]] * 12
IMAGES = np.stack([np.full((8, 8), shade, "uint8") for shade in (10, 240)] * 6)

# Those that do not apply, with the reason.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a weighted row is in one batch, a repeated one in several: stochastic steps differ"
    ),
}

pytestmark = pytest.mark.usefixtures("eager_steps")


def text_estimator(**parameters):
    return estimators.TextClassifierEstimator(**{**SMALL, "settings": {"ngram_buckets": 64}, **parameters})


def score_estimator(**parameters):
    return estimators.TextRegressorEstimator(**{**SMALL, "settings": {"ngram_buckets": 64}, **parameters})


def token_estimator(**parameters):
    return estimators.TokenClassifierEstimator(**{**SMALL, "settings": {"hash_buckets": 64}, **parameters})


def series_estimator(**parameters):
    settings = {"kernels": 40, "max_positions": 8}
    return estimators.SeriesClassifierEstimator(**{**SMALL, "settings": settings, **parameters})


def _checks():
    for estimator in (
        series_estimator(epochs=2),
        estimators.SeriesRegressorEstimator(**{**SMALL, "epochs": 2}),
    ):
        found = estimator_checks_generator(estimator, expected_failed_checks=EXPECTED, mark="xfail")
        seen = set()
        for check in found:
            arguments = getattr(check, "values", check)
            function = getattr(arguments[1], "func", arguments[1])
            if function.__name__ in seen:
                continue  # read-only rows, which have a check of their own, and float32
            seen.add(function.__name__)
            name = f"{type(estimator).__name__}-{function.__name__}"
            yield pytest.param(*arguments, id=name, marks=getattr(check, "marks", ()))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # scikit-learn's checks ask for some of them, and skip by one
@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
def test_a_check_of_scikit_learn_passes(estimator, check):
    """Of those whose rows are tables; scikit-learn has none for texts, tokens and images."""
    check(estimator)


@pytest.mark.parametrize("name", estimators.__all__)
def test_parameters_are_those_that_scikit_learn_expects(name):
    kind = getattr(estimators, name)
    for check in (
        check_estimator_cloneable,
        check_estimator_repr,
        check_get_params_invariance,
        check_no_attributes_set_in_init,
        check_parameters_default_constructible,
        check_set_params,
    ):
        check(name, kind())


@pytest.mark.parametrize("name", estimators.__all__)
@pytest.mark.parametrize("method", ["predict", "predict_proba", "score"])
def test_an_estimator_asked_before_it_is_fitted_says_so(name, method):
    estimator = getattr(estimators, name)()
    if not hasattr(estimator, method):
        pytest.skip("numbers have no probabilities")
    rows = {"Text": TEXTS, "Token": TOKENS, "Series": WAVES, "Image": IMAGES, "Sequence": TEXTS}
    asked = next(values for kind, values in rows.items() if name.startswith(kind))
    arguments = (asked, OPINIONS[: len(asked)]) if method == "score" else (asked,)
    with pytest.raises(NotFittedError, match=f"This {name} instance is not fitted yet"):
        getattr(estimator, method)(*arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "rows", "targets", "folds", "least"),
    [
        (text_estimator(), pd.Series(TEXTS), pd.Series(OPINIONS).map({0: "-", 1: "+"}), 2, 1.0),
        (token_estimator(epochs=12, learning_rate=0.05), TOKENS, TAGS, 2, 0.8),
        (series_estimator(), WAVES[:, :, None], ["low", "high"] * 12, 2, 1.0),
        (estimators.ImageClassifierEstimator(**SMALL), IMAGES, ["night", "snow"] * 6, 2, 0.0),
        (estimators.SeriesRegressorEstimator(**SMALL), WAVES, WAVES.mean(axis=1), 2, 0.9),
        (estimators.SeriesForecasterEstimator(**SMALL), WAVES[:, :9], WAVES[:, 9:], TimeSeriesSplit(2), 0.9),
        (score_estimator(), pd.Series(TEXTS), pd.Series(OPINIONS), 2, 0.9),
    ],
    ids=["text", "tokens", "series", "images", "numbers", "forecast", "scores"],
)
def test_folds_are_scored(estimator, rows, targets, folds, least):
    """Accuracy, or for numbers the share of the variance: what a simple rule reaches on such rows."""
    assert cross_val_score(estimator, rows, targets, cv=folds, error_score="raise").min() >= least


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "rows", "targets"),
    [
        (text_estimator(), TEXTS, OPINIONS),
        (token_estimator(), TOKENS, TAGS),
        (series_estimator(), [wave[: 3 + place % 9] for place, wave in enumerate(WAVES)], OPINIONS),
        (estimators.SeriesForecasterEstimator(**SMALL), WAVES[:, :9], WAVES[:, 9:]),
    ],
    ids=["text", "tokens", "series", "forecast"],
)
def test_a_file_of_joblib_answers_as_the_estimator_did(estimator, rows, targets, tmp_path):
    fitted = clone(estimator).fit(rows, targets)
    joblib.dump(fitted, tmp_path / "estimator.joblib")
    loaded = joblib.load(tmp_path / "estimator.joblib")
    for one, other in zip(loaded.predict(rows), fitted.predict(rows), strict=True):
        np.testing.assert_array_equal(one, other)
    assert loaded.score(rows, targets) == fitted.score(rows, targets)
    assert loaded.get_params() == fitted.get_params()


@pytest.mark.parametrize(
    ("labels", "given"),
    [
        ([1, 2, 3, 3], {1: 1, 2: 1, 3: 10}),
        ([1, 2, 3, 3], {1: 1, 2: 10}),
        ([1, 2, 3, 3], {0: 1, 1: 1, 2: 10}),  # of which 0 is no label, so that no key is read at all
        ([1, 2, 3, 3], {0: 1, 1: 1, 2: 10, 3: 1}),
        ([1, 2, 3, 3], {"3": 10}),
        ([1, 2, 3, 3], "balanced"),
        ([1.0, 2.0, 2.0], {2: 3}),
        ([False, True, True], {True: 3}),
        (["a", "b", "b"], {"b": 3}),
        (["a", "b", "b"], {0: 3}),
    ],
)
def test_weights_of_classes_are_those_of_scikit_learn(labels, given):
    """A key is an entry of `classes_`, never an index; scikit-learn itself makes integers of 0.5 and "1"."""
    estimator = text_estimator(class_weight=given)
    classes = np.unique(labels)
    names = list(map(str, classes.tolist()))
    try:
        wanted = compute_class_weight(given, classes=classes, y=np.array(labels))
    except ValueError:
        with pytest.raises(ConfigError, match="`class_weight` must be by label"):
            estimator._class_weight(classes.tolist(), names)
        return
    targets = list(map(str, np.array(labels).tolist()))
    head = ClassHead.from_targets(targets)
    found = head.class_weights(estimator._class_weight(classes.tolist(), names), targets)
    assert found is not None
    assert [found[head.labels.index(name)] for name in names] == pytest.approx(wanted.tolist())


@pytest.mark.usefixtures("idle_steps")
def test_the_trained_model_is_a_model_like_any_other(tmp_path):
    estimator = text_estimator().fit(TEXTS, np.where(OPINIONS, "+", "-"))
    estimator.model_.save(tmp_path / "model.keras")
    assert models.load(tmp_path / "model.keras").label(TEXTS[:4]) == ["+", "+", "-", "-"]
    assert len(estimator.history_["loss"]) == 1
    found = cross_val_predict(text_estimator(), TEXTS, OPINIONS, cv=2, method="predict_proba")
    assert found.shape == (24, 2)


@pytest.mark.parametrize(
    ("estimator", "rows", "targets"),
    [(text_estimator, TEXTS, OPINIONS), (token_estimator, TOKENS, TAGS)],
    ids=["text", "tokens"],
)
def test_a_start_is_that_of_the_model(estimator, rows, targets, tmp_path):
    with pytest.raises(RunError, match=r"There is no \w+ (at )?.*nowhere"):
        estimator(start=tmp_path / "nowhere").fit(rows, targets)
