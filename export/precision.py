"""A model at another precision, and its size, speed and accuracy beside the original."""

import json
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ExportError
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.serving.wire.signature_names import DEFAULT_SIGNATURE, LABEL
from keras_selfattn.user_warnings import warn_user

from .contract import Contract
from .saved_weights import Int8Weights, NarrowWeights, Weights, check_int8_products
from .signatures.model_signatures import specs_of
from .signatures.trial_requests import as_one_array

PRECISIONS = ("float32", "bfloat16", "float16-weights", "int8-weights", "int8")

_HALF = {"float16", "bfloat16"}
_ROUNDS = 5  # measured; the result is their median
_BATCH = 32  # rows


@dataclass(frozen=True)
class Measurement:
    """Size, speed and accuracy of a model at one precision.

    Args:
        precision: its name.
        weight_bytes: of the weights in the file.
        row_ms: CPU milliseconds for a request of one row.
        batch_ms: the same for 32 rows, or for all rows if there are fewer.
        accuracy: the share of rows whose label is predicted correctly.
    """

    precision: str
    weight_bytes: int
    row_ms: float
    batch_ms: float
    accuracy: float


@dataclass(frozen=True)
class Comparison:
    """Compare a model with itself at another precision, on the same rows.

    Args:
        before: the model as it is.
        after: the model as it is to be written.
        rows: the number of rows that both answered.
        changed: rows that they answer with different labels.

    Example:

        >>> before = Measurement("as it is", 400, row_ms=0.8, batch_ms=5.0, accuracy=0.75)
        >>> after = Measurement("int8-weights", 100, row_ms=0.8, batch_ms=5.0, accuracy=0.5)
        >>> Comparison(before, after, rows=4, changed=1).accuracy_drop
        0.25
    """

    before: Measurement
    after: Measurement
    rows: int
    changed: int

    @property
    def accuracy_drop(self) -> float:
        """The fall of the accuracy; negative if it rises."""
        return self.before.accuracy - self.after.accuracy

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON types."""
        return {**asdict(self), "accuracy_drop": self.accuracy_drop}


def at_precision(model: keras.Model, precision: str | None) -> tuple[keras.Model, Weights]:
    """Return a model that computes at a precision, with the weights to write; `model` is not changed.

    Args:
        model: any Keras model.
        precision: one of `PRECISIONS`, or None for the model's own.

    Raises:
        ExportError: for another name, or a model that cannot be rebuilt from its config.
    """
    if precision is not None and precision not in PRECISIONS:
        raise ExportError(
            f"`precision` must be one of {', '.join(PRECISIONS)}, or None. Received {precision!r}."
        )
    if precision is None:
        return model, Weights(model)
    if is_quantized(model):
        raise ExportError(
            "`precision` is for models of floats, and this one is quantized to int8: leave it out, or export "
            f"the model as it was before `quantize`. Received {precision!r}."
        )
    if precision == "bfloat16":
        recast = _recast(model, precision)
        return recast, Weights(recast)
    if precision == "int8":
        check_int8_products()
        in_float32 = not computes_in_half(model) and not _computes_in(model, {"float64"})
        wide = model if in_float32 else _recast(model, "float32")
        return wide, Int8Weights(wide)
    wide = _recast(model, "float32") if computes_in_half(model) else model
    if precision == "float32":
        return wide, Weights(wide)
    return wide, NarrowWeights(wide, precision.removesuffix("-weights"))


def computes_in_half(model: keras.Model) -> bool:
    """Return True if a layer of a model computes in float16 or bfloat16."""
    return _computes_in(model, _HALF)


def _computes_in(model: keras.Model, dtypes: set[str]) -> bool:
    return any(layer.compute_dtype in dtypes for layer in model._flatten_layers(include_self=False))


def rounds_coarsely(model: keras.Model) -> bool:
    """Return True if small differences between graphs become large: in half precision, and in int8."""
    return computes_in_half(model) or is_quantized(model)


def is_quantized(model: keras.Model) -> bool:
    """Return True if a layer of a model is quantized."""
    return any(layer.quantization_mode for layer in model._flatten_layers(include_self=False))


def compare(
    before: Contract,
    after: Contract,
    weights: tuple[Weights, Weights],
    precision: str,
    evaluation: tuple[Mapping[str, Any], Sequence[str]],
) -> Comparison:
    """Compare the answers of two contracts of one model on the same rows, in turns.

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
    calls = [contract.signatures[DEFAULT_SIGNATURE].function for contract in (before, after)]
    found = [_labels(call, inputs) for call in calls]
    times = _times(calls, inputs)
    true = np.array([label.encode() for label in labels], dtype=object)
    names = ("as it is", precision)
    measured = [
        Measurement(name, each.size, *ms, accuracy=float(np.mean(answers == true)))
        for name, each, ms, answers in zip(names, weights, times, found, strict=True)
    ]
    return Comparison(measured[0], measured[1], len(labels), int(np.sum(found[0] != found[1])))


def _recast(model: keras.Model, dtype: str) -> keras.Model:
    """Return the same model with another dtype policy; its outputs stay in float32."""
    if isinstance(model, RawModel):
        recast: Any = type(model).from_config({**model.get_config(), "dtype": dtype})
        recast.set_weights(model.get_weights())
        return recast
    return _made_again(model, dtype)


