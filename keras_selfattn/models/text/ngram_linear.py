"""The wide path of a text classifier: a linear model of n-grams beside attention.

It learns from few rows which words and pieces of words indicate a class; attention learns from their order.

Axes: B (texts), F (features), C (columns: classes, or 1 for two that exclude each other), N (n-grams of all
texts), K (known ones, once in each text).
"""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_selfattn.models.text.ngrams import BUCKETS, NGrams

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class NGramLogits(keras.layers.Layer):
    """Logits of a linear model of weighted n-gram counts, fitted by `ngram_fit.fitted`.

    A feature's value is `(1 + ln(count)) idf`. The values of words, and those of pieces of words, are each
    scaled to length 1. Features that training did not see add nothing.

    Args:
        features: number of n-grams with a weight, F.
        classes: number of classes, C.
        exclusive: True if a row has one label: two classes then share one column of weights.

    Call arguments:
        inputs: the n-grams of a batch of texts, as `ngrams.ngram_ids` returns them.

    Returns:
        float32 `[batch, classes]`.
    """

    def __init__(self, features: int, classes: int, exclusive: bool, **kwargs: Any) -> None:
        super().__init__(trainable=False, dtype="float32", **kwargs)
        self.features = features
        self.classes = classes
        self.exclusive = exclusive
        self.columns = 1 if exclusive and classes == 2 else classes
        fixed: Any = {"trainable": False}  # of the layer alone, integers on PyTorch would ask for gradients
        columns = self.columns
        self.keys = self.add_weight(
            shape=(features,), dtype="int32", initializer="zeros", name="keys", **fixed
        )
        self.idf = self.add_weight(shape=(features,), initializer="ones", name="idf", **fixed)
        self.kernel = self.add_weight(shape=(features, columns), initializer="zeros", name="kernel", **fixed)
        self.bias = self.add_weight(shape=(columns,), initializer="zeros", name="bias", **fixed)
        self.built = True

    def call(self, inputs: NGrams) -> Tensor:
        found = self._valued(inputs)
        indices = tf.cast(tf.stack([found.rows, found.places], axis=1), tf.int64)
        shape = tf.cast(tf.stack([inputs.texts, self.features]), tf.int64)
        counted = tf.SparseTensor(indices, found.values, shape)  # [B, F]
        return self._of_classes(
            tf.sparse.sparse_dense_matmul(counted, tf.convert_to_tensor(self.kernel)) + self.bias
        )

    def parts(self, inputs: NGrams) -> tuple[Tensor, Tensor, Tensor]:
        """Return what each known n-gram adds to the logits of its text.

        Returns:
            The text's index, int32 `[K]`; the index of the n-gram's first occurrence in `inputs`, `[K]`;
            the addends, float32 `[K, classes]`. A text's addends and `bias_logits` sum to its logits.
        """
        found = self._valued(inputs)
        occurrences = tf.range(tf.size(inputs.ids))
        first = tf.math.unsorted_segment_min(occurrences, found.place_of_each, tf.size(found.known))
        kernel = tf.gather(tf.convert_to_tensor(self.kernel), found.places)
        logits = self._of_classes(found.values[:, None] * kernel)
        return found.rows, tf.boolean_mask(first, found.known), logits

    @property
    def bias_logits(self) -> Tensor:
        """The logits of a text without known n-grams, float32 `[classes]`."""
        return self._of_classes(tf.convert_to_tensor(self.bias)[None])[0]

    def _valued(self, inputs: NGrams) -> "_Valued":
        # A row and an id, bit-cast to one int64, without int64 arithmetic.
        pairs = tf.stack([inputs.ids, inputs.rows], axis=1)
        different, place_of_each, counts = tf.unique_with_counts(tf.bitcast(pairs, tf.int64))
        ids, rows = tf.unstack(tf.bitcast(different, tf.int32), axis=1, num=2)
        places = tf.minimum(tf.searchsorted(self.keys, ids), self.features - 1)
        known = tf.gather(self.keys, places) == ids
        rows, ids, places = (tf.boolean_mask(each, known) for each in (rows, ids, places))
        values = 1 + tf.math.log(tf.cast(tf.boolean_mask(counts, known), tf.float32))
        values = _unit(values * tf.gather(self.idf, places), rows, ids, inputs.texts)
        return _Valued(rows, places, values, place_of_each, known)

    def _of_classes(self, logits: Tensor) -> Tensor:
        """Return the logits of all classes: two that exclude each other share one column."""
        return tf.concat([-logits / 2, logits / 2], axis=1) if self.columns < self.classes else logits

    def get_config(self) -> dict[str, Any]:
        names = ("features", "classes", "exclusive")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


class _Valued(NamedTuple):
    """The known n-grams of texts, once in each text: rows and places int32 `[K]`, values float32 `[K]`.

    `known` is bool, with unknown ones; `place_of_each`, int32 `[N]`, leads from an n-gram to its place there.
    """

    rows: Tensor
    places: Tensor
    values: Tensor
    place_of_each: Tensor
    known: Tensor


def _unit(values: Tensor, rows: Tensor, ids: Tensor, texts: Tensor) -> Tensor:
    """Return values scaled so that those of a row's words, and those of its pieces, have length 1."""
    group = 2 * rows + tf.cast(ids >= BUCKETS, tf.int32)
    squares = tf.math.unsorted_segment_sum(values**2, group, 2 * texts)
    return values * tf.math.rsqrt(tf.gather(squares, group))
