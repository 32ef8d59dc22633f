"""A linear model that labels each token by the token and its neighbours: the peer of `TokenClassifier`."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.feature_extraction import FeatureHasher
from sklearn.svm import LinearSVC

from benchmarks.accuracy.peer import Fitted, Peer, accuracy, choosing, timed
from benchmarks.accuracy.sets import Split

_BUCKETS = 2**20
_AFFIX = 4
_PENALTIES = (0.1, 0.5)

SETTINGS = {"buckets": _BUCKETS, "affix": _AFFIX, "C": list(_PENALTIES)}


def token_features(tokens: Sequence[str]) -> Iterator[list[str]]:
    """Yield each token's features: itself, its affixes, its shape, two neighbours on each side.

    Example:

        >>> list(token_features(["So", "it"]))[0][:4]
        ['form So', 'word so', 'shape Xx', 'before <']
    """
    words = ["<<", "<", *(token.lower() for token in tokens), ">", ">>"]
    for place, token in enumerate(tokens):
        second, before, word, after, later = words[place : place + 5]
        yield [
            f"form {token}",
            f"word {word}",
            f"shape {shape(token)}",
            f"before {before}",
            f"after {after}",
            f"second {second}",
            f"later {later}",
            f"pair {before} {word}",
            f"next {word} {after}",
            f"before ends {before[-3:]}",
            f"after ends {after[-3:]}",
            *(f"begins {word[:size]}" for size in range(1, 1 + _AFFIX)),
            *(f"ends {word[-size:]}" for size in range(1, 1 + _AFFIX)),
        ]


def shape(token: str) -> str:
    """Return a token with letters and digits replaced by their kind, and repetitions removed.

    Example:

        >>> shape("McDonald's"), shape("1,000")
        ("XxXx'x", '0,0')
    """
    kinds = "".join("0" if c.isdigit() else "X" if c.isupper() else "x" if c.isalpha() else c for c in token)
    return re.sub(r"(.)\1+", r"\1", kinds)


class TokenModel:
    """A support vector machine on hashed features of tokens.

    Args:
        penalty: the machine's C.
    """

    def __init__(self, penalty: float) -> None:
        self._hasher = FeatureHasher(_BUCKETS, input_type="string", alternate_sign=False)
        self._machine = LinearSVC(C=penalty, random_state=0)

    def fit(self, rows: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> None:
        """Learn from tokens and their labels."""
        self._machine.fit(self._features(rows), np.array([label for labels in targets for label in labels]))

    def predict(self, rows: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the labels of each row."""
        predicted = self._machine.predict(self._features(rows)) if any(map(len, rows)) else ()
        found = map(str, predicted)
        return [[next(found) for _ in row] for row in rows]

    def _features(self, rows: Sequence[Sequence[str]]) -> Any:
        return self._hasher.transform(features for row in rows for features in token_features(row))


def fit(split: Split, seed: int) -> Fitted:
    """Train with each C, choose the best on the rows to choose on, and train on both."""
    train, dev, both = choosing(split)
    choices = {}
    for penalty in _PENALTIES:
        model = TokenModel(penalty)
        model.fit(train.inputs, train.targets)
        choices[f"SVM of each token, C={penalty:g}"] = accuracy(dev.targets, model.predict(dev.inputs))
    best = max(choices, key=lambda name: choices[name])
    model = TokenModel(_PENALTIES[list(choices).index(best)])
    _, seconds = timed(lambda: model.fit(both.inputs, both.targets))
    return Fitted(best, model.predict, model, seconds, choices)


PEER = Peer("linear", SETTINGS, False, fit)
