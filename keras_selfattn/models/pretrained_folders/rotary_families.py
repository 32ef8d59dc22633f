"""BERT's younger kin with rotary positions: NomicBERT, GTE and Jina's embeddings, version 3.

References: Nussbaum et al. 2024, "Nomic Embed"; Zhang et al. 2024, "mGTE"; Sturua et al. 2024,
"jina-embeddings-v3"; their models in transformers 5, whose settings and names of weights these are.
"""

from collections.abc import Callable, Mapping
from typing import Any

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import is_count
from keras_selfattn.models.pretrained_folders.family import (
    Family,
    FamilyHead,
    MaskedHeadNames,
    activation_named,
)
from keras_selfattn.models.pretrained_folders.folder_fields import NO_EFFECT, READ, among, field_row
from keras_selfattn.models.subwords import tokenizer_class


def _settings_of(
    title: str, form: Callable[[Mapping[str, Any]], Mapping[str, Any]], usual: Mapping[str, Any], **fixed: Any
) -> Callable[..., dict[str, Any]]:
    """Return a function from `config.json` to fields of `PretrainedConfig`.

    Args:
        title: of the family.
        form: brings the file into the form of transformers 5.
        usual: values of what the file leaves out.
        fixed: fields that no file sets.
    """

    def settings(given: Mapping[str, Any]) -> dict[str, Any]:
        config = {**usual, **form(given)}
        width, heads, size = (config.get(name) for name in ("hidden_size", "num_attention_heads", "head_dim"))
        if size is not None and (not is_count(heads) or size * heads != width):
            raise ConfigError(
                f"head_dim is {size!r} in the config.json of a {title}. It must be hidden_size by "
                f"num_attention_heads, {width!r} by {heads!r}."
            )
        return {
            "width": width,
            "num_layers": config["num_hidden_layers"],
            "num_heads": heads,
            "feed_forward_dim": config["intermediate_size"],
            "dropout": config["hidden_dropout_prob"],
            "attention_dropout": config["attention_probs_dropout_prob"],
            "activation": activation_named(config["hidden_act"]),
            "norm_epsilon": config["layer_norm_eps"],
            "vocabulary_size": config["vocab_size"],
            "positions": config["max_position_embeddings"],
            "token_types": config["type_vocab_size"],
            "rotary_base": rotary_base(config, title),
            **fixed,
        }

    return settings


def rotary_base(config: Mapping[str, Any], title: str) -> Any:
    """Return the base of the rotary positions, in the newer form or the older.

    Raises:
        ConfigError: for rotary positions of another kind, such as scaled ones.
    """
    base, both = config["rope_theta"], [config.get(name) for name in ("rope_scaling", "rope_parameters")]
    if all(both) and both[0] != both[1]:
        raise ConfigError(
            f"rope_scaling is {both[0]!r} in the config.json of a {title}, and rope_parameters {both[1]!r}. "
            "Leave one of them out."
        )
    for name in ("rope_scaling", "rope_parameters"):
        found = config.get(name) or {}
        kind = found.get("rope_type", found.get("type", "default")) if isinstance(found, Mapping) else found
        others = set(found) - {"rope_type", "type", "rope_theta"} if isinstance(found, Mapping) else {name}
        if kind != "default" or others:
            raise ConfigError(
                f"{name} is {found!r} in the config.json of a {title}. Only the rope_type 'default', with "
                "its rope_theta, can be read."
            )
        base = found.get("rope_theta", base)
    return base


