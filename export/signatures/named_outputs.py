"""Turn a model's outputs into named answers, inside the graph.

Axes: B (batch), T (positions), C (classes).
"""

from collections.abc import Sequence
from typing import Any, Protocol

import tensorflow as tf

from keras_selfattn.errors import ExportError
from keras_selfattn.models.heads.class_heads import THRESHOLD
from keras_selfattn.models.tokens.span_labels import SpanDecoder

Tensor = Any


class Answers(Protocol):
    """Names for a model's outputs.

    Attributes:
        task: the model's task, as the card calls it.
    """

    task: str

    def named(self, outputs: Any) -> dict[str, Tensor]:
        """Return the outputs of `serving_default`."""
        ...


class Classification:
    """One label for a row.

    Args:
        labels: label names in the order of the classes.

    The model returns probabilities `[B, C]`; or, for two classes, the probability of the second, `[B, 1]`.
    """

    task = "classification"

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = tf.constant([label.encode() for label in labels], tf.string)

    def named(self, outputs: Tensor) -> dict[str, Tensor]:
        found = tf.cast(outputs, tf.float32)
        return self._likeliest(tf.concat([1 - found, found], axis=-1) if found.shape[-1] == 1 else found)

    def classes(self, named: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return all labels and their scores, `[B, C]` each, for the Classify call."""
        scores = named["probabilities"]
        return {"classes": tf.broadcast_to(self._labels, tf.shape(scores)), "scores": scores}

    def _likeliest(self, probabilities: Tensor) -> dict[str, Tensor]:
        """Return probabilities `[B, C]`, the label of the highest and its score."""
        return {
            "probabilities": probabilities,
            "label": tf.gather(self._labels, tf.argmax(probabilities, axis=-1)),
            "score": tf.reduce_max(probabilities, axis=-1),
        }


class LabelSets(Classification):
    """Any number of labels for a row: those with a probability of one half or more.

    The model returns probabilities `[B, C]` that need not sum to 1, of one label or more.
    """

    task = "multi-label"

    def named(self, outputs: Tensor) -> dict[str, Tensor]:
        found = self._likeliest(tf.cast(outputs, tf.float32))
        likely = found["probabilities"] >= THRESHOLD  # [B, C]
        return {**found, "labels": tf.where(likely, self._labels, "")}


class Labelling:
    """A label for every position of a row.

    Args:
        labels: label names in the order of the classes.
        decoder: selects the labels of a row together; by default each is the most likely.

    The model returns probabilities `[B, T, C]`. Positions that it masks get "" and zeros.
    """

    task = "labelling"

    def __init__(self, labels: Sequence[str], decoder: SpanDecoder | None = None) -> None:
        self._labels = tf.constant([label.encode() for label in labels], tf.string)
        self._decoder = decoder

    def named(self, outputs: Tensor) -> dict[str, Tensor]:
        mask = getattr(outputs, "_keras_mask", None)
        probabilities = tf.cast(outputs, tf.float32)
        if self._decoder is None:
            chosen = tf.argmax(probabilities, axis=-1, output_type=tf.int32)  # [B, T]
        else:
            chosen = self._decoder(
                probabilities, tf.fill(tf.shape(outputs)[:2], True) if mask is None else mask
            )
        label = tf.gather(self._labels, chosen)
        if mask is not None:
            probabilities = tf.where(mask[..., None], probabilities, 0.0)
            label = tf.where(mask, label, "")
        return {
            "probabilities": probabilities,
            "label": label,
            "score": tf.gather(probabilities, chosen, batch_dims=2),
        }


class Numbers:
    """The numbers of a regression model, under the names of its outputs.

    Args:
        names: of the outputs; None for a single one, which is called "predictions".
        single: True if there is one number for a row, `[B]` or `[B, 1]`.
    """

    task = "regression"

    def __init__(self, names: Sequence[str] | None, *, single: bool) -> None:
        self._names = names
        self.single = single

    def named(self, outputs: Any) -> dict[str, Tensor]:
        flat = tf.nest.flatten(outputs)
        named = zip(self._names or ["predictions"], flat, strict=True)
        return {name: _float32(value) for name, value in named}

    def regressed(self, named: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return one number for each row, `[B]`, for the Regress call."""
        return {"outputs": tf.reshape(tf.cast(named["predictions"], tf.float32), [-1])}


class Vectors:
    """A vector for each row, under the name "embedding"."""

    task = "embedding"

    def named(self, outputs: Tensor) -> dict[str, Tensor]:
        return {"embedding": tf.cast(outputs, tf.float32)}


def answers_for(
    output_shape: list[int | None] | None, labels: Sequence[str] | None, names: Sequence[str] | None
) -> Answers:
    """Return the answers that fit a model.

    Args:
        output_shape: the shape of its output, batch first; None if there are several.
        labels: label names, or None.
        names: of its outputs, if there are several.

    Raises:
        ExportError: if the labels do not fit the outputs.
    """
    if labels is None:
        return Numbers(names, single=output_shape is not None and output_shape[1:] in ([], [1]))
    labels = _checked_labels(labels)
    if output_shape is None or len(output_shape) not in (2, 3):
        raise ExportError(
            "`labels` go with one output of shape [batch, classes] or [batch, length, classes]. "
            f"The model returns {names or output_shape}."
        )
    rank, columns = len(output_shape), output_shape[-1]
    if columns != len(labels) and not (rank == 2 and columns == 1 and len(labels) == 2):
        raise ExportError(f"The model has {columns} classes. Received {len(labels)} `labels`.")
    return Classification(labels) if rank == 2 else Labelling(labels)


def _checked_labels(labels: Sequence[str]) -> list[str]:
    if isinstance(labels, str | bytes) or not all(isinstance(label, str) for label in labels):
        raise ExportError(f"`labels` must be a list of str. Received {labels!r:.80}.")
    names = list(labels)
    if len(set(names)) != len(names):
        raise ExportError("`labels` must differ: a client finds the score of a label by its name.")
    return names


def _float32(value: Tensor) -> Tensor:
    return tf.cast(value, tf.float32) if value.dtype in (tf.bfloat16, tf.float16) else value
