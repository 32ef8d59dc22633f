"""The families of pretrained encoders: BERT and its kin here, younger ones in files of their own.

Each is one `Family`, in the order: settings, names of weights, descriptions, and the list of all.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import is_count
from keras_selfattn.models.pretrained_folders.deberta import DEBERTA
from keras_selfattn.models.pretrained_folders.eurobert import EUROBERT
from keras_selfattn.models.pretrained_folders.family import (
    Family,
    FamilyHead,
    MaskedHeadNames,
    activation_named,
)
from keras_selfattn.models.pretrained_folders.folder_fields import NO_EFFECT, READ, REFUSED, among, field_row
from keras_selfattn.models.pretrained_folders.modernbert import MODERNBERT
from keras_selfattn.models.pretrained_folders.rotary_families import GTE, JINA_V3, NOMIC_BERT
from keras_selfattn.models.subwords import tokenizer_class

# Model types of encoders with decoders, and ends of the names of their classes.
_WITH_DECODER = frozenset({"bart", "fsmt", "m2m_100", "marian", "mbart", "mt5", "pegasus", "t5", "umt5"})
_WRITERS = ("ForConditionalGeneration", "MTModel", "EncoderDecoderModel")
# Fixed in MPNet's architecture.
_MPNET_PADDING, _MPNET_BUCKETS = 1, 32


def family_of(config: Mapping[str, Any], source: str) -> Family:
    """Return the family that `config.json` names, with the folder's id of padding.

    Raises:
        ConfigError: for an unknown family, a decoder, an invalid padding id, or positions of
            another kind than the family's table.
    """
    refuse_decoders(config, source)
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ConfigError(
            f"{source} holds a model of the family {kind!r}. The encoders that can be read are "
            f"{', '.join(sorted(FAMILIES))}."
        )
    family = FAMILIES[kind]
    for name in ("is_decoder", "add_cross_attention"):
        if config.get(name):
            raise ConfigError(f"{source} holds a decoder ({name} in config.json). Give an encoder's folder.")
    positions = config.get("position_embedding_type", "absolute")
    if "positions" in family.embedding and positions != "absolute":
        raise ConfigError(
            f"{source} has position_embedding_type {positions!r} in config.json. Only 'absolute' can be read."
        )
    padding = config.get("pad_token_id", family.padding_id)
    if not is_count(padding, 0):
        raise ConfigError(
            f"{source} pads with the id {padding!r} (pad_token_id in config.json). It must be 0 or more."
        )
    if family.padding_is_fixed and padding != family.padding_id:
        raise ConfigError(
            f"{source} pads with the id {padding} (pad_token_id in config.json). In {family.title} it must "
            f"be {family.padding_id}."
        )
    return replace(family, padding_id=padding)


def refuse_decoders(config: Mapping[str, Any], source: str) -> None:
    """Raise ConfigError for a model that writes texts for texts, such as Marian's, T5 and BART, by its name.

    Args:
        config: the content of `config.json`.
        source: the folder, for the message.
    """
    kind, named = config.get("model_type"), config.get("architectures")
    architectures = [each for each in named if isinstance(each, str)] if isinstance(named, list) else []
    known = isinstance(kind, str) and kind in _WITH_DECODER
    both = known or config.get("is_encoder_decoder") is True
    if both or any(each.endswith(_WRITERS) for each in architectures):
        name = f"{', '.join(architectures)} of the family {kind!r}" if architectures else f"{kind!r}"
        raise ConfigError(
            f"{source} holds a model with an encoder and a decoder, {name} (config.json), whose weights are "
            f"not read. The encoders that can be read are {', '.join(sorted(FAMILIES))}. For texts from "
            "texts, train on rows of your own, `keras-selfattn train pairs.csv --task seq2seq`, and go on "
            "from such a run with --from. The answers of the folder's model, by `transformers`, can be "
            "the rows."
        )


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
    "relative_bias": "encoder.relative_attention_bias.weight",
}
_TYPELESS_EMBEDDING = {name: place for name, place in _BERT_EMBEDDING.items() if name != "types"}
_ROBERTA_HEAD = FamilyHead("classifier.dense", "classifier.out_proj", "tanh")
_ROBERTA_MASKED = MaskedHeadNames(
    "lm_head.dense", "lm_head.layer_norm", ("lm_head.bias", "lm_head.decoder.bias"), activation="gelu"
)
_SIZES = (
    field_row(
        READ, "hidden_size num_hidden_layers num_attention_heads intermediate_size", "sizes of the blocks"
    ),
    field_row(READ, "hidden_act layer_norm_eps", "the activation, and the epsilon of normalisations"),
    field_row(
        READ, "hidden_dropout_prob attention_probs_dropout_prob classifier_dropout", "in training alone"
    ),
)
_TYPES = field_row(READ, "type_vocab_size", "rows of the table of token types")
_ABSOLUTE = field_row(
    REFUSED, "position_embedding_type", 'only "absolute" positions can be read', among("absolute", None)
)
BERT = Family(
    name="bert",
    title="BERT",
    settings=_bert_settings,
    fields=(*_SIZES, _TYPES, _ABSOLUTE),
    tokenizer=tokenizer_class.BERT,
    embedding=_BERT_EMBEDDING,
    block=_BERT_BLOCK,
    head=FamilyHead("bert.pooler.dense", "classifier", "tanh", drops_twice=False),
    masked_head=MaskedHeadNames(
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        ("cls.predictions.bias", "cls.predictions.decoder.bias"),
    ),
)
ELECTRA = Family(
    name="electra",
    title="ELECTRA",
    settings=_electra_settings,
    fields=(*_SIZES, _TYPES, _ABSOLUTE, field_row(READ, "embedding_size", "features of the tables")),
    tokenizer=tokenizer_class.BERT,
    embedding={**_BERT_EMBEDDING, "projection": "embeddings_project"},
    block=_BERT_BLOCK,
    head=replace(_ROBERTA_HEAD, activation="gelu"),
    # Of the generator; the discriminator guesses no tokens.
    masked_head=MaskedHeadNames(
        "generator_predictions.dense",
        "generator_predictions.LayerNorm",
        ("generator_lm_head.bias",),
        activation="gelu",
    ),
)
DISTILBERT = Family(
    name="distilbert",
    title="DistilBERT",
    settings=_distilbert_settings,
    fields=(
        field_row(READ, "dim n_layers n_heads hidden_dim activation", "sizes of the blocks, the activation"),
        field_row(
            READ, "hidden_size num_hidden_layers num_attention_heads", "other names of the first three"
        ),
        field_row(READ, "dropout attention_dropout seq_classif_dropout", "in training alone"),
        field_row(
            NO_EFFECT, "sinusoidal_pos_embds tie_weights_", "the table of positions is among the weights"
        ),
        _ABSOLUTE,
    ),
    tokenizer=tokenizer_class.BERT,
    embedding=_TYPELESS_EMBEDDING,
    block=_DISTILBERT_BLOCK,
    head=FamilyHead(
        "pre_classifier", "classifier", "relu", ("seq_classif_dropout",), rate=0.2, drops_twice=False
    ),
    masked_head=MaskedHeadNames("vocab_transform", "vocab_layer_norm", ("vocab_projector.bias",)),
)
ROBERTA = Family(
    name="roberta",
    title="RoBERTa",
    settings=_roberta_settings,
    fields=(*_SIZES, _TYPES, _ABSOLUTE),
    tokenizer=tokenizer_class.ROBERTA,
    embedding=_BERT_EMBEDDING,
    block=_BERT_BLOCK,
    head=_ROBERTA_HEAD,
    masked_head=_ROBERTA_MASKED,
    padding_id=1,
    positions_follow_padding=True,
)
XLM_ROBERTA = replace(
    ROBERTA,
    name="xlm-roberta",
    title="XLM-RoBERTa",
    prefix="roberta.",
    tokenizer=tokenizer_class.XLM_ROBERTA,
)
MPNET = Family(
    name="mpnet",
    title="MPNet",
    settings=_mpnet_settings,
    fields=(
        *_SIZES,
        _ABSOLUTE,
        field_row(READ, "relative_attention_num_buckets", "must be 32, as it is in transformers"),
        field_row(NO_EFFECT, "type_vocab_size", "this family has no token types"),
    ),
    tokenizer=tokenizer_class.MPNET,
    embedding=_TYPELESS_EMBEDDING,
    block=_MPNET_BLOCK,
    head=replace(_ROBERTA_HEAD, dropout=("hidden_dropout_prob",)),
    masked_head=_ROBERTA_MASKED,
    padding_id=_MPNET_PADDING,
    padding_is_fixed=True,
    positions_follow_padding=True,
)
FAMILIES = {
    family.name: family
    for family in (
        *(BERT, DEBERTA, ELECTRA, DISTILBERT, ROBERTA, XLM_ROBERTA, MPNET),
        *(EUROBERT, GTE, JINA_V3, MODERNBERT, NOMIC_BERT),
    )
}
"""All families, by their `model_type`: one more is one more here, and nothing else."""