# NomicBERT's fields in the form of its own code, which the hub has, and their names in transformers 5.
_OF_NOMIC = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "layer_norm_epsilon": "layer_norm_eps",
    "resid_pdrop": "hidden_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob",
    "rotary_emb_base": "rope_theta",
}
# What that code can also compute, and no published encoder of texts but its mixtures of experts has.
_PLAIN: dict[str, tuple[Any, ...]] = {
    "activation_function": ("swiglu",),
    **dict.fromkeys(
        ("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "prenorm", "parallel_block", "use_rms_norm"),
        (False,),
    ),
    **dict.fromkeys(("causal", "rotary_emb_interleaved", "scale_attn_by_inverse_layer_idx"), (False, None)),
    "rotary_emb_fraction": (1.0, 1),
    "rotary_emb_scale_base": (None,),
    "scale_attn_weights": (True, None),
}


def _of_nomic(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a NomicBERT in the form of transformers 5.

    Texts are cut where its training ended; beyond, its own code scales the rotary positions.
    """
    if "n_embd" not in config:
        return config
    faults = [
        f"{name} is missing, whose default is the code's own"
        for name in ("rotary_emb_base", "layer_norm_epsilon")
        if config.get(name) is None
    ]
    faults += [
        f"{name} is {config.get(name)!r}: it must be {rule[0]!r}"
        for name, rule in _PLAIN.items()
        if not among(*rule)(config.get(name))
    ]
    if faults:
        listed = "\n  ".join(faults)
        raise ConfigError(
            f"The config.json of a NomicBERT cannot be used, for {len(faults)} reasons:\n  {listed}"
        )
    most = config.get("max_trained_positions") or config.get("n_positions", 2048)
    found = {newer: config[older] for older, newer in _OF_NOMIC.items() if config.get(older) is not None}
    found |= {"max_position_embeddings": most, "hidden_act": "silu"}
    return {**config, **found}


_SIZES = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-12,
    "attention_probs_dropout_prob": 0.0,
}
_FIELDS = (
    field_row(
        READ, "hidden_size num_hidden_layers num_attention_heads intermediate_size", "sizes of the blocks"
    ),
    field_row(READ, "hidden_act layer_norm_eps", "the activation, and the epsilon of normalisations"),
    field_row(
        READ, "hidden_dropout_prob attention_probs_dropout_prob classifier_dropout", "in training alone"
    ),
    field_row(READ, "type_vocab_size", "rows of the table of token types"),
    field_row(
        READ, "rope_parameters rope_theta rope_scaling", "rotary positions; only the rope_type default"
    ),
    field_row(READ, "head_dim", "must be `hidden_size` by `num_attention_heads`"),
)
_EMBEDDING = {
    "tokens": "embeddings.word_embeddings",
    "types": "embeddings.token_type_embeddings",
    "norm": "emb_ln",
}
NOMIC_BERT = Family(
    name="nomic_bert",
    title="NomicBERT",
    settings=_settings_of(
        "NomicBERT",
        _of_nomic,
        {
            **_SIZES,
            "hidden_act": "silu",
            "hidden_dropout_prob": 0.0,
            "vocab_size": 30_528,
            "max_position_embeddings": 2048,
            "type_vocab_size": 2,
            "rope_theta": 1000.0,
        },
        gated=True,
        use_bias=False,
    ),
    fields=(
        *_FIELDS,
        field_row(READ, " ".join(_OF_NOMIC), "the form of its own code: the same as above"),
        field_row(READ, "n_positions max_trained_positions", "texts are cut at the second"),
        field_row(
            READ, " ".join(_PLAIN), "must be as NomicBERT has them: SwiGLU, no biases, whole rotary positions"
        ),
        field_row(READ, "auto_map", "its own code is not run: the settings above say all that it computes"),
        field_row(
            NO_EFFECT,
            "dense_seq_output embd_pdrop fused_bias_fc fused_dropout_add_ln pad_vocab_size_multiple "
            "parallel_block_tied_norm reorder_and_upcast_attn rotary_scaling_factor use_flash_attn "
            "use_xentropy last_layer_subset",
            "how its own code computes it, or of texts longer than are read",
        ),
    ),
    tokenizer=tokenizer_class.BERT,
    embedding=_EMBEDDING,
    block={
        "query_key_value": "encoder.layers.{}.attn.Wqkv",
        "output": "encoder.layers.{}.attn.out_proj",
        "attention_norm": "encoder.layers.{}.norm1",
        "hidden": "encoder.layers.{}.mlp.fc12",
        "gate": "encoder.layers.{}.mlp.fc11",
        "feed_forward_output": "encoder.layers.{}.mlp.fc2",
        "feed_forward_norm": "encoder.layers.{}.norm2",
    },
    head=FamilyHead("nomic_bert.pooler.dense", "classifier", "tanh", rate=0.0, drops_twice=False),
    masked_head=MaskedHeadNames(
        "cls.predictions.transform.dense",
        "cls.predictions.transform.layer_norm",
        ("cls.predictions.bias", "cls.predictions.decoder.bias"),
    ),
)
GTE = Family(
    name="gte",
    title="GTE",
    settings=_settings_of(
        "GTE",
        dict,
        {
            **_SIZES,
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1,
            "vocab_size": 250_048,
            "max_position_embeddings": 8192,
            "type_vocab_size": 1,
            "rope_theta": 160_000.0,
        },
        gated=True,
    ),
    fields=_FIELDS,
    tokenizer=tokenizer_class.XLM_ROBERTA,
    embedding={**_EMBEDDING, "norm": "embeddings.LayerNorm"},
    block={
        "query_key_value": "encoder.layer.{}.attention.qkv_proj",
        "output": "encoder.layer.{}.attention.o_proj",
        "attention_norm": "encoder.layer.{}.attn_ln",
        "gate_and_hidden": "encoder.layer.{}.mlp.up_gate_proj",
        "feed_forward_output": "encoder.layer.{}.mlp.down_proj",
        "feed_forward_norm": "encoder.layer.{}.mlp_ln",
    },
    unbiased=("gate_and_hidden",),
    head=FamilyHead("gte.pooler.dense", "classifier", "tanh", drops_twice=False),
    masked_head=MaskedHeadNames(
        "lm_head.dense", "lm_head.norm", ("lm_head.decoder.bias",), activation="gelu"
    ),
    padding_id=1,
)
JINA_V3 = Family(
    name="jina_embeddings_v3",
    title="Jina's embeddings v3",
    settings=_settings_of(
        "model of Jina's embeddings v3",
        dict,
        {
            **_SIZES,
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1,
            "attention_probs_dropout_prob": 0.1,
            "layer_norm_eps": 1e-5,
            "vocab_size": 250_002,
            "max_position_embeddings": 8194,
            "type_vocab_size": 1,
            "rope_theta": 20_000.0,
        },
    ),
    fields=_FIELDS,
    tokenizer=tokenizer_class.XLM_ROBERTA,
    embedding=_EMBEDDING,
    block={
        "query_key_value": "encoder.layers.{}.mixer.Wqkv",
        "output": "encoder.layers.{}.mixer.out_proj",
        "attention_norm": "encoder.layers.{}.norm1",
        "hidden": "encoder.layers.{}.mlp.fc1",
        "feed_forward_output": "encoder.layers.{}.mlp.fc2",
        "feed_forward_norm": "encoder.layers.{}.norm2",
    },
    head=FamilyHead("classifier.dense", "classifier.out_proj", "tanh"),
    masked_head=MaskedHeadNames(
        "lm_head.dense", "lm_head.layer_norm", ("lm_head.bias", "lm_head.decoder.bias"), activation="gelu"
    ),
    prefix="roberta.",
    padding_id=1,
)
