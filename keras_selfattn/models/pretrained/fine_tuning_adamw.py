"""AdamW for fine-tuning: a learning rate for each layer, and tables whose unused rows stay as they are.

Axes: N (rows of a table in a step), D (features).
"""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_selfattn.models.fused_adamw import FusedAdamW, Step

Tensor = Any

# Biases, and gains of normalisations, are not decayed.
_UNDECAYED = ("bias", "gamma", "beta")
# The table of tokens of `PretrainedEmbedding`.
_TABLE = "/tokens"


@keras.saving.register_keras_serializable(package="keras_selfattn")
class FineTuningAdamW(FusedAdamW):
    """AdamW with a factor of the learning rate for each layer, in one pass over weights and moments.

    For weights with dense gradients it computes what `keras.optimizers.AdamW` does. Of a table of vectors
    only the rows of a step's tokens change, with their moments: a step costs as much as its tokens, not as
    much as the vocabulary. Biases and normalisations are not decayed. With `gradient_accumulation_steps`
    Keras makes the gradients of tables dense, so all rows change. JAX and PyTorch have dense gradients only:
    a row of the table of tokens stays as it is if its gradient is zero, and a step costs the whole table.

    Args:
        learning_rate: of layers without a factor, or a schedule.
        rates: factor of the learning rate by the beginning of a weight's path; the longest that fits counts.
        settings: the other arguments of `keras.optimizers.AdamW`, except `amsgrad`.

    Raises:
        ConfigError: for `amsgrad`.

    Example:

        >>> optimizer = FineTuningAdamW(1e-4, rates={"encoder/block_0": 0.5})
        >>> optimizer.rate_of("encoder/block_0/attention_norm/gamma"), optimizer.rate_of("logits/kernel")
        (0.5, 1.0)

    References: Loshchilov & Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2; Howard & Ruder
    2018, "Universal Language Model Fine-tuning", section 3.2 (a rate for each layer).
    """

    def __init__(
        self, learning_rate: Any = 1e-4, *, rates: Mapping[str, float] | None = None, **settings: Any
    ) -> None:
        super().__init__(learning_rate, **settings)
        self.rates = dict(rates or {})

    def rate_of(self, path: str) -> float:
        """Return the factor of the learning rate of a weight's path."""
        found = [name for name in self.rates if path == name or path.startswith(f"{name}/")]
        return self.rates[max(found, key=len)] if found else 1.0

    def update_step(self, gradient: Tensor, variable: Any, learning_rate: Tensor) -> None:
        path = self._trainable_variables[self._get_variable_index(variable)].path
        decays = self._use_weight_decay(variable) and not path.endswith(_UNDECAYED)
        step = self._step(variable, learning_rate * self.rate_of(path), decays)
        if keras.backend.backend() != "tensorflow":
            self._update_dense(gradient, variable, step, keeps_rows=path.endswith(_TABLE))
        elif isinstance(gradient, tf.IndexedSlices):
            self._update_rows(gradient, variable, step)
        else:
            self._move(gradient, variable, step)

    def _update_dense(self, given: Tensor, weight: Any, step: Step, *, keeps_rows: bool) -> None:
        """Update a weight on a backend without sparse gradients."""
        old: tuple[Any, ...] = tuple(each.value for each in (step.first, step.second, weight))
        gradient: Any = ops.cast(given, weight.dtype)
        first: Any = self.beta_1 * old[0] + (1 - self.beta_1) * gradient
        second: Any = self.beta_2 * old[1] + (1 - self.beta_2) * gradient**2
        rate = step.rate * ops.sqrt(1 - step.powers[1]) / (1 - step.powers[0])
        kept = old[2] if step.decay is None else old[2] * (1 - step.decay)
        new = (first, second, kept - rate * first / (ops.sqrt(second) + self.epsilon))
        if keeps_rows:
            used = ops.any(ops.not_equal(gradient, 0), axis=-1, keepdims=True)  # [rows, 1]
            new = tuple(ops.where(used, now, then) for now, then in zip(new, old, strict=True))
        for variable, found in zip((step.first, step.second, weight), new, strict=True):
            variable.assign(found)

    def _update_rows(self, gradient: Any, table: Any, step: Step) -> None:
        rows, values = gradient.indices, gradient.values  # [N], [N, D]
        moments = step.first.value, step.second.value
        first = self.beta_1 * tf.gather(moments[0], rows) + (1 - self.beta_1) * values
        second = self.beta_2 * tf.gather(moments[1], rows) + (1 - self.beta_2) * values**2
        rate = step.rate * tf.sqrt(1 - step.powers[1]) / (1 - step.powers[0])
        old = tf.gather(table, rows)
        kept = old if step.decay is None else old * (1 - step.decay)
        new = kept - rate * first / (tf.sqrt(second) + self.epsilon)
        for variable, found in zip((*moments, table), (first, second, new), strict=True):
            variable.scatter_update(tf.IndexedSlices(found, rows))

    def _clip_gradients(self, grads: list[Any]) -> list[Any]:
        if keras.backend.backend() != "tensorflow":
            return super()._clip_gradients(grads)
        grads = [_without_repeats(each) if isinstance(each, tf.IndexedSlices) else each for each in grads]
        if self.global_clipnorm is None:
            return super()._clip_gradients(grads)
        # Keras' own would make a dense gradient of a table.
        return tf.clip_by_global_norm(grads, self.global_clipnorm)[0]

    def _apply_weight_decay(self, variables: Any) -> None:
        """Do nothing on any backend: `update_step` decays weights, at the rate of their layer."""

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rates": self.rates}


def _without_repeats(gradient: Any) -> Any:
    """Return the gradient of a table with one entry for each row."""
    rows, places = tf.unique(tf.reshape(gradient.indices, [-1]))
    rank = len(gradient.indices.shape)
    values = tf.reshape(gradient.values, [-1, *gradient.values.shape[rank:]])  # [tokens, D]
    summed = tf.math.unsorted_segment_sum(values, places, tf.size(rows))  # [N, D]
    return tf.IndexedSlices(summed, rows, gradient.dense_shape)
