"""Classifiers as estimators: probabilities, seeds, searches, weights and files."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from keras_selfattn import estimators
from keras_selfattn.errors import ConfigError

SMALL = {"width": 4, "num_layers": 1, "num_heads": 1, "epochs": 1, "batch_size": 256}


TEXTS = ["good film", "a fine film indeed", "bad film", "poor"] * 6


OPINIONS = np.array([1, 1, 0, 0] * 6)


pytestmark = pytest.mark.usefixtures("eager_steps")


def text_estimator(**parameters):
    return estimators.TextClassifierEstimator(**{**SMALL, "settings": {"ngram_buckets": 64}, **parameters})


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
