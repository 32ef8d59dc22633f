"""The contract of a SavedModel: its signatures, with requests to try, warm up and describe each."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.errors import DataError, ExportError
from keras_selfattn.models.core.attention_weights import collected_weights
from keras_selfattn.models.raw_model import RawModel

from .saved_weights import Weights
from .signatures.answers import Answers, answers_for, raw_answers
from .signatures.model_signatures import MOST_ASKED, Graphs, Signature, specs_of
from .signatures.preprocessing import Front, PlainFront, PreprocessFront
from .signatures.raw_models import RawFront, raw_front
from .signatures.trial_requests import Request, in_batches, made_up

Tensor = Any


@dataclass(frozen=True)
class Contract:
    """Everything that is exported of a model.

    Args:
        task: "classification", "labelling" or "regression"; for this library's own models with the kind of
            their rows before it, as in "text-classification".
        signatures: by name.
        tracked: variables, tables and modules that the functions use.
        labels: label names in the order of the classes, or None.
        scores: names of several numbers of a row in their order, or None.
        described: further parts of the card, as JSON types.
        vocabulary_size: the number of token ids, or None for a model without tokens.
        config: the model's settings as JSON types.
        named: turns rows as the model reads them into inputs by name; None if callers pass inputs by name.
        made_up: True if the first request of each signature is invented, not a row of real data.
    """

    task: str
    signatures: Mapping[str, Signature]
    tracked: Sequence[Any]
    labels: Sequence[str] | None
    vocabulary_size: int | None
    config: Mapping[str, Any]
    scores: Sequence[str] | None = None
    described: Mapping[str, Any] = field(default_factory=dict[str, Any])
    named: Callable[[Any], Mapping[str, Any]] | None = None
    made_up: bool = True


def contract_for(
    model: keras.Model,
    weights: Weights,
    *,
    preprocess: Callable[..., Any] | None = None,
    labels: Sequence[str] | None = None,
    signatures: Mapping[str, Any] | None = None,
    samples: Mapping[str, Any] | None = None,
    example: Any = None,
) -> Contract:
    """Return the contract of a model that uses `weights`; the other arguments are `export_saved_model`'s.

    Args:
        example: a row as a model of raw rows reads it; it becomes the first request.

    Raises:
        ExportError: if the inputs are unknown, or the labels do not fit the outputs.
    """
    if isinstance(model, RawModel):
        if preprocess is not None or labels is not None:
            raise ExportError(
                f"A {type(model).__name__} reads its own rows and knows its labels: leave out "
                "`preprocess`, `labels`."
            )
        contract = _raw_contract(model, weights, samples, example)
    else:
        contract = _model_contract(model, weights, preprocess, labels, samples)
    extra = {name: _extra(name, function, samples or {}) for name, function in (signatures or {}).items()}
    return dataclasses.replace(contract, signatures={**contract.signatures, **extra})


def _raw_contract(
    model: RawModel, weights: Weights, samples: Mapping[str, Any] | None, example: Any
) -> Contract:
    front = raw_front(model)
    requests = front.requests() if samples is None else _given(front, samples)
    real = samples is None and example is not None
    if real:
        requests[0] = _asked(front, example)
    encoders = getattr(model.config, "members", 1)
    graphs = front.graphs(model.core, weights, front, raw_answers(model.head), encoders)
    signatures = graphs.signatures(requests)
    asked = signatures[MOST_ASKED]
    signatures[MOST_ASKED] = dataclasses.replace(asked, requests=[*asked.requests, *front.more_requests()])
    signatures |= front.more_signatures(graphs, requests, real=real or samples is not None)
    return Contract(
        task=f"{front.subject}-{model.head.task}",
        signatures=signatures,
        tracked=[*weights.tracked, *weights.read_beside(_graphs(signatures)), *front.tracked],
        labels=getattr(model, "labels", None),
        vocabulary_size=getattr(_vocabulary(model), "size", None),
        config=model.config.summary(),
        scores=getattr(model.head, "names", None),
        described=front.described,
        named=front.named,
        made_up=not real and samples is None,
    )


def _graphs(signatures: Mapping[str, Signature]) -> Iterator[Any]:
    return (signature.concrete.graph for signature in signatures.values())


def _vocabulary(model: RawModel) -> Any:
    """Return the tokens or symbols of a model that has some."""
    return getattr(model, "tokenizer", None) or getattr(model, "symbols", None)


def _asked(front: RawFront, example: Any) -> Request:
    """Return the request for one row."""
    try:
        return front.asked(example)
    except (DataError, TypeError, ValueError) as error:
        raise ExportError(f"The example of the training is not a row for the model: {error}") from error


def _model_contract(
    model: keras.Model,
    weights: Weights,
    preprocess: Callable[..., Any] | None,
    labels: Sequence[str] | None,
    samples: Mapping[str, Any] | None,
) -> Contract:
    front = PlainFront(model) if preprocess is None else PreprocessFront(preprocess)
    answers, requests, found = plain_parts(model, weights, front, labels, samples)
    graphs = Graphs(model, weights, front, answers)
    signatures = graphs.signatures(requests)
    if found:
        together = len({tuple(each.shape[1:]) for each in found}) == 1
        signatures["explain"] = Signature(graphs.explain(together=together), requests)
    return Contract(
        task=answers.task,
        signatures=signatures,
        tracked=[*weights.tracked, *weights.read_beside(_graphs(signatures)), *front.tracked],
        labels=None if labels is None else list(labels),
        vocabulary_size=None,
        config={"name": model.name, "parameters": model.count_params()},
        made_up=samples is None,
    )


def plain_parts(
    model: keras.Model,
    weights: Weights,
    front: Front,
    labels: Sequence[str] | None,
    samples: Mapping[str, Any] | None,
) -> tuple[Answers, list[Request], list[Tensor]]:
    """Return the names for the outputs of a Keras model, requests to try it with, and attention weights.

    Raises:
        ExportError: if the model fails on the first request, or the labels do not fit its outputs.
    """
    requests = front.requests() if samples is None else _given(front, samples)
    outputs, found = _tried(model, weights, front, requests[0])
    names = _output_names(model, outputs)
    shape = None if names else _output_shape(model, outputs)
    return answers_for(shape, labels, names), requests, found


def _given(front: Front, samples: Mapping[str, Any]) -> list[Request]:
    """Return the user's rows as requests of several sizes."""
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
        raise ExportError(f"`samples` must be arrays of the inputs' types: {error}") from error
    counts = {len(values) if values.ndim else 0 for values in rows.values()}
    if len(counts) != 1 or 0 in counts:
        raise ExportError(f"`samples` must hold the same number of rows for each input. Received {counts}.")
    return in_batches(rows)


