"""Estimators of numbers: for texts, for series, and of the next values of series."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_y, check_consistent_length

from keras_selfattn.estimators.base import ModelEstimator, SeriesRows, WordRows
from keras_selfattn.models import SeriesForecaster, SeriesRegressor, TextRegressor
from keras_selfattn.rows.containers import ordered_rows


class RegressorEstimator(RegressorMixin, ModelEstimator):
    """A regressor of raw rows with a number each, or several, with the parameters of `ModelEstimator`."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "RegressorEstimator":  # noqa: N803
        """Train a new model on all rows.

        Args:
            X: raw rows, as the model's `fit` takes them.
            y: a number for each, or several, `[rows, numbers]`.
            sample_weight: float for each row, at least 0.

        Raises:
            DataError: for rows that cannot train the model.
            ConfigError: for a parameter out of range.
        """
        rows = self._rows(X, fitting=True)
        if y is None:
            raise ValueError("This regressor requires y to be passed, but the target y is None.")
        numbers = np.asarray(_check_y(ordered_rows(y), multi_output=True, y_numeric=True, estimator=self))
        check_consistent_length(rows, numbers)
        self._train(rows, numbers, sample_weight)
        self._one = numbers.ndim == 1
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the numbers of each row, float64 `[rows]` or `[rows, numbers]` like the targets of `fit`."""
        found = self._outputs(self._rows(X)).astype(np.float64)
        return found[:, 0] if self._one else found

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return the coefficient of determination of the predictions, as scikit-learn's regressors do."""
        return float(super().score(self._rows(X), ordered_rows(y), ordered_rows(sample_weight)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class TextRegressorEstimator(WordRows, RegressorEstimator):
    """scikit-learn regressor of raw texts: a `models.TextRegressor`.

    Args:
        start: the model whose vocabulary and weights it starts from, such as a pretrained model's folder.
        width, num_layers, num_heads, dropout, epochs, batch_size, learning_rate, settings, random_state,
            verbose: as for `ModelEstimator`; `settings={"bounded": True}` for scores in [0, 1].

    Raises:
        NotFittedError: of scikit-learn, for `predict` before `fit`.

    Example:

        >>> texts, stars = ["good film", "fine film", "bad film", "a bore"] * 4, [5.0, 4.0, 2.0, 1.0] * 4
        >>> estimator = TextRegressorEstimator(width=8, num_heads=2, epochs=2)
        >>> estimator.fit(texts, stars).predict(["good film"]).shape
        (1,)
    """

    model_type: ClassVar = TextRegressor


class SeriesRegressorEstimator(SeriesRows, RegressorEstimator):
    """scikit-learn regressor of series of numbers: a `models.SeriesRegressor`.

    Rows are a table `[rows, length]` of one feature, an array `[rows, length, features]`, or a list of series
    of any lengths. Arrays `[rows, channels, length]`, as in aeon and sktime, are given as
    `x.transpose(0, 2, 1)`. NaN is a missing value. Targets are one number a row, or several.

    Args:
        width, num_layers, num_heads, dropout, epochs, batch_size, learning_rate, settings, random_state,
            verbose: as for `ModelEstimator`.

    Raises:
        NotFittedError: of scikit-learn, for `predict` before `fit`.

    Example:

        >>> rows, numbers = [[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]] * 4, [3.0, 1.0] * 4
        >>> estimator = SeriesRegressorEstimator(width=8, num_layers=1, num_heads=2, epochs=1)
        >>> estimator.fit(rows, numbers).predict([[5.0, 4.0, 3.0]]).shape
        (1,)
    """

    model_type: ClassVar = SeriesRegressor


class SeriesForecasterEstimator(SeriesRegressorEstimator):
    """scikit-learn regressor of the next values of series: a `models.SeriesForecaster`.

    Rows are as for `SeriesRegressorEstimator`; targets are the next values of the first feature, `[rows,
    horizon]`. `data.cut_windows` makes both from long series; `sklearn.model_selection.TimeSeriesSplit` keeps
    later windows out of the training.

    Args:
        width, num_layers, num_heads, dropout, epochs, batch_size, learning_rate, settings, random_state,
            verbose: as for `ModelEstimator`; `settings={"season": 24}` for hourly values.

    Raises:
        NotFittedError: of scikit-learn, for `predict` before `fit`.

    Example:

        >>> rows, following = [[0.0, 1.0, 2.0], [5.0, 4.0, 3.0]] * 4, [[3.0, 4.0], [2.0, 1.0]] * 4
        >>> estimator = SeriesForecasterEstimator(width=8, num_layers=1, num_heads=2, epochs=1)
        >>> estimator.fit(rows, following).predict([[15.0, 14.0, 13.0]]).shape
        (1, 2)
    """

    model_type: ClassVar = SeriesForecaster
