"""The family ModernBERT: what its settings mean, and the names of its weights.

Reference: Warner et al. 2024, "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder", section 2.1.
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
from keras_selfattn.models.subwords.tokenizer_class import ALWAYS_FILE

_FAR, _NEAR = "full_attention", "sliding_attention"
# The kinds of blocks: the older name of the base of their rotary positions, and its default.
_BASES = {_FAR: ("global_rope_theta", 160_000.0), _NEAR: ("local_rope_theta", 10_000.0)}
_POOLINGS = {"cls": "first", "mean": "mean"}
# The kinds are listed before the size of the weights is known.
_MOST_LAYERS = 1_000


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of `PretrainedConfig`; flags of heads and of other software's kernels are not read."""
    faults: list[str] = []
    bases = {kind: _rotary_base(config, kind, faults) for kind in _BASES}
    found = {
        "width": config.get("hidden_size", 768),
        "num_layers": config.get("num_hidden_layers", 22),
        "num_heads": config.get("num_attention_heads", 12),
        "feed_forward_dim": config.get("intermediate_size", 1152),
        "dropout": config.get("embedding_dropout", 0.0),
        "attention_dropout": config.get("attention_dropout", 0.0),
        "activation": _activation(config, faults),
        "norm_epsilon": config.get("norm_eps", 1e-5),
        "vocabulary_size": config.get("vocab_size", 50_368),
        "positions": config.get("max_position_embeddings", 8192),
        "token_types": 0,
        "rotary_base": bases[_FAR],
        "local_rotary_base": bases[_NEAR],
        "windows": _windows(config, faults),
        "gated": True,
        "use_bias": _use_bias(config, faults),
        "norm_shift": config.get("norm_bias", False),
        "norm_first": True,
    }
    if faults:
        listed = "\n  ".join(faults)
        raise ConfigError(
            f"The config.json of a ModernBERT cannot be used, for {len(faults)} reasons:\n  {listed}"
        )
    return found


def _activation(config: Mapping[str, Any], faults: list[str]) -> str:
    try:
        return activation_named(config.get("hidden_activation", "gelu"))
    except ConfigError as error:
        faults.append(str(error))
        return "gelu"


def _use_bias(config: Mapping[str, Any], faults: list[str]) -> Any:
    attention, hidden = (config.get(name, False) for name in ("attention_bias", "mlp_bias"))
    if attention != hidden:
        faults.append(f"attention_bias is {attention!r} and mlp_bias {hidden!r}: both must be the same")
    return attention


def _rotary_base(config: Mapping[str, Any], kind: str, faults: list[str]) -> Any:
    """Return the base of the rotary positions of a kind of blocks, in the older form or the newer.

    A `local_rope_theta` of null means that of the blocks that see all tokens.
    """
    name, base = _BASES[kind]
    base = config.get(name, base)
    if base is None:
        base = config.get(*_BASES[_FAR])
    of_all, of_kinds = config.get("rope_scaling") or {}, config.get("rope_parameters") or {}
    of_kind = (of_kinds.get(kind) or {}) if isinstance(of_kinds, Mapping) else of_kinds
    found = {"rope_scaling": of_all, f"rope_parameters of {kind}": of_kind}
    for place, settings in found.items():
        if not _rotates_plainly(settings):
            faults.append(
                f"{place} is {settings!r}: only the rope_type 'default', with its rope_theta, can be read"
            )
            return base
        base = settings.get("rope_theta", base)
    return base


def _rotates_plainly(settings: Any) -> bool:
    if not isinstance(settings, Mapping):
        return False
    allowed = {"rope_type": ("default",), "partial_rotary_factor": (None, 1)}
    return all(name == "rope_theta" or value in allowed.get(name, ()) for name, value in settings.items())


