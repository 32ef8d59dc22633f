"""A classifier of raw text that carries its vocabulary and label names."""

import warnings
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches import LengthSortedBatches
from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.core import build_core
from keras_selfattn.models.rows import Rows, are_texts, as_texts, checked_rows, sorted_names, split_end
from keras_selfattn.models.tokens import Tokenizer, learn_vocabulary

Tensor = Any

_ACCURACY = ("accuracy",)
_BATCH_SIZE = 32  # Keras' own


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
        self.config = _checked_config(config)
        self.tokenizer: Any = None
        self._label_names: tuple[str, ...] = ()
        # Strings do not compile, and every new shape of a batch would be compiled anew.
        self.supports_jit = False
        if (vocabulary is None) != (labels is None):
            raise ConfigError("`vocabulary` and `labels` go together. Received one without the other.")
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
        rows = checked_rows(texts, labels)
        classes = sorted_names(set(rows.names))
        if len(classes) < 2:
            raise DataError(f"A classifier needs at least two classes. The labels hold only {classes[0]!r}.")
        vocabulary, cut = learn_vocabulary(self.config, rows.texts)
        if not vocabulary:
            raise DataError(f"The {len(texts)} texts hold no {self.config.tokens}: all of them are blank.")
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
        metrics: Any = _ACCURACY,
        **kwargs: Any,
    ) -> None:
        """Configures training as `keras.Model.compile` does, with defaults that fit a classifier."""
        if metrics is _ACCURACY:
            metrics = list(_ACCURACY)
        super().compile(optimizer=optimizer, loss=loss, metrics=metrics, **kwargs)

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
        batch_size: int | None = None,
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
            batch_size: rows in a step, 32 if None; fewer where rows are long, to bound memory.
            sample_weight: float per row.
            validation_data: `(texts, labels)`, or what `keras.Model.fit` takes.
            validation_split: share of the rows, taken from the end, that validates instead.
            shuffle: draw a new order each epoch.
            seed: of that order.
            kwargs: `epochs`, `verbose`, `callbacks`, `class_weight`, … of `keras.Model.fit`.

        Raises:
            DataError: for rows that cannot train a classifier, or a label that training did not have.
        """
        if not 0 <= validation_split < 1:
            raise ConfigError(f"`validation_split` must be in [0, 1). Received {validation_split!r}.")
        if not are_texts(x):
            other = {"sample_weight": sample_weight, "validation_data": validation_data, "shuffle": shuffle}
            tensors = {} if y is None else {"batch_size": batch_size, "validation_split": validation_split}
            return super().fit(x, y, **tensors, **other, **kwargs)
        rows = checked_rows(x, y, sample_weight)
        if isinstance(validation_data, tuple | list) and are_texts(validation_data[0]):
            validation_data = checked_rows(*validation_data)
        elif validation_data is None and validation_split:
            rows, validation_data = split_end(rows, validation_split)
        if self.tokenizer is None:
            self.adapt(rows.texts, rows.names)
        if isinstance(validation_data, Rows):
            validation_data = self._batches(validation_data, batch_size).dataset()
        batches = self._batches(rows, batch_size, shuffle=shuffle, seed=seed)
        # The batches come in their order already.
        return super().fit(batches.dataset(), validation_data=validation_data, shuffle=False, **kwargs)

    def predict(self, x: Any, batch_size: int | None = None, **kwargs: Any) -> np.ndarray:
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
        batches = self._batches(Rows(texts, []), batch_size)
        found = super().predict(batches.dataset(), **kwargs)
        in_order = np.empty_like(found)
        in_order[batches.order] = found
        return in_order

    def evaluate(self, x: Any, y: Any = None, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Returns the loss and metrics on texts and labels, or on what `keras.Model.evaluate` takes."""
        if not are_texts(x):
            tensors = {} if y is None else {"batch_size": batch_size}
            return super().evaluate(x, y, **tensors, **kwargs)
        self._check_adapted()
        return super().evaluate(self._batches(checked_rows(x, y), batch_size).dataset(), **kwargs)

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
        self._core = build_core(self.config, self.tokenizer.size, len(labels), self.dtype_policy)
        self.built = True

    def _check_adapted(self) -> None:
        if self.tokenizer is None:
            raise DataError(
                "The model has no vocabulary yet. Call `fit` or `adapt` with texts and labels first."
            )

    def _batches(
        self, rows: Rows, batch_size: int | None, *, shuffle: bool = False, seed: int = 0
    ) -> LengthSortedBatches:
        return LengthSortedBatches(
            self.tokenizer.rows(rows.texts),
            self._class_indices(rows.names) if rows.names else None,
            rows.weights,
            batch_size=batch_size or _BATCH_SIZE,
            shuffle=shuffle,
            seed=seed,
        )

    def _class_indices(self, names: Sequence[str]) -> np.ndarray:
        index = {name: place for place, name in enumerate(self._label_names)}
        unknown = sorted_names({name for name in names if name not in index})
        if unknown:
            raise DataError(
                f"The model knows no label {unknown[0]!r} ({len(unknown)} unknown). "
                f"It knows: {', '.join(self._label_names[:20])}."
            )
        return np.array([index[name] for name in names], dtype=np.int64)


def _checked_config(config: TextConfig | dict[str, Any] | None) -> TextConfig:
    if config is None:
        return TextConfig()
    if isinstance(config, dict):
        return TextConfig(**config)
    if not isinstance(config, TextConfig):
        raise ConfigError(f"`config` must be a TextConfig or the dict of one. Received {config!r}.")
    return config


def _is_string(inputs: Tensor) -> bool:
    return getattr(inputs, "dtype", None) == tf.string
