"""A model that can be compiled before its task is known."""

from typing import Any

import keras

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.batches.sample_weights import aligned
from keras_selfattn.models.fused_adamw import adamw
from keras_selfattn.models.heads.class_heads import Head

_DEFAULT = "default"


class DeferredCompile(keras.Model):
    """A model whose loss and metrics may come from its head, which the first rows determine.

    A subclass sets `_head`, and calls `compile_again` if it was compiled before.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._head: Head | None = None
        self._arguments = CompileArguments({})

    def compile(
        self, optimizer: Any = None, loss: Any = None, *, metrics: Any = _DEFAULT, **kwargs: Any
    ) -> None:
        """Configure training as `keras.Model.compile` does; what is left out is the model's own."""
        optimizer = self.default_optimizer() if optimizer is None else optimizer
        self._arguments = CompileArguments({"loss": loss, "metrics": metrics, **kwargs})
        if metrics == _DEFAULT:
            metrics = None if self._head is None else self._head.metrics()
        if loss is None and self._head is not None:
            loss = self._head.loss()
        super().compile(optimizer=optimizer, loss=loss, metrics=metrics, **kwargs)
        if self.built:
            # Otherwise a model saved before `fit` could not be loaded: its optimizer would have a state.
            self.optimizer.build(self.trainable_variables)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Return the loss of a batch as `keras.Model.compute_loss` does; all training and testing calls it.

        With weights, it is the sum of weight times loss, divided by the number of rows or, for a target at
        each position, of real positions: those that weigh 0 are counted, too.
        """
        if sample_weight is not None and hasattr(y_pred, "shape"):
            sample_weight = aligned(sample_weight, y_pred)  # [B, 1] or [B, T]
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        """Return the metrics as `keras.Model.compute_metrics` does: only `weighted_metrics` are weighted."""
        if sample_weight is not None and hasattr(y_pred, "shape"):
            sample_weight = aligned(sample_weight, y_pred)
            if len(y_pred.shape) == 2:
                sample_weight = sample_weight[:, 0]  # [B], which all of Keras' metrics of rows take
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def default_optimizer(self) -> Any:
        """Return the optimizer for `compile` without one."""
        return adamw()

    def get_compile_config(self) -> dict[str, Any] | None:
        """Return the arguments of `compile`, without values that the task supplied."""
        config = super().get_compile_config()
        asked = self._arguments.arguments
        if config and asked:
            config |= {"loss": None} if asked["loss"] is None else {}
            config |= {"metrics": _DEFAULT} if asked["metrics"] == _DEFAULT else {}
            # Keras would save its own choice for this backend, too. Another backend needs another one.
            given = asked.get("jit_compile", "auto")
            config["jit_compile"] = {} if given == "auto" else {keras.backend.backend(): given}
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compile like the saved model; Keras requires this of classes that override `compile`."""
        others = {name: value for name, value in config.items() if name != "jit_compile"}
        asked = config.get("jit_compile")
        # Older files have a bool, Keras' choice for the backend that saved them.
        known = asked if isinstance(asked, dict) else {}
        jit_compile = known.get(keras.backend.backend(), "auto")
        self.compile(**keras.saving.deserialize_keras_object(others), jit_compile=jit_compile)

    def compile_again(self, *, new_optimizer: bool = False) -> None:
        """Compile with the stored arguments, and the head's loss and metrics where they were left out.

        Args:
            new_optimizer: make another optimizer of the same config, for other weights than before.
        """
        optimizer = self.optimizer
        if new_optimizer:
            optimizer = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
        self.compile(optimizer, **self._arguments.arguments)


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


class CompileArguments:
    """Arguments of `compile`, in an object where Keras does not look for the model's own metrics."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments
