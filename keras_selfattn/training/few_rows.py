"""Few labelled texts: a pretrained encoder learns from pairs of them, then a linear model from its vectors.

Axes: B (batch), T (tokens), D (features), C (classes).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.models.base import RawModel
from keras_selfattn.models.heads import ClassHead
from keras_selfattn.models.pretrained.fine_tuning_config import FineTunedConfig
from keras_selfattn.models.raw_inputs import Rows
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.schedule import scheduled_optimizer

Tensor = Any

FEW_ROWS = 1_000
# Each row is in many pairs, so the number of steps does not depend on the number of rows.
_STEPS = 4
# Of the learning rate: pairs of a few rows are soon learned by heart.
_RATE_SHARE = 0.2
_PREDICT_BATCH = 64
_NARROWEST = 1e-6


def is_for_pairs(model: RawModel, rows: LabelledRows, config: TrainConfig) -> bool:
    """Return True if a model that knows its labels is to be trained on pairs of rows.

    It is a classifier of texts with a pretrained encoder, not all of it frozen, and a new output layer, and
    each of at most 1,000 rows has one label. `label_smoothing` needs steps on the labels themselves.
    """
    start: Any = getattr(model, "start", None)
    if (
        start is None
        or not isinstance(model.config, FineTunedConfig)
        or not isinstance(model.head, ClassHead)
    ):
        return False
    frozen = model.config.frozen_layers == model.config.num_layers
    few = len(rows) <= FEW_ROWS and not config.label_smoothing
    return few and not frozen and not start.brings(model.head)


def fit_pairs(
    model: RawModel,
    rows: LabelledRows,
    weights: np.ndarray | None,
    epochs: int,
    config: TrainConfig,
    callbacks: Sequence[keras.callbacks.Callback],
    validation_data: tuple[Any, ...] | None = None,
    verbose: str | int = "auto",
) -> dict[str, list[float]]:
    """Train the encoder of a model on pairs of rows, and its output layer on the vectors of the rows.

    Args:
        model: compiled; `is_for_pairs`.
        rows: to train on.
        weights: of the rows, for the output layer; None for equal ones.
        epochs: of 4 batches each.
        config: the settings of the training. A fifth of its learning rate is the peak; a batch has about its
            size, with the same number of rows of each label.
        callbacks: called as in `keras.Model.fit`.
        validation_data: inputs, targets and weights to measure the model on after each epoch.
        verbose: as in `keras.Model.fit`.

    Returns:
        The values of each epoch by name; `loss` is `PairLoss`.

    Reference: Tunstall et al. 2022, "Efficient Few-Shot Learning Without Prompts", section 3.
    """
    vectors = keras.Model(model.core.get_layer("embedding").input, model.core.get_layer("logits").input)
    output = _LinearOutput(model, vectors, rows, weights, validation_data)
    optimizer, scheduled = scheduled_optimizer(
        model, config, _RATE_SHARE * config.learning_rate, _STEPS * epochs
    )
    vectors.compile(optimizer, PairLoss(), jit_compile=False)  # pyright: ignore[reportArgumentType]
    history = vectors.fit(
        _batches(model, rows, config),
        epochs=epochs,
        steps_per_epoch=_STEPS,
        shuffle=False,  # the batches have their order already
        callbacks=[scheduled, output, *callbacks],
        verbose=verbose,  # pyright: ignore[reportArgumentType]
    ).history
    if validation_data is None:
        output.fit()
    return history


@keras.saving.register_keras_serializable(package="keras_selfattn")
class PairLoss(keras.losses.Loss):
    """Mean squared error of the cosines of all pairs in a batch, which should be 1 for one label, else 0.

    Pairs of one label have the same weight together as all others.

    Call arguments:
        y_true: labels, integers `[B, 1]`.
        y_pred: vectors, float `[B, D]`.

    Returns:
        A scalar.

    Example:

        >>> vectors = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], "float32")
        >>> float(PairLoss()(np.array([[0], [0], [1]]), vectors))
        1.0
    """

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        vectors = ops.normalize(ops.cast(y_pred, "float32"), axis=-1)
        cosines: Any = ops.matmul(vectors, ops.transpose(vectors))  # [B, B]
        same = ops.equal(y_true, ops.transpose(y_true))
        itself = ops.eye(ops.shape(y_true)[0], dtype="bool")
        together = ops.logical_and(same, ops.logical_not(itself))
        return _mean(ops.square(cosines - 1), together) + _mean(ops.square(cosines), ops.logical_not(same))


def _mean(values: Tensor, chosen: Tensor) -> Tensor:
    """Return the mean of the chosen values, or 0 if there are none."""
    chosen = ops.cast(chosen, values.dtype)
    return ops.sum(values * chosen) / ops.maximum(ops.sum(chosen), 1.0)


def _batches(model: RawModel, rows: LabelledRows, config: TrainConfig) -> tf.data.Dataset:
    """Return an endless data set of token ids `[B, T]` and labels `[B, 1]`."""
    encoded: Any = model.head.encoded(rows.targets)
    batches = model.batches(
        Rows(list(rows.inputs), list(rows.targets)), None, training=True, seed=config.seed
    )

    def drawn() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for chosen in balanced(encoded, config.batch_size, config.seed):
            yield batches.padded_rows(chosen), encoded[chosen, None]

    specs = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, 1], tf.as_dtype(encoded.dtype))
    return tf.data.Dataset.from_generator(drawn, output_signature=specs).prefetch(2)


def balanced(labels: np.ndarray, size: int, seed: int) -> Iterator[np.ndarray]:
    """Yield the places of about `size` rows without end, of each label as many: at least 2, if there are.

    Example:

        >>> chosen = next(balanced(np.array([0, 0, 0, 0, 1, 1]), 4, seed=0))
        >>> np.array([0, 0, 0, 0, 1, 1])[chosen].tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
        True
    """
    random = np.random.default_rng(seed)
    of_label = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    of_each = max(2, size // len(of_label))
    while True:
        drawn = random.permutation(len(of_label))[: max(2, size // of_each)]
        parts = [random.permutation(of_label[label])[:of_each] for label in drawn]
        yield np.concatenate(parts)


class _LinearOutput(keras.callbacks.Callback):
    """Fit the output layer of a model by logistic regression, and measure the model after each epoch.

    Args:
        model: compiled.
        vectors: the part of its core before the output layer.
        rows: to train on.
        weights: of the rows, or None.
        validation_data: to measure the model on; without it the layer is fitted when `fit` is called.
    """

    def __init__(
        self, model: RawModel, vectors: keras.Model, rows: LabelledRows, weights: Any, validation_data: Any
    ) -> None:
        super().__init__()
        self._classifier, self._vectors, self._weights = model, vectors, weights
        self._targets: Any = model.head.encoded(rows.targets)
        self._batches = model.batches(Rows(list(rows.inputs), []), _PREDICT_BATCH)
        self._validation = validation_data

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self._validation is None or logs is None:
            return
        self.fit()
        inputs, targets, weights = self._validation
        found: Any = self._classifier.evaluate(
            inputs, targets, sample_weight=weights, return_dict=True, verbose=0
        )
        logs |= {f"val_{name}": value for name, value in found.items()}

    def fit(self) -> None:
        """Fit the output layer to the vectors of the rows."""
        from sklearn.linear_model import LogisticRegression

        found = np.concatenate(
            [
                self._vectors.predict_on_batch(features[0] if isinstance(features, tuple) else features)
                for (features,) in self._batches
            ]
        ).astype(np.float64)
        order = self._batches.order
        weights = None if self._weights is None else np.asarray(self._weights)[order]
        # Vectors of some encoders are long or nearly parallel; the penalty shall mean the same for all.
        middle = found.mean(axis=0)
        spread = max(float(np.sqrt(np.mean(np.sum((found - middle) ** 2, axis=1)))), _NARROWEST)
        linear: Any = LogisticRegression(max_iter=1000)
        linear.fit((found - middle) / spread, self._targets[order], weights)
        kernel = linear.coef_.T / spread  # [D, C]
        bias = linear.intercept_ - middle @ kernel  # [C]
        if len(bias) == 1:  # of the second class against the first
            kernel, bias = kernel * [-0.5, 0.5], bias * [-0.5, 0.5]
        self._classifier.core.get_layer("logits").set_weights([kernel, bias])