def _made_again(model: keras.Model, dtype: str) -> keras.Model:
    """Return a model read back from its own file, with other dtype policies in the file's config.

    Only the file contains all of a model's state: vocabularies, means and variances.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.keras")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # about lambdas; only we read the file
                model.save(path)
            _rewrite_config(path, lambda config: _with_policy(config, dtype, _last_layers(model)))
            return cast(keras.Model, keras.saving.load_model(path, compile=False, safe_mode=False))
        except Exception as error:  # other people's layers may raise anything
            raise ExportError(
                f"The model cannot be made again in {dtype} from its config: {error}. Give its own classes "
                "get_config and register them, or build the model with that dtype policy."
            ) from error


def _rewrite_config(path: Path, change: Callable[[Any], Any]) -> None:
    with zipfile.ZipFile(path) as file:
        content = {name: file.read(name) for name in file.namelist()}
    content["config.json"] = json.dumps(change(json.loads(content["config.json"]))).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, data in content.items():
            file.writestr(name, data)


def _last_layers(model: keras.Model) -> set[str]:
    """Return the names of the layers whose outputs a model returns, as far as they are known."""
    if isinstance(model, keras.Sequential):
        last = model.layers[-1:]
    else:
        tensors = keras.tree.flatten(getattr(model, "outputs", []))
        last = [tensor._keras_history.operation for tensor in tensors]
    names = set()
    for layer in last:
        names |= _last_layers(layer) if isinstance(layer, keras.Model) else {layer.name}
    return names


def _with_policy(config: Any, dtype: str, last: set[str]) -> Any:
    """Return a config with another dtype policy, except for the last layers, which keep float32."""
    if isinstance(config, list):
        return [_with_policy(item, dtype, last) for item in config]
    if not isinstance(config, dict):
        return config
    inner = config.get("config")
    if isinstance(inner, dict) and inner.get("name") in last and "layers" not in inner:
        dtype = "float32"
    if config.get("class_name") == "DTypePolicy" and "float" in inner["name"]:  # not "string", or "int64"
        return {**config, "config": {"name": dtype}}
    return {key: _with_policy(value, dtype, last) for key, value in config.items()}


def _checked(contract: Contract, evaluation: Any) -> tuple[Mapping[str, Any], Sequence[str]]:
    if not contract.task.endswith("classification"):
        raise ExportError(f"Accuracy is measured of classifiers. The task of this model is {contract.task}.")
    inputs, labels = evaluation
    specs = specs_of(contract.signatures[DEFAULT_SIGNATURE].function)
    if not isinstance(inputs, Mapping):
        name = specs[0].name
        inputs = {name: as_one_array(inputs)} if contract.named is None else contract.named(inputs)
    if set(inputs) != {spec.name for spec in specs}:
        names = ", ".join(spec.name for spec in specs)
        raise ExportError(f"`evaluation` must hold the inputs {names}. Received {', '.join(inputs)}.")
    if {len(values) for values in inputs.values()} != {len(labels)} or not len(labels):
        raise ExportError("`evaluation` must hold as many labels as rows, and at least one.")
    names = set(contract.labels or ())
    known = np.array([label in names for label in labels])
    if not known.any():
        raise ExportError(f"`evaluation` has no label that the model knows, but {min(labels)!r}.")
    if not known.all():
        other = [label for label in labels if label not in names]
        # These rows are wrong before and after, and would make a drop in accuracy look smaller.
        warn_user(
            f"{len(other):,} of {len(labels):,} rows of `evaluation` have a label that the model does not "
            f"know, such as {min(other)!r}. They are left out of the comparison."
        )
    arrays = {spec.name: np.asarray(tf.constant(inputs[spec.name], spec.dtype))[known] for spec in specs}
    return arrays, [label for label in labels if label in names]


def _labels(call: Any, inputs: Mapping[str, Any]) -> np.ndarray:
    rows = len(next(iter(inputs.values())))
    parts = [_call(call, inputs, slice(start, start + _BATCH))[LABEL] for start in range(0, rows, _BATCH)]
    return np.concatenate([part.numpy() for part in parts])


def _times(calls: Sequence[Any], inputs: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Return each call's CPU milliseconds for a row and for a batch; the calls are measured in turns."""
    sizes = ((slice(1), 20), (slice(_BATCH), 3))
    found: list[list[list[float]]] = [[[] for _ in sizes] for _ in calls]
    for _ in range(_ROUNDS + 1):
        for call, by_size in zip(calls, found, strict=True):
            for (rows, times), values in zip(sizes, by_size, strict=True):
                started = time.process_time()
                for _ in range(times):
                    _call(call, inputs, rows)
                values.append(1000 * (time.process_time() - started) / times)
    # The first round is left out: its caches are cold.
    return [tuple(round(float(np.median(values[1:])), 3) for values in by_size) for by_size in found]  # pyright: ignore[reportReturnType]


def _call(call: Any, inputs: Mapping[str, Any], rows: slice) -> Mapping[str, Any]:
    return call(*(tf.constant(values[rows]) for values in inputs.values()))
