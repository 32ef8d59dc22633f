"""Base of the models of texts, or of two texts a row, with a wide path of n-grams beside their encoder.

Axes: B (batch), T (tokens), D (features).
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.length_sorted import LengthSortedBatches
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.batches.sources import is_source
from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.core.both_orders import MeanOfOrders
from keras_selfattn.models.core.ensemble import member_outputs
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.heads.probabilities import Shares
from keras_selfattn.models.pretrained.pretrained_pieces import PretrainedPieces
from keras_selfattn.models.text.explanation import TextExplanation, explained
from keras_selfattn.models.text.learned_pieces import LearnedPieces
from keras_selfattn.models.text.learned_words import LearnedWords
from keras_selfattn.models.text.ngram_linear import NGramLogits
from keras_selfattn.models.text.ngrams import KINDS, NamedNGrams, named_ngrams, ngram_ids
from keras_selfattn.models.text.pair_ngrams import named_pair_ngrams, pair_kinds, pair_ngram_ids
from keras_selfattn.models.word_model import WordModel, Words
from keras_selfattn.rows.containers import columns_of, number_table, ordered_rows, refuse_table
from keras_selfattn.rows.kind import RowKind
from keras_selfattn.rows.text_pairs import (
    NAMES,
    SYMMETRIC_PAIRS,
    TEXT_PAIRS,
    TextPair,
    TextPairRows,
    has_both_columns,
    is_pair,
    is_table_of_pairs,
    pairs_of_table,
    refuse_columns,
    refuse_tuple_of_columns,
)
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
        """Return ids and types of each pair, int32 `[T, 2]`; of both orders `[T, 4]`."""
        ...

    def encoder(self, tokenizer: Any, policy: Any, /, *, pairs: bool = False) -> keras.Model:
        """Return the layers from ids `[B, T]`, or ids and types `[B, T, 2]`, to the vectors of rows.

        Of both orders of pairs they are from `[B, T, 4]` to the vectors of `BothOrders`.
        """
        ...


class TextModel(WordModel[TextWords]):
    """A model whose rows are texts, or pairs of texts: `(text, text_pair)`, or objects with these keys.

    The first rows decide, and it stays decided. Models with labels and with numbers share it. The wide path
    has an output for each class or number; a subclass fits it (`_fit_linear`).

    A model whose config is `symmetric` reads both orders of a pair, and averages the vectors that its output
    layer takes.

    Args:
        config: the model's settings.
        start: the model to start from, or None.
        text_pairs: True if a row is two texts, False if it is one; None leaves it to the rows of the first
            `fit` or `adapt`.

    Attributes:
        wide: the linear model of n-grams; None without one, and before training.
    """

    encoder_only: ClassVar[dict[str, Any]] = {"wide": False}

    def __init__(
        self, config: Any = None, *, start: Any = None, text_pairs: bool | None = None, **kwargs: Any
    ) -> None:
        if not (text_pairs is None or isinstance(text_pairs, bool)):
            raise ConfigError(f"`text_pairs` must be True, False or None. Received {text_pairs!r}.")
        super().__init__(config, start=start, **kwargs)
        if self.symmetric and text_pairs is False:
            raise ConfigError(
                "`symmetric` is for two texts a row. Received text_pairs=False: leave one of them out."
            )
        self._pairs_asked = self._pairs = True if self.symmetric else text_pairs
        self._words = self._text_words()
        self.wide: NGramLogits | None = None

    def _text_words(self) -> TextWords:
        if self.fine_tuned:
            return PretrainedPieces(self.config)
        return (LearnedPieces if self.config.tokens == "pieces" else LearnedWords)(self.config)

    @property
    def text_pairs(self) -> bool | None:
        """True if a row is two texts, False if it is one, None before any rows decided it."""
        return bool(self._pairs) if self._head is not None else self._pairs

    @property
    def symmetric(self) -> bool:
        """True if a pair and its reverse are one row, with one answer."""
        return self.config.symmetric

    @property
    def row_kind(self) -> RowKind[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The kind of the rows; texts before any rows decided it."""
        if self.symmetric:
            return SYMMETRIC_PAIRS
        return TEXT_PAIRS if self.text_pairs else TEXTS

    def row_kind_of(self, x: Any) -> RowKind[Any]:
        undecided = self.text_pairs is None and self.row_kind == TEXTS
        return TEXT_PAIRS if undecided and _begins_with_pair(x) else self.row_kind

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        # Keras would read an array of a table, whose columns may be in any order.
        if hasattr(inputs, "__array__") and columns_of(inputs):
            if self._is_table_of_pairs(inputs):
                inputs = pairs_of_table(inputs)
            elif number_table(inputs) is None:
                refuse_columns(self.row_kind.plural, inputs)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        core = self.core
        if _is_string(inputs):
            texts = tf.unstack(inputs, 2, axis=1) if self.text_pairs else [inputs]
            return core(self.beside_wide(self._ids_of_strings(inputs), *texts), training=training)
        whole = self.wide is None or isinstance(inputs, list | tuple | dict)
        return core(inputs if whole else self.beside_wide(inputs), training=training)

    def beside_wide(self, ids: Tensor, *texts: Tensor) -> Any:
        """Return the core's inputs: ids, `[batch, length]` or ragged, with the wide path's logits if any.

        Args:
            ids: token ids of the texts; of pairs ids and types, `[batch, length, 2]`, or those of both
                orders, `[batch, length, 4]`.
            texts: string `[batch]`, or two of each pair; without them the wide path's logits are zeros.
        """
        if self.wide is None:
            return ids
        if texts:
            ngrams = pair_ngram_ids if self.text_pairs else ngram_ids
            return [ids, self.wide(ngrams(self._words.ngrams, *texts))]
        rows = ids.nrows() if isinstance(ids, tf.RaggedTensor) else tf.shape(ids)[0]
        return [ids, tf.zeros([rows, self.wide.classes])]

    def named_ngrams(self, *texts: Tensor) -> NamedNGrams:
        """Return the n-grams that the wide path reads in texts, string `[batch]`, or in two of each pair."""
        return (named_pair_ngrams if self.text_pairs else named_ngrams)(self._words.ngrams, *texts)

    @property
    def ngram_kinds(self) -> tuple[str, ...]:
        """The names of the kinds of `named_ngrams`."""
        return pair_kinds(self._words.ngrams) if self.text_pairs else KINDS

    def ids_of_pairs(self, first: Tensor, second: Tensor) -> Any:
        """Return the core's ids of two texts a row, string `[batch]` each, ragged."""
        return self.tokenizer.pairs(first, second, both_orders=self.symmetric)

    def in_given_order(self, ids: Tensor) -> Tensor:
        """Return the core's ids for rows that are to be read in the given order alone, twice if it reads two.

        Args:
            ids: of texts `[batch, length]`; of pairs with types `[batch, length, 2]`.
        """
        return tf.concat([ids, ids], axis=-1) if self.symmetric else ids

    def get_config(self) -> dict[str, Any]:
        features = None if self.wide is None else self.wide.features
        return {"text_pairs": self.text_pairs, **super().get_config(), "wide_features": features}

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
        # A source may have an attribute of any kind that is named as that of a table's columns.
        if self.text_pairs is False or is_source(x):
            return super().given_rows(x)
        if self._is_table_of_pairs(x):
            return pairs_of_table(x)
        if has_both_columns(x):
            refuse_columns("The rows", x)
        refuse_tuple_of_columns(x)
        return super().given_rows(x)

    def read_inputs(self, x: Any) -> list[Any]:
        x = pairs_of_table(x) if self._is_table_of_pairs(x) else ordered_rows(x)
        if tf.is_tensor(x):
            x = np.asarray(x)
        if columns_of(x):
            if self.text_pairs is False:
                refuse_table(self.row_kind.plural, x)
            refuse_columns("The rows", x)
        kind = self.row_kind_of(x)
        if len(x):
            self._check_kind(x[0])
        return kind.read(x)

    def batches(self, rows: Rows, batch_size: int | None, **kwargs: Any) -> LengthSortedBatches:
        if rows.inputs:
            self._check_kind(rows.inputs[0])
        return super().batches(rows, batch_size, **kwargs)

    def _is_raw(self, x: Any) -> bool:
        # A pair among texts is refused by name, and the reverse.
        return self._is_table_of_pairs(x) or TEXTS.are_rows(x)

    def _is_table_of_pairs(self, x: Any) -> bool:
        return self.text_pairs is not False and is_table_of_pairs(x)

    @property
    def _step_span(self) -> int | None:
        # A span of a pair could hold one of its texts alone.
        return None if self.text_pairs else super()._step_span

    def _check_kind(self, row: Any) -> None:
        """Raise DataError for two texts where a row is one, and for one where it is two."""
        if isinstance(self.row_kind, TextPairRows) and isinstance(row, str | bytes):
            why = ", because it is `symmetric` (--symmetric)" if self.symmetric else ""
            raise DataError(
                f"Rows of this model are two texts, (text, text_pair){why}. Received one, {row!r:.80}. Give "
                "a list of pairs, or of a file its column of second texts (--text-pair); for one text a row, "
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
        self.wide = None

    def _learn_front_end(self, rows: Rows) -> None:
        self._decide(rows)
        super()._learn_front_end(rows)

    def _features(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        words = self._words
        return (words.rows_of_pairs if self.text_pairs else words.rows)(self.tokenizer, inputs)

    def _side_inputs(self, inputs: Sequence[Any], *, training: bool) -> np.ndarray | None:
        if self.wide is None:
            return None
        if training:  # without the wide path
            return np.broadcast_to(np.float32(0), (len(inputs), self.wide.classes))
        from keras_selfattn.models.text.ngram_counts import wide_logits  # SciPy takes long

        return wide_logits(self.wide, self._words.ngrams, inputs)

    def _ids_of_strings(self, inputs: Tensor) -> Tensor:
        """Return the core's ids for a string tensor, `[B]`, or `[B, 2]` for pairs; padded."""
        if self.text_pairs:
            return self.ids_of_pairs(inputs[:, 0], inputs[:, 1]).to_tensor(0)
        return self.tokenizer.padded(inputs)

    def _member(self) -> keras.Model:
        """Return a new encoder from the core's ids to the vectors that the head reads."""
        encoder = self._words.encoder(self.tokenizer, self.dtype_policy, pairs=bool(self.text_pairs))
        if not self.symmetric:
            return encoder
        return keras.Model(encoder.input, MeanOfOrders(name="mean_of_orders")(encoder.output))

    def _build_core(self, head: Head) -> keras.Model:
        ids, x = member_outputs(self._member, getattr(self.config, "members", 1))  # [B, D]
        if self.wide is None:
            return keras.Model(ids, head.outputs(x), name="core")
        wide = keras.Input((self.wide.classes,), dtype="float32", name="wide")
        return keras.Model([ids, wide], head.outputs(x, wide, self._words.shares), name="core")


def _begins_with_pair(x: Any) -> bool:
    return hasattr(x, "__getitem__") and len(x) > 0 and is_pair(x[0])


def _is_string(inputs: Tensor) -> bool:
    return getattr(inputs, "dtype", None) == tf.string
