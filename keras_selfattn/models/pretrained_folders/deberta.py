"""The family DeBERTa-v2, of which version 3 and mDeBERTa are: its settings, and the names of its weights.

Reference: He et al. 2021, "DeBERTaV3: Improving DeBERTa using ELECTRA-Style Pre-Training with
Gradient-Disentangled Embedding Sharing"; `DebertaV2Model` of transformers 5.
"""

from collections.abc import Mapping
from typing import Any

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import is_count
from keras_selfattn.models.pretrained_folders.family import (
    Family,
    FamilyHead,
    MaskedHeadNames,
    activation_named,
)
from keras_selfattn.models.pretrained_folders.folder_fields import NO_EFFECT, READ, REFUSED, among, field_row
from keras_selfattn.models.subwords.tokenizer_class import DEBERTA_V2

# The attention of all models that were published: both terms, logarithmic buckets, one pair of projections
# for contents and distances, and no other positions. What config.json leaves out is not that, so it is asked.
_WANTED: dict[str, tuple[Any, str]] = {
    "relative_attention": (True, "true"),
    "share_att_key": (True, "true: the projections of tokens are those of distances"),
    "norm_rel_ebd": ("layer_norm", '"layer_norm"'),
    "position_biased_input": (False, "false: no table of positions is added to the tokens' vectors"),
}
_TERMS = {"c2p", "p2c"}


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of `PretrainedConfig`.

    Raises:
        ConfigError: for another attention than that of the published models, all fields in one message.
    """
    faults = [f"{name} is {config.get(name)!r}: it must be {rule}" for name, rule in _unmet(config)]
    width, positions = config.get("hidden_size", 1536), config.get("max_position_embeddings", 512)
    for name in ("embedding_size", "pooler_hidden_size"):
        if config.get(name, width) != width:
            faults.append(f"{name} is {config[name]!r}: it must be hidden_size, {width!r}")
    size, heads = config.get("attention_head_size"), config.get("num_attention_heads", 24)
    if size is not None and (not is_count(heads) or size * heads != width):
        faults.append(f"attention_head_size is {size!r}: it must be hidden_size by num_attention_heads")
    if faults:
        listed = "\n  ".join(faults)
        raise ConfigError(
            f"The config.json of a DeBERTa-v2 cannot be used, for {len(faults)} reasons:\n  {listed}"
        )
    distance = config.get("max_relative_positions", -1)
    return {
        "width": width,
        "num_layers": config.get("num_hidden_layers", 24),
        "num_heads": config.get("num_attention_heads", 24),
        "feed_forward_dim": config.get("intermediate_size", 6144),
        "dropout": config.get("hidden_dropout_prob", 0.1),
        "attention_dropout": config.get("attention_probs_dropout_prob", 0.1),
        "activation": activation_named(config.get("hidden_act", "gelu")),
        "norm_epsilon": config.get("layer_norm_eps", 1e-7),
        "vocabulary_size": config.get("vocab_size", 128_100),
        "positions": positions,
        "token_types": config.get("type_vocab_size", 0),
        "disentangled_buckets": config["position_buckets"],
        "disentangled_distance": distance if distance > 0 else positions,
    }


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _unmet(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the fields that are of another attention, and what they must be."""
    found = [(name, rule) for name, (wanted, rule) in _WANTED.items() if _lower(config.get(name)) != wanted]
    terms = config.get("pos_att_type")
    if isinstance(terms, str):
        terms = terms.lower().split("|")
    if not isinstance(terms, list) or {str(each).strip() for each in terms} != _TERMS:
        found.append(("pos_att_type", '"p2c|c2p"'))
    for name, least, rule in (
        ("position_buckets", 4, "an even number from 4 on"),
        ("max_relative_positions", -1, "a whole number; below 1 it is max_position_embeddings"),
    ):
        value = config.get(name, -1)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            found.append((name, rule))
    return found or _unmet_distances(config)


def _unmet_distances(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the same of numbers that are whole: what cannot be buckets, or distances for so many of them."""
    buckets, distance = config["position_buckets"], config.get("max_relative_positions", -1)
    found = [("position_buckets", "an even number from 4 on")] if buckets % 2 else []
    if 0 < distance <= buckets // 2 + 1:
        rule = f"more than half of position_buckets and one more, {buckets // 2 + 1}"
        found.append(("max_relative_positions", rule))
    return found


def _head_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    name = config.get("pooler_hidden_act", "gelu")
    return {
        "hidden_head": name if name == "tanh" else activation_named(name),
        "hidden_dropout": config.get("pooler_dropout", 0.0),
    }


_FIELDS = (
    field_row(
        READ, "hidden_size num_hidden_layers num_attention_heads intermediate_size", "sizes of the blocks"
    ),
    field_row(READ, "hidden_act layer_norm_eps", "the activation, and the epsilon of normalisations"),
    field_row(READ, "hidden_dropout_prob attention_probs_dropout_prob", "in training alone"),
    field_row(READ, "cls_dropout pooler_dropout", "of a classifier, in training alone"),
    field_row(READ, "type_vocab_size", "rows of the table of token types"),
    field_row(
        READ, "position_buckets max_relative_positions", "buckets of distances on either side, and their last"
    ),
    field_row(READ, "relative_attention share_att_key", "must be true"),
    field_row(READ, "pos_att_type norm_rel_ebd", 'must be "p2c\\|c2p" and "layer_norm"'),
    field_row(READ, "position_biased_input", "must be false"),
    field_row(READ, "embedding_size pooler_hidden_size", "must be `hidden_size`"),
    field_row(READ, "attention_head_size", "must be `hidden_size` by `num_attention_heads`"),
    field_row(READ, "pooler_hidden_act", "of a classifier's hidden layer"),
    field_row(
        REFUSED,
        "conv_kernel_size",
        "a convolution beside the first block, as DeBERTa-v2 (xlarge, xxlarge) has it",
        among(0, None),
    ),
    field_row(
        NO_EFFECT,
        "legacy conv_act conv_groups z_steps padding_idx",
        "of other heads, and of parts that are refused",
    ),
)
DEBERTA = Family(
    name="deberta-v2",
    title="DeBERTa-v2",
    settings=_settings,
    fields=_FIELDS,
    tokenizer=DEBERTA_V2,
    embedding={
        "tokens": "embeddings.word_embeddings",
        "types": "embeddings.token_type_embeddings",
        "norm": "embeddings.LayerNorm",
    },
    block={
        "query": "encoder.layer.{}.attention.self.query_proj",
        "key": "encoder.layer.{}.attention.self.key_proj",
        "value": "encoder.layer.{}.attention.self.value_proj",
        "output": "encoder.layer.{}.attention.output.dense",
        "attention_norm": "encoder.layer.{}.attention.output.LayerNorm",
        "hidden": "encoder.layer.{}.intermediate.dense",
        "feed_forward_output": "encoder.layer.{}.output.dense",
        "feed_forward_norm": "encoder.layer.{}.output.LayerNorm",
        "relative_embeddings": "encoder.rel_embeddings.weight",
        "relative_gain": "encoder.LayerNorm.weight",
        "relative_shift": "encoder.LayerNorm.bias",
    },
    head=FamilyHead(
        "pooler.dense",
        "classifier",
        "gelu",
        ("cls_dropout", "hidden_dropout_prob"),
        drops_twice=False,
        settings=_head_settings,
    ),
    masked_head=MaskedHeadNames(
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        ("cls.predictions.bias", "cls.predictions.decoder.bias"),
    ),
    prefix="deberta.",
    unused=("embeddings.position_embeddings.weight",),
)
