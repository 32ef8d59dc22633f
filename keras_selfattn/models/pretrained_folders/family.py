"""The description of a family of pretrained encoders: its fields, its tokenizer, the names of its weights.

All else follows from it: the reading of a folder, the fields that are refused, the tables of
`docs/folders.md`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.pretrained_folders.folder_fields import Fields
from keras_selfattn.models.subwords.tokenizer_class import TokenizerClass

# Names of `config.json` for the activations of `PretrainedConfig`.
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


@dataclass(frozen=True)
class MaskedHeadNames:
    """The head that guesses hidden tokens: a dense layer, a normalisation, and logits by the tokens' vectors.

    Args:
        dense: name of the dense layer; it stands for `.weight` and `.bias`.
        norm: name of the normalisation, likewise.
        biases: names that the bias of the logits may have.
        activation: of the dense layer, as in `PretrainedConfig`, or a function that returns it from
            `config.json`; None for the blocks' own.
        dense_bias: name in `config.json` of a flag, False if the dense layer has no bias; "" if it has one.
        of_classifiers: True if the family's classifiers have a dense layer and a normalisation of these
            names, too, so that the bias of the logits tells the heads apart.
    """

    dense: str
    norm: str
    biases: tuple[str, ...]
    activation: str | Callable[[Mapping[str, Any]], str] | None = None
    dense_bias: str = ""
    of_classifiers: bool = False


@dataclass(frozen=True)
class FamilyHead:
    """The head of a family's classifiers of texts: a hidden layer of a text's vector, and the output layer.

    Args:
        hidden: name of the hidden layer's weights; as in a whole model, without a prefix to add.
        output: name of the output layer's weights, likewise.
        activation: of the hidden layer, as in `FineTunedConfig.hidden_head`.
        dropout: names in `config.json` of the dropout rate; the first that is set counts.
        rate: the rate if none is set.
        drops_twice: True if dropout is applied before the hidden layer, too.
        norm: name of a normalisation after the hidden layer; "" for none.
        settings: returns fields of `FineTunedConfig` from `config.json`, which replace those described here;
            None for none.
    """

    hidden: str
    output: str
    activation: str
    dropout: Sequence[str] = ("classifier_dropout", "hidden_dropout_prob")
    rate: float = 0.1
    drops_twice: bool = True
    norm: str = ""
    settings: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None


@dataclass(frozen=True, kw_only=True)
class Family:
    """One architecture: all that is known of it.

    Args:
        name: its `model_type` in `config.json`.
        title: its name in documents.
        settings: returns fields of `PretrainedConfig` from `config.json`.
        fields: rows of `config.json` that it has beside those of all families: read, without effect, refused.
        tokenizer: the class that opens its tokenizer where a folder names none.
        embedding: names of the weights before the blocks, by ours: "tokens", "positions", "types", "norm" and
            "projection"; those of layers stand for `.weight` and `.bias`.
        block: names of the layers of a block, with `{}` for its number, by ours: "query", "key" and "value",
            or "query_key_value", which holds them in this order; "output", "attention_norm"; "hidden", and
            "gate" if there is one, or "hidden_and_gate" or "gate_and_hidden", which holds both in this order;
            "feed_forward_output" and "feed_forward_norm". Whole names of weights that all blocks share there,
            by those of a position: "relative_bias", "relative_embeddings", "relative_gain" and
            "relative_shift".
        head: of its classifiers of texts.
        masked_head: names of the head for hidden tokens; None for one that is not read.
        last_norm: name of the normalisation after the blocks, if there is one.
        prefix: what stands before the names in models with a head; `name` and a dot by default.
        padding_id: the id of padding in the folder.
        padding_is_fixed: True if `config.json` can name no other id of padding.
        unbiased: names in `block` of layers that have no bias there, where others have: ours is 0, and
            training can change it.
        unused: names of weights that its folders may hold, and that it does not use.
        positions_follow_padding: True if padding has the row `padding_id` in the table of positions, and the
            first token the one after it; False if the first token has the first row.
    """

    name: str
    title: str
    settings: Callable[[Mapping[str, Any]], dict[str, Any]]
    fields: Sequence[Fields]
    tokenizer: TokenizerClass
    embedding: Mapping[str, str]
    block: Mapping[str, str]
    head: FamilyHead
    masked_head: MaskedHeadNames | None
    last_norm: str = ""
    prefix: str = ""
    padding_id: int = 0
    padding_is_fixed: bool = False
    positions_follow_padding: bool = False
    unused: Sequence[str] = ()
    unbiased: Sequence[str] = ()

    @property
    def skipped_positions(self) -> int:
        """Rows of the folder's table of positions before those that are read."""
        return self.padding_id if self.positions_follow_padding else 0


def activation_named(name: Any) -> str:
    """Return our name of an activation.

    Raises:
        ConfigError: for an unknown one.
    """
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        raise ConfigError(
            f"The activation {name!r} of config.json is not known. Known are {', '.join(_ACTIVATIONS)}."
        )
    return _ACTIVATIONS[name]
