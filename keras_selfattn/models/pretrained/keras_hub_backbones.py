"""Encoders from backbones of KerasHub, without importing it.

Axes: D (features), H (heads), F (features of the hidden layer).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.pretrained.text_encoder import TextEncoder
from keras_selfattn.models.pretrained_folders.families import FAMILIES
from keras_selfattn.models.pretrained_folders.family import Family
from keras_selfattn.models.pretrained_folders.pretrained_config import PretrainedConfig
from keras_selfattn.models.pretrained_folders.weights import copy_weights
from keras_selfattn.models.subwords.wordpiece import WordPiece, WordPieceSettings
from keras_selfattn.models.vocabulary import PADDING_ID


@dataclass(frozen=True)
class _Backbone:
    """One class of KerasHub's.

    Args:
        family: the name of its family.
        activation: of its hidden layers.
        embedding: paths of the weights before its blocks, by our names as in `Family.embedding`.
        vocabulary_size: the name of this field of its config.
    """

    family: str
    activation: Literal["gelu", "gelu_tanh"]
    embedding: Mapping[str, str]
    vocabulary_size: str = "vocabulary_size"


_EMBEDDING = {
    "tokens": "token_embedding/embeddings",
    "positions": "position_embedding/embeddings",
    "types": "segment_embedding/embeddings",
    "norm": "embeddings_layer_norm",
}
_BACKBONES = {
    "BertBackbone": _Backbone("bert", "gelu_tanh", _EMBEDDING),
    "DistilBertBackbone": _Backbone(
        "distilbert",
        "gelu",
        {
            "tokens": "token_and_position_embedding/token_embedding/embeddings",
            "positions": "token_and_position_embedding/position_embedding/embeddings",
            "norm": "embeddings_layer_norm",
        },
    ),
    "ElectraBackbone": _Backbone(
        "electra",
        "gelu_tanh",
        {**_EMBEDDING, "projection": "embeddings_projection"},
        vocabulary_size="vocab_size",
    ),
}
# Layers of a block, by our names as in `Family.block`.
_BLOCK = {
    "query": "self_attention_layer/query",
    "key": "self_attention_layer/key",
    "value": "self_attention_layer/value",
    "output": "self_attention_layer/attention_output",
    "attention_norm": "self_attention_layer_norm",
    "hidden": "feedforward_intermediate_dense",
    "feed_forward_output": "feedforward_output_dense",
    "feed_forward_norm": "feedforward_layer_norm",
}
# They begin KerasHub's own heads, not an encoder.
_UNUSED = ("pooled_dense/kernel", "pooled_dense/bias")
# Names of a layer's weights: KerasHub's, and those of a folder.
_THEIRS = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
_TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}


def from_keras_hub(
    backbone: Any,
    vocabulary: Sequence[str],
    *,
    lowercase: bool,
    strip_accents: bool | None = None,
    pooling: Literal["mean", "first", "max"] = "mean",
    normalized: bool = False,
    max_tokens: int | None = None,
    **kwargs: Any,
) -> TextEncoder:
    """Return the encoder of raw text with the weights of a KerasHub backbone.

    Its hidden states are those of the backbone, for single texts between [CLS] and [SEP]. A backbone does not
    know its tokenizer, so the pieces and the folding of case are arguments. With a tokenizer of KerasHub they
    are `tokenizer.get_vocabulary()`, `tokenizer.lowercase` and `tokenizer.strip_accents`.

    Args:
        backbone: a `BertBackbone`, `DistilBertBackbone` or `ElectraBackbone`.
        vocabulary: pieces in the order of their ids, with [PAD], [UNK], [CLS] and [SEP].
        lowercase: True folds case.
        strip_accents: True removes accents; None does as `lowercase`, like BERT.
        pooling: "mean" of a text's tokens, the "first" one, or their "max".
        normalized: True gives vectors of length 1.
        max_tokens: longer texts are cut at the end, [CLS] and [SEP] included; None for all positions that the
            backbone knows.
        kwargs: of `keras.Model`, such as `name`.

    Raises:
        ConfigError: for another backbone, one with other weights than its class has (such as LoRA's, or
            quantized ones), and a vocabulary that does not fit.

    Example (with KerasHub, which this package does not install):

        >>> from keras_hub.models import BertBackbone, BertTokenizer  # doctest: +SKIP
        >>> sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 12}
        >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film"]
        >>> tokenizer = BertTokenizer(pieces, lowercase=True)  # doctest: +SKIP
        >>> backbone = BertBackbone(vocabulary_size=7, **sizes)  # doctest: +SKIP
        >>> encoder = from_keras_hub(backbone, tokenizer.get_vocabulary(), lowercase=True)  # doctest: +SKIP
        >>> encoder.predict(["good film", "film"], verbose=0).shape  # doctest: +SKIP
        (2, 8)
    """
    name = type(backbone).__name__
    if name not in _BACKBONES:
        raise ConfigError(
            f"`backbone` must be one of KerasHub's {', '.join(_BACKBONES)}. Received a {name}. Of a model of "
            "another kind, give `models.TextEncoder` its folder of the Hugging Face kind."
        )
    kind, settings = _BACKBONES[name], backbone.get_config()
    positions = settings["max_sequence_length"]
    pieces = WordPieceSettings(
        max_tokens=positions if max_tokens is None else max_tokens,
        lowercase=lowercase,
        strip_accents=strip_accents,
        mask="[MASK]" if "[MASK]" in vocabulary else None,
    )
    tokenizer = WordPiece(pieces, vocabulary)
    padding = tokenizer.id_of(pieces.pad)
    if padding != PADDING_ID:
        tokenizer = tokenizer.swapped(PADDING_ID, padding)
    config = _config(kind, settings, tokenizer, pooling=pooling, normalized=normalized)
    family = FAMILIES[kind.family]
    found = _tensors(backbone, kind, family, config)
    model = TextEncoder(config, vocabulary=tokenizer.vocabulary, **kwargs)
    copy_weights(found, replace(family, padding_id=padding), model.core, f"the {name}")
    return model


class _Arrays:
    """Arrays as the tensors of a folder."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = arrays
        self.shapes = {name: array.shape for name, array in arrays.items()}
        self.dtypes = {name: _TYPES.get(array.dtype.name, array.dtype.name) for name, array in arrays.items()}

    def read(self, name: str) -> np.ndarray:
        return self._arrays[name]


