"""The learning rate of a training, a rise and a cosine in AdamW; and the check that it was not too high."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import TrainingError
from keras_selfattn.models.optimizers import FineTuningAdamW, adamw
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.training.config import TrainConfig

# Share of the steps in which the learning rate rises; Adam's first steps are the noisy ones.
_WARMUP_SHARE = 0.1
# The rate starts and ends at this share of its peak.
_FLOOR = 0.02


class Scheduled(keras.callbacks.Callback):
    """Fit a schedule to the steps of a training, and record its rate after each epoch as `learning_rate`.

    With long rows, batches are smaller and steps more.

    Args:
        schedule: a cosine with a warmup, in the optimizer of a model before its first step.
    """

    def __init__(self, schedule: Any) -> None:
        super().__init__()
        self._schedule = schedule

    def spread(self, steps: int) -> None:
        """Set the lengths of the rise and of the decay."""
        warmup = max(1, round(_WARMUP_SHARE * steps))
        self._schedule.warmup_steps, self._schedule.decay_steps = warmup, max(1, steps - warmup)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        # Before the first step, when Keras compiles the values of the schedule.
        self.spread(self.params["steps"] * self.params["epochs"])

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        # In the figures of the epoch, as Keras' own schedules do: history, checkpoints and reports have it.
        model: Any = self.model
        if logs is not None:
            rate: Any = keras.ops.convert_to_numpy(model.optimizer.learning_rate)
            logs["learning_rate"] = float(rate)


def scheduled_optimizer(
    model: RawModel, config: TrainConfig, peak: float, steps: int
) -> tuple[keras.optimizers.Optimizer, Scheduled]:
    """Return a new optimizer for a model, and the callback that corrects its number of steps.

    Args:
        model: with the learning rates of its layers.
        config: the settings of the training.
        peak: the highest learning rate.
        steps: the expected number of them.
    """
    schedule: Any = keras.optimizers.schedules.CosineDecay(
        _FLOOR * peak, 1, alpha=_FLOOR, warmup_target=peak, warmup_steps=1
    )
    settings: dict[str, Any] = {"weight_decay": config.weight_decay, "global_clipnorm": 1.0}
    rates = model.learning_rates
    scheduled = Scheduled(schedule)
    scheduled.spread(steps)
    if rates:
        return FineTuningAdamW(schedule, rates=rates, **settings), scheduled
    return adamw(schedule, **settings), scheduled


def check_finite(values: Sequence[float] | np.ndarray, config: TrainConfig) -> None:
    """Raise TrainingError if one of the values is NaN or infinite."""
    if not np.isfinite(values).all():
        raise TrainingError(
            f"The loss became NaN or infinite. Lower the learning rate; it was {config.learning_rate:g}."
        )
