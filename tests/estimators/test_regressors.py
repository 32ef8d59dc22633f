"""Regressors as estimators: lists, tables, and the shape of targets."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor

from keras_selfattn import estimators

SMALL = {"width": 4, "num_layers": 1, "num_heads": 1, "epochs": 1, "batch_size": 256}


RANDOM = np.random.default_rng(0)


WAVES = np.sin(np.arange(12) / 2 + RANDOM.uniform(0, 6, (24, 1))) + [[0.0], [3.0]] * 12


pytestmark = pytest.mark.usefixtures("eager_steps")


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
def test_numbers_keep_the_shape_of_the_targets():
    column = WAVES.mean(axis=1)
    flat = estimators.SeriesRegressorEstimator(**SMALL).fit(WAVES, column)
    assert flat.predict(WAVES).shape == (24,)
    several = flat.fit(WAVES, np.stack([column, -column], axis=1))
    assert several.predict(list(WAVES)).shape == (24, 2)
    turned = TransformedTargetRegressor(clone(flat), func=np.negative, inverse_func=np.negative)
    assert turned.fit(WAVES, column).score(WAVES, column) > 0.9
