"""A classifier of raw text that carries its vocabulary and label names."""

import warnings
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn import layers
from keras_selfattn.data.batches import LengthSortedBatches
from keras_selfattn.errors import DataError
from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.embedding import NGramEmbedding
from keras_selfattn.models.rows import are_texts, as_names, as_texts, check_rows, sorted_names
from keras_selfattn.models.tokens import Tokenizer, learn_vocabulary

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class TextClassifier(keras.Model):
    """Self-attention classifier that takes raw strings in `fit`, `predict` and `evaluate`.

    The first `fit` learns the vocabulary and the label names from its rows (or call `adapt`); both travel in
    the `.keras` file. `compile()` without arguments sets Adam, cross-entropy and accuracy.

    Args:
        config: what the model is made of; a `TextConfig` or the dict of one.
        vocabulary: tokens in the order of their ids; left out before training.
        labels: label names in the order of the classes; left out before training.

    Call arguments:
        inputs: string `[batch]`, or int32 `[batch, length]` token ids with 0 as padding.
        training: dropout acts only if True.

    Returns:
        Probabilities, float32 `[batch, classes]`.

    Raises:
        ConfigError: for a field of the config out of range.
        DataError: for rows that cannot train a classifier.

    Example:

        >>> model = TextClassifier(TextConfig(width=8, num_layers=1, num_heads=2))
        >>> model.compile()
        >>> _ = model.fit(["good", "fine", "bad", "poor"] * 8, ["+", "+", "-", "-"] * 8, epochs=1, verbose=0)
        >>> model.labels, model.predict(["good film"], verbose=0).shape
        (['+', '-'], (1, 2))
    """

    def __init__(
        self,
        config: TextConfig | dict[str, Any] | None = None,
        *,
        vocabulary: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config = TextConfig(**config) if isinstance(config, dict) else config or TextConfig()
        self.tokenizer: Any = None
        self._label_names: tuple[str, ...] = ()
        if vocabulary is not None and labels is not None:
            self._assemble(vocabulary, labels)

    @property
    def labels(self) -> list[str]:
        """Label names in the order of the classes."""
        return list(self._label_names)

    @property
    def core(self) -> keras.Model:
        """The part from token ids, int32 `[batch, length]`, to probabilities."""
        self._check_adapted()
        return self._core

    def adapt(self, texts: Sequence[str], labels: Sequence[Any]) -> None:
        """Learns the vocabulary and the label names, and builds the layers. `fit` does it where it was not.

        Args:
            texts: rows of text.
            labels: one label a row; anything whose `str` names the class.

        Raises:
            DataError: for no rows, columns of unequal length, or fewer than two classes.
        """
        texts, names = as_texts(texts), as_names(labels)
        check_rows(texts, names)
        classes = sorted_names(set(names))
        if len(classes) < 2:
            raise DataError(f"A classifier needs at least two classes. The labels hold only {classes[0]!r}.")
        vocabulary, cut = learn_vocabulary(self.config, texts)
        if cut:
            warnings.warn(
                f"{cut} of {len(texts)} texts are longer than max_tokens={self.config.max_tokens} tokens "
                "and are cut at the end.",
                stacklevel=2,
            )
        self._assemble(vocabulary, classes)

    def compile(
        self,
        optimizer: Any = "adam",
        loss: Any = "sparse_categorical_crossentropy",
        *,
        metrics: Any = ("accuracy",),
        **kwargs: Any,
    ) -> None:
        """Configures training as `keras.Model.compile` does, with defaults that fit a classifier."""
        super().compile(optimizer=optimizer, loss=loss, metrics=list(metrics or ()) or None, **kwargs)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles as a saved model was; Keras leaves that to whoever overrides `compile`."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        self._check_adapted()
        ids = self.tokenizer.padded(inputs) if _is_string(inputs) else inputs
        return self._core(ids, training=training)

    def fit(
        self,
        x: Any,
        y: Any = None,
        batch_size: int = 32,
        *,
        sample_weight: Any = None,
        validation_data: Any = None,
        validation_split: float = 0.0,
        shuffle: bool = True,
        seed: int = 0,
        **kwargs: Any,
    ) -> Any:
        """Trains on texts and labels, in batches of like length; other inputs as in `keras.Model.fit`.

        Args:
            x: texts; or what `keras.Model.fit` takes, with token ids or string tensors.
            y: labels by name.
            batch_size: rows in a step.
            sample_weight: float per row.
            validation_data: `(texts, labels)`, or what `keras.Model.fit` takes.
            validation_split: share of the rows, taken from the end, that validates instead.
            shuffle: draw a new order each epoch.
            seed: of that order.
            kwargs: `epochs`, `verbose`, `callbacks`, `class_weight`, … of `keras.Model.fit`.

        Raises:
            DataError: for rows that cannot train a classifier, or a label that training did not have.
        """
        if not are_texts(x):
            other = {"sample_weight": sample_weight, "validation_data": validation_data, "shuffle": shuffle}
            tensors = {} if y is None else {"batch_size": batch_size, "validation_split": validation_split}
            return super().fit(x, y, **tensors, **other, **kwargs)
        texts, names = as_texts(x), as_names(y)
        check_rows(texts, names)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype="float32")
        if validation_data is None and validation_split:
            kept = len(texts) - int(len(texts) * validation_split)
            validation_data = (texts[kept:], names[kept:])
            texts, names, weights = texts[:kept], names[:kept], None if weights is None else weights[:kept]
        if self.tokenizer is None:
            self.adapt(texts, names)
        if isinstance(validation_data, tuple) and are_texts(validation_data[0]):
            validation_data = _dataset(self._batches(*validation_data, batch_size=batch_size))
        batches = self._batches(texts, names, weights, batch_size=batch_size, shuffle=shuffle, seed=seed)
        # The batches come in their order already.
        return super().fit(_dataset(batches), validation_data=validation_data, shuffle=False, **kwargs)

    def predict(self, x: Any, batch_size: int = 32, **kwargs: Any) -> np.ndarray:
        """Returns probabilities, float32 `[rows, classes]`, in the order of the rows.

        Args:
            x: texts; or what `keras.Model.predict` takes.
            batch_size: rows in a step.
            kwargs: `verbose`, `callbacks`, … of `keras.Model.predict`.
        """
        if not are_texts(x):
            tensors = {"batch_size": batch_size} if hasattr(x, "shape") else {}
            return super().predict(x, **tensors, **kwargs)
        self._check_adapted()
        texts = as_texts(x)
        if not texts:
            return np.zeros((0, len(self._label_names)), dtype="float32")
        batches = self._batches(texts, batch_size=batch_size)
        found = super().predict(_dataset(batches), **kwargs)
        in_order = np.empty_like(found)
        in_order[batches.order] = found
        return in_order

    def evaluate(self, x: Any, y: Any = None, batch_size: int = 32, **kwargs: Any) -> Any:
        """Returns the loss and metrics on texts and labels, or on what `keras.Model.evaluate` takes."""
        if not are_texts(x):
            tensors = {} if y is None else {"batch_size": batch_size}
            return super().evaluate(x, y, **tensors, **kwargs)
        self._check_adapted()
        texts, names = as_texts(x), as_names(y)
        check_rows(texts, names)
        return super().evaluate(_dataset(self._batches(texts, names, batch_size=batch_size)), **kwargs)

    def get_config(self) -> dict[str, Any]:
        vocabulary = None if self.tokenizer is None else self.tokenizer.vocabulary
        labels = self.labels or None
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "vocabulary": vocabulary,
            "labels": labels,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "TextClassifier":
        return cls(**config)

    def _assemble(self, vocabulary: Sequence[str], labels: Sequence[str]) -> None:
        self.tokenizer = Tokenizer(self.config, vocabulary)
        self._label_names = tuple(labels)
        self._core = _build_core(self.config, self.tokenizer.size, len(labels), self.dtype_policy)
        self.built = True

    def _check_adapted(self) -> None:
        if self.tokenizer is None:
            raise DataError(
                "The model has no vocabulary yet. Call `fit` or `adapt` with texts and labels first."
            )

    def _batches(
        self,
        texts: Sequence[str],
        labels: Sequence[Any] | None = None,
        weights: Any = None,
        *,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
    ) -> LengthSortedBatches:
        rows = self.tokenizer.rows(as_texts(texts))
        classes = None if labels is None else self._class_indices(as_names(labels))
        return LengthSortedBatches(rows, classes, weights, batch_size=batch_size, shuffle=shuffle, seed=seed)

    def _class_indices(self, names: Sequence[str]) -> np.ndarray:
        index = {name: place for place, name in enumerate(self._label_names)}
        unknown = sorted_names({name for name in names if name not in index})
        if unknown:
            raise DataError(
                f"The model knows no label {unknown[0]!r} ({len(unknown)} unknown). "
                f"It knows: {', '.join(self._label_names[:20])}."
            )
        return np.array([index[name] for name in names], dtype=np.int64)


