"""A pretrained encoder of raw text to vectors, which trains on texts that belong together or have a score.

Axes: B (rows), K (texts of a row), T (tokens), D (features).
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.layers.weights.projection import Dense
from keras_selfattn.models import compiling
from keras_selfattn.models.batches.length_sorted import padded
from keras_selfattn.models.batches.rows import Rows, check_columns
from keras_selfattn.models.batches.sources import is_source
from keras_selfattn.models.config import checked_config
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.long_rows import warn_of_cut
from keras_selfattn.models.pretrained.adapted_start import encoder_start
from keras_selfattn.models.pretrained.embedding import ACTIVATIONS
from keras_selfattn.models.pretrained.fine_tuning import FineTuning, epochs_for, steady_optimizer
from keras_selfattn.models.pretrained.fine_tuning_config import TextEncoderConfig
from keras_selfattn.models.pretrained.pretrained_body import (
    WithoutPrompt,
    pooled,
    pretrained_body,
    saved_tokenizer,
)
from keras_selfattn.models.pretrained.pretrained_start import EncoderStart
from keras_selfattn.models.pretrained.vector_head import VectorHead, check_learnable
from keras_selfattn.models.pretrained_folders.pretrained_config import PretrainedConfig
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.rows.containers import columns_of
from keras_selfattn.rows.targets import SIMILARITY
from keras_selfattn.rows.text_groups import TEXT_GROUPS, TextGroup, numbered, texts_of_row
from keras_selfattn.rows.text_pairs import is_table_of_pairs, pairs_of_table, refuse_columns

Tensor = Any

# The peak of a training, and its batches. With 800 pairs of the STS benchmark, two epochs from MiniLM-L6,
# Spearman on 300 development rows: .884 before, with 2e-5 .886, with 5e-5 .876, with 1e-4 .842. With 5,749
# pairs, on 1,500 development rows: .867 before, with 2e-5 .875, with 5e-5 .882.
_RATE, _RATE_OF_MANY, _MANY, _BATCH = 2e-5, 5e-5, 2_000, 16
# The rows that are read in all, and the range of the epochs. Of 2 epochs on 5,749 pairs the first was best.
_ROWS_READ, _EPOCHS = 10_000, (2, 10)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class TextEncoder(RawModel):
    """Pretrained encoder that turns raw strings into vectors.

    It reads a folder of the Hugging Face kind: `config.json`, `model.safetensors` (or its shards), the
    tokenizer, and sentence-transformers' `modules.json`, if there is one, for pooling and normalisation. The
    families BERT (MiniLM and TinyBERT too), DeBERTa-v2 and v3, DistilBERT, ELECTRA, GTE, Jina v3, ModernBERT,
    MPNet, NomicBERT, RoBERTa and XLM-RoBERTa can be read, with WordPiece, byte-level byte pairs or a unigram
    model. No pickle is opened. The vectors are those of sentence-transformers. A name in the Hugging Face
    hub, `owner/name` or `hf://owner/name@revision`, is fetched; nothing is downloaded for a folder.

    Padding has the id 0. Where the folder pads with another id, the two change places in the vocabulary and
    in the table of tokens; the vectors are the same, and all other ids are the folder's. A padding token that
    a text itself has is a token, as in transformers, with the id `tokenizer.written_padding`.

    `fit` goes on with its training. Pairs of texts with scores, `fit(pairs, scores)`, bring the order of the
    cosines to that of the scores. Texts that belong together, `fit(groups)`, are told from all other texts of
    a batch: a group is a text, such as a question, one that belongs to it, and any number that do not,
    `(text, text_pair, negative, …)`, None for a negative that a group lacks. Equal texts of other groups, and
    those of the same question, are no negatives. `predict` takes texts as before, or groups.

    Args:
        config: the settings; with `start`, the fields that a folder does not determine
            (`TextEncoderConfig`).
        start: the folder, or its name in the Hugging Face hub; or a run of `keras-selfattn pretrain --from
            FOLDER`, or its `.keras` file.
        vocabulary: pieces in the order of their ids; left out if `start` is given.

    Call arguments:
        inputs: string `[batch]`, or int32 `[batch, length]` token ids with 0 as padding; of groups string
            `[batch, texts]`, or ids `[batch, length, texts]`.
        training: dropout acts only if True.

    Returns:
        float32 `[batch, width]`, of groups `[batch, texts, width]`. Texts of more than `config.max_tokens`
        tokens are cut at the end.

    Raises:
        RunError: if the folder or one of its files is missing or broken.
        ConfigError: for a family, a tokenizer or a module that cannot be read, and for weights that do not
            fit; it names all of them.
        DataError: of `fit`, for texts alone, for scores that are none or all alike, for groups whose second
            texts all belong to all first ones, and for batches of one pair, which is compared with none.

    Example (random weights; with a folder's, `TextEncoder(start="all-MiniLM-L6-v2")`):

        >>> vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film"]
        >>> sizes = {"width": 8, "num_layers": 1, "num_heads": 2, "positions": 16, "max_tokens": 16}
        >>> model = TextEncoder({**sizes, "vocabulary_size": 7}, vocabulary=vocabulary)
        >>> model.predict(["good film", "film"], verbose=0).shape
        (2, 8)
        >>> model.compile()
        >>> _ = model.fit([("good film", "film"), ("good", "[MASK]")], [1.0, 0.0], epochs=1, verbose=0)

    References: Devlin et al. 2019, "BERT"; Reimers and Gurevych 2019, "Sentence-BERT", section 3; losses:
    `models.pretrained.vector_losses`.
    """

    config_type = TextEncoderConfig
    starting_point = staticmethod(encoder_start)
    row_kind = TEXT_GROUPS
    learns = "nothing"
    returns = "vectors"

    def __init__(
        self,
        config: PretrainedConfig | dict[str, Any] | None = None,
        *,
        start: str | os.PathLike[str] | EncoderStart | None = None,
        vocabulary: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        if start is not None and vocabulary is not None:
            raise ConfigError("`start` has its own vocabulary. Leave `vocabulary` out.")
        if start is None and (config is None or vocabulary is None):
            raise ConfigError(
                "Give `start` (--from), a pretrained model's folder; `config` and `vocabulary` are of saved "
                f"ones. Received config={config!r:.80}, vocabulary={vocabulary!r:.80}."
            )
        begun = None if start is None else encoder_start(start)
        super().__init__(config if begun is None else begun.config(config), **kwargs)
        self.start = begun
        self._tuning = FineTuning(self.config)
        self._began, self._read_groups = False, False
        pieces: Any = vocabulary if begun is None else begun.vocabulary
        self.tokenizer = saved_tokenizer(self.config, pieces)
        self._assemble(VectorHead(self.config.score_loss))
        if begun is not None:
            begun.copy_to(self.core)

    def advised_training(self, rows: int) -> dict[str, Any]:
        advised = {"learning_rate": _RATE if rows < _MANY else _RATE_OF_MANY, "batch_size": _BATCH}
        advised["epochs"] = epochs_for(_ROWS_READ, rows, *_EPOCHS)
        return {**self._tuning.advised_training(rows), **advised}

    def alternatives(self) -> list[dict[str, Any]]:
        return [{"learning_rate": _RATE / 2}, {"learning_rate": 2 * _RATE}, {"batch_size": 32}]

    def default_optimizer(self) -> Any:
        return steady_optimizer(_RATE, self.config.num_layers)

    @property
    def learning_rates(self) -> Mapping[str, float]:
        return self._tuning.rates

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        strings = getattr(inputs, "dtype", None) == tf.string
        ids = self.tokenizer.padded(tf.reshape(inputs, [-1])) if strings else _ids_of_texts(inputs)
        vectors: Any = self.core(ids, training=training)  # [B * K, D]
        if len(inputs.shape) == (1 if strings else 2):
            return vectors  # of texts alone
        rows, texts = ops.shape(inputs)[0], ops.shape(inputs)[-1]
        return ops.reshape(vectors, (rows, texts, vectors.shape[-1]))  # [B, K, D]

    def adapt(self, x: Any, y: Any = None, sample_weight: Any = None) -> None:
        """Check that a training can begin with rows and scores; the encoder has its words already.

        Args:
            x: groups of texts, as for `fit`.
            y: the scores of pairs; None if the texts of a group belong together.
            sample_weight: None; all rows count alike.

        Raises:
            ConfigError: for a model that was trained before, or loaded from a file.
            DataError: for rows from which no vectors can be learned.
        """
        if self._began or self.start is None:
            raise ConfigError(
                "The model was trained before, or loaded. Make a new one, `TextEncoder(start=folder)`, for a "
                "training from its beginning; `fit` goes on from the weights that there are."
            )
        check_learnable(self.read_rows(self.given_rows(x), y, sample_weight, VectorHead).targets)
        self._began = True

    def create_metrics(self, targets: Sequence[Any]) -> None:
        # The outputs of a step are those of groups: [B, K, D], not the core's [B * K, D].
        one = np.asarray(self.head.encoded(targets[:1]))
        compiling.create_metrics(self, one, (1, max(2, one.shape[1]), self.core.output_shape[-1]))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "vocabulary": list(self.tokenizer.vocabulary)}

    def train_step(self, *args: Any) -> Any:
        # Where steps are compiled, the first one comes here while it is traced.
        self._began = True
        return super().train_step(*args)

    def untrained_config(self) -> dict[str, Any]:
        # The folder, since an untrained copy begins with its weights, too.
        start = None if self.start is None else self.start.path
        return {**super().get_config(), "start": start}

    def head_type(self, y: Any) -> type[Head]:
        return VectorHead

    def given_rows(self, x: Any) -> Any:
        # A source may have an attribute of any kind that is named as that of a table's columns.
        if is_source(x):
            return super().given_rows(x)
        if is_table_of_pairs(x):
            return pairs_of_table(x)
        # By their order, an `id` would be the first text. Inputs of Keras are a dict.
        if columns_of(x) and not isinstance(x, Mapping):
            refuse_columns(self.row_kind.plural, x)
        return super().given_rows(x)

    def read_rows(self, x: Any, y: Any, weights: Any, kind: type[Head]) -> Rows:
        if weights is not None:
            raise DataError("A model of vectors counts all rows alike. Leave `sample_weight` out.")
        inputs = self.read_inputs(x)
        if any(isinstance(row, str) for row in inputs):
            raise DataError(
                "Vectors are learned from, and measured on, groups of texts: (text, text_pair), or with "
                f"negatives after them. Received texts alone; the first is {inputs[0]!r:.80}."
            )
        targets: list[Any] = [None] * len(inputs) if y is None else kind.read(y)
        check_columns("Groups of texts", Rows(inputs, targets))
        if targets[0] is None:
            return Rows(inputs, numbered(inputs))
        self._check_scored(inputs, targets)
        return Rows(inputs, targets)

    def _check_scored(self, inputs: Sequence[TextGroup], scores: Sequence[float]) -> None:
        """Raise DataError for scores of more than two texts, or that are no cosines where they must be."""
        for row, (texts, score) in enumerate(zip(inputs, scores, strict=True)):
            if len(texts) != 2:
                raise DataError(
                    f"A score is of two texts. Group {row} (counted from 0) has {len(texts)} and the score "
                    f"{score:g}: leave the scores out, or the negatives."
                )
            if self.config.score_loss == "cosine" and abs(score) > 1:
                raise DataError(
                    "With `score_loss` (--score-loss) cosine, scores are from -1 to 1. Score "
                    f"{row} (counted from 0) is {score:g}: divide them all, or learn their order, "
                    '`score_loss="order"`.'
                )

    def _check_learnable_alone(self, targets: Sequence[Any]) -> None:
        """Raise DataError for batches of one row whose loss would be 0, whatever their vectors are."""
        scored = SIMILARITY.is_score(targets[0])
        if scored and self.config.score_loss == "cosine":
            return
        if not scored and any(number >= 0 for numbers in targets for number in numbers[2:]):
            return
        ways = "`score_loss` (--score-loss) cosine" if scored else "negatives"
        raise DataError(
            "With `batch_size` (--batch-size) 1, a step has no other pair to compare with, so nothing is "
            f"learned. Give 2 or more, or {ways}."
        )

    def _learn(self, rows: Rows | None, head: Head, validation: Any, size: int | None, kwargs: Any) -> Any:
        if rows is not None:
            check_learnable(rows.targets)
            if size == 1:
                self._check_learnable_alone(rows.targets)
        return super()._learn(rows, head, validation, size, kwargs)

    def _learn_front_end(self, rows: Rows) -> None:
        """Learn nothing: pieces and weights are those of the folder."""

    @property
    def _sorted_together(self) -> int:
        # The losses compare the texts of a batch: with one length in a batch, texts would be told from those
        # of their length alone. And the longest batch would need several times the memory of the others.
        return 1

    def _parts(self, inputs: Sequence[str | TextGroup]) -> int:
        return max(len(texts_of_row(row)) for row in inputs)

    def _features(self, inputs: Sequence[str | TextGroup]) -> list[np.ndarray]:
        """Return the ids of each text, `[T]`; of groups `[T, K]`, of an empty text for a missing one."""
        grouped = not isinstance(inputs[0], str)
        if grouped != self._read_groups:  # traced for both, the function of `predict` would know no rank
            self._read_groups, self.predict_function = grouped, None
        texts = self._parts(inputs)
        every = [text or "" for row in inputs for text in (*texts_of_row(row), *[None] * texts)[:texts]]
        rows, cut = self.tokenizer.rows(every)
        warn_of_cut(cut, len(every), self.config.max_tokens)
        if isinstance(inputs[0], str):
            return rows
        return [padded(rows[place : place + texts]).T for place in range(0, len(rows), texts)]

    def _build_core(self, head: Head) -> keras.Model:
        config, policy = self.config, self.dtype_policy
        body = pretrained_body(config, self.tokenizer, policy, drawn=self.start is None)
        x = body.output  # [B, T, D]
        if not config.pools_prompt:
            x = WithoutPrompt(self.tokenizer.tokens_of_prompt, dtype=policy, name="without_prompt")(x)
        x = pooled(x, config, policy)  # [B, D]
        for place, layer in enumerate(config.dense):
            activation = ACTIVATIONS.get(layer["activation"], layer["activation"])
            dense = Dense(
                layer["units"],
                None if activation == "identity" else activation,
                use_bias=layer["use_bias"],
                dtype=policy,
                name=f"dense_{place}",
            )
            x = dense(x)
        if config.normalized:
            x = keras.layers.UnitNormalization(dtype="float32", name="unit")(x)
        if config.truncate_dim is not None:
            x = x[:, : config.truncate_dim]
        core = keras.Model(body.input, head.outputs(x), name="core")
        self._tuning.freeze(core)
        return core

    def _read_config(self, config: Any) -> TextEncoderConfig:
        if isinstance(config, PretrainedConfig) and not isinstance(config, TextEncoderConfig):
            config = config.to_dict()
        return checked_config(TextEncoderConfig, config)


def _ids_of_texts(ids: Tensor) -> Tensor:
    """Return the ids of texts `[B, T]`, or of groups of them `[B, T, K]`, with a row for each text."""
    if len(ids.shape) == 2:
        return ids
    rows, length, texts = ops.shape(ids)
    return ops.reshape(ops.transpose(ids, (0, 2, 1)), (rows * texts, length))  # [B * K, T]
