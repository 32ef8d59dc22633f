"""What a SavedModel offers: its signatures, and what each needs to be tried, warmed up and described."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ExportError
from keras_selfattn.models import TextClassifier
from keras_selfattn.models.tokens import PADDING_ID

from .answers import Answers, Classification, Numbers, answers_for
from .examples import can_parse, parsed, serialized_examples
from .explain import collected_weights, named_weights
from .fronts import Front, PlainFront, PreprocessFront, Request, TextFront, in_batches, made_up
from .lengths import by_length
from .weights import Weights

Tensor = Any

PREDICT = "tensorflow/serving/predict"
CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"


@dataclass(frozen=True)
class Signature:
    """One way to call a model.

    Args:
        function: a `tf.function` with an input signature, which returns tensors by name.
        requests: calls to try it with; the first is an example of one row.
        method_name: which of TensorFlow Serving's calls it is for.
    """

    function: Any
    requests: Sequence[Request]
    method_name: str = PREDICT

    def arguments(self, request: Request) -> list[Tensor]:
        """Returns a request as the arguments of `function`."""
        return [tf.constant(request[spec.name], spec.dtype) for spec in specs_of(self.function)]


@dataclass(frozen=True)
class Contract:
    """All that is written of a model.

    Args:
        task: "classification", "labelling" or "regression".
        signatures: by name.
        tracked: variables, tables and modules that the functions use.
        labels: label names in the order of the classes, or None.
        vocabulary_size: different token ids, or None if tokens are not the model's business.
        config: the model's settings as JSON types.
    """

    task: str
    signatures: Mapping[str, Signature]
    tracked: Sequence[Any]
    labels: Sequence[str] | None
    vocabulary_size: int | None
    config: Mapping[str, Any]


def contract_for(
    model: keras.Model,
    weights: Weights,
    *,
    preprocess: Callable[..., Any] | None = None,
    labels: Sequence[str] | None = None,
    signatures: Mapping[str, Any] | None = None,
    samples: Mapping[str, Any] | None = None,
) -> Contract:
    """Returns what is written of a model that uses `weights`; the other arguments as `export_saved_model`'s.

    Raises:
        ExportError: if the inputs are unknown, or the labels do not fit the outputs.
    """
    if isinstance(model, TextClassifier):
        if preprocess is not None or labels is not None:
            raise ExportError(
                "A TextClassifier has its own tokens and labels: leave out `preprocess`, `labels`."
            )
        contract = _text_contract(model, weights, samples)
    else:
        contract = _model_contract(model, weights, preprocess, labels, samples)
    extra = {name: _extra(name, function, samples or {}) for name, function in (signatures or {}).items()}
    return dataclasses.replace(contract, signatures={**contract.signatures, **extra})


def _text_contract(model: TextClassifier, weights: Weights, samples: Mapping[str, Any] | None) -> Contract:
    front = TextFront(model.tokenizer)
    requests = front.requests() if samples is None else _given(front, samples)
    graphs = _Graphs(model.core, weights, front, Classification(model.labels))
    signatures = graphs.signatures(requests)
    signatures["tokens"] = Signature(graphs.on_tokens(front), front.token_requests())
    signatures["explain"] = Signature(graphs.explain_texts(front), requests)
    return Contract(
        task="text-classification",
        signatures=signatures,
        tracked=[*weights.tracked, *front.tracked],
        labels=model.labels,
        vocabulary_size=model.tokenizer.size,
        config=model.config.to_dict(),
    )


def _model_contract(
    model: keras.Model,
    weights: Weights,
    preprocess: Callable[..., Any] | None,
    labels: Sequence[str] | None,
    samples: Mapping[str, Any] | None,
) -> Contract:
    front = PlainFront(model) if preprocess is None else PreprocessFront(preprocess)
    requests = front.requests() if samples is None else _given(front, samples)
    outputs, found = _tried(model, weights, front, requests[0])
    names = _output_names(model, outputs)
    shape = None if names else _output_shape(model, outputs)
    answers = answers_for(shape, labels, names)
    graphs = _Graphs(model, weights, front, answers)
    signatures = graphs.signatures(requests)
    if found:
        together = len({tuple(each.shape[1:]) for each in found}) == 1
        signatures["explain"] = Signature(graphs.explain(together=together), requests)
    return Contract(
        task=answers.task,
        signatures=signatures,
        tracked=[*weights.tracked, *front.tracked],
        labels=None if labels is None else list(labels),
        vocabulary_size=None,
        config={"name": model.name, "parameters": model.count_params()},
    )


def specs_of(function: Any) -> list[Any]:
    """Returns the inputs of a `tf.function` with an input signature."""
    return keras.tree.flatten(function.input_signature)


def _given(front: Front, samples: Mapping[str, Any]) -> list[Request]:
    """Returns a user's own rows as calls of several sizes."""
    if not isinstance(samples, Mapping) or not set(front.specs) <= set(samples):
        received = ", ".join(samples) if isinstance(samples, Mapping) else type(samples).__name__
        raise ExportError(
            f"`samples` must hold the inputs {', '.join(front.specs)}. Received {received or 'none'}."
        )
    return _as_requests(front.specs, samples)


def _as_requests(specs: Mapping[str, Any], samples: Mapping[str, Any]) -> list[Request]:
    try:
        rows = {name: np.asarray(tf.constant(samples[name], spec.dtype)) for name, spec in specs.items()}
    except (TypeError, ValueError) as error:
        raise ExportError(f"`samples` are no arrays of the inputs' types: {error}") from error
    counts = {len(values) if values.ndim else 0 for values in rows.values()}
    if len(counts) != 1 or 0 in counts:
        raise ExportError(f"`samples` must hold the same number of rows for each input. Received {counts}.")
    return in_batches(rows)


