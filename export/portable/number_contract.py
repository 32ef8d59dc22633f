"""The contract of a file for another runtime: numbers in and out, with requests to try it with.

Axes: B (batch), T (positions), C (classes).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn import layers
from keras_selfattn.errors import ExportError
from keras_selfattn.models import TextClassifier
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.models.tokens.position_head import PositionHead
from keras_selfattn.models.tokens.span_labels import PathRule
from keras_selfattn.models.vocabulary import PADDING_ID

from ..contract import Contract, plain_parts
from ..saved_weights import Weights
from ..signatures.model_signatures import MOST_ASKED, Signature
from ..signatures.named_outputs import Answers, Classification, Labelling, LabelSets
from ..signatures.preprocessing import Front, PlainFront
from ..signatures.raw_models import raw_answers, raw_front
from ..signatures.trial_requests import Request

Tensor = Any

# The input of an image model's core, under the name of the SavedModel's input.
_NAMES = {"images": "image"}


class CoreFront:
    """The inputs of a model's core: what its preprocessing makes of raw rows.

    Args:
        model: a trained model of raw rows.

    Raises:
        ExportError: for a model with an input that no other runtime can compute.
    """

    def __init__(self, model: RawModel) -> None:
        self._front = raw_front(model)
        _check_wide(model)
        (inputs,) = model.core.inputs
        name: Any = _NAMES.get(inputs.name, inputs.name)
        self.specs: dict[str, Any] = {name: tf.TensorSpec(inputs.shape, inputs.dtype, name=name)}
        self.tracked: list[Any] = []

    def __call__(self, *raw: Tensor) -> Tensor:
        return raw[0]

    def requests(self) -> list[Request]:
        """Return requests of several sizes, as numbers."""
        return [self.numbers(request) for request in self._front.requests()]

    def asked(self, row: Any) -> Request:
        """Return the request for a row, as numbers."""
        return self.numbers(self._front.asked(row))

    def numbers(self, request: Request) -> Request:
        """Return what the preprocessing makes of a request of raw rows, padded to the longest."""
        specs = self._front.specs.values()
        found = self._front(*(tf.constant(request[spec.name], spec.dtype) for spec in specs))
        if isinstance(found, tf.RaggedTensor):
            found = found.to_tensor(PADDING_ID)
        return {name: np.asarray(found) for name in self.specs}


def number_contract(
    model: keras.Model,
    *,
    labels: Sequence[str] | None = None,
    samples: Mapping[str, Any] | None = None,
    example: Any = None,
) -> Contract:
    """Return the contract of a model whose only signature takes and returns numbers.

    The outputs are the numbers of the SavedModel's `serving_default`, without `score`, which is one of them.

    Raises:
        ExportError: if an input is no number, or the labels do not fit the outputs.
    """
    weights, core, made_up = Weights(model), model, samples is None
    if isinstance(model, RawModel):
        if labels is not None or samples is not None:
            raise ExportError(
                f"A {type(model).__name__} knows its labels and makes its own samples: leave out `labels`, "
                "`samples`."
            )
        front, core, answers = CoreFront(model), model.core, _answers(model.head)
        requests = front.requests()
        if example is not None:
            requests[0], made_up = front.asked(example), False
        task, labels = f"{raw_front(model).subject}-{model.head.task}", getattr(model, "labels", None)
    else:
        front = PlainFront(model)
        _check_numbers(front)
        answers, requests, _ = plain_parts(model, weights, front, labels, samples)
        task = answers.task
    function = _function(core, weights, front, answers)
    return Contract(
        task=task,
        signatures={MOST_ASKED: Signature(function, requests)},
        tracked=[],
        labels=None if labels is None else list(labels),
        vocabulary_size=getattr(getattr(model, "tokenizer", None), "size", None),
        config=_config(model),
        made_up=made_up,
    )


def label_rule(contract_model: keras.Model, labels: Sequence[str] | None) -> str | None:
    """Return how labels follow from the probabilities; None where there are no labels.

    "largest": the label of the largest probability; "at least 0.5": all labels with so much; "valid spans",
    "valid IOB1 spans" and "valid IOBES spans": the row of labels with the largest product of probabilities in
    which each may follow the one before, by the rule IOB2, IOB1 or IOBES.
    """
    if labels is None:
        return None
    head = getattr(contract_model, "head", None)
    if isinstance(head, PositionHead) and head.decoder is not None:
        return _SPAN_RULES[head.decoder.rule]
    several = head is not None and isinstance(raw_answers(head), LabelSets)
    return "at least 0.5" if several else "largest"


_SPAN_RULES: dict[PathRule, str] = {
    "IOB2": "valid spans",
    "IOB1": "valid IOB1 spans",
    "IOBES": "valid IOBES spans",
}


def _answers(head: Head) -> Answers:
    # Without the decoder of spans, a loop that needs the labels of the whole row.
    return Labelling(head.labels) if isinstance(head, PositionHead) else raw_answers(head)


def _function(core: keras.Model, weights: Weights, front: Front, answers: Answers) -> Any:
    def call(*raw: Tensor) -> dict[str, Tensor]:
        with layers.portable(), weights.used():
            named = answers.named(core(front(*raw), training=False))
        if isinstance(answers, Classification | Labelling):
            return {"probabilities": named["probabilities"]}
        return named

    return tf.function(call, input_signature=list(front.specs.values()), autograph=False)


def _config(model: keras.Model) -> dict[str, Any]:
    if isinstance(model, RawModel):
        return model.config.summary()
    return {"name": model.name, "parameters": model.count_params()}


def _check_wide(model: RawModel) -> None:
    if isinstance(model, TextClassifier) and model.wide is not None:
        raise ExportError(
            "The model has a wide path (`wide=True`): a linear model of hashed n-grams of the text, which "
            "takes strings that no other runtime hashes. Train it with `wide=False` (`keras-selfattn train "
            "--no-wide`), or export it as a SavedModel."
        )


def _check_numbers(front: PlainFront) -> None:
    strings = [name for name, spec in front.specs.items() if spec.dtype == tf.string]
    if strings:
        raise ExportError(
            f"The input {strings[0]!r} takes strings, which other runtimes do not. Export the part of the "
            "model after its preprocessing, whose inputs are numbers."
        )
