"""A model that learns from unlabelled text to predict hidden tokens; a classifier can start from it.

Axes: B (texts), T (tokens), N (hidden tokens), D (features), V (vocabulary).
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_selfattn.errors import DataError
from keras_selfattn.models.base import RawModel
from keras_selfattn.models.batches import checked_size
from keras_selfattn.models.config import TextConfig, checked_config, differing
from keras_selfattn.models.heads import Head
from keras_selfattn.models.raw_inputs import Rows, are_texts, as_texts
from keras_selfattn.models.text.learned_words import text_body
from keras_selfattn.models.text.masked_prediction import (
    MASK,
    Gathered,
    MaskedBatches,
    MaskedTokenHead,
    SharedLogits,
    hide,
    masked_places,
    masked_token,
)
from keras_selfattn.models.text.tokenizer import Tokenizer, learn_vocabulary

Tensor = Any

# Characters of a window, some 200 words: the cost of a row is bounded, and no token of a long text is unused.
_WINDOW = 1024
# Training rows of all passes together, with 2 to 40 passes; the most held-out rows.
_ROWS_IN_ALL, _HELD_OUT = 300_000, 2_000
# Hidden tokens are never scarce, so less dropout is needed than with few labels.
_DROPOUT = {"dropout": 0.1, "embedding_dropout": 0.1, "word_dropout": 0.0}


@keras.saving.register_keras_serializable(package="keras_selfattn")
class MaskedTokenModel(RawModel):
    """Self-attention model that learns from texts without labels, by predicting hidden tokens.

    `TextClassifier(start=...)` starts from its vocabulary and its weights. The first `fit` learns the
    vocabulary (or call `adapt`). Texts of over 1,024 characters are split at spaces, so that all of a long
    text is used. In training each pass hides other tokens; `evaluate` and validation hide the same ones each
    time. `compile()` without arguments sets Adam, cross-entropy and accuracy, of hidden tokens only.

    Args:
        config: the model's settings; a `TextConfig` or the dict of one. If `dropout`, `embedding_dropout` and
            `word_dropout` have its defaults, they become 0.1, 0.1 and 0. `wide`, `members`, `training_span`
            and `max_tokens` have no effect.
        vocabulary: tokens in the order of their ids, the mask last; left out before training.

    Call arguments:
        inputs: int32 `[hidden]`, indices of the tokens to guess in the concatenated padded rows, and these
            rows, int32 `[batch, length]` token ids with 0 as padding.
        training: dropout acts only if True.

    Returns:
        Logits, float32 `[hidden, vocabulary]`. `predict` takes texts with `[mask]` in place of words, and
        returns for each an array of probabilities `[masks, vocabulary]`, by token id.

    Raises:
        ConfigError: for a field of the config out of range.
        DataError: for texts that cannot train the model.

    Example:

        >>> model = MaskedTokenModel(TextConfig(width=8, num_layers=1, num_heads=2))
        >>> model.compile()
        >>> _ = model.fit(["a good film", "a bad film", "a good book"] * 8, epochs=1, verbose=0)
        >>> [len(words) for words in model.guesses(["a [mask] film by [mask]"], 3)[0]]
        [3, 3]

    Reference: Devlin et al. 2019, "BERT", section 3.1; Press and Wolf 2017, "Using the Output Embedding to
    Improve Language Models", for the vectors shared by input and output.
    """

    config_type = TextConfig
    rows_are = "Texts"

    def advised_training(self, rows: int) -> dict[str, Any]:
        epochs = int(np.clip(_ROWS_IN_ALL // max(1, rows), 2, 40))
        return {"epochs": epochs, "learning_rate": 2e-3, "validation": min(0.1, _HELD_OUT / max(1, rows))}

    def __init__(
        self,
        config: TextConfig | dict[str, Any] | None = None,
        *,
        vocabulary: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        given = config if isinstance(config, dict) else differing(checked_config(TextConfig, config))
        super().__init__({**_DROPOUT, **given}, **kwargs)
        self.tokenizer: Any = None
        if vocabulary is not None:
            self._set_vocabulary(vocabulary)
            self._assemble(MaskedTokenHead())

    def call(self, inputs: Any, training: bool | None = None) -> Tensor:
        return self.core(inputs, training=training)

    def predict(self, x: Any, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Return the probabilities of tokens for each `[mask]`: for each text float32 `[masks, vocabulary]`.

        Args:
            x: texts; or inputs of `keras.Model.predict`, for logits.
            batch_size: rows in a step.
            kwargs: as in `keras.Model.predict`.
        """
        if not self._is_raw(x):
            return super().predict(x, batch_size, **kwargs)
        self._check_adapted()
        rows = [self._with_masks(text) for text in as_texts(x)]
        hidden = masked_places(rows, self._mask_id)
        found = [np.zeros((0, self.tokenizer.size), np.float32)] * len(rows)
        if not any(len(places) for places in hidden.places):
            return found
        size = checked_size(batch_size)
        batches = MaskedBatches(rows, self._mask_id, hidden, batch_size=size, window=self._window)
        logits = keras.Model.predict(self, batches.dataset(), **kwargs)  # [N, V]
        ends = np.cumsum([len(hidden.places[row]) for row in batches.order])
        of_rows = np.split(np.asarray(ops.softmax(logits)), ends[:-1])
        for row, probabilities in zip(batches.order, of_rows, strict=True):
            found[row] = probabilities
        return found

    def guesses(self, x: Any, count: int = 5) -> list[list[list[str]]]:
        """Return the most likely tokens for each `[mask]` of each text, the most likely first.

        Args:
            x: texts with `[mask]` in place of words.
            count: the number of tokens for each mask.
        """
        self._check_adapted()
        first = self.tokenizer.size - len(self.tokenizer.vocabulary)
        words = np.array(self.tokenizer.vocabulary[:-1], dtype=object)
        return [
            [words[np.argsort(-row[first:-1], kind="stable")[:count]].tolist() for row in found]
            for found in self.predict(x, verbose=0)
        ]

    def hidden_batches(self, x: Any, batch_size: int | None = None) -> MaskedBatches:
        """Return the batches of `evaluate`, which hides the same tokens of the same texts.

        Args:
            x: texts.
            batch_size: rows in a batch.
        """
        self._check_adapted()
        return self.batches(self.read_rows(x, None, None, MaskedTokenHead), batch_size)

    def get_config(self) -> dict[str, Any]:
        vocabulary = None if self.tokenizer is None else self.tokenizer.vocabulary
        return {**super().get_config(), "vocabulary": vocabulary}

    @property
    def _mask_id(self) -> int:
        return self.tokenizer.size - 1

    def _set_vocabulary(self, vocabulary: Sequence[str]) -> None:
        # Windows are already cut by characters.
        whole = dataclasses.replace(self.config, max_tokens=2 * _WINDOW)
        self.tokenizer = Tokenizer(whole, vocabulary)

    def _is_raw(self, x: Any) -> bool:
        return are_texts(x)

    def read_inputs(self, x: Any) -> list[str]:
        return list(windows(as_texts(x)))

    def head_type(self, y: Any) -> type[Head]:
        return MaskedTokenHead

    def read_rows(self, x: Any, y: Any, weights: Any, kind: type[Head]) -> Rows:
        if weights is not None:
            raise DataError("A model of masked tokens counts all texts alike. Leave `sample_weight` out.")
        rows = Rows(self.read_inputs(x), kind.read(y))
        if not rows.inputs:
            raise DataError("There are no texts, or all of them are blank. Give at least one.")
        return rows

    def _learn(self, rows: Rows) -> None:
        whole = dataclasses.replace(self.config, max_tokens=2 * _WINDOW)
        self._set_vocabulary([*learn_vocabulary(whole, rows.inputs)[0], MASK])

    def _features(self, inputs: Sequence[str]) -> list[np.ndarray]:
        return self.tokenizer.rows(inputs)

    def batches(
        self,
        rows: Rows,
        batch_size: int | None,
        *,
        training: bool = False,
        shuffle: bool = False,
        seed: int = 0,
    ) -> MaskedBatches:
        features = self._features(rows.inputs)
        hidden = None if training else hide(features, self._mask_id, np.random.default_rng(0))
        if hidden is not None and not any(len(places) for places in hidden.places):
            raise DataError(
                f"The {len(rows.inputs)} texts to guess in hold no token that the model knows. Give texts "
                "like those of training, or more of them."
            )
        order = {"window": self._window, "shuffle": shuffle, "seed": seed}
        return MaskedBatches(features, self._mask_id, hidden, batch_size=checked_size(batch_size), **order)

    def _build_core(self, head: Head) -> keras.Model:
        body = text_body(self.config, self.tokenizer, self.dtype_policy)
        # First, so that Keras weights the loss of a batch by its hidden tokens.
        places = keras.Input((), dtype="int32", name="places")
        x = head.outputs(Gathered(dtype="float32", name="gathered")([body.output, places]))
        table = body.get_layer("embedding")
        logits = SharedLogits(lambda: table.vectors, dtype="float32", name="logits")(x)
        return keras.Model([places, body.input], logits, name="core")

    def _with_masks(self, text: str) -> np.ndarray:
        """Return the tokens of a text with `[mask]` in place of hidden ones."""
        first, *others = self._features(text.split(MASK))
        mask = masked_token(self._mask_id, first)[None]
        return np.concatenate([first, *(each for other in others for each in (mask, other))])


def windows(texts: Sequence[str]) -> Iterator[str]:
    """Yield pieces of texts, not blank, of at most 1,024 characters, cut before a space if possible."""
    for text in texts:
        start = 0
        while start < len(text):
            end = _cut(text, start)
            if not text[start:end].isspace():
                yield text[start:end]
            start = end


def _cut(text: str, start: int) -> int:
    end = start + _WINDOW
    if end >= len(text):
        return len(text)
    return next((place for place in range(end, start, -1) if text[place].isspace()), end)
