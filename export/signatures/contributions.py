"""The exact share of each n-gram of a text in the logits, or in the numbers, of a model with a wide path.

Axes: B (texts), C (classes), K (known n-grams, once in each text), G (n-grams listed of a text).
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_selfattn.models.heads.number_head import InUnits
from keras_selfattn.models.text.ngram_linear import NGramLogits
from keras_selfattn.models.text.text_model import TextModel

from .model_signatures import Graphs, Signature
from .trial_requests import Request

Tensor = Any

LISTED = 100
"""N-grams listed of a text: those that add most to any class, or take most from it."""

# Bits of a float32 that do not count for the order: n-grams of one weight keep theirs, however it is rounded.
_ROUNDED = 10


def contributions(model: TextModel, wide: NGramLogits, *texts: Tensor) -> dict[str, Tensor]:
    """Return the n-grams of texts `[B]`, or of two a row, that count most, and what they add to the logits.

    Of a model of numbers in their own units, `logits` are what they add to the numbers, beside the mean of
    the training rows.

    Returns:
        `ngrams`, string `[B, G]`, padded with ""; `kinds`, string `[B, G]`; `logits`, float32 `[B, G, C]`;
        and `rest`, float32 `[B, C]`: what the other n-grams and the bias add.
    """
    named = model.named_ngrams(*texts)
    rows, first, logits = wide.parts(named.ngrams)
    factor = _factor(model)
    logits *= factor
    whole = tf.math.unsorted_segment_sum(logits, rows, named.ngrams.texts) + factor * wide.bias_logits
    order, splits = _strongest_first(rows, logits, named.ngrams.texts)
    rows, first, logits = (tf.gather(each, order) for each in (rows, first, logits))
    listed = tf.range(tf.size(rows)) - tf.gather(splits, rows) < LISTED
    rows, first, logits = (tf.boolean_mask(each, listed) for each in (rows, first, logits))

    def by_text(values: Tensor, padding: Any) -> Tensor:
        ragged: Any = tf.RaggedTensor
        found = ragged.from_value_rowids(
            values, tf.cast(rows, tf.int64), tf.cast(named.ngrams.texts, tf.int64), validate=False
        )
        return found.to_tensor(padding)

    kinds = tf.gather(tf.constant(model.ngram_kinds), tf.gather(named.kinds, first))
    return {
        "ngrams": by_text(tf.gather(named.names, first), ""),
        "kinds": by_text(kinds, ""),
        "logits": by_text(logits, 0.0),
        "rest": whole - tf.math.unsorted_segment_sum(logits, rows, named.ngrams.texts),
    }


def _factor(model: TextModel) -> Tensor:
    """Return the weight of the wide path in the logits of probabilities, `[]`, or in the numbers, `[C]`."""
    share = tf.convert_to_tensor(model.core.get_layer("mixture").shares)[1]
    numbers = [layer for layer in model.core.layers if isinstance(layer, InUnits)]
    if numbers:
        return share * tf.constant(numbers[0].deviation, tf.float32)
    return share / tf.convert_to_tensor(model.core.get_layer("probabilities").temperature)


def _strongest_first(rows: Tensor, logits: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the order of n-grams, by text and falling strength, and each text's first place in it, `[B]`."""
    strength = tf.reduce_max(tf.abs(logits), axis=1)  # [K]
    # The bits of positive floats are ordered as the floats.
    coarse = tf.bitwise.right_shift(tf.bitcast(strength, tf.int32), _ROUNDED)
    by_strength = tf.argsort(-coarse, stable=True)
    order = tf.gather(by_strength, tf.argsort(tf.gather(rows, by_strength), stable=True))
    counts = tf.math.unsorted_segment_sum(tf.ones_like(rows), rows, texts)
    return order, tf.cumsum(counts, exclusive=True)


def contribution_signatures(
    graphs: Graphs, model: TextModel, requests: Sequence[Request]
) -> dict[str, Signature]:
    """Return the signature that says what n-grams add to the logits, if the model has a wide path."""
    wide = model.wide
    if wide is None:
        return {}
    function = graphs.beside_answers(lambda *texts: contributions(model, wide, *texts))
    return {"contributions": Signature(function, requests[:3])}
