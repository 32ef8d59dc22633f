"""The tokens of texts with the attention weights between them, which a notebook shows as colours.

Axes: B (texts), L (layers), H (heads), T (query positions), S (key positions).
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.drawing.notebook import received, shown_tokens
from keras_selfattn.models.core.attention_weights import collected_weights
from keras_selfattn.models.long_rows import EXPLAINED_TOKENS
from keras_selfattn.models.text.tokenizer import Tokenizer, split, split_pairs
from keras_selfattn.models.vocabulary import PADDING_ID, as_strings

Tensor = Any


@dataclass(frozen=True)
class TextExplanation:
    """The attention weights of a model for one text, or two. A notebook has tokens on colours of `received`.

    Attention says where the model looks, not why it decides: the wide path beside it has no part in these. Of
    a `symmetric` model of pairs they are of the given order alone.

    Attributes:
        tokens: the T tokens of the text, at most 512; of two texts all, with the separators between them.
        weights: float32 `[layers, heads, T, T]`: the weight of each token (column) for each query (row).
        spaced: True if spaces are between tokens.

    Example:

        >>> TextExplanation(["good", "film"], np.full((1, 1, 2, 2), 0.5, "float32")).received.tolist()
        [0.5, 0.5]
    """

    tokens: Sequence[str]
    weights: np.ndarray = dataclasses.field(repr=False)
    spaced: bool = True

    @property
    def received(self) -> np.ndarray:
        """The share of the attention that each token receives, mean of layers, heads and queries, `[T]`."""
        return received(self.weights)

    def _repr_html_(self) -> str:
        return shown_tokens(self.tokens, self.received, spaced=self.spaced)


def explained_tokens(tokenizer: Any, texts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first tokens, or pieces, of texts `[B]`: string `[B, T]`, padded with ""; int32 ids."""
    if not isinstance(tokenizer, Tokenizer):
        ids = tokenizer(texts)[:, :EXPLAINED_TOKENS]
        pieces = tf.gather(tf.constant(tokenizer.names, tf.string), ids.flat_values)
        return ids.with_flat_values(pieces).to_tensor(""), ids.to_tensor(PADDING_ID)
    config = tokenizer.config
    cut = dataclasses.replace(config, max_tokens=min(EXPLAINED_TOKENS, config.max_tokens))
    tokens = split(cut, texts)
    ids = tokens.with_flat_values(tokenizer.table.lookup(tokens.flat_values))
    return tokens.to_tensor(""), ids.to_tensor(PADDING_ID)


def explained_pairs(tokenizer: Any, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same of two texts a row `[B]` each, with what stands between; ids and types `[B, T, 2]`."""
    if not isinstance(tokenizer, Tokenizer):
        ids = tokenizer.pairs(first, second)[:, :EXPLAINED_TOKENS]
        pieces = tf.gather(tf.constant(tokenizer.names, tf.string), ids.flat_values[:, 0])
        return ids.with_flat_values(pieces).to_tensor(""), ids.to_tensor(PADDING_ID)
    config = tokenizer.config
    cut = dataclasses.replace(config, max_tokens=min(EXPLAINED_TOKENS, config.max_tokens))
    found = split_pairs(cut, first, second)
    return found.tokens.to_tensor(""), tokenizer.with_types(found).to_tensor(PADDING_ID)


def explained(model: Any, rows: Sequence[Any]) -> list[TextExplanation]:
    """Return the explanation of each text, or pair of texts; `TextClassifier.explain` documents it."""
    # Learned pieces have their own blanks, and characters are these.
    spaced = getattr(model.config, "tokens", "words") == "words"
    found = []
    for row in rows:  # one at a time: a batch would take the memory of its longest text for each
        texts = [as_strings([text]) for text in (row if isinstance(row, tuple) else [row])]
        tokens, ids = (explained_tokens if len(texts) == 1 else explained_pairs)(model.tokenizer, *texts)
        names = [token.decode(errors="replace") for token in tokens[0].numpy().tolist()]
        with collected_weights(model.core) as collected:
            inputs = model.beside_wide(model.in_given_order(ids))
            model.core(keras.tree.map_structure(np.asarray, inputs), training=False)
        layers = [
            np.asarray(keras.ops.convert_to_numpy(each), np.float32)[0] for each in collected.attention
        ]  # [H, T, T] each
        found.append(TextExplanation(names, np.stack(layers), spaced))
    return found
