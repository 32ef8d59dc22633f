"""Arguments of `compile` before the task is known: what is left out comes from the head."""

from typing import Any

import keras

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
