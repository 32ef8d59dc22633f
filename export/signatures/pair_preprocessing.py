"""Turn two raw texts a row into the ids and types of a model's tokens, in the graph.

Axes: B (pairs), T (tokens or pieces).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from keras_selfattn.models.text.explanation import explained_pairs
from keras_selfattn.models.text.text_model import TextModel
from keras_selfattn.rows.text_pairs import NAMES, TEXT_PAIRS, TextPair

from ..portable.tokenizer_export import pair_files
from .text_model_front import TextModelFront
from .trial_requests import TEXTS, Request, in_batches, strings

Tensor = Any

COLUMNS = ("ids", "types")
COLUMNS_OF_BOTH = (*COLUMNS, "other_ids", "other_types")
"""Inputs of a core in a file for another runtime: of one order, and of both."""

# Most words of the warmup pairs: one pair of each length.
_MOST_WORDS = 64


class PairFront(TextModelFront):
    """Preprocess pairs of texts: ids and types of tokens, and logits of the wide path if there is one."""

    def __init__(self, model: TextModel) -> None:
        super().__init__(model)
        self.number_columns = COLUMNS_OF_BOTH if model.symmetric else COLUMNS
        self.orders = 2 if model.symmetric else 1
        self._tokenizer = model.tokenizer
        self.specs = {name: tf.TensorSpec([None], tf.string, name=name) for name in NAMES}
        tables = getattr(self._tokenizer, "tables", None)  # of pieces
        self.tracked = [self._tokenizer.table] if tables is None else list(tables)

    def __call__(self, *raw: Tensor) -> Any:
        first, second = raw
        same = tf.debugging.assert_equal(
            tf.size(first),
            tf.size(second),
            f"the inputs {NAMES[0]} and {NAMES[1]} differ in number: each row needs both texts",
        )
        with tf.control_dependencies([same]):
            first = tf.identity(first)
        ids = self._model.ids_of_pairs(first, second)  # ragged [B, T, 2], or of both orders [B, T, 4]
        return self._model.beside_wide(ids, first, second)

    def explained(self, *raw: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tokens of pairs, string `[B, T]`, padded with "", and their ids and types."""
        return explained_pairs(self._tokenizer, *raw)

    def requests(self) -> list[Request]:
        words = ["film", "good", "a", "the", "what", "was", "it", "and"]
        texts = [" ".join((words * 8)[:count]) for count in (3, 1, 2, 5, 7, 11, 17, 31)]
        pairs = [*zip(texts, texts[::-1], strict=True), *((text, TEXTS[0]) for text in TEXTS)]
        pairs += [*((TEXTS[0], text) for text in (*TEXTS, "\t\n ")), ("", "")]
        return in_batches(self._request(pairs))

    def more_requests(self) -> list[Request]:
        """Return the request for pairs of 1 to 64 words, one of each number."""
        words = ["film", "good", "a", "the"]
        texts = [" ".join((words * 16)[:count]) for count in range(_MOST_WORDS)]
        return [self._request([(text, "film") for text in texts])]

    def asked(self, row: Any) -> Request:
        """Return the request for a pair, two texts or an object of both."""
        return self._request(TEXT_PAIRS.read([row]))

    def named(self, rows: Any) -> Mapping[str, Any]:
        return self._request(TEXT_PAIRS.read(rows))

    def id_files(self) -> dict[str, Any]:
        return pair_files(self._model.ids_of_pairs, self._tokenizer, self.number_columns)

    def _request(self, pairs: Sequence[TextPair]) -> Request:
        columns = zip(*pairs, strict=True) if pairs else [(), ()]
        return {name: strings(list(texts)) for name, texts in zip(NAMES, columns, strict=True)}
