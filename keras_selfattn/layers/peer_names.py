"""Names that Keras' and KerasHub's attention have for what has another name here."""

from collections.abc import Mapping
from typing import Any

# Arguments of Keras' and KerasHub's attention that have another name here, and what to write instead.
RENAMED_IN_CALLS = {
    "return_attention_scores": "`return_weights=True`",
    "use_causal_mask": "`causal=True` in the constructor",
    "padding_mask": "`mask`",
    "query_mask": "`mask`",
    "key_mask": "`mask`",
    "value_mask": "`mask`",
    "query": "`inputs`, of which the layer makes queries, keys and values",
    "key": "`inputs` alone: for keys of another sequence use keras.layers.MultiHeadAttention",
    "value": "`inputs` alone: for values of another sequence use keras.layers.MultiHeadAttention",
}
RENAMED_ARGUMENTS = {
    "key_dim": "`head_dim`",
    "value_dim": "`head_dim`, which is the width of queries, keys and values",
    "sliding_window": "`window`, the farthest distance that is seen: sliding_window - 1",
    "intermediate_dim": "`feed_forward_dim`",
    "layer_norm_epsilon": "`norm_epsilon`",
    "normalize_first": "`norm_first`",
}


def refuse_renamed(arguments: Mapping[str, Any], renamed: Mapping[str, str]) -> None:
    """Raise TypeError that names ours if an argument bears the name that a peer has for it."""
    for name in arguments:
        if name in renamed:
            raise TypeError(f"`{name}` has another name here: pass {renamed[name]}. Received `{name}`.")
