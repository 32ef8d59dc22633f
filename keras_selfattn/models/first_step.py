"""Before a model's first step: the scope of its strategy is checked, and the metrics get their variables."""

from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.batches.shapes import compiles_each_shape


def check_strategy_scope(model: keras.Model) -> None:
    """Raise ConfigError if layers would be built under another strategy than the model and its optimizer."""
    if keras.backend.backend() != "tensorflow":
        return
    import tensorflow as tf

    here, name = tf.distribute.get_strategy(), type(model).__name__
    made: Any = getattr(model, "distribute_strategy", here)
    if made is not here:
        raise ConfigError(
            f"The {name} was made within the scope of a {type(made).__name__}, and its layers are built "
            "here, outside it. Call `model.adapt(rows, targets)` within `strategy.scope()`, then `fit` "
            "anywhere."
        )
    optimizer: Any = model.optimizer if model.compiled else None
    compiled: Any = getattr(optimizer, "_distribution_strategy", here)
    if compiled is not here:
        raise ConfigError(
            f"The {name} was compiled under a {type(compiled).__name__}, and its layers are built here "
            f"under a {type(here).__name__}. Call `model.compile()` and `model.adapt(rows, targets)` "
            "within the same `strategy.scope()`, then `fit` anywhere."
        )


def create_metrics(model: keras.Model, target: np.ndarray, outputs: tuple[int | None, ...]) -> None:
    """Create the variables of the metrics: if the first step creates them, Keras traces it twice.

    Args:
        model: whose metrics they are.
        target: one row's target, as the loss takes it, `[1, ...]`.
        outputs: the shape of the model's outputs, None where it is unknown.
    """
    strategy: Any = getattr(model, "distribute_strategy", None)
    if not model.compiled or (strategy is not None and strategy.num_replicas_in_sync > 1):
        return  # Keras then raises its own error, or creates them itself
    sizes = [target.shape[axis] if size is None else size for axis, size in enumerate(outputs)]
    model.compute_metrics(None, target, np.zeros(sizes, "float32"))
    model.reset_metrics()
    if compiles_each_shape():
        # Otherwise Keras draws a first epoch to build the loss with, and training begins with the second.
        model.compute_loss(None, target, np.zeros(sizes, "float32"), training=False)
