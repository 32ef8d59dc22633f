"""Narrower numbers: a model at another precision, and what that costs and gains."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ExportError
from keras_selfattn.models import TextClassifier

from .contract import Contract, specs_of
from .weights import NarrowWeights, Weights

PRECISIONS = ("float32", "bfloat16", "float16-weights", "int8-weights")

_HALF = {"float16", "bfloat16"}
_ROUNDS = 5  # of which the median is taken
_BATCH = 32  # rows


@dataclass(frozen=True)
class Measurement:
    """What a model is at one precision.

    Args:
        precision: its name.
        weight_bytes: of the weights in the file.
        row_ms: CPU milliseconds for a request of one row.
        batch_ms: the same for 32 rows, or all there are.
        accuracy: share of the rows given whose label is answered.
    """

    precision: str
    weight_bytes: int
    row_ms: float
    batch_ms: float
    accuracy: float


@dataclass(frozen=True)
class Comparison:
    """A model as it is beside itself at another precision, on the same rows.

    Args:
        before: as it is.
        after: as it is to be written.
        rows: how many both answered.
        changed: rows that they answer with different labels.
    """

    before: Measurement
    after: Measurement
    rows: int
    changed: int

    @property
    def accuracy_drop(self) -> float:
        """By how much the accuracy falls; negative if it rises."""
        return self.before.accuracy - self.after.accuracy

    def to_dict(self) -> dict[str, Any]:
        """Returns all of it as JSON types."""
        return {**asdict(self), "accuracy_drop": self.accuracy_drop}


def at_precision(model: keras.Model, precision: str | None) -> tuple[keras.Model, Weights]:
    """Returns a model that computes at a precision, with the weights to be written; `model` stays as it is.

    Args:
        model: any Keras model.
        precision: one of `PRECISIONS`, or None: as the model is.

    Raises:
        ExportError: for another name, or a model that cannot be made again from its config.
    """
    if precision is not None and precision not in PRECISIONS:
        raise ExportError(
            f"`precision` must be one of {', '.join(PRECISIONS)}, or None. Received {precision!r}."
        )
    if precision is None:
        return model, Weights(_core(model))
    if precision in ("float32", "bfloat16"):
        recast = _recast(model, precision)
        return recast, Weights(_core(recast))
    wide = _recast(model, "float32") if computes_in_half(model) else model
    return wide, NarrowWeights(_core(wide), precision.removesuffix("-weights"))


def computes_in_half(model: keras.Model) -> bool:
    """Whether a layer of a model computes in float16 or bfloat16."""
    layers = _core(model)._flatten_layers(include_self=False)
    return bool(_HALF & {layer.compute_dtype for layer in layers})


def compare(
    before: Contract,
    after: Contract,
    weights: tuple[Weights, Weights],
    precision: str,
    evaluation: tuple[Mapping[str, Any], Sequence[str]],
) -> Comparison:
    """Returns what two contracts of one model answer, on the same rows, in turns.

    Args:
        before: the model as it is.
        after: the model at `precision`.
        weights: of both.
        precision: its name.
        evaluation: rows by input, and their labels.

    Raises:
        ExportError: if the model does not classify, or rows and labels do not fit.
    """
    inputs, labels = _checked(before, evaluation)
    calls = [contract.signatures["serving_default"].function for contract in (before, after)]
    found = [_labels(call, inputs) for call in calls]
    times = _times(calls, inputs)
    true = np.array([label.encode() for label in labels], dtype=object)
    names = ("as it is", precision)
    measured = [
        Measurement(name, each.size, *ms, accuracy=float(np.mean(answers == true)))
        for name, each, ms, answers in zip(names, weights, times, found, strict=True)
    ]
    return Comparison(measured[0], measured[1], len(labels), int(np.sum(found[0] != found[1])))


def _core(model: keras.Model) -> keras.Model:
    return model.core if isinstance(model, TextClassifier) else model


def _recast(model: keras.Model, dtype: str) -> keras.Model:
    """Returns the same model with another dtype policy; what it returns stays in float32."""
    if isinstance(model, TextClassifier):
        vocabulary = model.tokenizer.vocabulary
        recast: Any = TextClassifier(model.config, vocabulary=vocabulary, labels=model.labels, dtype=dtype)
    else:
        recast = _made_again(model, dtype)
    _core(recast).set_weights(_core(model).get_weights())
    return recast


def _made_again(model: keras.Model, dtype: str) -> keras.Model:
    last = {layer.name for layer in _last_layers(model)}
    try:
        config = cast(dict, keras.saving.serialize_keras_object(model))
        config = _with_policy(config, dtype, last)
        made = cast(keras.Model, keras.saving.deserialize_keras_object(config))
    except (TypeError, ValueError, NotImplementedError) as error:
        raise ExportError(
            f"The model cannot be made again in {dtype} from its config: {error}. Give its own classes "
            "get_config and register them, or build the model with that dtype policy."
        ) from error
    if len(made.weights) != len(model.weights):
        raise ExportError(
            f"The model cannot be made again in {dtype}: its config gives {len(made.weights)} weights "
            f"instead of {len(model.weights)}. Build the model with that dtype policy."
        )
    return made


def _last_layers(model: keras.Model) -> list[Any]:
    """Returns the layers whose outputs a model returns, as far as it tells."""
    if isinstance(model, keras.Sequential):
        return model.layers[-1:]
    operations = [
        tensor._keras_history.operation for tensor in keras.tree.flatten(getattr(model, "outputs", []))
    ]
    return [operation for operation in operations if isinstance(operation, keras.layers.Layer)]


def _with_policy(config: Any, dtype: str, last: set[str]) -> Any:
    if isinstance(config, list | tuple):
        return type(config)(_with_policy(item, dtype, last) for item in config)
    if not isinstance(config, dict):
        return config
    inner = config.get("config")
    if isinstance(inner, dict) and inner.get("name") in last and dtype != "float32":
        return config
    if config.get("class_name") in ("DTypePolicy", "FloatDTypePolicy") and isinstance(inner, dict):
        return {**config, "class_name": "DTypePolicy", "config": {"name": dtype}}
    return {key: _with_policy(value, dtype, last) for key, value in config.items()}


def _checked(contract: Contract, evaluation: Any) -> tuple[Mapping[str, Any], Sequence[str]]:
    if not contract.task.endswith("classification"):
        raise ExportError(f"Accuracy is measured of classifiers. The task of this model is {contract.task}.")
    inputs, labels = evaluation
    specs = specs_of(contract.signatures["serving_default"].function)
    if not isinstance(inputs, Mapping):
        inputs = {specs[0].name: inputs}
    if {len(values) for values in inputs.values()} != {len(labels)} or not len(labels):
        raise ExportError("`evaluation` must hold as many labels as rows, and at least one.")
    unknown = set(labels) - set(contract.labels or ())
    if unknown:
        raise ExportError(f"`evaluation` has a label that the model does not know: {min(unknown)!r}.")
    arrays = {spec.name: np.asarray(tf.constant(inputs[spec.name], spec.dtype)) for spec in specs}
    return arrays, labels


def _labels(call: Any, inputs: Mapping[str, Any]) -> np.ndarray:
    rows = len(next(iter(inputs.values())))
    parts = [_call(call, inputs, slice(start, start + _BATCH))["label"] for start in range(0, rows, _BATCH)]
    return np.concatenate([part.numpy() for part in parts])


def _times(calls: Sequence[Any], inputs: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Returns CPU milliseconds for a row and for a batch, of each call, measured in turns."""
    sizes = ((slice(1), 20), (slice(_BATCH), 3))
    found: list[list[list[float]]] = [[[] for _ in sizes] for _ in calls]
    for _ in range(_ROUNDS + 1):
        for call, by_size in zip(calls, found, strict=True):
            for (rows, times), values in zip(sizes, by_size, strict=True):
                started = time.process_time()
                for _ in range(times):
                    _call(call, inputs, rows)
                values.append(1000 * (time.process_time() - started) / times)
    # The first round finds cold caches.
    return [tuple(round(float(np.median(values[1:])), 3) for values in by_size) for by_size in found]  # pyright: ignore[reportReturnType]


def _call(call: Any, inputs: Mapping[str, Any], rows: slice) -> Mapping[str, Any]:
    return call(*(tf.constant(values[rows]) for values in inputs.values()))
