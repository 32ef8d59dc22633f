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
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.batches.shapes import compiles_each_shape
from keras_selfattn.models.pretrained.fine_tuning_config import FineTunedConfig
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.rows.targets import ONE_LABEL
from keras_selfattn.rows.texts import TEXTS
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.schedule import check_finite, scheduled_optimizer

Tensor = Any

# Of more rows a tenth is enough to choose an epoch and to calibrate on. On 836 questions of TREC steps on the
# rows' own labels had 1.6 points more, on 800 sentences of SST-2 as many; both had a larger log loss.
FEW_ROWS = 1_000
# Each row is in many pairs, so the number of steps does not depend on the number of rows.
_STEPS = 4
# Of the learning rate: pairs of a few rows are soon learned by heart.
_RATE_SHARE = 0.2
_PREDICT_BATCH = 64
_MIN_SPREAD = 1e-6


def trains_on_pairs(model: RawModel, rows: LabelledRows, config: TrainConfig) -> bool:
    """Return True if a model that knows its labels is to be trained on pairs of rows.

    It is a classifier of texts with a pretrained encoder, not all of it frozen, and a new output layer, and
    each of at most 1,000 rows has one label. `label_smoothing` needs steps on the labels themselves.
    """
    start: Any = getattr(model, "start", None)
    one_label = model.head.target_kind == ONE_LABEL
    if start is None or not isinstance(model.config, FineTunedConfig) or not one_label:
        return False
    # The label of two texts says how these are related, not what they are.
    if model.row_kind != TEXTS:
        return False
    frozen = model.config.frozen_layers == model.config.num_layers
    few = len(rows) <= FEW_ROWS and not config.label_smoothing
    return few and not frozen and not start.has_output_layer_for(model.head)


def fit_on_pairs(
    model: RawModel,
    rows: LabelledRows,
    weights: np.ndarray | None,
    epochs: int,
    config: TrainConfig,
    callbacks: Sequence[keras.callbacks.Callback],
    verbose: str | int = "auto",
) -> dict[str, list[float]]:
    """Train the encoder of a model on pairs of rows, and its output layer on the vectors of the rows.

    Args:
        model: `trains_on_pairs`; `compile()` is called without arguments.
        rows: to train on.
        weights: of the rows, for the output layer; None for equal ones. The encoder does not see rows of
            weight 0, and sees all labels equally often.
        epochs: the number of epochs, of 4 batches each.
        config: the settings of the training. A fifth of its learning rate is the peak; a batch has about its
            size, smaller if rows are long.
        callbacks: called as in `keras.Model.fit`; their `model` is the part before the output layer.
        verbose: as in `keras.Model.fit`.

    Returns:
        `PairLoss` of each epoch, as "loss".

    Raises:
        TrainingError: if the loss became NaN or infinite.

    Reference: Tunstall et al. 2022, "Efficient Few-Shot Learning Without Prompts", section 3.
    """
    encoder = keras.Model(model.core.get_layer("embedding").input, model.core.get_layer("logits").input)
    peak = _RATE_SHARE * config.learning_rate
    optimizer, scheduled = scheduled_optimizer(model, config, peak, _STEPS * epochs)
    jit_compile: Any = "auto" if compiles_each_shape() else False
    encoder.compile(optimizer, PairLoss(), jit_compile=jit_compile)  # pyright: ignore[reportArgumentType]
    trained = rows if weights is None else rows.take(np.flatnonzero(weights).tolist())
    history = encoder.fit(
        _batches(model, trained, config),
        epochs=epochs,
        steps_per_epoch=_STEPS,
        shuffle=False,  # the batches have their order already
        callbacks=[scheduled, *callbacks],
        verbose=verbose,  # pyright: ignore[reportArgumentType]
    ).history
    check_finite(history["loss"], config)
    # After the callbacks, which may have changed the weights.
    vectors = _vectors(model, encoder, rows)
    check_finite(vectors, config)
    fit_output_layer(model, vectors, rows, weights)
    model.compile()
    return history


