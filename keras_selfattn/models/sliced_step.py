"""A training step that reads its batch in slices, so that its memory hardly grows with the batch.

Most of a training's memory can be the tensors that the blocks of a pretrained encoder keep for their
gradient: some 0.2 MB for each token of MiniLM. A slice has few tokens, and its gradients are added to those
of the slices before it; then the optimizer moves the weights once, by the gradient of the whole batch.

Axes: B (batch), T (positions), N (tokens of a slice), D (features of a table).
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
    """The sums over the slices so far.

    Attributes:
        loss: of the rows, or real positions, float32.
        count: of these.
        dense: gradients of the loss over the most that `count` can become, for each weight that is no table.
        sparse: for each table the rows `[N]` that had a gradient, and the gradients `[N, D]`, by slice.
        outputs: of the model, by slice.
        masks: of the outputs, by slice, if there is a target at each position; else no array.
    """

    loss: Tensor
    count: Tensor
    dense: list[Tensor]
    sparse: list[tuple[tf.TensorArray, tf.TensorArray]]
    outputs: tf.TensorArray
    masks: list[tf.TensorArray]


def can_slice(model: Any, data: Any) -> bool:
    """Return True if the gradient of a batch is the mean of those of its slices, and memory is short."""
    if keras.backend.backend() != "tensorflow" or tf.config.list_logical_devices("GPU"):
        return False  # a GPU is slower with few tokens at a time
    is_mean = isinstance(model.loss, _MEANS) and model.loss.reduction == "sum_over_batch_size"
    # Penalties of activities are sums over the batch. Half precision would round the sums of gradients.
    penalised = any(getattr(layer, "activity_regularizer", None) for layer in model._flatten_layers())
    weights = model.trainable_weights
    exact = bool(weights) and all(each.dtype == "float32" for each in weights)
    has_positions = len(_inputs(data).shape) > 1
    return is_mean and exact and has_positions and not penalised and not tf.distribute.has_strategy()


def train_in_slices(model: Any, data: Any, positions: int) -> Any:
    """Run one step like `keras.Model.train_step`: with the same loss and gradients, up to rounding.

    Args:
        model: a compiled model for which `can_slice` is True.
        data: a batch, in the form of `train_step`.
        positions: of a slice at most, padding included; a longer row is a slice of its own.
    """
    x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
    sizes: Any = tf.shape(_inputs(data))
    rows, max_rows = sizes[0], tf.maximum(1, positions // tf.maximum(1, sizes[1]))
    slice_rows = -(-rows // -(-rows // max_rows))  # all slices have about as many rows
    slices = -(-rows // slice_rows)
    most = rows * sizes[1] if model.head.per_position else rows  # that can count in the mean of the loss

    def add_slice(number: Tensor, sums: _Sums) -> tuple[Tensor, _Sums]:
        place = slice(number * slice_rows, (number + 1) * slice_rows)
        part: Any = keras.tree.map_structure(lambda each: each[place], (x, y) if weights is None else data)
        sums = _with_slice(model, sums, number, most, *part)
        keep_in_graph()  # the loop has a graph of its own
        return number + 1, sums

    first = (tf.constant(0), _empty_sums(model, slices))
    # One after the other: two at once would need twice the memory.
    _, sums = tf.while_loop(lambda number, _: number < slices, add_slice, first, parallel_iterations=1)
    return _finish(model, (x, y, weights), sums, most)


def _inputs(data: Any) -> Tensor:
    """Return the first input of a batch, ids `[B, T, ...]`."""
    return keras.tree.flatten(keras.utils.unpack_x_y_sample_weight(data)[0])[0]


def _empty_sums(model: Any, slices: Tensor) -> _Sums:
    """Return the sums of no slice, with room for so many."""

    def room(dtype: Any, shape: list[int | None]) -> tf.TensorArray:
        return tf.TensorArray(dtype, slices, element_shape=shape, infer_shape=False)

    tables = [each for each in model.trainable_weights if _is_table(each)]
    outputs = model.core.output
    return _Sums(
        tf.constant(0.0),
        tf.constant(0.0),
        [tf.zeros(each.shape) for each in model.trainable_weights if not _is_table(each)],
        [(room(tf.int32, [None]), room(tf.float32, [None, *each.shape[1:]])) for each in tables],
        room(outputs.dtype, list(outputs.shape)),
        [room(tf.bool, [None, None])] if model.head.per_position else [],
    )


def _with_slice(
    model: Any, sums: _Sums, number: Tensor, most: Tensor, x: Any, y: Any, weights: Any = None
) -> _Sums:
    """Return the sums with those of one more slice."""
    with tf.GradientTape() as tape:
        outputs = model(x, training=True)
        mask = getattr(outputs, "_keras_mask", None)
        counted = tf.ones(tf.shape(outputs)[: 2 if sums.masks else 1], tf.bool) if mask is None else mask
        count = tf.math.count_nonzero(counted, dtype=tf.float32)
        loss = model.compute_loss(x=x, y=y, y_pred=outputs, sample_weight=weights, training=True)
        # No larger than the loss of a whole batch, or gradients in half precision would overflow sooner.
        share = tf.cast(count / tf.cast(most, tf.float32), loss.dtype)
        scaled = model.optimizer.scale_loss(loss * share)
    trained, none = model.trainable_weights, tf.UnconnectedGradients.ZERO
    found: Any = tape.gradient(scaled, trained, unconnected_gradients=none)
    dense = [each for each, weight in zip(found, trained, strict=True) if not _is_table(weight)]
    sparse = [_slices_of(each) for each, weight in zip(found, trained, strict=True) if _is_table(weight)]
    return _Sums(
        sums.loss + tf.cast(loss, tf.float32) * count,
        sums.count + count,
        [before + more for before, more in zip(sums.dense, dense, strict=True)],
        [
            (rows.write(number, more.indices), values.write(number, more.values))
            for (rows, values), more in zip(sums.sparse, sparse, strict=True)
        ],
        sums.outputs.write(number, outputs),
        [masks.write(number, counted) for masks in sums.masks],
    )


def _finish(model: Any, batch: tuple[Any, Any, Any], sums: _Sums, most: Tensor) -> Any:
    """Move the weights and return the figures of a step, as the end of Keras' own does."""
    x, y, weights = batch
    outputs = sums.outputs.concat()
    if sums.masks:
        outputs._keras_mask = sums.masks[0].concat()
    model._loss_tracker.update_state(
        tf.math.divide_no_nan(sums.loss, sums.count), sample_weight=tf.shape(outputs)[0]
    )
    model.optimizer.apply_gradients(_gradients(model, sums, most))
    return model.compute_metrics(x, y, outputs, weights)


def _is_table(weight: Any) -> bool:
    """Return True for a table of tokens, of which a step reads few rows."""
    return weight.path.endswith(TABLE)


def _slices_of(gradient: Any) -> tf.IndexedSlices:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values, tf.cast(gradient.indices, tf.int32), gradient.dense_shape)
    return tf.IndexedSlices(gradient, tf.range(tf.shape(gradient)[0]))


def _gradients(model: Any, sums: _Sums, most: Tensor) -> list[tuple[Tensor, Any]]:
    """Return the gradients of the mean loss with their weights, in the order of Keras."""
    # All rows count, but not all positions.
    factor = tf.math.divide_no_nan(tf.cast(most, tf.float32), sums.count) if sums.masks else 1.0
    dense, sparse, found = iter(sums.dense), iter(sums.sparse), []
    for weight in model.trainable_weights:
        if _is_table(weight):
            rows, values = next(sparse)
            gradient: Any = tf.IndexedSlices(values.concat() * factor, rows.concat(), weight.shape)
        else:
            gradient = next(dense) * factor
        found.append((gradient, weight))
    return found
