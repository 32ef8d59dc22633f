"""Base of the models whose rows are one text each or two: the first rows decide, and stay decided.

Axes: B (batch), T (tokens), D (features).
"""

from collections.abc import Sequence
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.length_sorted import LengthSortedBatches
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.heads.probabilities import Shares
from keras_selfattn.models.pretrained.pretrained_pieces import PretrainedPieces
from keras_selfattn.models.text.explanation import TextExplanation, explained
from keras_selfattn.models.text.learned_words import LearnedWords
from keras_selfattn.models.word_model import WordModel, Words
from keras_selfattn.rows.containers import as_column, columns_of, ordered_rows, refuse_table
from keras_selfattn.rows.kind import RowKind
from keras_selfattn.rows.text_pairs import NAMES, TEXT_PAIRS, TextPair, is_pair
from keras_selfattn.rows.texts import TEXTS

Tensor = Any


class TextWords(Words, Protocol):
    """The words of a model of texts: of one a row, or of two."""

    @property
    def ngrams(self) -> TextConfig:
        """The settings by which the wide path reads n-grams."""
        ...

    @property
    def shares(self) -> Shares:
        """The initial shares of encoder and wide path."""
        ...

    def rows(self, tokenizer: Any, texts: Sequence[str], /) -> list[np.ndarray]:
        """Return the ids of each text, int32 `[T]`."""
        ...

    def rows_of_pairs(self, tokenizer: Any, pairs: Sequence[TextPair], /) -> list[np.ndarray]:
        """Return ids and types of each pair, int32 `[T, 2]`."""
        ...

    def encoder(self, tokenizer: Any, policy: Any, /, *, pairs: bool = False) -> keras.Model:
        """Return the layers from ids `[B, T]`, or ids and types `[B, T, 2]`, to the vectors of rows."""
        ...


