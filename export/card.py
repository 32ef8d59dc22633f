"""The model card: origin, signatures and figures of a SavedModel, as JSON beside it.

`docs/model-card.schema.json` describes it.
"""

import base64
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from keras_selfattn import __version__
from keras_selfattn.files import valid_json
from keras_selfattn.files.version_files import CARD, digest, size_of

from .contract import Contract
from .precision import Comparison
from .signatures.model_signatures import Signature, specs_of
from .trial import Case

_FORMAT = 1
_SHOWN = 1000  # numbers of one tensor
_VERSIONED = ("tensorflow", "keras", "numpy")


@dataclass(frozen=True)
class Training:
    """The origin of a model, as recorded in its run folder.

    Args:
        data: the name and the number of rows of each part of the data ("train", "validation", "test").
        metrics: figures, with the name of the part they were measured on as "split".
        settings: the settings of its training.
        example: a row of the data as the model reads it, of JSON types or an array; or None. The card shows
            it with the model's answer.

    Example:

        >>> data = {"train": {"source": "films.csv", "rows": 40}, "test": {"source": "more.csv", "rows": 9}}
        >>> Training(data, {"accuracy": 0.9, "split": "test"}, {"epochs": 3}).data["test"]["rows"]
        9
    """

    data: Mapping[str, Mapping[str, Any]]
    metrics: Mapping[str, Any]
    settings: Mapping[str, Any]
    example: Any = None


def model_card(
    contract: Contract,
    cases: Sequence[Case],
    *,
    precision: str | None,
    comparison: Comparison | None,
    requires: Mapping[str, Any],
    training: Training | None,
    measured: Mapping[str, Any],
    converters: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the card of a model, without its digest.

    Args:
        contract: the signatures to write.
        cases: requests that the model has answered; the first of each signature is its example.
        precision: as `export_saved_model`'s.
        comparison: with the unchanged model, if there was one.
        requires: the runtime that the files need, and the names of the graph's operations.
        training: the origin of the model, if known.
        measured: the figures of the check.
        converters: further packages that wrote the files.
    """
    versions = {name: version(name) for name in (*_VERSIONED, *converters)}
    examples = {case.signature: case for case in reversed(cases)}
    return {
        "format": _FORMAT,
        "task": contract.task,
        "labels": None if contract.labels is None else list(contract.labels),
        **({} if contract.scores is None else {"scores": list(contract.scores)}),
        **contract.described,
        "vocabulary_size": contract.vocabulary_size,
        "precision": precision,
        "comparison": None if comparison is None else comparison.to_dict(),
        "signatures": {
            name: _signature(signature, examples[name], made_up=contract.made_up)
            for name, signature in contract.signatures.items()
        },
        "training": None if training is None else {"data": training.data, "settings": training.settings},
        "metrics": None if training is None else training.metrics,
        "config": contract.config,
        "requires": dict(requires),
        "measured": measured,
        "versions": {"keras-selfattn": __version__, "python": platform.python_version(), **versions},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def write_card(folder: Path, card: Mapping[str, Any]) -> None:
    """Write a card into a SavedModel's folder, with the digest of all other files."""
    path = folder / CARD
    path.parent.mkdir(exist_ok=True)
    content = {**card, "files": {"bytes": size_of(folder), "digest": digest(folder)}}
    path.write_text(_readable(content), encoding="utf-8")


def _readable(content: Mapping[str, Any]) -> str:
    """Return JSON whose innermost lists take one line each."""
    text = valid_json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return re.sub(r"\[\n\s*([^\[\]{}]*?)\n\s*\]", lambda found: f"[{_one_line(found[1])}]", text)


def _one_line(items: str) -> str:
    return re.sub(r",\n\s*", ", ", items)


def _signature(signature: Signature, example: Case, *, made_up: bool) -> dict[str, Any]:
    outputs = signature.concrete.structured_outputs
    return {
        "method_name": signature.method_name,
        "inputs": {
            spec.name: {
                **_described(spec),
                **_padding_of(signature, spec.name),
                **_default_of(signature, spec.name),
            }
            for spec in specs_of(signature.function)
        },
        "outputs": {name: _described(tensor) for name, tensor in outputs.items()},
        **({"note": signature.note} if signature.note else {}),
        "example": {
            "request": _plain(example.request),
            "answer": _plain(example.outputs),
            "made_up": made_up,
        },
    }


def _described(tensor: Any) -> dict[str, Any]:
    shape = None if tensor.shape.rank is None else tensor.shape.as_list()
    return {"dtype": tensor.dtype.name, "shape": shape}


def _padding_of(signature: Signature, name: str) -> dict[str, str]:
    """Return the padding of an input as the card has it; JSON has no NaN."""
    if name not in signature.padding:
        return {}
    value = signature.padding[name]
    return {"padding": value if isinstance(value, str) else "NaN"}


def _default_of(signature: Signature, name: str) -> dict[str, Any]:
    """Return the default of an input as the card has it: the value for each row."""
    return {"default": _as_json(signature.defaults[name].tolist()[0])} if name in signature.defaults else {}


def _plain(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return arrays as JSON types; bytes that are not UTF-8 as in TensorFlow Serving's REST API.

    Arrays with too many numbers to read are left out.
    """
    found = {name: np.asarray(array) for name, array in arrays.items()}
    return {name: _as_json(array.tolist()) for name, array in found.items() if array.size <= _SHOWN}


def _as_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.7g}") if np.isfinite(value) else str(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    return value
