"""Estimators of one label a row: texts, series, images."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.estimators.base import ModelEstimator, SeriesRows, WordRows
from keras_selfattn.models import ImageClassifier, SeriesClassifier, TextClassifier
from keras_selfattn.rows.containers import ordered_rows


@dataclass(eq=False, repr=False, kw_only=True)
class ClassifierEstimator(ClassifierMixin, ModelEstimator):
    """A classifier of raw rows with one label each; the parameters are those of `ModelEstimator`.

    Args:
        class_weight: weights of the classes by label, an entry of `classes_` as in scikit-learn, never by
            index, 1 where left out; or "balanced", which gives each class the same total weight.

    Attributes:
        classes_: labels in the order of the columns of `predict_proba`, in the type of the targets.
    """

    class_weight: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "ClassifierEstimator":  # noqa: N803
        """Train a new model on all rows.

        Args:
            X: raw rows, as the model's `fit` takes them.
            y: a label for each, of any type.
            sample_weight: float for each, at least 0.

        Raises:
            DataError: for rows that cannot train a classifier, such as those of one class.
            ConfigError: for a parameter out of range.
        """
        rows = self._rows(X, fitting=True)
        labels = _checked_labels(y)
        check_consistent_length(rows, labels)
        classes, places = np.unique(labels, return_inverse=True)
        names = list(map(str, classes.tolist()))
        if len(set(names)) < len(names):
            raise DataError(f"Labels must differ as text. Received {classes.tolist()!r:.200}.")
        class_weight = self._class_weight(classes.tolist(), names)
        self._train(rows, [names[place] for place in places], sample_weight, class_weight)
        self.classes_ = classes
        self._columns = [self.model_.labels.index(name) for name in names]  # pyright: ignore[reportAttributeAccessIssue]
        return self

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the probabilities of the classes, float32 `[rows, classes]`, in the order of `classes_`."""
        return self._outputs(self._rows(X))[:, self._columns]

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the most likely label of each row, in the type of the targets of `fit`."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return the share of the rows whose label is predicted, as scikit-learn's classifiers do."""
        return float(super().score(self._rows(X), ordered_rows(y), ordered_rows(sample_weight)))

    def _class_weight(self, classes: list[Any], names: list[str]) -> Any:
        """Return the weights by name. A key equals its label as in scikit-learn: 1 equals 1.0 and True."""
        given = self.class_weight
        if not isinstance(given, Mapping):
            return given
        named = {name: given[label] for label, name in zip(classes, names, strict=True) if label in given}
        # If all classes have weights, cross-validation may have left out the class of a further key.
        if len(named) < min(len(classes), len(given)):
            raise ConfigError(
                f"`class_weight` must be by label, of {classes!r:.200}. Received {given!r:.200}."
            )
        return named


@dataclass(eq=False, repr=False, kw_only=True)
class TextClassifierEstimator(WordRows, ClassifierEstimator):
    """scikit-learn classifier of raw texts: a `models.TextClassifier`.

    Args:
        start: the model whose vocabulary and weights it starts from, such as a pretrained model's folder.
        width, num_layers, num_heads, dropout, epochs, batch_size, learning_rate, settings, class_weight,
            random_state, verbose: as for `ModelEstimator` and `ClassifierEstimator`.

    Raises:
        NotFittedError: of scikit-learn, for `predict` before `fit`.

    Example:

        >>> texts, labels = ["good film", "fine film", "bad film", "a bore"] * 4, [1, 1, 0, 0] * 4
        >>> estimator = TextClassifierEstimator(width=8, num_heads=2, epochs=2)
        >>> estimator.fit(texts, labels).predict(["good film"]).tolist(), estimator.classes_.tolist()
        ([1], [0, 1])
    """

    model_type: ClassVar = TextClassifier


class SeriesClassifierEstimator(SeriesRows, ClassifierEstimator):
    """scikit-learn classifier of series of numbers: a `models.SeriesClassifier`.

    Rows are a table `[rows, length]` of one feature, an array `[rows, length, features]`, or a list of series
    of any lengths. Arrays `[rows, channels, length]`, as in aeon and sktime, are given as
    `x.transpose(0, 2, 1)`. NaN is a missing value.

    Args:
        width, num_layers, num_heads, dropout, epochs, batch_size, learning_rate, settings, class_weight,
            random_state, verbose: as for `ModelEstimator` and `ClassifierEstimator`.

    Raises:
        NotFittedError: of scikit-learn, for `predict` before `fit`.

    Example:

        >>> rows, labels = [[0.0, 1.0, 2.0], [2.0, 1.0], [1.0, 3.0], [3.0, 2.0, 0.0]] * 4, ["up", "down"] * 8
        >>> estimator = SeriesClassifierEstimator(width=8, num_heads=2, epochs=1, settings={"kernels": 50})
        >>> estimator.fit(rows, labels).predict_proba(rows).shape
        (16, 2)
    """

    model_type: ClassVar = SeriesClassifier


class ImageClassifierEstimator(ClassifierEstimator):
    """scikit-learn classifier of images: a `models.ImageClassifier`.

    Rows are an array `[rows, height, width]` or `[rows, height, width, channels]`, or a list of images.

    Args:
        width, num_layers, num_heads, dropout, epochs, batch_size, learning_rate, settings, class_weight,
            random_state, verbose: as for `ModelEstimator` and `ClassifierEstimator`.

    Raises:
        NotFittedError: of scikit-learn, for `predict` before `fit`.

    Example:

        >>> black, white = np.zeros((8, 8), "uint8"), np.full((8, 8), 255, "uint8")
        >>> estimator = ImageClassifierEstimator(width=8, num_layers=1, num_heads=2, epochs=1)
        >>> estimator.fit([black, white] * 8, ["night", "snow"] * 8).classes_.tolist()
        ['night', 'snow']
    """

    model_type: ClassVar = ImageClassifier

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def _checked_labels(y: Any) -> np.ndarray:
    if y is None:
        raise ValueError("This classifier requires y to be passed, but the target y is None.")
    labels = column_or_1d(ordered_rows(y), warn=True)
    check_classification_targets(labels)
    return labels
