"""Adam and AdamW by the formula of Keras' own, with one operation of TensorFlow for each weight."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_selfattn.errors import ConfigError

Tensor = Any


class Step(NamedTuple):
    """One step of a weight.

    Attributes:
        first: its first moment, a variable.
        second: its second moment.
        powers: beta_1 and beta_2 to the power of the steps so far.
        rate: the rate of learning.
        decay: the share of the weight that is taken off; None for no decay.
    """

    first: Any
    second: Any
    powers: tuple[Tensor, Tensor]
    rate: Tensor
    decay: Tensor | None


def adamw(learning_rate: Any = 1e-3, weight_decay: float = 0.0, **settings: Any) -> keras.optimizers.Adam:
    """Return AdamW, or Adam if nothing decays: on TensorFlow ours, elsewhere Keras' own.

    Args:
        learning_rate: a number, or a schedule; by default Adam's own.
        weight_decay: decoupled.
        settings: the other arguments of `keras.optimizers.Adam`.
    """
    if keras.backend.backend() == "tensorflow":
        return FusedAdamW(learning_rate, weight_decay=weight_decay, **settings)
    # Of these Keras has variants for PyTorch, which it does not use for classes of ours.
    if not weight_decay:
        return keras.optimizers.Adam(learning_rate, **settings)
    return keras.optimizers.AdamW(learning_rate, weight_decay=weight_decay, **settings)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class FusedAdamW(keras.optimizers.AdamW):
    """`keras.optimizers.AdamW` that computes the schedule once a step, and updates a weight in one operation.

    Weights move as with Keras' own, up to rounding, in fewer operations of TensorFlow: Keras takes two dozen
    for each weight, and computes the schedule again for each weight that decays. The gradient of a table of
    vectors counts once for each row, as on JAX; Keras on TensorFlow may square repeated rows one by one. On
    JAX and PyTorch it is Keras' own. Without `weight_decay` it is Adam.

    Args:
        learning_rate: a number, or a schedule.
        settings: the other arguments of `keras.optimizers.AdamW`, except `amsgrad`.

    Raises:
        ConfigError: for `amsgrad`.

    Example:

        >>> weight = keras.Variable([1.0, 1.0])
        >>> FusedAdamW(0.1, weight_decay=0.5).apply([keras.ops.array([2.0, -3.0])], [weight])
        >>> print(weight.numpy().round(3))
        [0.85 1.05]

    References: Loshchilov & Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2.
    """

    def __init__(self, learning_rate: Any = 1e-3, **settings: Any) -> None:
        if settings.get("amsgrad"):
            raise ConfigError(f"`amsgrad` is not for {type(self).__name__}. Leave it out.")
        super().__init__(learning_rate, **settings)

    def update_step(self, gradient: Tensor, variable: Any, learning_rate: Tensor) -> None:
        if keras.backend.backend() != "tensorflow":
            super().update_step(gradient, variable, learning_rate)
            return
        self.apply_adam(tf.convert_to_tensor(gradient), variable, self.step_of(variable, learning_rate))

    def step_of(self, variable: Any, learning_rate: Tensor) -> Step:
        """Return the step of a weight, which Keras gives as the backend's variable or as its own."""
        index = self._get_variable_index(variable)
        known = self._trainable_variables[index]
        rate: Any = ops.cast(learning_rate, variable.dtype) * self.rate_of(known.path)
        iterations: Any = self.iterations
        count: Any = ops.cast(iterations + 1, variable.dtype)
        decay = rate * self.weight_decay if self.weight_decay and self.decays(known) else None
        powers = self.beta_1**count, self.beta_2**count
        return Step(self._momentums[index], self._velocities[index], powers, rate, decay)

    def rate_of(self, path: str) -> float:
        """Return the factor of the learning rate of a weight's path."""
        return 1.0

    def decays(self, weight: Any) -> bool:
        """Return True if a weight is to decay."""
        return self._use_weight_decay(weight)

    def apply_adam(self, gradient: Tensor, weight: Any, step: Step) -> None:
        """Update a weight and its moments on TensorFlow, all values of each."""
        if step.decay is not None:
            weight.assign_sub(weight * step.decay)
        beta_1, beta_2, epsilon = (
            tf.cast(each, weight.dtype) for each in (self.beta_1, self.beta_2, self.epsilon)
        )
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=step.first.value.handle,
            v=step.second.value.handle,
            beta1_power=step.powers[0],
            beta2_power=step.powers[1],
            lr=step.rate,
            beta1=beta_1,
            beta2=beta_2,
            epsilon=epsilon,
            grad=tf.cast(gradient, weight.dtype),
        )

    def _apply_weight_decay(self, variables: Any) -> None:
        """Do nothing on TensorFlow, where `update_step` decays weights, at the rate of the step."""
        if keras.backend.backend() != "tensorflow":
            super()._apply_weight_decay(variables)
