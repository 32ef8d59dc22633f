"""Linear models of texts: TF-IDF with logistic regression or a support vector machine, and NB-SVM.

Axes: B (rows), F (features), C (classes).
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.svm import LinearSVC

from benchmarks.accuracy.peer import Fitted, Peer, accuracy, choosing, timed
from benchmarks.accuracy.sets import Split

# Words, and single punctuation marks: "!" says something about a review that no word says.
_WORD = r"\w+|[^\w\s]"
_WORDS, _CHARACTERS = (1, 2), (2, 5)
# From this many rows on, features in fewer than three rows are left out; they would take too much memory.
_MANY_ROWS, _LEAST_ROWS = 20_000, 3
_SVM_C, _LOGISTIC_C = 1.0, 10.0
# The paper's share of the SVM for two classes; for many, each against the rest, the SVM alone is better.
_NB_ALPHA, _NB_BETAS = 1.0, {"NB-SVM": 0.25, "NB-SVM, not interpolated": 1.0}
# Half of the memory; scikit-learn's type annotations only know the default.
_SINGLE: Any = np.float32

SETTINGS = {
    "words": [_WORD, *_WORDS],
    "characters": ["char_wb", *_CHARACTERS],
    "least rows": [_MANY_ROWS, _LEAST_ROWS],
    "C": [_SVM_C, _LOGISTIC_C],
    "naive Bayes": [_NB_ALPHA, _NB_BETAS],
}


class NaiveBayesSVM(ClassifierMixin, BaseEstimator):
    """A linear SVM on indicators of features, each multiplied by the feature's log-count ratio for a class.

    Several classes are classified one against the rest, each with its own ratios.

    Args:
        alpha: added to the counts.
        beta: the SVM's share of each weight; the rest is the mean size of all weights.
        penalty: C of the SVM.

    Reference: Wang and Manning 2012, "Baselines and Bigrams: Simple, Good Sentiment and Topic
    Classification", section 2.
    """

    def __init__(self, alpha: float = _NB_ALPHA, beta: float = 0.25, penalty: float = _SVM_C) -> None:
        self.alpha = alpha
        self.beta = beta
        self.penalty = penalty

    def fit(self, features: Any, targets: Sequence[str]) -> "NaiveBayesSVM":
        """Learn from features `[B, F]`, which only count as zero or not, and a label for each row."""
        present = indicators(features)
        names = np.asarray(targets)
        self.classes_ = np.unique(names)
        # Two classes need one machine: that of the other class is the same with the opposite sign.
        told = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        found = [self._against_rest(present, names == name) for name in told]
        self.weights_ = np.stack([weights for weights, _ in found], axis=1)  # [F, C]
        self.intercepts_ = np.array([intercept for _, intercept in found])  # [C]
        return self

    def predict(self, features: Any) -> np.ndarray:
        """Return the label of each row of features `[B, F]`."""
        scores = indicators(features) @ self.weights_ + self.intercepts_  # [B, C]
        places = (scores[:, 0] > 0).astype(int) if len(self.classes_) == 2 else scores.argmax(axis=1)
        return self.classes_[places]

    def _against_rest(self, present: Any, inside: np.ndarray) -> tuple[np.ndarray, float]:
        ratio = log_count_ratio(present, inside, self.alpha)
        machine = LinearSVC(C=self.penalty, random_state=0)
        with warnings.catch_warnings():
            # A solution to the last digit is no more accurate, and takes many times as long.
            warnings.simplefilter("ignore", ConvergenceWarning)
            machine.fit(present.multiply(ratio).tocsr(), inside)
        weights, intercept = (np.asarray(found)[0] for found in (machine.coef_, machine.intercept_))
        mean = np.abs(weights).mean()
        return ratio * ((1 - self.beta) * mean + self.beta * weights), float(intercept)


def indicators(features: Any) -> Any:
    """Return 1.0 where features `[B, F]` are not 0."""
    found = sparse.csr_matrix(features, dtype=np.float64, copy=True)
    found.eliminate_zeros()
    found.data[:] = 1.0
    return found


def log_count_ratio(present: Any, inside: np.ndarray, alpha: float) -> np.ndarray:
    """Return log((p / |p|) / (q / |q|)), p and q the smoothed counts of features in a class and outside it.

    Args:
        present: 0 or 1, float `[B, F]`.
        inside: True if a row is of the class, bool `[B]`.
        alpha: added to each count.

    Returns:
        float `[F]`.

    Example:

        >>> rows = sparse.csr_matrix([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
        >>> log_count_ratio(rows, np.array([True, True, False]), 1.0).round(3)
        array([ 0.588, -0.511])
    """
    p, q = (alpha + np.asarray(present[rows].sum(axis=0)).ravel() for rows in (inside, ~inside))
    return np.log(p / p.sum()) - np.log(q / q.sum())


def fit(split: Split, seed: int) -> Fitted:
    """Train all on the training rows, choose the best on the rows to choose on, and train it on both."""
    train, dev, both = choosing(split)
    choices = {
        name: accuracy(dev.targets, found) for name, found in _tried(train.inputs, train.targets, dev.inputs)
    }
    best = max(choices, key=lambda name: choices[name])  # the first of equals
    model = _pipeline(best, len(both))
    _, seconds = timed(lambda: model.fit(list(both.inputs), list(both.targets)))
    return Fitted(best, lambda inputs: model.predict(list(inputs)).tolist(), model, seconds, choices)


PEER = Peer("linear", SETTINGS, False, fit)


def _words(rows: int) -> TfidfVectorizer:
    return TfidfVectorizer(
        token_pattern=_WORD, ngram_range=_WORDS, sublinear_tf=True, min_df=_least(rows), dtype=_SINGLE
    )


def _characters(rows: int) -> TfidfVectorizer:
    return TfidfVectorizer(
        analyzer="char_wb", ngram_range=_CHARACTERS, sublinear_tf=True, min_df=_least(rows), dtype=_SINGLE
    )


def _counts(rows: int) -> CountVectorizer:
    return CountVectorizer(token_pattern=_WORD, ngram_range=_WORDS, binary=True, min_df=_least(rows))


def _least(rows: int) -> int:
    return _LEAST_ROWS if rows >= _MANY_ROWS else 1


def _logistic() -> Any:
    return OneVsRestClassifier(LogisticRegression(C=_LOGISTIC_C, solver="liblinear", random_state=0))


def _svm() -> Any:
    return LinearSVC(C=_SVM_C, random_state=0)


_CLASSIFIERS: dict[str, Callable[[], Any]] = {"SVM": _svm, "logistic regression": _logistic}


def _tried(
    inputs: Sequence[str], targets: Sequence[str], held_out: Sequence[str]
) -> Iterator[tuple[str, Any]]:
    """Yield each model's name and its predictions for the held-out rows; features are counted once."""
    matrices = {}
    for name, make in (("words", _words), ("characters", _characters)):
        features = make(len(inputs))
        matrices[name] = features.fit_transform(inputs), features.transform(held_out)
    matrices["words and characters"] = tuple(
        sparse.hstack(pair, format="csr") for pair in zip(*matrices.values(), strict=True)
    )
    for features, (known, asked) in matrices.items():
        for classifier, make in _CLASSIFIERS.items():
            yield f"{classifier}, {features}", make().fit(known, targets).predict(asked)
    counts = _counts(len(inputs))
    known, asked = counts.fit_transform(inputs), counts.transform(held_out)
    for name, beta in _NB_BETAS.items():
        yield name, NaiveBayesSVM(beta=beta).fit(known, targets).predict(asked)


def _pipeline(name: str, rows: int) -> Any:
    """Return the untrained model for a name that `_tried` yields."""
    if name in _NB_BETAS:
        return make_pipeline(_counts(rows), NaiveBayesSVM(beta=_NB_BETAS[name]))
    classifier, _, features = name.partition(", ")
    made = {
        "words": lambda: _words(rows),
        "characters": lambda: _characters(rows),
        "words and characters": lambda: make_union(_words(rows), _characters(rows)),
    }
    return make_pipeline(made[features](), _CLASSIFIERS[classifier]())