def _tried(model: keras.Model, weights: Weights, front: Front, request: Request) -> tuple[Any, list[Tensor]]:
    """Return the outputs of a model for a request, and its attention weights, if it has any."""
    raw = [tf.constant(request[name], spec.dtype) for name, spec in front.specs.items()]
    with model_errors(MOST_ASKED, request), weights.used():
        inputs = front(*raw)
        with collected_weights(model) as found:
            outputs = model(inputs, training=False)
    return outputs, found.attention


@contextmanager
def model_errors(signature: str, request: Request) -> Iterator[None]:
    """Raise every error of a model as ExportError."""
    try:
        yield
    except Exception as error:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in request.items())
        raise ExportError(
            f"The model fails on a request that tries the signature {signature!r}, with {shapes} (unless "
            f"`samples` are given, it is made up): {_first_line(error)}"
        ) from error


def _first_line(error: Exception) -> str:
    """Return the message of an error, without the stack that TensorFlow puts before it."""
    lines = [line.strip() for line in str(error).splitlines()]
    noise = ("File ", "[[", "Detected at node", "Graph execution error")
    return next((line for line in lines if line and not line.startswith(noise)), type(error).__name__)


def _output_names(model: keras.Model, outputs: Any) -> list[str] | None:
    """Return the names of several outputs, all different, or None for one."""
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
    """Return the shape of a model's only output, with None for unknown sizes."""
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
