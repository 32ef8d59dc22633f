"""Adam and AdamW by the formula of Keras' own, in a third of its operations on TensorFlow."""

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
        return FusedAdamW(learning_rate, weight_decay, **settings)
    # On PyTorch Keras has faster variants of these two classes, but not of subclasses.
    if not weight_decay:
        return keras.optimizers.Adam(learning_rate, **settings)
    return keras.optimizers.AdamW(learning_rate, weight_decay, **settings)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class FusedAdamW(keras.optimizers.AdamW):
    """`keras.optimizers.AdamW` that computes the schedule once a step, and moves a weight in one operation.

    Weights move as with Keras' own, up to rounding. With a schedule Keras takes 77 operations of TensorFlow
    for each weight, because it computes the rate again for each that decays; this class takes 22. Gradients
    of a row that occurs several times in a step are added before they are squared, as on JAX; Keras on
    TensorFlow squares them one by one, unless `global_clipnorm` or `gradient_accumulation_steps` is set. On
    JAX and PyTorch, and for weights in half precision, it is Keras' own.

    A model compiled with it loads where `keras_selfattn.training` or `keras_selfattn.models` is imported.

    Args:
        learning_rate: a number, or a schedule.
        weight_decay: decoupled; 0 makes it Adam. The default is Keras'.
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

    def __init__(self, learning_rate: Any = 1e-3, weight_decay: float = 0.004, **settings: Any) -> None:
        if settings.get("amsgrad"):
            raise ConfigError(f"`amsgrad` is not for {type(self).__name__}. Leave it out.")
        super().__init__(learning_rate, weight_decay, **settings)

    def update_step(self, gradient: Tensor, variable: Any, learning_rate: Tensor) -> None:
        if keras.backend.backend() != "tensorflow":
            super().update_step(gradient, variable, learning_rate)
            return
        step = self._step(variable, learning_rate, self._use_weight_decay(variable))
        self._move(tf.convert_to_tensor(gradient), variable, step)

    def _step(self, variable: Any, learning_rate: Tensor, decays: bool) -> Step:
        index = self._get_variable_index(variable)
        rate: Any = ops.cast(learning_rate, variable.dtype)
        iterations: Any = self.iterations
        count: Any = ops.cast(iterations + 1, variable.dtype)
        decay = rate * self.weight_decay if decays and self.weight_decay else None
        powers = self.beta_1**count, self.beta_2**count
        return Step(self._momentums[index], self._velocities[index], powers, rate, decay)

    def _move(self, gradient: Tensor, weight: Any, step: Step) -> None:
        """Move all values of a weight and its moments on TensorFlow."""
        if step.decay is not None:
            weight.assign_sub(weight * step.decay)
        if weight.dtype.size < tf.float32.size:
            # The operation rounds 1 - beta_2 to the weight's type, and has no bfloat16 on a GPU.
            super().update_step(gradient, weight, step.rate)
            return
        beta_1, beta_2, epsilon = (
            ops.convert_to_tensor(each, weight.dtype) for each in (self.beta_1, self.beta_2, self.epsilon)
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
