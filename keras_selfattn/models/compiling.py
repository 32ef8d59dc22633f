"""From `compile`, which comes before the task is known, to the first step of training.

In this order: the arguments wait for a head, which supplies those left out; the scope of the strategy is
checked before layers are built; the metrics get their variables.
"""

from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.batches.shapes import compiles_each_shape
from keras_selfattn.models.heads.class_heads import Head

OF_HEAD = "default"


class CompileArguments:
    """Arguments of `compile`, in an object where Keras does not look for the model's own metrics.

    Args:
        loss: None for the head's.
        metrics: `OF_HEAD` for the head's.
        others: of `keras.Model.compile`, except the optimizer.
    """

    def __init__(self, loss: Any = None, metrics: Any = OF_HEAD, **others: Any) -> None:
        self._loss, self._metrics, self._others = loss, metrics, others

    def given(self) -> dict[str, Any]:
        """Return the arguments as they were given."""
        return {"loss": self._loss, "metrics": self._metrics, **self._others}

    def with_head(self, head: Head | None) -> dict[str, Any]:
        """Return the arguments for Keras, with the head's loss and metrics where they were left out."""
        loss, metrics = self._loss, self._metrics
        if metrics == OF_HEAD:
            metrics = None if head is None else head.metrics()
        if loss is None and head is not None:
            loss = head.loss()
        return {"loss": loss, "metrics": metrics, **self._others}

    def to_save(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return Keras' config of them without values that the task supplied."""
        config |= {"loss": None} if self._loss is None else {}
        config |= {"metrics": OF_HEAD} if self._metrics == OF_HEAD else {}
        # Keras would save its own choice for this backend, too. Another backend needs another one.
        given = self._others.get("jit_compile", "auto")
        config["jit_compile"] = {} if given == "auto" else {keras.backend.backend(): given}
        return config


def saved_arguments(config: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `compile` of a saved config, the optimizer included."""
    others = {name: value for name, value in config.items() if name != "jit_compile"}
    asked = config.get("jit_compile")
    # Older files have a bool, Keras' choice for the backend that saved them.
    known = asked if isinstance(asked, dict) else {}
    jit_compile = known.get(keras.backend.backend(), "auto")
    return {**keras.saving.deserialize_keras_object(others), "jit_compile": jit_compile}


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