class TextOrPairs(WordModel[TextWords]):
    """A model whose rows are texts, or pairs of texts: `(text, text_pair)`, or objects with these keys.

    Args:
        config: the model's settings.
        start: the model to start from, or None.
        text_pairs: True if a row is two texts, False if it is one; None leaves it to the rows of the first
            `fit` or `adapt`.
    """

    def __init__(
        self, config: Any = None, *, start: Any = None, text_pairs: bool | None = None, **kwargs: Any
    ) -> None:
        if not (text_pairs is None or isinstance(text_pairs, bool)):
            raise ConfigError(f"`text_pairs` must be True, False or None. Received {text_pairs!r}.")
        super().__init__(config, start=start, **kwargs)
        self._pairs_asked = self._pairs = text_pairs
        self._words = PretrainedPieces(self.config) if self.fine_tuned else LearnedWords(self.config)

    @property
    def text_pairs(self) -> bool | None:
        """True if a row is two texts, False if it is one, None before any rows decided it."""
        return bool(self._pairs) if self._head is not None else self._pairs

    @property
    def row_kind(self) -> RowKind[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The kind of the rows; texts before any rows decided it."""
        return TEXT_PAIRS if self.text_pairs else TEXTS

    def row_kind_of(self, x: Any) -> RowKind[Any]:
        undecided = self.text_pairs is None and self.row_kind == TEXTS
        return TEXT_PAIRS if undecided and _begins_with_pair(x) else self.row_kind

    def get_config(self) -> dict[str, Any]:
        return {"text_pairs": self.text_pairs, **super().get_config()}

    def explain(self, texts: Sequence[Any]) -> list[TextExplanation]:
        """Return the tokens of each row and the attention weights between them; a notebook draws each.

        Args:
            texts: in any container, or pairs of texts; the first 512 tokens of each row are explained.

        Raises:
            DataError: before training, or for values that are not such rows.
        """
        self._check_adapted()
        return explained(self, self.read_inputs(texts))

    def given_rows(self, x: Any) -> Any:
        if self.text_pairs is not False and set(columns_of(x)) == set(NAMES):
            return _columns_as_pairs(x)
        return super().given_rows(x)

    def read_inputs(self, x: Any) -> list[Any]:
        x = ordered_rows(x)
        if tf.is_tensor(x):
            x = np.asarray(x)
        if found := columns_of(x):
            if self.text_pairs is False:
                refuse_table(self.row_kind.plural, x)
            raise DataError(
                f"The rows are a table of the columns {', '.join(map(repr, found[:10]))}. Give one column of "
                f"texts; or, for two texts a row, the columns {' and '.join(map(repr, NAMES))} alone."
            )
        kind = self.row_kind_of(x)
        if len(x):
            self._check_kind(x[0])
        if kind == TEXT_PAIRS and isinstance(x, tuple) and all(isinstance(row, np.ndarray) for row in x):
            raise DataError(
                f"Pairs of texts came as a tuple of {len(x)} arrays, which may be rows or columns. Give a "
                "list of pairs, `list(zip(texts, text_pairs))`, or one array of shape [rows, 2]."
            )
        return kind.read(x)

    def batches(self, rows: Rows, batch_size: int | None, **kwargs: Any) -> LengthSortedBatches:
        if rows.inputs:
            self._check_kind(rows.inputs[0])
        return super().batches(rows, batch_size, **kwargs)

    def _is_raw(self, x: Any) -> bool:
        return TEXTS.are_rows(x)  # a pair among texts is refused by name, and the reverse

    @property
    def _step_span(self) -> int | None:
        # A span of a pair could hold one of its texts alone.
        return None if self.text_pairs else super()._step_span

    def _check_kind(self, row: Any) -> None:
        """Raise DataError for two texts where a row is one, and for one where it is two."""
        if self.row_kind == TEXT_PAIRS and isinstance(row, str | bytes):
            raise DataError(
                f"Rows of this model are two texts, (text, text_pair). Received one, {row!r:.80}. Give a "
                "list of pairs, or of a file its column of second texts (--text-pair); for one text a row, "
                "train another model on texts."
            )
        if self.text_pairs is False and self.row_kind == TEXTS and is_pair(row):
            raise DataError(
                f"Rows of this model are one text. Received two, {row!r:.80}. Give a list of texts, or a "
                "file without --text-pair; for two a row, train another model on pairs."
            )

    def _learn(self, rows: Rows | None, head: Any, validation: Any, size: int | None, kwargs: Any) -> Any:
        if self._head is None and rows is not None:
            self._decide(rows)  # validation rows are of the same kind
        try:
            return super()._learn(rows, head, validation, size, kwargs)
        except BaseException:
            if self._head is None:
                self._pairs = self._pairs_asked
            raise

    def _decide(self, rows: Rows) -> None:
        self._pairs = isinstance(rows.inputs[0], tuple)
        for name, texts in zip(NAMES, zip(*rows.inputs, strict=True), strict=False) if self._pairs else ():
            if not any(text.strip() for text in texts):
                raise DataError(
                    f"`{name}` is empty in all {len(texts)} pairs. Give both texts of each row; for one text "
                    "a row, give a list of texts."
                )

    def _forget(self) -> None:
        super()._forget()
        self._pairs = self._pairs_asked

    def _learn_front_end(self, rows: Rows) -> None:
        self._decide(rows)
        super()._learn_front_end(rows)

    def _features(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        words = self._words
        return (words.rows_of_pairs if self.text_pairs else words.rows)(self.tokenizer, inputs)

    def _ids_of_strings(self, inputs: Tensor) -> Tensor:
        """Return the core's ids for a string tensor, `[B]`, or `[B, 2]` for pairs; padded."""
        if self.text_pairs:
            return self.tokenizer.pairs(inputs[:, 0], inputs[:, 1]).to_tensor(0)
        return self.tokenizer.padded(inputs)

    def _member(self) -> keras.Model:
        """Return a new encoder from the core's ids to the vectors that the head reads."""
        return self._words.encoder(self.tokenizer, self.dtype_policy, pairs=bool(self.text_pairs))


def _begins_with_pair(x: Any) -> bool:
    return hasattr(x, "__getitem__") and len(x) > 0 and is_pair(x[0])


def _columns_as_pairs(table: Any) -> list[TextPair]:
    """Return the rows of a table of two columns of texts."""
    first, second = (as_column(name, table[name]) for name in NAMES)
    if len(first) != len(second):
        raise DataError(
            f"`{NAMES[0]}` and `{NAMES[1]}` differ in number. Received {len(first)} and {len(second)} texts."
        )
    return list(zip(first, second, strict=True))
