"""The signatures of a model: raw rows, tf.Examples or tokens in; named answers or attention weights out.

Axes: B (rows), T (query positions), S (key positions), H (heads), L (layers).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from keras_selfattn.models.vocabulary import PADDING_ID

from ..weights import Weights
from .by_length import by_length
from .explain import collected_weights, named_weights
from .images import ImageFront
from .named_outputs import Answers, Classification, Numbers
from .preprocessing import Front, Request, TextFront
from .tf_examples import can_parse, parsed, serialized_examples

Tensor = Any

MOST_ASKED = "serving_default"

PREDICT = "tensorflow/serving/predict"
CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"


@dataclass(frozen=True)
class Signature:
    """A signature of a model.

    Args:
        function: a `tf.function` with an input signature, which returns tensors by name.
        requests: calls to try it with; the first is an example of one row.
        method_name: the call of TensorFlow Serving that it is for.
    """

    function: Any
    requests: Sequence[Request]
    method_name: str = PREDICT

    def arguments(self, request: Request) -> list[Tensor]:
        """Return a request as the arguments of `function`."""
        return [tf.constant(request[spec.name], spec.dtype) for spec in specs_of(self.function)]


class Graphs:
    """The signatures of a model, all of them around one trace of it."""

    def __init__(self, model: keras.Model, weights: Weights, front: Front, answers: Answers) -> None:
        self._model, self._weights, self._front, self._answers = model, weights, front, answers
        self._core = tf.function(self._answer, autograph=False)
        self._traced = tf.function(self._outputs, autograph=False)

    def signatures(self, requests: Sequence[Request]) -> dict[str, Signature]:
        """Return the signatures that fit the model's inputs and outputs."""
        front, answers = self._front, self._answers
        found = {
            MOST_ASKED: Signature(_function(front.specs, lambda *raw: self._core(self._read(*raw))), requests)
        }
        if not can_parse(front.specs):
            return found
        examples = [{"inputs": serialized_examples(request)} for request in requests]
        if isinstance(answers, Classification):
            found["classify"] = Signature(self._on_examples(answers.classes), examples, CLASSIFY)
        elif isinstance(answers, Numbers) and answers.single:
            found["regress"] = Signature(self._on_examples(answers.regressed), examples, REGRESS)
        return found

    def on_tokens(self, front: TextFront) -> Any:
        """Return the function from tokens, string `[B, T]`, to named answers."""
        specs = {"tokens": tf.TensorSpec([None, None], tf.string, name="tokens")}

        def answer(tokens: Tensor) -> dict[str, Tensor]:
            with self._weights.used():
                inputs = front.of_tokens(tokens)
            return self._answers.named(self._traced(inputs))

        return _function(specs, answer)

    def on_files(self, front: ImageFront) -> Any:
        """Return the function from images in files, string `[B]`, to named answers."""
        return _function(front.file_specs, lambda *raw: self._core(front.from_files(*raw)))

    def explain_texts(self, front: TextFront) -> Any:
        """Return the function from texts to their tokens and the weights between them."""

        def explain(text: Tensor) -> dict[str, Tensor]:
            tokens, ids = front.explained(text)  # [B, T]
            with collected_weights(self._model) as weights:
                self._outputs(front.alone(ids))
            found = named_weights(weights, together=True)["weights"]  # [B, L, H, T, S]
            real = tf.cast(ids != PADDING_ID, tf.float32)
            return {"tokens": tokens, "weights": found * real[:, None, None, :, None]}

        return _function(front.specs, explain)

    def explain(self, *, together: bool, read: Callable[..., Any] | None = None) -> Any:
        """Return the function from raw inputs, read by the front or `read`, to the weights of positions."""
        read = read or self._front

        def explain(*raw: Tensor) -> dict[str, Tensor]:
            with collected_weights(self._model) as weights:
                self._outputs(read(*raw))
            return named_weights(weights, together=together)

        return _function(self._front.specs, explain)

    def _on_examples(self, answer: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Any:
        specs = {"inputs": tf.TensorSpec([None], tf.string, name="inputs")}
        front, padding = self._front, getattr(self._front, "padding", 0)
        return _function(
            specs, lambda rows: answer(self._core(self._read(*parsed(rows, front.specs, padding))))
        )

    def _read(self, *raw: Tensor) -> Any:
        """Return the model's inputs, preprocessed by the front."""
        with self._weights.used():
            return self._front(*raw)

    def _answer(self, inputs: Any) -> dict[str, Tensor]:
        ids, *beside = inputs if isinstance(inputs, list) else [inputs]
        if isinstance(ids, tf.RaggedTensor):
            outputs = by_length(ids, self._traced, self._model.output_shape[-1], PADDING_ID, *beside)
        else:
            # Not the traced function: it would lose the outputs' mask, which is an attribute in Keras.
            outputs = self._outputs(inputs)
        return self._answers.named(outputs)

    def _outputs(self, inputs: Any) -> Any:
        with self._weights.used():
            return self._model(inputs, training=False)


def _function(specs: Mapping[str, Any], function: Callable[..., dict[str, Tensor]]) -> Any:
    def call(*raw: Tensor) -> dict[str, Tensor]:  # the specs alone name its inputs
        return function(*raw)

    return tf.function(call, input_signature=list(specs.values()), autograph=False)


def specs_of(function: Any) -> list[Any]:
    """Return the inputs of a `tf.function` with an input signature."""
    return keras.tree.flatten(function.input_signature)
