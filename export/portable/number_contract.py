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
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.models.vocabulary import PADDING_ID

from ..contract import Contract, plain_parts
from ..saved_weights import Weights
from ..signatures.answers import Answers, raw_answers
from ..signatures.model_signatures import MOST_ASKED, Signature
from ..signatures.preprocessing import Front, PlainFront
from ..signatures.raw_models import raw_front
from ..signatures.trial_requests import Request

Tensor = Any


class CoreFront(Front):
    """The inputs of a model's core: what its preprocessing makes of raw rows.

    Args:
        model: a trained model of raw rows.

    Raises:
        ExportError: for a model with an input that no other runtime can compute.
    """

    def __init__(self, model: RawModel) -> None:
        self._front = raw_front(model)
        self._front.check_portable()
        (inputs,) = model.core.inputs
        self._columns = self._front.number_columns
        self.described = self._front.described
        shape = inputs.shape[:-1] if self._columns else inputs.shape
        names: Any = self._columns or (self._front.number_input or inputs.name,)
        self.specs: dict[str, Any] = {name: tf.TensorSpec(shape, inputs.dtype, name=name) for name in names}
        self.tracked: list[Any] = []

    def __call__(self, *raw: Tensor) -> Tensor:
        return tf.stack(raw, axis=-1) if self._columns else raw[0]

    def requests(self) -> list[Request]:
        """Return requests of several sizes, as numbers."""
        return [self.numbers(request) for request in self._front.requests()]

    def asked(self, row: Any) -> Request:
        """Return the request for a row, as numbers."""
        return self.numbers(self._front.asked(row))

    def numbers(self, request: Request) -> Request:
        """Return what the preprocessing makes of a request of raw rows, padded to the longest."""
        specs = self._front.specs.values()
        found: Any = self._front(*(tf.constant(request[spec.name], spec.dtype) for spec in specs))
        if isinstance(found, tf.RaggedTensor):
            found = found.to_tensor(PADDING_ID)
        if self._columns:
            return {name: np.asarray(found[..., place]) for place, name in enumerate(self.specs)}
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
    weights, core, made_up, described = Weights(model), model, samples is None, {}
    if isinstance(model, RawModel):
        if labels is not None or samples is not None:
            raise ExportError(
                f"A {type(model).__name__} knows its labels and makes its own samples: leave out `labels`, "
                "`samples`."
            )
        front, core, answers = CoreFront(model), model.core, raw_answers(model.head)
        requests, described = front.requests(), front.described
        if example is not None:
            requests[0], made_up = front.asked(example), False
        task, labels = f"{model.row_kind.subject}-{model.head.task}", getattr(model, "labels", None)
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
        described=described,
        made_up=made_up,
    )


def label_rule(model: keras.Model, labels: Sequence[str] | None) -> str | None:
    """Return how labels follow from the probabilities, see `Answers.label_rule`; None without labels."""
    if labels is None:
        return None
    return raw_answers(model.head).label_rule if isinstance(model, RawModel) else "largest"


def _function(core: keras.Model, weights: Weights, front: Front, answers: Answers) -> Any:
    def call(*raw: Tensor) -> dict[str, Tensor]:
        with layers.portable(), weights.used():
            return answers.numbers(core(front(*raw), training=False))

    return tf.function(call, input_signature=list(front.specs.values()), autograph=False)


def _config(model: keras.Model) -> dict[str, Any]:
    if isinstance(model, RawModel):
        return model.config.summary()
    return {"name": model.name, "parameters": model.count_params()}


def _check_numbers(front: PlainFront) -> None:
    strings = [name for name, spec in front.specs.items() if spec.dtype == tf.string]
    if strings:
        raise ExportError(
            f"The input {strings[0]!r} takes strings, which other runtimes do not. Export the part of the "
            "model after its preprocessing, whose inputs are numbers."
        )