def _windows(config: Mapping[str, Any], faults: list[str]) -> list[int | None]:
    """Return the window of each block: None, or tokens on either side, which is half of `local_attention`."""
    window, layers = config.get("local_attention", 128), config.get("num_hidden_layers", 22)
    kinds, every = config.get("layer_types"), config.get("global_attn_every_n_layers", 3)
    before = len(faults)
    if not is_count(layers) or layers > _MOST_LAYERS:
        faults.append(f"num_hidden_layers is {layers!r}: it must be from 1 to {_MOST_LAYERS:,}")
    if not is_count(window):
        faults.append(f"local_attention is {window!r}: it must be a positive integer")
    if kinds is None and not is_count(every):
        faults.append(f"global_attn_every_n_layers is {every!r}: it must be a positive integer")
    if kinds is not None and not (
        isinstance(kinds, list) and len(kinds) == layers and all(each in tuple(_BASES) for each in kinds)
    ):
        faults.append(
            f"layer_types is {kinds!r}: it must hold {' or '.join(_BASES)} for each of {layers!r} layers"
        )
    if len(faults) > before:
        return []
    kinds = [_NEAR if place % every else _FAR for place in range(layers)] if kinds is None else kinds
    return [None if kind == _FAR else window // 2 for kind in kinds]


def _head_activation(config: Mapping[str, Any]) -> str:
    name = config.get("classifier_activation", "gelu")
    return name if name == "tanh" else activation_named(name)


def _head_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    pooling = config.get("classifier_pooling", "cls")
    if pooling not in _POOLINGS:
        raise ConfigError(
            f"classifier_pooling is {pooling!r} in config.json. It must be {' or '.join(_POOLINGS)}."
        )
    return {
        "pooling": _POOLINGS[pooling],
        "hidden_head": _head_activation(config),
        "hidden_bias": config.get("classifier_bias", False),
    }


_FIELDS = (
    field_row(
        READ, "hidden_size num_hidden_layers num_attention_heads intermediate_size", "sizes of the blocks"
    ),
    field_row(READ, "hidden_activation norm_eps norm_bias attention_bias mlp_bias", "of the blocks' layers"),
    field_row(
        READ,
        "global_attn_every_n_layers local_attention layer_types global_rope_theta local_rope_theta "
        "rope_parameters rope_scaling",
        "windows and rotary positions; only the rope_type default",
    ),
    field_row(READ, "classifier_pooling classifier_bias classifier_activation", "of a classifier"),
    field_row(READ, "embedding_dropout attention_dropout classifier_dropout", "in training alone"),
    field_row(REFUSED, "sliding_window", "give `local_attention`, which is twice as much", among(None)),
    field_row(
        NO_EFFECT,
        "mlp_dropout decoder_bias deterministic_flash_attn sparse_prediction sparse_pred_ignore_index "
        "repad_logits_with_grad layer_norm_eps position_embedding_type",
        "of training, of kernels, or not of this family",
    ),
)
MODERNBERT = Family(
    name="modernbert",
    title="ModernBERT",
    settings=_settings,
    fields=_FIELDS,
    tokenizer=ALWAYS_FILE,
    embedding={"tokens": "embeddings.tok_embeddings", "norm": "embeddings.norm"},
    block={
        "query_key_value": "layers.{}.attn.Wqkv",
        "output": "layers.{}.attn.Wo",
        "attention_norm": "layers.{}.attn_norm",
        "hidden_and_gate": "layers.{}.mlp.Wi",
        "feed_forward_output": "layers.{}.mlp.Wo",
        "feed_forward_norm": "layers.{}.mlp_norm",
    },
    head=FamilyHead(
        "head.dense",
        "classifier",
        "gelu",
        ("classifier_dropout",),
        rate=0.0,
        drops_twice=False,
        norm="head.norm",
        settings=_head_settings,
    ),
    masked_head=MaskedHeadNames(
        "head.dense",
        "head.norm",
        ("decoder.bias",),
        _head_activation,
        dense_bias="classifier_bias",
        of_classifiers=True,
    ),
    last_norm="final_norm",
    prefix="model.",
    padding_id=50_283,
)
