"""A training step that reads its batch in slices, so that its memory does not grow with the batch.

What the blocks of a pretrained encoder keep for their gradient is most of a training's memory: 64 KB for each
token in each block of MiniLM. A slice has few tokens, and its gradients are added to those of the slices
before it; then the optimizer moves the weights once, by the gradient of the whole batch.

Axes: B (batch), T (tokens), N (tokens of a slice), D (features of a table).
"""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_selfattn.layers.tensorflow.custom_gradients import keep_in_graph
from keras_selfattn.models.heads.class_heads import SmoothedBinaryCrossentropy, SmoothedCrossentropy
from keras_selfattn.models.heads.number_head import StandardisedSquaredError
from keras_selfattn.models.saving.weight_parts import TABLE

Tensor = Any

# Losses that are means over rows or positions. One of a user's may compare rows with each other.
_MEANS = (SmoothedCrossentropy, SmoothedBinaryCrossentropy, StandardisedSquaredError)


class _Sums(NamedTuple):
    """What the slices so far add up to.

    Attributes:
        loss: the sum over their rows, or real positions, float32.
        count: of these.
        dense: gradients of that sum, one for each weight that is no table.
        sparse: for each table the rows `[N]` that had a gradient, and the gradients `[N, D]`, by slice.
        outputs: of the model, by slice.
        masks: of the outputs, by slice.
    """

    loss: Tensor
    count: Tensor
    dense: list[Tensor]
    sparse: list[tuple[tf.TensorArray, tf.TensorArray]]
    outputs: tf.TensorArray
    masks: tf.TensorArray


def can_slice(model: Any) -> bool:
    """Return True if the gradient of a batch is the mean of those of its slices, and memory is short."""
    if keras.backend.backend() != "tensorflow" or tf.config.list_logical_devices("GPU"):
        return False  # a GPU is slower with few tokens at a time
    is_mean = isinstance(model.loss, _MEANS) and model.loss.reduction == "sum_over_batch_size"
    return is_mean and not tf.distribute.has_strategy() and bool(model.trainable_weights)


def train_in_slices(model: Any, data: Any, tokens: int) -> Any:
    """Run one step like `keras.Model.train_step`: with the same loss and gradients, up to rounding.

    Args:
        model: a compiled model for which `can_slice` is True.
        data: a batch, in the form of `train_step`.
        tokens: in a slice at most, padding included; a longer row is a slice of its own.
    """
    x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
    sizes: Any = tf.shape(tf.nest.flatten(x)[0])
    rows, length = sizes[0], sizes[1]
    most = tf.maximum(1, tokens // tf.maximum(1, length))
    size = -(-rows // -(-rows // most))  # all slices have about as many rows
    count = -(-rows // size)

    def add_slice(number: Tensor, sums: _Sums) -> tuple[Tensor, _Sums]:
        chosen, given = slice(number * size, (number + 1) * size), (x, y, weights)
        part: Any = keras.tree.map_structure(lambda each: None if each is None else each[chosen], given)
        sums = _with_slice(model, sums, number, *part)
        keep_in_graph()
        return number + 1, sums

    first = (tf.constant(0), _nothing(model, count))
    # One after the other: two at once would need twice the memory.
    _, sums = tf.while_loop(lambda number, _: number < count, add_slice, first, parallel_iterations=1)
    outputs = sums.outputs.concat()
    if model.head.per_position:
        outputs._keras_mask = sums.masks.concat()
    # As Keras' own step does from here on.
    model._loss_tracker.update_state(sums.loss / sums.count, sample_weight=rows)
    model.optimizer.apply_gradients(_mean_gradients(model, sums))
    return model.compute_metrics(x, y, outputs, weights)


def _nothing(model: Any, slices: Tensor) -> _Sums:
    """Return the sums of no slice, with room for so many."""

    def room(dtype: Any, shape: list[int | None]) -> tf.TensorArray:
        return tf.TensorArray(dtype, slices, element_shape=shape, infer_shape=False)

    tables = [each for each in model.trainable_weights if _is_table(each)]
    outputs = model.core.output
    return _Sums(
        tf.constant(0.0),
        tf.constant(0.0),
        [tf.zeros(each.shape, each.dtype) for each in model.trainable_weights if not _is_table(each)],
        [(room(tf.int32, [None]), room(each.dtype, [None, *each.shape[1:]])) for each in tables],
        room(outputs.dtype, list(outputs.shape)),
        room(tf.bool, [None, None]),
    )


def _with_slice(model: Any, sums: _Sums, number: Tensor, x: Any, y: Any, weights: Any) -> _Sums:
    """Return the sums with those of one more slice."""
    with tf.GradientTape() as tape:
        outputs = model(x, training=True)
        mask = getattr(outputs, "_keras_mask", None)
        counted = tf.ones(tf.shape(outputs)[:1], tf.bool) if mask is None else mask
        count = tf.math.count_nonzero(counted, dtype=tf.float32)
        loss = model.compute_loss(x=x, y=y, y_pred=outputs, sample_weight=weights, training=True) * count
        scaled = model.optimizer.scale_loss(loss)
    trained = model.trainable_weights
    none = tf.UnconnectedGradients.ZERO
    found: Any = tape.gradient(scaled, trained, unconnected_gradients=none)
    dense = [each for each, weight in zip(found, trained, strict=True) if not _is_table(weight)]
    sparse = [_slices_of(each) for each, weight in zip(found, trained, strict=True) if _is_table(weight)]
    return _Sums(
        sums.loss + loss,
        sums.count + count,
        [before + more for before, more in zip(sums.dense, dense, strict=True)],
        [
            (rows.write(number, more.indices), values.write(number, more.values))
            for (rows, values), more in zip(sums.sparse, sparse, strict=True)
        ],
        sums.outputs.write(number, outputs),
        sums.masks.write(number, mask if mask is not None else counted[:, None]),
    )


def _is_table(weight: Any) -> bool:
    """Return True for a table of tokens, of which a step reads few rows."""
    return weight.path.endswith(TABLE)


def _slices_of(gradient: Any) -> tf.IndexedSlices:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values, tf.cast(gradient.indices, tf.int32), gradient.dense_shape)
    return tf.IndexedSlices(gradient, tf.range(tf.shape(gradient)[0]))


def _mean_gradients(model: Any, sums: _Sums) -> list[tuple[Tensor, Any]]:
    """Return the gradients of the mean loss with their weights, in the order of Keras."""
    dense, sparse, found = iter(sums.dense), iter(sums.sparse), []
    for weight in model.trainable_weights:
        if _is_table(weight):
            rows, values = next(sparse)
            gradient: Any = tf.IndexedSlices(values.concat() / sums.count, rows.concat(), weight.shape)
        else:
            gradient = next(dense) / sums.count
        found.append((gradient, weight))
    return found
