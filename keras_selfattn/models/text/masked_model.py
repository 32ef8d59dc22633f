"""A model that learns from unlabelled text to predict hidden tokens; a classifier can start from it.

Axes: B (texts), T (tokens), N (hidden tokens), D (features), V (vocabulary).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import keras
import numpy as np
from keras import ops

from keras_selfattn.errors import ConfigError, DataError, RunError
from keras_selfattn.models.batches.length_sorted import checked_size
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.batches.shapes import lengths_allowed
from keras_selfattn.models.config import TextConfig, checked_config, differing
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.long_rows import windows
from keras_selfattn.models.pretrained.fine_tuning_config import MaskedPiecesConfig
from keras_selfattn.models.pretrained.pretrained_start import EncoderStart
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.models.subwords.learned_byte_pairs import saved_vocabulary
from keras_selfattn.models.text.masked_learned_pieces import MaskedLearnedPieces
from keras_selfattn.models.text.masked_pieces import MaskedPieces
from keras_selfattn.models.text.masked_prediction import (
    Gathered,
    MaskedBatches,
    MaskedTokenHead,
    Masking,
    SharedLogits,
    hide,
    masked_places,
)
from keras_selfattn.models.text.masked_words import MaskedWords
from keras_selfattn.models.text.starting_model import starting_point
from keras_selfattn.rows.texts import TEXTS

Tensor = Any

# Hidden tokens are never scarce, so less dropout is needed than with few labels.
_DROPOUT = {"dropout": 0.1, "embedding_dropout": 0.1, "word_dropout": 0.0}


class MaskedText(Protocol):
    """The words of a model of masked tokens: learned from its texts, or the pieces of a pretrained model."""

    @property
    def rates(self) -> Mapping[str, float]:
        """Factors of the learning rate by the beginning of a weight's path; none if all learn alike."""
        ...

    def optimizer(self) -> Any:
        """Return the optimizer for `compile` without one."""
        ...

    def advised_training(self, rows: int, /) -> dict[str, Any]:
        """Return better values than `TrainConfig`'s defaults for a number of rows."""
        ...

    def tokenizer_of(self, vocabulary: Sequence[str], /) -> Any:
        """Return the tokenizer of a saved vocabulary."""
        ...

    def learn_tokenizer(self, texts: Sequence[str], start: Any, /) -> Any:
        """Return the tokenizer of the training texts, or of the model to start from."""
        ...

    def rows(self, tokenizer: Any, texts: Sequence[str], /) -> list[np.ndarray]:
        """Return the ids of texts, int32 `[T]`; a text may have several rows."""
        ...

    def masked(self, tokenizer: Any, text: str, /) -> np.ndarray:
        """Return the ids of a text with `[mask]` in place of hidden words, int32 `[T]`."""
        ...

    def masking(self, tokenizer: Any, /) -> Masking:
        """Return the ids that hiding needs."""
        ...

    def names(self, tokenizer: Any, /) -> list[str]:
        """Return the token of each id; "" for an id that is never guessed."""
        ...

    def body(self, tokenizer: Any, policy: Any, /) -> keras.Model:
        """Return the layers from ids `[B, T]` to encoded positions `[B, T, D]`."""
        ...

    def guessed(self, x: Tensor, /) -> Tensor:
        """Return the features to compare with the vectors of all tokens, float32 `[N, D]`."""
        ...