def _build_core(config: TextConfig, vocabulary: int, classes: int, policy: Any) -> keras.Model:
    ids = keras.Input((None,), dtype="int32", name="ids")
    x = NGramEmbedding(
        vocabulary, config.width, config.max_ngram, config.ngram_buckets, dtype=policy, name="embedding"
    )(ids)  # [B, T, D]
    x = layers.SinusoidalPositionEncoding(dropout=config.dropout, dtype=policy, name="positions")(x)
    x = layers.Encoder(
        config.num_layers,
        config.num_heads,
        config.feed_forward_dim,
        config.dropout,
        dtype=policy,
        name="encoder",
    )(x)
    x = layers.AveragePooling(dtype=policy, name="pooling")(x)  # [B, D]
    x = keras.layers.Dropout(config.dropout, dtype=policy, name="head_dropout")(x)
    outputs = keras.layers.Dense(classes, activation="softmax", dtype="float32", name="probabilities")(x)
    return keras.Model(ids, outputs, name="core")


def _dataset(batches: LengthSortedBatches) -> tf.data.Dataset:
    """Wraps batches so that Keras knows their number and sees both axes as unknown."""
    by_column = [
        tf.TensorSpec([None, None], tf.int32),
        *(tf.TensorSpec([None], tf.as_dtype(column.dtype)) for column in batches.columns),
    ]
    dataset = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=tuple(by_column))
    return dataset.apply(tf.data.experimental.assert_cardinality(len(batches))).prefetch(2)


def _is_string(inputs: Tensor) -> bool:
    return getattr(inputs, "dtype", None) == tf.string
