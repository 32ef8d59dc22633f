"""The families of pretrained encoders: BERT and its kin here, younger ones in files of their own."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.model_folders.family import Family, FamilyHead, MaskedHeadNames, activation_named
from keras_selfattn.models.model_folders.modernbert import MODERNBERT

# Fixed in MPNet's architecture.
_MPNET_PADDING, _MPNET_BUCKETS = 1, 32


def family_of(config: Mapping[str, Any], source: str) -> Family:
    """Return the family that `config.json` names, with the folder's id of padding.

    Raises:
        ConfigError: for an unknown family, a decoder, an invalid padding id, or positions of
            another kind than the family's table.
    """
    kind = config.get("model_type")
    known = {family.name: family for family in FAMILIES}
    if not isinstance(kind, str) or kind not in known:
        raise ConfigError(
            f"{source} holds a model of the family {kind!r}. The encoders that can be read are "
            f"{', '.join(sorted(known))}."
        )
    for name in ("is_decoder", "add_cross_attention"):
        if config.get(name):
            raise ConfigError(f"{source} holds a decoder ({name} in config.json). Give an encoder's folder.")
    positions = config.get("position_embedding_type", "absolute")
    if "positions" in known[kind].embedding and positions != "absolute":
        raise ConfigError(
            f"{source} has position_embedding_type {positions!r} in config.json. Only 'absolute' can be read."
        )
    padding = config.get("pad_token_id", known[kind].padding_id)
    if isinstance(padding, bool) or not isinstance(padding, int) or padding < 0:
        raise ConfigError(
            f"{source} pads with the id {padding!r} (pad_token_id in config.json). It must be 0 or more."
        )
    if kind == "mpnet" and padding != _MPNET_PADDING:
        raise ConfigError(
            f"{source} pads with the id {padding} (pad_token_id in config.json). In MPNet it must be "
            f"{_MPNET_PADDING}."
        )
    return replace(known[kind], padding_id=padding)


def _bert_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "width": config.get("hidden_size", 768),
        "num_layers": config.get("num_hidden_layers", 12),
        "num_heads": config.get("num_attention_heads", 12),
        "feed_forward_dim": config.get("intermediate_size", 3072),
        "dropout": config.get("hidden_dropout_prob", 0.1),
        "attention_dropout": config.get("attention_probs_dropout_prob", 0.1),
        "activation": activation_named(config.get("hidden_act", "gelu")),
        "norm_epsilon": config.get("layer_norm_eps", 1e-12),
        "vocabulary_size": config.get("vocab_size", 30_522),
        "positions": config.get("max_position_embeddings", 512),
        "token_types": config.get("type_vocab_size", 2),
    }


def _electra_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    # The defaults of transformers' ElectraConfig are those of the small model.
    small = {
        "hidden_size": 256,
        "embedding_size": 128,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
        **config,
    }
    narrow = small["embedding_size"] != small["hidden_size"]
    return {**_bert_settings(small), "embedding_width": small["embedding_size"] if narrow else None}


def _distilbert_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "width": _either(config, "dim", "hidden_size", 768),
        "num_layers": _either(config, "n_layers", "num_hidden_layers", 6),
        "num_heads": _either(config, "n_heads", "num_attention_heads", 12),
        "feed_forward_dim": config.get("hidden_dim", 3072),
        "dropout": config.get("dropout", 0.1),
        "attention_dropout": config.get("attention_dropout", 0.1),
        "activation": activation_named(config.get("activation", "gelu")),
        "norm_epsilon": 1e-12,  # fixed in the architecture
        "vocabulary_size": config.get("vocab_size", 30_522),
        "positions": config.get("max_position_embeddings", 512),
        "token_types": 0,
    }


def _either(config: Mapping[str, Any], name: str, other: str, default: int) -> Any:
    """Return a field of DistilBERT's, which has two names.

    Raises:
        ConfigError: if both are there and differ.
    """
    found = config.get(name, config.get(other, default))
    if config.get(other, found) != found:
        raise ConfigError(
            f"{name} is {found!r} in config.json, and {other}, its other name, {config[other]!r}. Leave one "
            "of them out."
        )
    return found


def _roberta_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    found = _bert_settings({"vocab_size": 50_265, **config})
    return {**found, "positions": _rows_after(config.get("pad_token_id", 1), found["positions"])}


def _mpnet_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    buckets = config.get("relative_attention_num_buckets", _MPNET_BUCKETS)
    # transformers computes this many, whatever config.json says.
    if buckets != _MPNET_BUCKETS:
        raise ConfigError(
            f"relative_attention_num_buckets is {buckets!r} in config.json. It must be {_MPNET_BUCKETS}."
        )
    found = _bert_settings({"vocab_size": 30_527, **config})
    positions = _rows_after(_MPNET_PADDING, found["positions"])
    return {**found, "positions": positions, "token_types": 0, "relative_buckets": _MPNET_BUCKETS}


def _rows_after(padding: int, rows: Any) -> Any:
    """Return how many rows are for tokens; anything but a number as it is, for the config to refuse."""
    return rows - padding - 1 if isinstance(rows, int) else rows


_BERT_EMBEDDING = {
    "tokens": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "types": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
}
_BERT_BLOCK = {
    "query": "encoder.layer.{}.attention.self.query",
    "key": "encoder.layer.{}.attention.self.key",
    "value": "encoder.layer.{}.attention.self.value",
    "output": "encoder.layer.{}.attention.output.dense",
    "attention_norm": "encoder.layer.{}.attention.output.LayerNorm",
    "hidden": "encoder.layer.{}.intermediate.dense",
    "feed_forward_output": "encoder.layer.{}.output.dense",
    "feed_forward_norm": "encoder.layer.{}.output.LayerNorm",
}
_DISTILBERT_BLOCK = {
    "query": "transformer.layer.{}.attention.q_lin",
    "key": "transformer.layer.{}.attention.k_lin",
    "value": "transformer.layer.{}.attention.v_lin",
    "output": "transformer.layer.{}.attention.out_lin",
    "attention_norm": "transformer.layer.{}.sa_layer_norm",
    "hidden": "transformer.layer.{}.ffn.lin1",
    "feed_forward_output": "transformer.layer.{}.ffn.lin2",
    "feed_forward_norm": "transformer.layer.{}.output_layer_norm",
}
_MPNET_BLOCK = {
    **{name: place for name, place in _BERT_BLOCK.items() if name.startswith(("feed_forward", "hidden"))},
    "query": "encoder.layer.{}.attention.attn.q",
    "key": "encoder.layer.{}.attention.attn.k",
    "value": "encoder.layer.{}.attention.attn.v",
    "output": "encoder.layer.{}.attention.attn.o",
    "attention_norm": "encoder.layer.{}.attention.LayerNorm",
    "relative_bias": "encoder.relative_attention_bias",
}
_TYPELESS_EMBEDDING = {name: place for name, place in _BERT_EMBEDDING.items() if name != "types"}
_BERT_HEAD = FamilyHead("bert.pooler.dense", "classifier", "tanh", drops_twice=False)
_DISTILBERT_HEAD = FamilyHead(
    "pre_classifier", "classifier", "relu", ("seq_classif_dropout",), rate=0.2, drops_twice=False
)
_ROBERTA_HEAD = FamilyHead("classifier.dense", "classifier.out_proj", "tanh")
_BERT_MASKED = MaskedHeadNames(
    "cls.predictions.transform.dense",
    "cls.predictions.transform.LayerNorm",
    ("cls.predictions.bias", "cls.predictions.decoder.bias"),
)
# Of ELECTRA's generator; its discriminator guesses no tokens.
_ELECTRA_MASKED = MaskedHeadNames(
    "generator_predictions.dense",
    "generator_predictions.LayerNorm",
    ("generator_lm_head.bias",),
    activation="gelu",
)
_DISTILBERT_MASKED = MaskedHeadNames("vocab_transform", "vocab_layer_norm", ("vocab_projector.bias",))
_ROBERTA_MASKED = MaskedHeadNames(
    "lm_head.dense", "lm_head.layer_norm", ("lm_head.bias", "lm_head.decoder.bias"), activation="gelu"
)
FAMILIES = (
    Family("bert", _bert_settings, _BERT_EMBEDDING, _BERT_BLOCK, _BERT_HEAD, masked_head=_BERT_MASKED),
    Family(
        "electra",
        _electra_settings,
        {**_BERT_EMBEDDING, "projection": "embeddings_project"},
        _BERT_BLOCK,
        replace(_ROBERTA_HEAD, activation="gelu"),
        masked_head=_ELECTRA_MASKED,
    ),
    Family(
        "distilbert",
        _distilbert_settings,
        _TYPELESS_EMBEDDING,
        _DISTILBERT_BLOCK,
        _DISTILBERT_HEAD,
        masked_head=_DISTILBERT_MASKED,
    ),
    Family(
        "roberta",
        _roberta_settings,
        _BERT_EMBEDDING,
        _BERT_BLOCK,
        _ROBERTA_HEAD,
        padding_id=1,
        positions_follow_padding=True,
        masked_head=_ROBERTA_MASKED,
    ),
    Family(
        "mpnet",
        _mpnet_settings,
        _TYPELESS_EMBEDDING,
        _MPNET_BLOCK,
        replace(_ROBERTA_HEAD, dropout=("hidden_dropout_prob",)),
        padding_id=_MPNET_PADDING,
        positions_follow_padding=True,
        masked_head=_ROBERTA_MASKED,
    ),
    MODERNBERT,
)