@keras.saving.register_keras_serializable(package="keras_selfattn")
class MaskedTokenModel(RawModel):
    """Self-attention model that learns from texts without labels, by predicting hidden tokens.

    `TextClassifier(start=...)` starts from its vocabulary and its weights. The first `fit` learns the
    vocabulary (or call `adapt`). Texts of over 1,024 characters are split at spaces, so that all of a long
    text is used. In training each pass hides other tokens; `evaluate` and validation hide the same ones each
    time. `compile()` without arguments sets Adam (`training.FineTuningAdamW` for a pretrained encoder),
    cross-entropy and accuracy, of hidden tokens only.

    With `start`, it goes on with the training of a pretrained encoder, with that one's pieces. The folder's
    own head for hidden tokens is taken if its tensors are there; otherwise the head is a new one
    (`start.new_head`). Texts are then read in spans of `training_span` pieces.

    Args:
        config: the model's settings; a `TextConfig` or the dict of one. If `dropout`, `embedding_dropout` and
            `word_dropout` have its defaults, they become 0.1, 0.1 and 0. `wide`, `members`, `training_span`
            and `max_tokens` have no effect. With `start`, a dict with `dropout`, `attention_dropout` or
            `training_span`.
        vocabulary: tokens in the order of their ids, the mask last, or the merges that make the pieces; left
            out before training.
        start: a pretrained model's folder, as for `TextEncoder`; or a run that has begun with one.

    Call arguments:
        inputs: int32 `[hidden]`, indices of the tokens to guess in the concatenated padded rows, and these
            rows, int32 `[batch, length]` token ids with 0 as padding.
        training: dropout acts only if True.

    Returns:
        Logits, float32 `[hidden, vocabulary]`. `predict` takes texts with `[mask]` in place of words, and
        returns for each an array of probabilities `[masks, vocabulary]`, by token id.

    Raises:
        ConfigError: for a field of the config out of range, or one that `start` determines; for a `start`
            whose tokenizer has no mask.
        RunError: for a `start` that is no pretrained model.
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
    row_kind = TEXTS
    learns = "the vocabulary"
    returns = "probabilities of the tokens at each mask"

    def advised_training(self, rows: int) -> dict[str, Any]:
        return self._text.advised_training(rows)

    def default_optimizer(self) -> Any:
        return self._text.optimizer()

    @property
    def learning_rates(self) -> Mapping[str, float]:
        return self._text.rates

    def __init__(
        self,
        config: TextConfig | dict[str, Any] | None = None,
        *,
        vocabulary: Sequence[str] | None = None,
        start: str | Path | EncoderStart | None = None,
        **kwargs: Any,
    ) -> None:
        if vocabulary is not None and start is not None:
            raise ConfigError(
                "`start` is of a model before training, without `vocabulary`. Leave one of them out."
            )
        begun = None if start is None else pretrained_encoder(start)
        super().__init__(config if begun is None else begun.config(config), **kwargs)
        self.start = begun
        self._text: MaskedText = self._text_side()
        self.tokenizer: Any = None
        if vocabulary is not None:
            self.tokenizer = self._text.tokenizer_of(vocabulary)
            self._assemble(MaskedTokenHead())

    def _text_side(self) -> MaskedText:
        if isinstance(self.config, MaskedPiecesConfig):
            return MaskedPieces(self.config)
        return (MaskedLearnedPieces if self.config.tokens == "pieces" else MaskedWords)(self.config)

    def call(self, inputs: Any, training: bool | None = None) -> Tensor:
        return self.core(inputs, training=training)

    def predict(self, x: Any, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Return the probabilities of tokens for each `[mask]`: for each text float32 `[masks, vocabulary]`.

        Args:
            x: texts; or inputs of `keras.Model.predict`, for logits.
            batch_size: rows in a step.
            kwargs: as in `keras.Model.predict`.
        """
        x = self.given_rows(x)
        if not self._is_raw(x):
            return super().predict(x, batch_size, **kwargs)
        self._check_adapted()
        rows = [self._text.masked(self.tokenizer, text) for text in self.row_kind.read(x)]
        masking = self._text.masking(self.tokenizer)
        hidden = masked_places(rows, masking)
        found = [np.zeros((0, len(self._text.names(self.tokenizer))), np.float32)] * len(rows)
        if not any(len(places) for places in hidden.places):
            return found
        size = checked_size(batch_size)
        shape: Any = {"batch_size": size, "window": self.config.attended, "lengths": lengths_allowed()}
        batches = MaskedBatches(rows, masking, hidden, **shape)
        logits = keras.Model.predict(self, batches.dataset(), **kwargs)[batches.real]  # [N, V]
        ends = np.cumsum([len(hidden.places[row]) for row in batches.order])
        of_rows = np.split(np.asarray(ops.softmax(logits)), ends[:-1])
        for row, probabilities in zip(batches.order, of_rows, strict=True):
            found[row] = probabilities
        return found

    def predict_on_batch(self, x: Any) -> Any:
        """Return what `predict` returns for texts; or for inputs of `keras.Model`, logits."""
        x = self.given_rows(x)
        return self.predict(x, max(1, len(x)), verbose=0) if self._is_raw(x) else super().predict_on_batch(x)

    def guesses(self, x: Any, count: int = 5) -> list[list[list[str]]]:
        """Return the most likely tokens for each `[mask]` of each text, the most likely first.

        Args:
            x: texts with `[mask]` in place of words.
            count: the number of tokens for each mask.
        """
        self._check_adapted()
        names = np.array(self._text.names(self.tokenizer), dtype=object)
        (known,) = np.nonzero(names)
        return [
            [names[known[np.argsort(-row[known], kind="stable")[:count]]].tolist() for row in found]
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
        vocabulary = None if self.tokenizer is None else saved_vocabulary(self.tokenizer)
        # The copied weights now belong to this model.
        start = None if self.start is None or self.tokenizer is not None else self.start.path
        return {**super().get_config(), "vocabulary": vocabulary, "start": start}

    def _read_config(self, config: Any) -> TextConfig | MaskedPiecesConfig:
        if isinstance(config, MaskedPiecesConfig) or (isinstance(config, dict) and "pieces" in config):
            return checked_config(MaskedPiecesConfig, config)
        given = config if isinstance(config, dict) else differing(checked_config(TextConfig, config))
        found = checked_config(TextConfig, {**_DROPOUT, **given})
        if found.symmetric:
            raise ConfigError("`symmetric` is for two texts a row, and pretraining reads one. Leave it out.")
        return found

    def read_inputs(self, x: Any) -> list[str]:
        return list(windows(super().read_inputs(x)))

    def head_type(self, y: Any) -> type[Head]:
        return MaskedTokenHead

    def read_rows(self, x: Any, y: Any, weights: Any, kind: type[Head]) -> Rows:
        if weights is not None:
            raise DataError("A model of masked tokens counts all texts alike. Leave `sample_weight` out.")
        rows = Rows(self.read_inputs(x), kind.read(y))
        if not rows.inputs:
            raise DataError("There are no texts, or all of them are blank. Give at least one.")
        return rows

    def _learn_front_end(self, rows: Rows) -> None:
        self.tokenizer = self._text.learn_tokenizer(rows.inputs, self.start)

    def _forget(self) -> None:
        super()._forget()
        self.tokenizer = None

    def _prepare(self, rows: Rows) -> None:
        if self.start is not None:
            self.start.copy_to(self.core)
            self.start.copy_head(self.core)

    def _features(self, inputs: Sequence[str]) -> list[np.ndarray]:
        return self._text.rows(self.tokenizer, inputs)

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
        masking = self._text.masking(self.tokenizer)
        if not any(masking.hidable(row.reshape(len(row), -1)[:, 0]).any() for row in features):
            raise DataError(
                f"The {len(rows.inputs)} texts to guess in hold no token that the model knows. Give texts "
                "like those of training, or more of them."
            )
        hidden = None if training else hide(features, masking, np.random.default_rng(0))
        order: Any = {"window": self.config.attended, "shuffle": shuffle, "seed": seed}
        order["lengths"] = lengths_allowed(training=training)
        return MaskedBatches(features, masking, hidden, batch_size=checked_size(batch_size), **order)

    def _build_core(self, head: Head) -> keras.Model:
        body = self._text.body(self.tokenizer, self.dtype_policy)
        # First, so that Keras weights the loss of a batch by its hidden tokens.
        places = keras.Input((), dtype="int32", name="places")
        x = Gathered(dtype="float32", name="gathered")([body.output, places])  # [N, D]
        table = body.get_layer("embedding")
        logits = SharedLogits(lambda: table.vectors, dtype="float32", name="logits")
        outputs = head.outputs(logits(self._text.guessed(x)))  # [N, V]
        return keras.Model([places, body.input], outputs, name="core")


def pretrained_encoder(start: Any) -> EncoderStart:
    """Return the pretrained encoder that a model of masked tokens starts from.

    Args:
        start: its path; or the encoder, which is returned.

    Raises:
        RunError: if it is no pretrained encoder.
        ConfigError: if its tokenizer has no mask.
    """
    begun = starting_point(start, MaskedPiecesConfig)
    if not isinstance(begun, EncoderStart):
        raise RunError(
            f"{begun.path} is a {begun.record['kind']} that learned its own words. Pretraining begins with a "
            "pretrained model's folder, or with a run of `keras-selfattn pretrain --from FOLDER`."
        )
    return begun