def _config(
    kind: _Backbone, settings: Mapping[str, Any], tokenizer: WordPiece, **fields: Any
) -> PretrainedConfig:
    narrow = settings.get("embedding_dim", settings["hidden_dim"])
    return PretrainedConfig(
        width=settings["hidden_dim"],
        num_layers=settings["num_layers"],
        num_heads=settings["num_heads"],
        feed_forward_dim=settings["intermediate_dim"],
        dropout=settings["dropout"],
        attention_dropout=settings["dropout"],
        activation=kind.activation,
        vocabulary_size=settings[kind.vocabulary_size],
        embedding_width=None if narrow == settings["hidden_dim"] else narrow,
        positions=settings["max_sequence_length"],
        token_types=settings.get("num_segments", 0),
        max_tokens=tokenizer.settings.max_tokens,
        pieces=tokenizer.settings.to_dict(),
        **fields,
    )


def _tensors(backbone: Any, kind: _Backbone, family: Family, config: PretrainedConfig) -> _Arrays:
    """Return a backbone's weights under the names, and in the layout, of a folder of its family.

    Raises:
        ConfigError: for weights that no backbone of this class has.
    """
    arrays = {variable.path: np.asarray(variable) for variable in backbone.weights}
    places = {path: family.embedding[ours] for ours, path in kind.embedding.items()}
    for number in range(config.num_layers):
        block = {f"transformer_layer_{number}/{path}": family.block[ours] for ours, path in _BLOCK.items()}
        places |= {path: name.format(number) for path, name in block.items()}
    found, unknown = {}, []
    for path, array in arrays.items():
        layer, _, weight = path.rpartition("/")
        if path in places:
            found[f"{places[path]}.weight"] = array
        elif layer in places and weight in _THEIRS:
            width = arrays[f"{layer}/bias"].size if weight == "kernel" else array.size
            # Kernels of heads are [D, H, D / H] or [H, D / H, D], and transposed in a folder.
            value = array.reshape(-1, width).T if weight == "kernel" else array.reshape(-1)
            found[f"{places[layer]}.{_THEIRS[weight]}"] = value
        elif path not in _UNUSED:
            unknown.append(path)
    if unknown:
        raise ConfigError(
            f"The {type(backbone).__name__} has weights that none has as KerasHub makes it, such as "
            f"{unknown[0]} ({len(unknown)} in all). Remove LoRA's or quantization's first."
        )
    return _Arrays(found)
