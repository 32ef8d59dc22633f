"""A classifier of each token of a row, with its vocabulary and label names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.rows import Rows, check_columns
from keras_selfattn.models.batches.sample_weights import at_positions, position_weights
from keras_selfattn.models.config import TokenConfig
from keras_selfattn.models.core.ensemble import member_outputs
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.pretrained.adapted_start import token_starting_point
from keras_selfattn.models.pretrained.fine_tuning_config import FineTunedTokenConfig
from keras_selfattn.models.pretrained.pretrained_start import EncoderStart
from keras_selfattn.models.pretrained.pretrained_tokens import PretrainedTokens
from keras_selfattn.models.tokens.learned_tokens import LearnedTokens
from keras_selfattn.models.tokens.position_head import PositionHead
from keras_selfattn.models.tokens.span_labels import PathRule
from keras_selfattn.models.tokens.text_spans import SpanMarks, share_split_otherwise, splitting_in_words
from keras_selfattn.models.word_model import WordModel, Words
from keras_selfattn.rows.containers import ordered_rows
from keras_selfattn.rows.text_spans import Span
from keras_selfattn.rows.text_tokens import split_text, token_places
from keras_selfattn.rows.texts import TEXTS
from keras_selfattn.rows.tokens import TOKENS
from keras_selfattn.user_warnings import warn_user

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class TokenClassifier(WordModel[Words]):
    """Self-attention model that labels every token of a row: parts of speech, names, chunks.

    Rows are lists of tokens; targets are lists with one label for each token. The first `fit` learns
    vocabulary and label names from its rows (or call `adapt`); both are saved in the `.keras` file.
    `compile()` without arguments sets Adam (`training.FineTuningAdamW` for a pretrained encoder), and
    cross-entropy and accuracy of tokens, without padding.

    Args:
        config: the model's settings; a `TokenConfig` or the dict of one; with a pretrained model's folder,
            the fields of a `FineTunedTokenConfig` that the folder does not determine.
        vocabulary: words in the order of their ids; left out before training.
        labels: label names in the order of the classes; left out before training.
        spans: if labels such as B-PER and I-PER mark spans, the rule by which they follow each other: "IOB2"
            (True is the same), "IOB1" or "IOBES"; left out before training.
        split_otherwise: the share of the tokens of the last training, from 0 to 1, that `spans` would split
            further; 0 for raw texts that were split by its rule. Left out before training; None if it is not
            known, as of files of earlier versions, and after further training on the batches of a source.
        start: the folder of a pretrained model, as for `TextEncoder`, or a run of `pretrain --from`,
            whose pieces and weights this one starts from. A token is then the encoder's output at its first
            piece, and rows that are longer than `max_tokens` pieces are read in parts, each of whole tokens.

    Call arguments:
        inputs: string `[batch, length]` with "" as padding, or int32 `[batch, length, features]`; of a
            pretrained model these are the ids of each token's pieces, 0 after the last.
        training: dropout acts only if True.

    Returns:
        Probabilities, float32 `[batch, length, classes]`. `predict` on rows of tokens returns a list with an
        array `[tokens, classes]` for each.

    Raises:
        ConfigError: for a field of the config out of range.
        DataError: for rows that cannot train the model, such as one with more tokens than labels.

    Example:

        >>> model = TokenClassifier(TokenConfig(width=8, num_layers=1, num_heads=2, hash_buckets=64))
        >>> model.compile()
        >>> rows, labels = [["a", "film"], ["the", "best", "film"]], [["DET", "NOUN"], ["DET", "ADJ", "NOUN"]]
        >>> _ = model.fit(rows, labels, epochs=1, verbose=0)
        >>> model.labels, [found.shape for found in model.predict(rows, verbose=0)]
        (['ADJ', 'DET', 'NOUN'], [(2, 3), (3, 3)])
    """

    config_type = TokenConfig
    tuned_config_type = FineTunedTokenConfig
    starting_point = staticmethod(token_starting_point)
    row_kind = TOKENS
    learns = "the vocabulary and the label names"
    returns = "a probability for each label of each token"

    def __init__(
        self,
        config: TokenConfig | dict[str, Any] | None = None,
        *,
        vocabulary: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        spans: bool | PathRule = False,
        split_otherwise: float | None = None,
        start: str | Path | EncoderStart | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, start=start, **kwargs)
        if self.fine_tuned and keras.backend.backend() != "tensorflow":
            raise ConfigError(
                "Tokens with a pretrained encoder need TensorFlow, which cuts their rows into parts. Keras "
                f"runs on {keras.backend.backend()!r}: set KERAS_BACKEND=tensorflow, or leave `start` "
                "(--from) out."
            )
        self._words = PretrainedTokens(self.config) if self.fine_tuned else LearnedTokens(self.config)
        self.split_otherwise = split_otherwise
        self._check_state(vocabulary, labels)
        if vocabulary is not None and labels is not None:
            # In place of a tokenizer, because the rows are already tokens.
            self.tokenizer = self._words.tokenizer_of(vocabulary)
            self._assemble(PositionHead(labels, spans))

    @property
    def labels(self) -> list[str]:
        """Label names in the order of the classes; none before training."""
        return [] if self._head is None else list(cast(PositionHead, self._head).labels)

    def label(self, x: Any, batch_size: int | None = None) -> list[list[str]]:
        """Return the most likely labels of the tokens of each row; for spans, the most likely valid row.

        Args:
            x: rows of tokens.
            batch_size: rows in a step.
        """
        return cast(PositionHead, self.head).answered(self.predict(x, batch_size, verbose=0))

    def spans(self, texts: Any, batch_size: int | None = None) -> list[list[Span]]:
        """Return the spans of each raw text, in order: its parts that the labels of its tokens mark.

        Texts are split into tokens as the files of annotation tools are (`rows.text_tokens`): words, between
        white space, and single characters of punctuation and of scripts without blanks. Which of the tokens'
        labels are a span, `models.tokens.text_spans.SpanMarks` says.

        Args:
            texts: raw texts. Bytes are read as UTF-8.
            batch_size: rows in a step.

        The training's tokens may have been split otherwise, so that the figures are not those of raw texts:
        `split_otherwise` is the share of them that are several here, and a warning names it.

        Raises:
            DataError: for rows that are no texts, or a model that has not seen any rows.

        Example:

            >>> model = TokenClassifier(TokenConfig(width=8, num_layers=1, num_heads=2, hash_buckets=64))
            >>> model.compile()
            >>> _ = model.fit([["Ada", "wrote"]] * 40, [["B-PER", "O"]] * 40, epochs=8, verbose=0)
            >>> [(each.text, each.label, each.start, each.end) for each in model.spans([" Ada wrote"])[0]]
            [('Ada', 'PER', 1, 4)]
        """
        if isinstance(texts, str | bytes):
            raise DataError("Texts come as a list. Received one string; wrap it in a list: [text].")
        if self.split_otherwise:
            warn_user(f"{splitting_in_words(self.split_otherwise)} Spans may be worse than the figures say.")
        return self.found_spans(texts, batch_size)

    def found_spans(self, texts: Any, batch_size: int | None = None) -> list[list[Span]]:
        """Return the spans of each raw text, as `spans` does, without its warning."""
        head = cast(PositionHead, self.head)
        raw = TEXTS.read(texts)
        outputs = self.predict(list(map(split_text, raw)), batch_size, verbose=0)
        answers = zip(raw, head.chosen(outputs), outputs, strict=True)
        marks = SpanMarks(head.labels)
        return [
            marks.spans(text, token_places(text), chosen, row[np.arange(len(chosen)), chosen])
            for text, chosen, row in answers
        ]

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        core = self.core
        features = self.tokenizer(inputs) if getattr(inputs, "dtype", None) == tf.string else inputs
        return core(features, training=training)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "split_otherwise": self.split_otherwise}

    def head_type(self, y: Any) -> type[Head]:
        return PositionHead

    def read_rows(self, x: Any, y: Any, weights: Any, kind: type[Head]) -> Rows:
        x, y, weights = map(_as_column, (x, y, weights))
        inputs = self.read_inputs(x)
        weights = position_weights(_without_padding(x, inputs, weights))
        rows = super().read_rows(inputs, _without_padding(x, inputs, y), None, kind)._replace(weights=weights)
        check_columns(self.row_kind.plural, rows)
        for row, (tokens, labels) in enumerate(zip(rows.inputs, rows.targets, strict=True)):
            if len(tokens) != len(labels):
                raise DataError(
                    f"Row {row} (counted from 0) has {len(tokens)} tokens and {len(labels)} labels. Give "
                    "one label for each token."
                )
        return rows._replace(weights=at_positions(rows.weights, rows.inputs))

    def _learn_front_end(self, rows: Rows) -> None:
        super()._learn_front_end(rows)
        self.split_otherwise = share_split_otherwise(rows.inputs)

    def _learn(self, rows: Rows | None, head: Any, validation: Any, size: int | None, kwargs: Any) -> Any:
        again = self._head is not None
        validation = super()._learn(rows, head, validation, size, kwargs)
        if again:  # batches of a source are not counted: then it is not known
            self.split_otherwise = None if rows is None else share_split_otherwise(rows.inputs)
        return validation

    def _forget(self) -> None:
        super()._forget()
        self.split_otherwise = None

    def _features(self, inputs: Sequence[Sequence[str]]) -> list[np.ndarray]:
        return self.tokenizer.rows(inputs)

    def _build_core(self, head: Head) -> keras.Model:
        def member() -> keras.Model:
            return self._words.encoder(self.tokenizer, self.dtype_policy)

        features, x = member_outputs(member, getattr(self.config, "members", 1))  # [B, T, D]
        return keras.Model(features, head.outputs(x), name="core")


def _as_column(values: Any) -> Any:
    """Return rows, labels or weights as a list or an array, read once; a table of numbers, too."""
    values = ordered_rows(values)
    return np.asarray(values) if hasattr(values, "__array__") else values


def _without_padding(x: Any, inputs: Sequence[Sequence[str]], values: Any) -> Any:
    """Return labels or weights of padded rows, arrays, as far as the rows have tokens; others unchanged."""
    if not isinstance(values, list | tuple | np.ndarray) or len(inputs) != len(values):
        return values
    return [
        given[: len(tokens)] if isinstance(row, np.ndarray) and np.shape(given)[:1] == row.shape else given
        for row, tokens, given in zip(x, inputs, values, strict=True)
    ]
