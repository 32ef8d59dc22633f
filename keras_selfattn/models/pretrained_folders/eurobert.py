"""The family EuroBERT, an encoder of the form of Llama: its settings, and the names of its weights.

Reference: Boizard et al. 2025, "EuroBERT: Scaling Multilingual Encoders for European Languages", section 2;
its model in transformers 5, whose settings and names of weights these are.
"""

from collections.abc import Mapping
from typing import Any

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import is_count
from keras_selfattn.models.pretrained_folders.family import Family, FamilyHead, activation_named
from keras_selfattn.models.pretrained_folders.folder_fields import NO_EFFECT, READ, REFUSED, among, field_row
from keras_selfattn.models.pretrained_folders.rotary_families import rotary_base
from keras_selfattn.models.subwords.tokenizer_class import ALWAYS_FILE

_TITLE = "EuroBERT"
_USUAL: dict[str, Any] = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "silu",
    "attention_dropout": 0.0,
    "rms_norm_eps": 1e-5,
    "vocab_size": 128_256,
    "max_position_embeddings": 8192,
    "rope_theta": 10_000.0,
}
# How a classifier makes one answer of tokens: "late" is the mean of the answers for each.
_POOLINGS = {"bos": "first", "mean": "mean", "late": "mean"}


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    config = {**_USUAL, **given}
    width, heads, size = (config.get(name) for name in ("hidden_size", "num_attention_heads", "head_dim"))
    if size is not None and (not is_count(heads) or size * heads != width):
        raise ConfigError(
            f"head_dim is {size!r} in the config.json of a {_TITLE}. It must be hidden_size by "
            f"num_attention_heads, {width!r} by {heads!r}."
        )
    biases = [config.get(name, False) for name in ("attention_bias", "mlp_bias")]
    if biases[0] != biases[1]:
        raise ConfigError(
            f"attention_bias is {biases[0]!r} in the config.json of a {_TITLE}, and mlp_bias {biases[1]!r}. "
            "Both must be the same."
        )
    shared = config.get("num_key_value_heads")
    return {
        "width": width,
        "num_layers": config["num_hidden_layers"],
        "num_heads": heads,
        "num_kv_heads": None if shared == heads else shared,
        "feed_forward_dim": config["intermediate_size"],
        "dropout": 0.0,
        "attention_dropout": config["attention_dropout"],
        "activation": activation_named(config["hidden_act"]),
        "norm_epsilon": config["rms_norm_eps"],
        "vocabulary_size": config["vocab_size"],
        "positions": config["max_position_embeddings"],
        "token_types": 0,
        "rotary_base": rotary_base(config, _TITLE),
        "gated": True,
        "use_bias": biases[0],
        "norm_shift": False,
        "rms_norm": True,
        "norm_first": True,
        "embedding_norm": False,
    }


def _head_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    pooling = config.get("classifier_pooling", "late")
    if pooling not in _POOLINGS:
        raise ConfigError(
            f"classifier_pooling is {pooling!r} in config.json. It must be {' or '.join(_POOLINGS)}."
        )
    return {"pooling": _POOLINGS[pooling], "hidden_first": pooling == "late"}


EUROBERT = Family(
    name="eurobert",
    title=_TITLE,
    settings=_settings,
    fields=(
        field_row(
            READ, "hidden_size num_hidden_layers num_attention_heads intermediate_size", "sizes of the blocks"
        ),
        field_row(READ, "num_key_value_heads", "heads of keys and values, which several of queries share"),
        field_row(READ, "hidden_act rms_norm_eps attention_bias mlp_bias", "of the blocks' layers"),
        field_row(
            READ, "rope_parameters rope_theta rope_scaling", "rotary positions; only the rope_type default"
        ),
        field_row(READ, "head_dim", "must be `hidden_size` by `num_attention_heads`"),
        field_row(READ, "classifier_pooling", "of a classifier"),
        field_row(
            REFUSED,
            "clf_pooling",
            "give `classifier_pooling`, its name in transformers 5",
            among("late", None),
        ),
        field_row(READ, "attention_dropout", "in training alone"),
        field_row(REFUSED, "pretraining_tp", "parts of products are not added up", among(1, None)),
        field_row(READ, "auto_map", "its own code is not run: the settings above say all that it computes"),
        field_row(
            NO_EFFECT,
            "mask_token bos_token eos_token pad_token",
            "the files of the tokenizer name its tokens",
        ),
    ),
    tokenizer=ALWAYS_FILE,
    embedding={"tokens": "embed_tokens"},
    block={
        "query": "layers.{}.self_attn.q_proj",
        "key": "layers.{}.self_attn.k_proj",
        "value": "layers.{}.self_attn.v_proj",
        "output": "layers.{}.self_attn.o_proj",
        "attention_norm": "layers.{}.input_layernorm",
        "hidden": "layers.{}.mlp.gate_proj",  # what is activated
        "gate": "layers.{}.mlp.up_proj",
        "feed_forward_output": "layers.{}.mlp.down_proj",
        "feed_forward_norm": "layers.{}.post_attention_layernorm",
    },
    head=FamilyHead("dense", "classifier", "gelu", (), rate=0.0, drops_twice=False, settings=_head_settings),
    masked_head=None,
    last_norm="norm",
    prefix="model.",
    padding_id=128_001,
)