class _Graphs:
    """The signatures of a model, all of them around one trace of it."""

    def __init__(self, model: keras.Model, weights: Weights, front: Front, answers: Answers) -> None:
        self._model, self._weights, self._front, self._answers = model, weights, front, answers
        self._core = tf.function(self._answer, autograph=False)
        self._traced = tf.function(self._outputs, autograph=False)

    def signatures(self, requests: Sequence[Request]) -> dict[str, Signature]:
        """Returns those that follow from what the model takes and returns."""
        front, answers = self._front, self._answers
        found = {
            "serving_default": Signature(
                _function(front.specs, lambda *raw: self._core(front(*raw))), requests
            )
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
        """Returns the function from tokens, string `[B, T]`, to named answers."""
        specs = {"tokens": tf.TensorSpec([None, None], tf.string, name="tokens")}
        return _function(specs, lambda tokens: self._answers.named(self._traced(front.ids(tokens))))

    def explain_texts(self, front: TextFront) -> Any:
        """Returns the function from texts to their tokens and the weights between them."""

        def explain(text: Tensor) -> dict[str, Tensor]:
            tokens, ids = front.explained(text)  # [B, T]
            with collected_weights(self._model) as weights:
                self._outputs(ids)
            found = named_weights(weights, together=True)["weights"]  # [B, L, H, T, S]
            real = tf.cast(ids != PADDING_ID, tf.float32)
            return {"tokens": tokens, "weights": found * real[:, None, None, :, None]}

        return _function(front.specs, explain)

    def explain(self, *, together: bool) -> Any:
        """Returns the function from raw inputs to the weights between the model's positions."""

        def explain(*raw: Tensor) -> dict[str, Tensor]:
            with collected_weights(self._model) as weights:
                self._outputs(self._front(*raw))
            return named_weights(weights, together=together)

        return _function(self._front.specs, explain)

    def _on_examples(self, answer: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Any:
        specs = {"inputs": tf.TensorSpec([None], tf.string, name="inputs")}
        front = self._front
        return _function(specs, lambda rows: answer(self._core(front(*parsed(rows, front.specs)))))

    def _answer(self, inputs: Any) -> dict[str, Tensor]:
        if isinstance(inputs, tf.RaggedTensor):
            outputs = by_length(inputs, self._traced, self._model.output_shape[-1], PADDING_ID)
        else:
            # Not the function: the mask of the outputs, an attribute in Keras, would be lost.
            outputs = self._outputs(inputs)
        return self._answers.named(outputs)

    def _outputs(self, inputs: Any) -> Any:
        with self._weights.used():
            return self._model(inputs, training=False)


def _function(specs: Mapping[str, Any], function: Callable[..., dict[str, Tensor]]) -> Any:
    def call(*raw: Tensor) -> dict[str, Tensor]:  # whose inputs are named by their specs alone
        return function(*raw)

    return tf.function(call, input_signature=list(specs.values()), autograph=False)


def _tried(model: keras.Model, weights: Weights, front: Front, request: Request) -> tuple[Any, list[Tensor]]:
    """Returns what a model returns for a request, and its attention weights, if it has any."""
    raw = [tf.constant(request[name], spec.dtype) for name, spec in front.specs.items()]
    with model_errors("serving_default", request), weights.used():
        inputs = front(*raw)
        with collected_weights(model) as found:
            outputs = model(inputs, training=False)
    return outputs, found


@contextmanager
def model_errors(signature: str, request: Request) -> Iterator[None]:
    """Raises whatever a model fails with as ExportError."""
    try:
        yield
    except Exception as error:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in request.items())
        raise ExportError(
            f"The model fails on a request that tries the signature {signature!r}, with {shapes} (unless "
            f"`samples` are given, it is made up): {_first_line(error)}"
        ) from error


def _first_line(error: Exception) -> str:
    """Returns what an error says, without the stack that TensorFlow puts before it."""
    lines = [line.strip() for line in str(error).splitlines()]
    noise = ("File ", "[[", "Detected at node", "Graph execution error")
    return next((line for line in lines if line and not line.startswith(noise)), type(error).__name__)


def _output_names(model: keras.Model, outputs: Any) -> list[str] | None:
    """Returns the names of several outputs, all different, or None for one."""
    if isinstance(outputs, Mapping):
        return sorted(outputs)
    if not isinstance(outputs, list | tuple):
        return None
    given = getattr(model, "output_names", [f"output_{place}" for place in range(len(outputs))])
    seen = Counter()
    names = []
    for name in given:
        names.append(f"{name}_{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names


def _output_shape(model: keras.Model, outputs: Tensor) -> list[int | None]:
    """Returns the shape of a model's one output, unknown sizes as None where the model tells them."""
    try:
        known: Any = model.output
    except (AttributeError, ValueError):
        known = outputs
    return list(known.shape)


def _extra(name: str, function: Any, samples: Mapping[str, Any]) -> Signature:
    if getattr(function, "input_signature", None) is None:
        raise ExportError(
            f"The signature {name!r} must be a tf.function with an input signature: "
            "@tf.function(input_signature=[tf.TensorSpec([None], tf.string, name=...)])."
        )
    specs = {spec.name: spec for spec in specs_of(function)}
    if None in specs:
        raise ExportError(f"Each tf.TensorSpec of the signature {name!r} needs a name: clients ask by it.")
    return Signature(function, _as_requests(specs, samples) if set(specs) <= set(samples) else made_up(specs))
