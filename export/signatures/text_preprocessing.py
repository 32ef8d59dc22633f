"""Turn raw text into word pieces for a pretrained encoder, inside the graph.

Axes: B (texts), T (pieces).
"""

from typing import Any

import tensorflow as tf

from keras_selfattn.models import TextClassifier, TextEncoder
from keras_selfattn.models.text.explanation import explained_tokens

from .trial_requests import TEXTS, Request, in_batches, strings

Tensor = Any

# Most words of the warmup texts: one of each length.
_MOST_WORDS = 64


class PieceFront:
    """Preprocess raw text for a pretrained encoder: ids, and logits of the wide path if there is one.

    Args:
        model: it has a tokenizer of pieces.
    """

    subject = "text"

    def __init__(self, model: TextEncoder | TextClassifier) -> None:
        self._tokenizer = tokenizer = model.tokenizer
        self._beside_wide = model.beside_wide if isinstance(model, TextClassifier) else _alone
        self.specs = {"text": tf.TensorSpec([None], tf.string, name="text")}
        self.tracked = list(tokenizer.tables)

    def __call__(self, *raw: Tensor) -> Any:
        return self._beside_wide(self._tokenizer(raw[0]), raw[0])  # the ids ragged [B, T]

    def alone(self, ids: Tensor) -> Any:
        """Return the model's inputs for ids, int32 `[B, T]`, without the wide path."""
        return self._beside_wide(ids)

    def explained(self, texts: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pieces of texts `[B]`, string `[B, T]`, padded with "", and their int32 ids."""
        return explained_tokens(self._tokenizer, texts)

    def requests(self) -> list[Request]:
        words = ["film", "good", "a", "the", "what", "was", "it", "and"]
        texts = [" ".join((words * count)[:count]) for count in range(1, _MOST_WORDS + 1)]
        rows = [*texts[2:12], *TEXTS, "\t\n ", *texts[::-1]]
        return [*in_batches({"text": strings(rows)}), {"text": strings(texts)}]

    def asked(self, row: str) -> Request:
        """Return the request for a text."""
        return {"text": strings([row])}


def _alone(ids: Tensor, _texts: Tensor | None = None) -> Tensor:
    return ids
