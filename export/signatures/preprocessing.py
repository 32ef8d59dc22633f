"""Turn a caller's inputs into a model's inputs, inside the graph.

Axes: B (batch), T (positions).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_selfattn.errors import ExportError

from .trial_requests import Request, made_up

Tensor = Any


class Front(ABC):
    """Preprocessing from named raw inputs to the inputs of a model.

    Attributes:
        specs: the raw inputs by name; the first axis of each is the batch.
        tracked: tables and other resources that must be saved, too.
        padding: the value that lengthens the second axis of the rows of a batch and changes no answer; None
            if rows of other lengths stay apart.
        orders: rows of the model for each row that is asked, all of the first orders first.
    """

    specs: dict[str, Any]
    tracked: list[Any]
    padding: float | str | None = None
    orders: int = 1

    @abstractmethod
    def __call__(self, *raw: Tensor) -> Any:
        """Return the model's inputs."""

    @abstractmethod
    def requests(self) -> list[Request]:
        """Return requests to try the model with, of several sizes; the first is an example of one row."""


class PlainFront(Front):
    """The unchanged inputs of a Keras model, each under its name."""

    def __init__(self, model: keras.Model) -> None:
        self._structure = _inputs(model)
        tensors: list[Any] = keras.tree.flatten(self._structure)
        names = [_input_name(tensor, place) for place, tensor in enumerate(tensors)]
        if len(set(names)) != len(names):
            raise ExportError(f"The inputs of the model need names that differ. They are {', '.join(names)}.")
        # Keras fixes the size of the first batch if a model was built by calling it.
        self.specs = {
            name: tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype, name=name)
            for name, tensor in zip(names, tensors, strict=True)
        }
        self.tracked: list[Any] = []

    def __call__(self, *raw: Tensor) -> Any:
        return keras.tree.pack_sequence_as(self._structure, list(raw))

    def requests(self) -> list[Request]:
        return made_up(self.specs)


class PreprocessFront(Front):
    """The user's own function from raw inputs to a model's inputs.

    Args:
        preprocess: a `tf.function` with an input signature, a `tf.Module` whose `__call__` is one (its
            tables are saved, too), or a Keras layer or any function that takes one string tensor `[B]`.
    """

    def __init__(self, preprocess: Callable[..., Any]) -> None:
        self._preprocess = preprocess
        signature: Any = _input_signature(preprocess)
        if signature is None:
            signature = [tf.TensorSpec([None], tf.string, name="text")]
        if len({spec.name for spec in signature} - {None}) != len(signature):
            raise ExportError(
                "Each tf.TensorSpec of `preprocess` needs a name of its own: clients ask by it."
            )
        self.specs = {str(spec.name): spec for spec in signature}
        self.tracked = [preprocess] if isinstance(preprocess, tf.Module) else []
        if isinstance(preprocess, keras.layers.Layer):
            self.tracked = layer_resources(preprocess)

    def __call__(self, *raw: Tensor) -> Any:
        return self._preprocess(*raw)

    def requests(self) -> list[Request]:
        return made_up(self.specs)


def layer_resources(layer: keras.layers.Layer) -> list[Any]:
    """Return variables and lookup tables of a Keras layer and of all its sublayers."""
    below = layer._flatten_layers(include_self=True, recursive=True)
    resource = tf.saved_model.experimental.TrackableResource
    tables = [value for part in below for value in vars(part).values() if isinstance(value, resource)]
    return [weight.value for weight in layer.weights] + tables


def _inputs(model: keras.Model) -> Any:
    try:
        # A functional model keeps their structure, a dict for example; `inputs` is flat.
        inputs = getattr(model, "_inputs_struct", None)
        inputs = model.inputs if inputs is None else inputs
    except (AttributeError, ValueError):
        inputs = None
    if all(tensor is None for tensor in keras.tree.flatten(inputs)):
        raise ExportError(
            "The model's inputs are unknown. Build it as a functional or Sequential model with an Input, "
            "or give `preprocess`, a tf.function with an input signature that returns what the model takes."
        )
    if isinstance(inputs, list | tuple) and len(inputs) == 1:
        return inputs[0]
    return inputs


def _input_name(tensor: Any, place: int) -> str:
    name = getattr(tensor, "name", None) or f"input_{place}"
    return "".join(character if character.isalnum() or character == "_" else "_" for character in name)


def _input_signature(preprocess: Any) -> Sequence[Any] | None:
    function = preprocess
    if isinstance(preprocess, tf.Module):
        function = getattr(type(preprocess), "__call__", None)  # noqa: B004  its signature counts
    signature = getattr(function, "input_signature", None)
    return None if signature is None else list(keras.tree.flatten(signature))
