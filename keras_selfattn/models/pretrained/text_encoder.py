"""A pretrained encoder of raw text to vectors.

Axes: B (texts), T (tokens), D (features).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.long_rows import warn_of_cut
from keras_selfattn.models.pretrained.adapted_start import encoder_start
from keras_selfattn.models.pretrained.pretrained_body import POOLINGS, pretrained_body, saved_tokenizer
from keras_selfattn.models.pretrained_folders.pretrained_config import PretrainedConfig
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.rows.targets import NO_TARGET
from keras_selfattn.rows.texts import TEXTS

Tensor = Any

_UNTRAINED = (
    "A TextEncoder gives the vectors of its pretrained weights and is not trained. Train a classifier of "
    "texts with `models.TextClassifier`."
)


class VectorHead(Head):
    """The head of a model whose outputs are vectors; there are no targets."""

    task: ClassVar[str] = "embedding"
    target_kind = NO_TARGET

    @property
    def state(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_targets(cls, targets: Sequence[Any]) -> "VectorHead":
        raise ConfigError(_UNTRAINED)

    @staticmethod
    def read(y: Any) -> list[Any]:  # noqa: ARG004  the targets that there are none of
        raise ConfigError(_UNTRAINED)

    def encoded(self, targets: Sequence[Any]) -> Any:
        raise ConfigError(_UNTRAINED)

    def outputs(self, x: Any, wide: Any = None, first: Any = None) -> Tensor:
        return keras.ops.cast(x, "float32")

    def loss(self, label_smoothing: float = 0.0) -> Any:
        raise ConfigError(_UNTRAINED)

    def metrics(self) -> list[Any]:
        return []


@keras.saving.register_keras_serializable(package="keras_selfattn")
class TextEncoder(RawModel):
    """Pretrained encoder that turns raw strings into vectors.

    It reads a folder of the Hugging Face kind: `config.json`, `model.safetensors` (or its shards), the
    tokenizer, and sentence-transformers' `modules.json`, if there is one, for pooling and normalisation. The
    families BERT (MiniLM and TinyBERT too), DistilBERT, ELECTRA, ModernBERT, MPNet and RoBERTa can be
    read, with WordPiece or byte-level byte pairs. Nothing is downloaded, and no pickle is opened. The
    vectors are those of sentence-transformers.

    Padding has the id 0. Where the folder pads with another id, the two change places in the vocabulary and
    in the table of tokens; the vectors are the same, and all other ids are the folder's. A padding token that
    a text itself has is a token, as in transformers, with the id `tokenizer.written_padding`.

    Args:
        config: the settings; left out if `start` is given.
        start: the folder; or a run of `keras-selfattn pretrain --from FOLDER`, or its `.keras` file.
        vocabulary: pieces in the order of their ids; left out if `start` is given.

    Call arguments:
        inputs: string `[batch]`, or int32 `[batch, length]` token ids with 0 as padding.
        training: dropout acts only if True.

    Returns:
        float32 `[batch, width]`. Texts of more than `config.max_tokens` tokens are cut at the end.

    Raises:
        RunError: if the folder or one of its files is missing or broken.
        ConfigError: for a family, a tokenizer or a module that cannot be read, and for weights that do not
            fit; it names all of them.

    Example (random weights; with a folder's, `TextEncoder(start="all-MiniLM-L6-v2")`):

        >>> vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film"]
        >>> sizes = {"width": 8, "num_layers": 1, "num_heads": 2, "positions": 16, "max_tokens": 16}
        >>> model = TextEncoder({**sizes, "vocabulary_size": 7}, vocabulary=vocabulary)
        >>> model.predict(["good film", "film"], verbose=0).shape
        (2, 8)

    References: Devlin et al. 2019, "BERT"; Reimers and Gurevych 2019, "Sentence-BERT", section 3.
    """

    config_type = PretrainedConfig
    row_kind = TEXTS
    learns = "nothing"
    returns = "vectors"

    def __init__(
        self,
        config: PretrainedConfig | dict[str, Any] | None = None,
        *,
        start: str | Path | None = None,
        vocabulary: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        if start is not None and (config is not None or vocabulary is not None):
            raise ConfigError(
                "`start` has its own config and vocabulary. Leave `config` and `vocabulary` out."
            )
        if start is None:
            if config is None or vocabulary is None:
                raise ConfigError(
                    "Give `start`, a pretrained model's folder; `config` and `vocabulary` are of saved ones. "
                    f"Received config={config!r:.80}, vocabulary={vocabulary!r:.80}."
                )
            super().__init__(config, **kwargs)
            self.tokenizer = saved_tokenizer(self.config, vocabulary)
            self._assemble(VectorHead())
            return
        begun = encoder_start(start)
        super().__init__(begun.encoder_config, **kwargs)
        self.tokenizer = begun.tokenizer
        self._assemble(VectorHead())
        begun.copy_to(self.core)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if getattr(inputs, "dtype", None) == tf.string:
            inputs = self.tokenizer.padded(inputs)
        return self.core(inputs, training=training)

    def compile(self, *_: Any, **__: Any) -> None:
        raise ConfigError(_UNTRAINED)

    def fit(self, *_: Any, **__: Any) -> Any:
        raise ConfigError(_UNTRAINED)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "vocabulary": list(self.tokenizer.vocabulary)}

    def head_type(self, y: Any) -> type[Head]:
        raise ConfigError(_UNTRAINED)

    def _learn_front_end(self, rows: Rows) -> None:
        raise ConfigError(_UNTRAINED)

    def _features(self, inputs: Sequence[str]) -> list[np.ndarray]:
        rows, cut = self.tokenizer.rows(inputs)
        warn_of_cut(cut, len(inputs), self.config.max_tokens)
        return rows

    def _build_core(self, head: Head) -> keras.Model:
        config, policy = self.config, self.dtype_policy
        body = pretrained_body(config, self.tokenizer, policy)
        x = POOLINGS[config.pooling](dtype=policy, name="pooling")(body.output)  # [B, D]
        if config.normalized:
            x = keras.layers.UnitNormalization(dtype="float32", name="unit")(x)
        if config.truncate_dim is not None:
            x = x[:, : config.truncate_dim]
        return keras.Model(body.input, head.outputs(x), name="core")
