"""A model that is compiled before its task is known."""

from typing import Any

import keras

from keras_selfattn.models.heads import Head

_DEFAULT = "default"


class DeferredCompile(keras.Model):
    """A model whose loss and metrics may be left to its head, which its first rows tell.

    A subclass sets `_head`, and calls `compile_again` if it was compiled before.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._head: Head | None = None
        self._asked = _Asked({})

    def compile(
        self, optimizer: Any = "adam", loss: Any = None, *, metrics: Any = _DEFAULT, **kwargs: Any
    ) -> None:
        """Configure training as `keras.Model.compile` does; loss and metrics default to the task's own."""
        self._asked = _Asked({"loss": loss, "metrics": metrics, **kwargs})
        if metrics == _DEFAULT:
            metrics = None if self._head is None else self._head.metrics()
        if loss is None and self._head is not None:
            loss = self._head.loss()
        super().compile(optimizer=optimizer, loss=loss, metrics=metrics, **kwargs)
        if self.built:
            # Or a model saved before it is fitted could not be loaded, whose optimizer then has a state.
            self.optimizer.build(self.trainable_variables)

    def get_compile_config(self) -> dict[str, Any] | None:
        """Return what `compile` was asked for: what was left to the task stays so."""
        config = super().get_compile_config()
        asked = self._asked.arguments
        if config and asked:
            config |= {"loss": None} if asked["loss"] is None else {}
            config |= {"metrics": _DEFAULT} if asked["metrics"] == _DEFAULT else {}
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compile as a saved model was; Keras leaves that to whoever overrides `compile`."""
        self.compile(**keras.saving.deserialize_keras_object(config))

    def compile_again(self) -> None:
        """Compile as was asked, with the loss and the metrics that were left to the head."""
        self.compile(self.optimizer, **self._asked.arguments)


class _Asked:
    """Arguments of `compile`, where Keras does not look for the model's own metrics."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments
