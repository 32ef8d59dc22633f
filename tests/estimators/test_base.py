"""scikit-learn's own checks of the estimators; folds, searches, pipelines and files of them."""

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
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
from keras_selfattn.errors import ConfigError, DataError, RunError
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
    rows = {"Text": TEXTS, "Token": TOKENS, "Series": WAVES, "Image": IMAGES}
    asked = next(values for kind, values in rows.items() if name.startswith(kind))
    arguments = (asked, OPINIONS[: len(asked)]) if method == "score" else (asked,)
    with pytest.raises(NotFittedError, match=f"This {name} instance is not fitted yet"):
        getattr(estimator, method)(*arguments)


@pytest.mark.usefixtures("idle_steps")
def test_probabilities_are_of_the_classes_in_the_order_and_type_of_the_targets():
    """10.0 comes after 9.0 as a number, and before it as a name."""
    labels = np.array([9.0, 9.0, 10.0, 10.0] * 6)
    estimator = text_estimator().fit(TEXTS, labels)
    assert (estimator.classes_.tolist(), estimator.model_.labels) == ([9.0, 10.0], ["10.0", "9.0"])
    by_name = dict(zip(estimator.model_.labels, estimator.model_.predict(TEXTS, verbose=0).T, strict=True))
    np.testing.assert_array_equal(
        estimator.predict_proba(TEXTS), np.stack([by_name["9.0"], by_name["10.0"]], axis=1)
    )
    assert estimator.predict(TEXTS).dtype == labels.dtype
    assert estimator.score(TEXTS, labels) == np.mean(estimator.predict(TEXTS) == labels) == 1
    assert estimator.score(TEXTS, 19 - labels, sample_weight=OPINIONS + 1.0) == 0


def test_the_same_seed_trains_the_same_model_and_leaves_the_global_generators_alone():
    np.random.seed(3)
    wanted = np.random.default_rng(3), np.random.get_state()[1].copy()
    first = text_estimator(random_state=7, epochs=2).fit(TEXTS, OPINIONS)
    assert (np.random.get_state()[1] == wanted[1]).all()
    again = clone(first).fit(TEXTS, OPINIONS)
    other = text_estimator(random_state=8).fit(TEXTS, OPINIONS)
    np.testing.assert_array_equal(first.predict_proba(TEXTS), again.predict_proba(TEXTS))
    assert np.abs(first.predict_proba(TEXTS) - other.predict_proba(TEXTS)).max() > 0


@pytest.mark.slow
def test_a_pipeline_of_raw_texts_is_searched_over_parameters_and_settings():
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    steps = make_pipeline(lower, text_estimator())
    grid = {
        "textclassifierestimator__width": [4, 8],
        "textclassifierestimator__settings": [{"ngram_buckets": 64}, {"ngram_buckets": 64, "wide": False}],
    }
    found = GridSearchCV(steps, grid, cv=2, scoring="neg_log_loss").fit(TEXTS, OPINIONS)
    assert found.best_params_["textclassifierestimator__settings"] == {"ngram_buckets": 64}, "the wide path"
    assert found.predict(["A FINE FILM INDEED", "POOR"]).tolist() == [1, 0]
    assert (
        found.best_estimator_[-1].model_.config.width == found.best_params_["textclassifierestimator__width"]
    )


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
    ],
    ids=["text", "tokens", "series", "images", "numbers", "forecast"],
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


def test_weights_of_rows_and_classes_decide_between_contradicting_labels():
    texts, labels = ["a film", "a film", "a book", "a book"] * 6, np.array([0, 1] * 12)
    for weights in ({"sample_weight": np.where(labels, 9.0, 1.0)}, {}):
        estimator = text_estimator(class_weight=None if weights else {0: 1.0, 1: 9.0}).fit(
            texts, labels, **weights
        )
        assert estimator.predict(["a film"]).tolist() == [1]
    assert text_estimator(class_weight={0: 9.0, 1: 1.0}).fit(texts, labels).predict(["a film"]).tolist() == [
        0
    ]


@pytest.mark.parametrize("kind", [float, bool, str])
def test_weights_of_classes_are_by_label(kind):
    """As in scikit-learn, 1 is the key of 1.0 and of True. A key that is no label is never without effect."""
    estimator = text_estimator(class_weight={0: 9.0, 1: 1.0})
    classes = np.unique(np.array([0, 1], "int").astype(kind)).tolist()
    if kind is str:
        with pytest.raises(ConfigError, match=r"`class_weight` must be by label, of \['0', '1'\]. Received"):
            estimator._class_weight(classes, classes)
        return
    names = list(map(str, classes))
    assert estimator._class_weight(classes, names) == dict(zip(names, (9.0, 1.0), strict=True))


def test_folds_may_lack_a_class_that_has_a_weight():
    estimator = text_estimator(class_weight={"a": 9.0, "b": 1.0, "c": 2.0})
    assert estimator._class_weight(["a", "c"], ["a", "c"]) == {"a": 9.0, "c": 2.0}
    assert text_estimator(class_weight={"a": 9.0})._class_weight(["a", "c"], ["a", "c"]) == {"a": 9.0}


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


def test_a_list_forgets_the_table_of_another_fit():
    estimator = estimators.SeriesRegressorEstimator(**SMALL)
    estimator._rows(WAVES, fitting=True)
    assert estimator.n_features_in_ == WAVES.shape[1]
    estimator._rows(list(WAVES), fitting=True)
    estimator.model_ = None
    assert estimator._rows(WAVES[:, :-1]).shape == (len(WAVES), WAVES.shape[1] - 1)


def test_a_list_of_lists_of_one_length_is_a_table_to_the_arrays_after_it():
    """As scikit-learn has it; a list of other lengths is still read."""
    estimator = estimators.SeriesRegressorEstimator(**SMALL)
    estimator._rows(WAVES.tolist(), fitting=True)
    estimator.model_ = None
    assert estimator.n_features_in_ == WAVES.shape[1]
    with pytest.raises(ValueError, match=f"expecting {WAVES.shape[1]} features"):
        estimator._rows(WAVES[:, :-1])
    assert len(estimator._rows([[1.0], [1.0, 2.0]])) == 2


@pytest.mark.usefixtures("idle_steps")
def test_the_score_of_tokens_is_a_share_of_tokens_weighted_by_row():
    estimator = token_estimator().fit(TOKENS, TAGS)
    estimator.model_.label = lambda rows: [["D"] * len(row) for row in rows]
    assert estimator.score(TOKENS, TAGS) == pytest.approx(2 / 5)
    assert estimator.score(TOKENS, TAGS, sample_weight=[1.0, 0.0] * 6) == pytest.approx(1 / 2)
    with pytest.raises(DataError, match="one label for each token"):
        estimator.score([["a"]], [["D", "N"]])


@pytest.mark.usefixtures("idle_steps")
def test_numbers_keep_the_shape_of_the_targets():
    column = WAVES.mean(axis=1)
    flat = estimators.SeriesRegressorEstimator(**SMALL).fit(WAVES, column)
    assert flat.predict(WAVES).shape == (24,)
    several = flat.fit(WAVES, np.stack([column, -column], axis=1))
    assert several.predict(list(WAVES)).shape == (24, 2)
    turned = TransformedTargetRegressor(clone(flat), func=np.negative, inverse_func=np.negative)
    assert turned.fit(WAVES, column).score(WAVES, column) > 0.9


@pytest.mark.usefixtures("idle_steps")
def test_the_trained_model_is_a_model_like_any_other(tmp_path):
    estimator = text_estimator().fit(TEXTS, np.where(OPINIONS, "+", "-"))
    estimator.model_.save(tmp_path / "model.keras")
    assert models.load(tmp_path / "model.keras").label(TEXTS[:4]) == ["+", "+", "-", "-"]
    assert len(estimator.history_["loss"]) == 1
    found = cross_val_predict(text_estimator(), TEXTS, OPINIONS, cv=2, method="predict_proba")
    assert found.shape == (24, 2)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"settings": {"width": 8}}, "`settings` has 'width', which is a parameter"),
        ({"settings": ["wide"]}, "`settings` must be a dict"),
        ({"width": 6, "num_heads": 4}, "`width` must be divisible by `num_heads`"),
        ({"epochs": 0}, "`epochs`"),
        ({"class_weight": "even"}, "class_weight"),
    ],
)
def test_wrong_parameters_are_refused_by_fit(parameters, said):
    estimator = text_estimator(**parameters)
    with pytest.raises(ConfigError, match=said):
        estimator.fit(TEXTS, OPINIONS)
    assert not hasattr(estimator, "model_")


@pytest.mark.parametrize(
    ("estimator", "rows", "targets"),
    [(text_estimator, TEXTS, OPINIONS), (token_estimator, TOKENS, TAGS)],
    ids=["text", "tokens"],
)
def test_a_start_is_that_of_the_model(estimator, rows, targets, tmp_path):
    with pytest.raises(RunError, match=r"There is no \w+ (at )?.*nowhere"):
        estimator(start=tmp_path / "nowhere").fit(rows, targets)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (None, "requires y to be passed"),
        ([1] * 24, "at least two classes"),
        (np.linspace(0, 1, 24), "Unknown label type: continuous"),
        (OPINIONS[:-1], "inconsistent numbers of samples"),
        ([1, True] * 12, "at least two classes"),
    ],
)
def test_wrong_labels_are_refused_by_fit(labels, said):
    with pytest.raises(ValueError, match=said):
        text_estimator().fit(TEXTS, labels)
