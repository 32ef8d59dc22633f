"""Turn rows of tokens into the features of a token model, inside the graph.

Axes: B (batch), T (tokens).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.models import TokenClassifier

from .preprocessing import EXPLAINED_TOKENS
from .trial_requests import Request, in_batches

Tensor = Any

# Kinds of tokens that training did not see.
_STRANGE = ("Ünknown", "☃", "日本語", "x" * 300, "\x00", "3.14", " ")


class TokenFront:
    """Turn tokens into features, as in training. "" is padding at any position.

    Args:
        model: has a vocabulary; for a pretrained encoder the features are the ids of each token's pieces.

    Attributes:
        by_token: True if the model's attention is between tokens, not between their pieces.
    """

    subject = "token"

    def __init__(self, model: TokenClassifier) -> None:
        self._features = model.tokenizer
        self.by_token = not model.fine_tuned
        self.specs = {"tokens": tf.TensorSpec([None, None], tf.string, name="tokens")}
        self.tracked = list(self._features.tables)

    def __call__(self, *raw: Tensor) -> Tensor:
        return self._features(raw[0])  # [B, T, features]

    def beginning(self, tokens: Tensor) -> Tensor:
        """Return the features of the first tokens, up to the limit of `explain`."""
        return self(tokens[:, :EXPLAINED_TOKENS])

    def asked(self, row: Sequence[str]) -> Request:
        """Return the request for a row of tokens."""
        return {"tokens": np.array([[token.encode() for token in row]], dtype=object)}

    def requests(self) -> list[Request]:
        words = [*self._features.vocabulary[:16], *_STRANGE]
        rows = [words[:4], words[4:5], [], *(words[start:] for start in range(len(words))), words[::-1]]
        longest = max(map(len, rows))
        tokens = np.full((len(rows), longest), b"", dtype=object)
        for row, given in zip(tokens, rows, strict=True):
            row[: len(given)] = [token.encode() for token in given]
        return [*in_batches({"tokens": tokens}), {"tokens": tokens[:3, :0]}]
