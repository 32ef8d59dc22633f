"""A classifier of each token of a row, with its vocabulary and label names."""

from collections.abc import Sequence
from typing import Any, cast

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.base import RawModel
from keras_selfattn.models.config import TokenConfig
from keras_selfattn.models.encoder_core import Neighbours, encoded
from keras_selfattn.models.ensemble import side_by_side
from keras_selfattn.models.heads import Head
from keras_selfattn.models.raw_inputs import Rows, are_token_lists, as_token_lists
from keras_selfattn.models.tokens.position_head import PositionHead
from keras_selfattn.models.tokens.token_features import FEATURES, FeatureEmbedding, TokenFeatures, learn_words

Tensor = Any

# Rows of all passes together, from which on the smallest number of passes is advised.
_ROWS_IN_ALL = 50_000


@keras.saving.register_keras_serializable(package="keras_selfattn")
class TokenClassifier(RawModel):
    """Self-attention model that labels every token of a row: parts of speech, names, chunks.

    Rows are lists of tokens; targets are lists with one label for each token. The first `fit` learns
    vocabulary and label names from its rows (or call `adapt`); both are saved in the `.keras` file.
    `compile()` without arguments sets Adam, and cross-entropy and accuracy of tokens, without padding.

    Args:
        config: the model's settings; a `TokenConfig` or the dict of one.
        vocabulary: words in the order of their ids; left out before training.
        labels: label names in the order of the classes; left out before training.
        spans: True if labels such as B-PER and I-PER mark spans; left out before training.

    Call arguments:
        inputs: string `[batch, length]` with "" as padding, or int32 `[batch, length, features]`.
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
    rows_are = "Rows"

    def advised_training(self, rows: int) -> dict[str, Any]:
        # Each token of a row is a training example, so few passes over many rows are enough.
        return {"batch_size": 32, "epochs": int(np.clip(_ROWS_IN_ALL // max(1, rows), 4, 20)), "refit": True}

    def alternatives(self) -> list[dict[str, Any]]:
        return [
            {"dropout": 0.3},
            {"learning_rate": 2e-3},
            {"word_dropout": 0.25},
            {"width": 192},
            {"num_layers": 1},
            {"min_count": 1},
        ]

    def __init__(
        self,
        config: TokenConfig | dict[str, Any] | None = None,
        *,
        vocabulary: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        spans: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, **kwargs)
        # In place of a tokenizer, because the rows are already tokens.
        self.tokenizer: Any = None
        if (vocabulary is None) != (labels is None):
            raise ConfigError("`vocabulary` and `labels` go together. Received one without the other.")
        if vocabulary is not None and labels is not None:
            self.tokenizer = TokenFeatures(self.config, vocabulary)
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
        chosen = cast(PositionHead, self.head).chosen(self.predict(x, batch_size, verbose=0))
        return [[self.labels[place] for place in row.tolist()] for row in chosen]

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        core = self.core
        features = self.tokenizer(inputs) if getattr(inputs, "dtype", None) == tf.string else inputs
        return core(features, training=training)

    def get_config(self) -> dict[str, Any]:
        vocabulary = None if self.tokenizer is None else self.tokenizer.vocabulary
        return {**super().get_config(), "vocabulary": vocabulary}

    def _is_raw(self, x: Any) -> bool:
        return are_token_lists(x)

    def read_inputs(self, x: Any) -> list[list[str]]:
        return as_token_lists(x)

    def head_type(self, y: Any) -> type[Head]:
        return PositionHead

    def read_rows(self, x: Any, y: Any, weights: Any, kind: type[Head]) -> Rows:
        rows = super().read_rows(x, y, weights, kind)
        for row, (tokens, labels) in enumerate(zip(rows.inputs, rows.targets, strict=True)):
            if len(tokens) != len(labels):
                raise DataError(
                    f"Row {row} (counted from 0) has {len(tokens)} tokens and {len(labels)} labels. Give "
                    "one label for each token."
                )
        return rows

    def _learn(self, rows: Rows) -> None:
        self.tokenizer = TokenFeatures(self.config, learn_words(self.config, rows.inputs))

    def _features(self, inputs: Sequence[Sequence[str]]) -> list[np.ndarray]:
        return self.tokenizer.rows(inputs)

    def _build_core(self, head: Head) -> keras.Model:
        features, x = side_by_side(self._member, self.config.members)  # [B, T, D]
        return keras.Model(features, head.outputs(x), name="core")

    def _member(self) -> keras.Model:
        """Return an encoder of features `[B, T, K]`, to `[B, T, D]`."""
        config, policy = self.config, self.dtype_policy
        features = keras.Input((None, FEATURES), dtype="int32", name="features")
        x = FeatureEmbedding(
            self.tokenizer.size,
            config.hash_buckets,
            config.width,
            config.word_dropout,
            dtype=policy,
            name="embedding",
        )(features)  # [B, T, D]
        x = keras.layers.Dropout(config.dropout, dtype=policy, name="embedding_dropout")(x)
        x = Neighbours(dtype=policy, name="neighbours")(x)
        x = encoded(x, config, policy, config.window)
        x = keras.layers.Dropout(config.dropout, dtype=policy, name="head_dropout")(x)
        return keras.Model(features, x)
