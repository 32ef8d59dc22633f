"""Estimator of a label for each token of a row."""

from typing import Any, ClassVar

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.estimators.base import WordRows
from keras_selfattn.models import TokenClassifier


class TokenClassifierEstimator(WordRows):
    """scikit-learn estimator of a label for each token: a `models.TokenClassifier`.

    Rows are lists of tokens, targets lists with one label for each token. scikit-learn has no kind of target
    like this, so it is no classifier to it: folds of `cross_val_score` are not stratified.

    Args:
        start: the folder of a pretrained model that it starts from.
        width, num_layers, num_heads, dropout, epochs, batch_size, learning_rate, settings, random_state,
            verbose: as for `ModelEstimator`.

    Attributes:
        classes_: labels in the order of the columns of `predict_proba`.

    Raises:
        NotFittedError: of scikit-learn, for `predict` before `fit`.

    Example:

        >>> rows, labels = [["a", "film"], ["the", "best", "film"]], [["DET", "NOUN"], ["DET", "ADJ", "NOUN"]]
        >>> estimator = TokenClassifierEstimator(width=8, num_layers=1, num_heads=2, epochs=1)
        >>> estimator.fit(rows, labels).classes_.tolist(), len(estimator.predict([["the", "film"]])[0])
        (['ADJ', 'DET', 'NOUN'], 2)
    """

    model_type: ClassVar = TokenClassifier

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "TokenClassifierEstimator":  # noqa: N803
        """Train a new model on all rows.

        Args:
            X: rows of tokens.
            y: for each row a label for each token.
            sample_weight: float for each row, or for each row a list with one for each token, at least 0.

        Raises:
            DataError: for rows that cannot train the model.
            ConfigError: for a parameter out of range.
        """
        self._train(self._rows(X, fitting=True), y, sample_weight)
        self.classes_ = np.array(self.model_.labels)  # pyright: ignore[reportAttributeAccessIssue]
        return self

    def predict(self, X: Any) -> list[list[str]]:  # noqa: N803
        """Return the most likely labels of the tokens of each row."""
        rows = self._rows(X)
        return self.model_.label(rows)

    def predict_proba(self, X: Any) -> list[np.ndarray]:  # noqa: N803
        """Return the probabilities of each row, float32 `[tokens, classes]`, in the order of `classes_`."""
        return self._outputs(self._rows(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return the share of tokens with the right label, weighted by `sample_weight`, as for `fit`.

        Raises:
            DataError: if a row has another number of labels or weights than tokens, or no token has a weight.
        """
        rows = self._rows(X)
        read = self.model_.read_rows(rows, y, sample_weight, type(self.model_.head))
        pairs = zip(self.predict(read.inputs), read.targets, strict=True)
        right = [found == known for pair in pairs for found, known in zip(*pair, strict=True)]
        weights = np.ones(len(right)) if read.weights is None else np.concatenate(read.weights)
        if not weights.any():
            raise DataError("There is no token with a weight to score.")
        return float(np.average(right, weights=weights))
