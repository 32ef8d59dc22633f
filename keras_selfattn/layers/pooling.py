"""Pooling of a sequence into one vector, over its real tokens only.

Axes: B (batch), T (positions), D (features), R (hops of attention pooling).
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_selfattn.layers.argument_checks import (
    RENAMED_IN_CALLS,
    checked_count,
    checked_seed,
    checked_sequence,
    checked_weight,
    or_none,
    refuse_renamed,
    sequence_spec,
)
from keras_selfattn.layers.attention_math import masked_softmax, wide_dtype
from keras_selfattn.layers.masks import row_mask, zero_masked
from keras_selfattn.layers.remat import add_losses, call_in_scope
from keras_selfattn.layers.seeds import split_seed
from keras_selfattn.layers.tensorflow import builds_portable_graph
from keras_selfattn.layers.weights.settings import WeightSettings, checked_setting, serialized_setting

Tensor = Any

_KERNEL_SETTINGS = ("kernel_initializer", "kernel_regularizer", "kernel_constraint")


class PoolingBase(keras.layers.Layer):
    """`[batch, length, features]` to `[batch, features]`; a subclass gives `_pool`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape: tuple) -> None:
        self.input_spec = sequence_spec(checked_sequence(input_shape))

    def __call__(self, *args: Any, **options: Any) -> Any:
        refuse_renamed(options, RENAMED_IN_CALLS)
        return super().__call__(*args, **options)

    def call(self, inputs: Tensor, mask: Tensor | None = None, valid_lens: Tensor | None = None) -> Tensor:
        real = row_mask(inputs, mask, valid_lens)  # [B, T]
        return self._pool(zero_masked(inputs, real), real)

    def rematerialized_call(self, layer_call: Any, *args: Any, **kwargs: Any) -> Any:
        """Return `layer_call` as the `keras.RematScope` says in which the layer was made; Keras calls it."""
        return call_in_scope(self, super().rematerialized_call, layer_call, *args, **kwargs)

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> None:
        """Return None: the pooled vector has no positions left to mask."""

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], input_shape[2])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments; without this method Keras refuses a map of policies among them."""
        return super().get_config()

    def _pool(self, inputs: Tensor, real: Tensor | None) -> Tensor:
        """Pool `[B, T, D]`, zero where `real` `[B, T]` is False, into `[B, D]`."""
        raise NotImplementedError


@keras.saving.register_keras_serializable(package="keras_selfattn")
class AveragePooling(PoolingBase):
    """Averages the features of the real tokens; a row without any gives zeros.

    Call arguments:
        inputs: float `[batch, length, features]`.
        mask: bool `[batch, length]`, True = a real token; propagated by Keras.
        valid_lens: int `[batch]`, the number of leading real tokens; the rest is padding.

    Returns:
        float `[batch, features]`, summed in float32 at least under every dtype policy.

    Raises:
        ValueError: for inputs of another rank, or a mask of the wrong dtype or shape.

    Example:

        >>> import numpy as np
        >>> x = np.array([[[1.0], [3.0], [100.0]]], "float32")
        >>> print(np.asarray(AveragePooling()(x, valid_lens=np.array([2]))))
        [[2.]]
    """

    def _pool(self, inputs: Tensor, real: Tensor | None) -> Tensor:
        dtype = wide_dtype(self.compute_dtype)
        total = ops.sum(ops.cast(inputs, dtype), axis=1)  # [B, D]
        if real is None:
            count = ops.cast(ops.shape(inputs)[1], dtype)
        else:
            count = ops.sum(ops.cast(real, dtype), axis=1, keepdims=True)  # [B, 1]
        return ops.cast(total / ops.maximum(count, 1.0), self.compute_dtype)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class MaxPooling(PoolingBase):
    """Takes the largest value of each feature among the real tokens; a row without any gives zeros.

    Call arguments:
        inputs, mask, valid_lens: as for `AveragePooling`.

    Returns:
        float `[batch, features]`.

    Raises:
        ValueError: as `AveragePooling` does.

    Example:

        >>> import numpy as np
        >>> x = np.array([[[-1.0], [-3.0], [100.0]]], "float32")
        >>> print(np.asarray(MaxPooling()(x, valid_lens=np.array([2]))))
        [[-1.]]
    """

    def _pool(self, inputs: Tensor, real: Tensor | None) -> Tensor:
        # Converters to other runtimes may choose by products with 0 and 1, which infinity makes NaN.
        least = float(np.finfo("float32").min) if builds_portable_graph() else float("-inf")
        lowest = ops.full((ops.shape(inputs)[0], 1, inputs.shape[2]), least, dtype=inputs.dtype)
        if real is not None:
            inputs = ops.where(ops.expand_dims(real, 2), inputs, lowest)
        # One position more, so that there is one when the length is 0.
        longer = ops.concatenate([inputs, lowest], axis=1)
        # Without `initial`, the maximum of nothing, Keras refuses a batch of no rows.
        largest = ops.max(longer, axis=1, initial=least)  # [B, D]
        if real is None:
            has_token = ops.broadcast_to(ops.shape(inputs)[1] > 0, (ops.shape(inputs)[0], 1))
        else:
            has_token = ops.any(real, axis=1, keepdims=True)  # [B, 1]
        return ops.where(has_token, largest, ops.zeros((), dtype=inputs.dtype))


@keras.saving.register_keras_serializable(package="keras_selfattn")
class FirstTokenPooling(PoolingBase):
    """Takes the features of the first real token, wherever padding stands; a row without any gives zeros.

    This is BERT's pooling, for sequences that start with a special token for the whole sequence.

    Call arguments:
        inputs, mask, valid_lens: as for `AveragePooling`.

    Returns:
        float `[batch, features]`.

    Raises:
        ValueError: as `AveragePooling` does.

    Example:

        >>> import numpy as np
        >>> x = np.array([[[0.0], [7.0], [8.0]]], "float32")
        >>> print(np.asarray(FirstTokenPooling()(x, mask=np.array([[False, True, True]]))))
        [[7.]]

    Reference: Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers for Language
    Understanding", section 3.
    """

    def _pool(self, inputs: Tensor, real: Tensor | None) -> Tensor:
        if real is None:
            return ops.sum(inputs[:, :1], axis=1)  # zeros when the length is 0
        counted = ops.cumsum(ops.cast(real, "int32"), axis=1)  # [B, T]: 1 up to the second real token
        return ops.sum(zero_masked(inputs, counted == 1), axis=1)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class AttentionPooling(PoolingBase):
    """Structured self-attentive pooling: each hop learns what to look at and averages the tokens accordingly.

    `A = softmax(tanh(x W_1) W_2)` over the real tokens, one column a hop; the output is `A^T x`, the hops
    side by side. A row with padding only gives zeros.

    Args:
        hops: number R of averages, each with its own weights.
        hidden_dim: width of the hidden layer; by default the input's features.
        penalty: factor of the paper's `||A A^T - I||^2` (Frobenius, mean over samples), added to the training
            loss so that hops look at different tokens; 0 = none, 1.0 is the paper's.
        kernel_initializer, kernel_regularizer, kernel_constraint: as for `MultiHeadSelfAttention`.
        activity_regularizer: as of every Keras layer, the penalty of the outputs.
        seed: int for initial weights; None draws one.

    Call arguments:
        inputs, mask, valid_lens: as for `AveragePooling`.
        training: the penalty is added only if True.
        return_weights: if True, returns the weights as well.

    Returns:
        float `[batch, hops * features]`; with `return_weights` also float `[batch, hops, length]`.

    Raises:
        ValueError: as `AveragePooling` does, and for an argument out of range.

    Weights: hidden kernel `[features, hidden_dim]`, hop kernel `[hidden_dim, hops]`; no biases, as in the
        paper.

    Example:

        >>> import numpy as np
        >>> pooled, weights = AttentionPooling(hops=3)(np.ones((2, 5, 4), "float32"), return_weights=True)
        >>> tuple(pooled.shape), tuple(weights.shape)
        ((2, 12), (2, 3, 5))

    Reference: Lin et al. 2017, "A Structured Self-attentive Sentence Embedding", sections 2.1 and 2.2.
    """

    def __init__(
        self,
        hops: int = 1,
        hidden_dim: int | None = None,
        *,
        penalty: float = 0.0,
        kernel_initializer: Any = "glorot_uniform",
        kernel_regularizer: Any = None,
        kernel_constraint: Any = None,
        activity_regularizer: Any = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        activity_regularizer = checked_setting("activity_regularizer", activity_regularizer)
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        settings = WeightSettings(
            kernel_initializer=kernel_initializer,
            kernel_regularizer=kernel_regularizer,
            kernel_constraint=kernel_constraint,
        )
        settings.store_on(self)
        self.hops = checked_count("hops", hops)
        self.hidden_dim = or_none(checked_count, "hidden_dim", hidden_dim)
        self.penalty = checked_weight("penalty", penalty)
        self.seed = checked_seed(seed)

    def build(self, input_shape: tuple) -> None:
        super().build(input_shape)
        features = input_shape[-1]
        hidden = self.hidden_dim or features
        seeds = split_seed(self.seed, 2)
        kernels = {"hidden_kernel": (features, hidden), "hop_kernel": (hidden, self.hops)}
        self._hidden_kernel, self._hop_kernel = (
            self.weight_settings.add(self, name, "kernel", [shape], [seed], first=place)
            for place, ((name, shape), seed) in enumerate(zip(kernels.items(), seeds, strict=True))
        )

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
    ) -> Tensor:
        real = row_mask(inputs, mask, valid_lens)  # [B, T]
        inputs = zero_masked(inputs, real)
        weights = self._weights(inputs, real)  # [B, R, T]
        if training and self.penalty > 0:
            add_losses(self, [self.penalty * _overlap(weights)])
        weights = ops.cast(weights, inputs.dtype)
        pooled = ops.matmul(weights, inputs)  # [B, R, D]
        pooled = ops.reshape(pooled, (ops.shape(inputs)[0], self.hops * inputs.shape[2]))
        return (pooled, weights) if return_weights else pooled

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], self.hops * input_shape[2])

    def compute_output_spec(self, inputs: Tensor, *_: Any, return_weights: bool = False, **__: Any) -> Any:
        pooled = keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)
        if not return_weights:
            return pooled
        return pooled, keras.KerasTensor(
            (inputs.shape[0], self.hops, inputs.shape[1]), dtype=self.compute_dtype
        )

    def get_config(self) -> dict[str, Any]:
        names = ("hops", "hidden_dim", "penalty", "seed")
        config = {name: getattr(self, name) for name in names}
        for name in (*_KERNEL_SETTINGS, "activity_regularizer"):
            config[name] = serialized_setting(name, getattr(self, name))
        return {**super().get_config(), **config}

    def _weights(self, inputs: Tensor, real: Tensor | None) -> Tensor:
        hidden = ops.tanh(ops.matmul(inputs, self._hidden_kernel))
        logits: Tensor = ops.matmul(hidden, self._hop_kernel)  # [B, T, R]
        logits = ops.cast(ops.swapaxes(logits, 1, 2), wide_dtype(logits.dtype))  # [B, R, T]
        return masked_softmax(logits, None if real is None else ops.expand_dims(real, 1))


def _overlap(weights: Tensor) -> Tensor:
    """Return the mean over samples of `||A A^T - I||^2` for weights A `[B, R, T]`."""
    hops = weights.shape[1]
    overlap = ops.matmul(weights, ops.swapaxes(weights, 1, 2)) - ops.eye(
        hops, dtype=weights.dtype
    )  # [B, R, R]
    return ops.mean(ops.sum(ops.square(overlap), axis=(1, 2)))