@keras.saving.register_keras_serializable(package="keras_selfattn")
class PairLoss(keras.losses.Loss):
    """Mean squared error of the cosines of all pairs in a batch, which should be 1 for one label, else 0.

    The pairs of one label and the pairs of two labels are averaged separately, and both means are added.

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
        same_label = ops.equal(y_true, ops.transpose(y_true))
        same_row = ops.eye(ops.shape(y_true)[0], dtype="bool")
        positive = ops.logical_and(same_label, ops.logical_not(same_row))
        negative = ops.logical_not(same_label)
        return _masked_mean(ops.square(cosines - 1), positive) + _masked_mean(ops.square(cosines), negative)


def _masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the values where the mask is True, or 0 if it nowhere is."""
    mask = ops.cast(mask, values.dtype)
    return ops.sum(values * mask) / ops.maximum(ops.sum(mask), 1.0)


def balanced_batches(labels: np.ndarray, size: int, seed: int) -> Iterator[np.ndarray]:
    """Yield random batches of row indices without end, each with the same number of rows of its labels.

    Each label in a batch has two rows or more, unless it has only one row in all. If that would be more than
    `size` rows, a batch has some of the labels, at least two.

    Example:

        >>> labels = np.array([0, 0, 0, 0, 1, 1])
        >>> sorted(labels[next(balanced_batches(labels, 4, seed=0))].tolist())
        [0, 0, 1, 1]
    """
    random = np.random.default_rng(seed)
    by_label = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    rows_per_label = max(2, size // len(by_label))
    labels_per_batch = max(2, size // rows_per_label)
    while True:
        chosen = random.permutation(len(by_label))[:labels_per_batch]
        yield np.concatenate([random.permutation(by_label[label])[:rows_per_label] for label in chosen])


def _batches(model: RawModel, rows: LabelledRows, config: TrainConfig) -> tf.data.Dataset:
    """Return an endless data set of token ids `[B, T]` and labels `[B, 1]`."""
    labels: Any = model.head.encoded(rows.targets)
    batches = model.batches(Rows(list(rows.inputs), []), config.batch_size, training=True, seed=config.seed)

    def generate() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for indices in balanced_batches(labels, batches.smallest_size, config.seed):
            yield batches.padded_rows(indices), labels[indices, None]

    specs = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, 1], tf.as_dtype(labels.dtype))
    return tf.data.Dataset.from_generator(generate, output_signature=specs).prefetch(2)


def _vectors(model: RawModel, encoder: keras.Model, rows: LabelledRows) -> np.ndarray:
    """Return the encoder's vectors of rows, float64 `[rows, D]`."""
    batches = model.batches(Rows(list(rows.inputs), []), _PREDICT_BATCH)
    ids = (features[0] if isinstance(features, tuple) else features for (features,) in batches)
    sorted_by_length = np.concatenate([encoder.predict_on_batch(batch) for batch in ids])
    vectors = np.empty((len(rows), sorted_by_length.shape[1]))
    vectors[batches.order] = sorted_by_length[: len(rows)]
    return vectors


def fit_output_layer(
    model: RawModel, vectors: np.ndarray, rows: LabelledRows, weights: np.ndarray | None
) -> None:
    """Set the output layer of a model to a logistic regression (`C=1`) of the vectors of rows, `[rows, D]`.

    The vectors are shifted and scaled to a mean square distance of 1 from their mean first, since those of
    some encoders are long or nearly parallel: so the penalty is the same for all encoders.
    """
    from sklearn.linear_model import LogisticRegression

    mean = vectors.mean(axis=0)
    spread = max(float(np.sqrt(np.mean(np.sum((vectors - mean) ** 2, axis=1)))), _MIN_SPREAD)
    regression: Any = LogisticRegression(max_iter=1000)
    regression.fit((vectors - mean) / spread, model.head.encoded(rows.targets), weights)
    kernel = regression.coef_.T / spread  # [D, C]
    bias = regression.intercept_ - mean @ kernel  # [C]
    if len(bias) == 1:  # of the second class against the first
        kernel, bias = kernel * [-0.5, 0.5], bias * [-0.5, 0.5]
    model.core.get_layer("logits").set_weights([kernel, bias])
