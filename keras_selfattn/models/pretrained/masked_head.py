"""The head that guesses hidden tokens from encoded positions, and its weights from a folder.

Axes: N (hidden tokens), D (features of the encoder), E (features of the table of tokens), V (vocabulary).
"""

from collections.abc import Mapping
from typing import Any

import keras

from keras_selfattn.models.pretrained.embedding import ACTIVATIONS
from keras_selfattn.models.pretrained.fine_tuning_config import MaskedPiecesConfig
from keras_selfattn.models.pretrained_folders.family import Family
from keras_selfattn.models.pretrained_folders.model_folder import Tensors
from keras_selfattn.models.pretrained_folders.weights import NamedTensors, SwappedRows

Tensor = Any

HEAD_LAYERS = ("guess", "guess_norm", "logits")
"""Names of a core's layers that are the head."""


def guessed(x: Tensor, config: MaskedPiecesConfig) -> Tensor:
    """Return the features to compare with the tokens' vectors, float32 `[N, E]`, of positions `[N, D]`.

    Reference: Devlin et al. 2019, "BERT", section 3.1, and its run_pretraining.py, `get_masked_lm_output`.
    """
    units, activation = config.embedding_width or config.width, ACTIVATIONS[config.guess_activation]
    # BERT's own start; a deviation of 0.02 suits the tables that it is compared with.
    deviation: Any = keras.initializers.RandomNormal(stddev=0.02)
    dense = keras.layers.Dense(
        units,
        activation,
        use_bias=config.guess_bias,
        kernel_initializer=deviation,
        dtype="float32",
        name="guess",
    )
    norm = keras.layers.LayerNormalization(
        epsilon=config.norm_epsilon, center=config.norm_shift, dtype="float32", name="guess_norm"
    )
    return norm(dense(x))


def holds_masked_head(tensors: Tensors, family: Family, config: Mapping[str, Any]) -> bool:
    """Return True if a folder has the head, with logits by the vectors of its own table of tokens.

    Args:
        tensors: of the folder.
        family: its family.
        config: its `config.json`.
    """
    names, tied = family.masked_head, config.get("tie_word_embeddings", True)
    if names is None or not tied or f"{names.dense}.weight" not in tensors.shapes:
        return False
    return not names.of_classifiers or any(name in tensors.shapes for name in names.biases)


def copy_masked_head(tensors: Tensors, family: Family, core: keras.Model, source: str) -> None:
    """Set the weights of the head's layers.

    Args:
        tensors: of a folder that holds the head.
        family: its family.
        core: with the layers, built.
        source: the folder, for messages.

    Raises:
        ConfigError: for missing tensors and other shapes, all in one message; nothing is set then.
    """
    names: Any = family.masked_head
    named = NamedTensors(tensors, family, source)
    width, units = (int(size) for size in core.get_layer("guess").kernel.shape)
    (rows,) = (int(size) for size in core.get_layer("logits").bias.shape)
    bias = next((name for name in names.biases if name in tensors.shapes), names.biases[0])
    kernel = named.read(f"{names.dense}.weight", (units, width), "").T
    guess, norm = core.get_layer("guess"), core.get_layer("guess_norm")
    of_norm = ("weight", "bias") if norm.center else ("weight",)
    found = {
        "guess": [kernel, *([named.read(f"{names.dense}.bias", (units,), "")] if guess.use_bias else [])],
        "guess_norm": [named.read(f"{names.norm}.{each}", (units,), "") for each in of_norm],
        "logits": [SwappedRows(named.read(bias, (rows,), ""), family.padding_id)[:]],
    }
    named.check_read()
    for layer, weights in found.items():
        core.get_layer(layer).set_weights(weights)
