"""Answers of a server as JSON types and as text: outputs that are asked for, states, signatures."""

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_selfattn.asking.raw_texts import answers_spans
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.files import valid_json
from keras_selfattn.serving.client import ModelMetadata, Signature, TensorSpec, VersionStatus
from keras_selfattn.serving.wire.signature_names import ENDED, LABEL, LABELS, SCORE, TEXT

_ANSWER = (LABEL, SCORE)
_WRITTEN = (TEXT, SCORE, ENDED)


def default_outputs(signature: Signature) -> list[str]:
    """Return the outputs that a person asks for first.

    They are a classifier's label and score, or all labels of a row; a written text, its score and whether it
    ended; all outputs of any other signature.
    """
    if answers_spans(signature):
        return list(signature.outputs)
    if writes_texts(signature):
        return list(_WRITTEN)
    if LABELS in signature.outputs:
        return [LABELS]
    return list(_ANSWER) if set(_ANSWER) <= signature.outputs.keys() else list(signature.outputs)


def writes_texts(signature: Signature) -> bool:
    """Return True for a signature whose answers are texts that the model writes.

    Example:

        >>> text = TensorSpec("string", (None,))
        >>> writes_texts(Signature({"text": text}, {"text": text}))
        False
    """
    return set(_WRITTEN) <= signature.outputs.keys()


def answer_name(output: str, columns: Sequence[str]) -> str:
    """Return the column of an output beside the columns of a row.

    Example:

        >>> answer_name("label", ["text"]), answer_name("score", ["text"]), answer_name("score", ["score"])
        ('predicted_label', 'score', 'predicted_score')
    """
    is_answer = output in (LABEL, LABELS, TEXT)
    return f"predicted_{output}" if is_answer or output in columns else output


def answer_columns(
    signature: Signature, outputs: Sequence[str], columns: Sequence[str], where: str
) -> dict[str, str]:
    """Return the column of each output beside the columns of rows.

    Args:
        signature: of the model.
        outputs: names of outputs; none for the usual ones.
        columns: of the rows.
        where: the place of the rows, for messages.

    Raises:
        ConfigError: for an unknown output.
        DataError: if a column has the name of an answer.
    """
    outputs = list(outputs) or default_outputs(signature)
    for name in outputs:
        if name not in signature.outputs:
            raise ConfigError(f"The model has no output {name!r}. It has {', '.join(signature.outputs)}.")
    names = {name: answer_name(name, columns) for name in outputs}
    for name in names.values():
        if name in columns:
            raise DataError(
                f"{where} has a column {name!r} already, which is that of the answers. Rename it."
            )
    return names


def plain(value: Any) -> Any:
    """Return a value as JSON types; bytes become what TensorFlow Serving's REST API writes."""
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, np.ndarray | np.generic):
        # The fewest digits that identify a float32, not those of the nearest double.
        short = value.dtype in (np.float16, np.float32)
        return plain(np.asarray(value).astype(str).astype(float).tolist() if short else value.tolist())
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, complex):
        return [value.real, value.imag]
    return value


def cell_text(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """Return a value as the text of a cell: lists and numbers as JSON, a missing one as an empty text.

    Args:
        value: as Python or NumPy have it.
        default: as for `json.dumps`.

    Example:

        >>> [cell_text(value) for value in (0.5, [1, None], float("nan"), float("inf"))]
        ['0.5', '[1, null]', '', 'Infinity']
    """
    found = plain(value)
    if isinstance(found, str):
        return found
    if found is None or (isinstance(found, float) and math.isnan(found)):
        return ""
    # No JSON, but a number that pandas, Python and JavaScript read.
    if isinstance(found, float):
        return json.dumps(found)
    return valid_json.dumps(found, ensure_ascii=False, default=default)


def status_record(status: VersionStatus) -> dict[str, Any]:
    """Return the state of a version as JSON types.

    Example:

        >>> status_record(VersionStatus(3, "AVAILABLE"))
        {'version': 3, 'state': 'AVAILABLE', 'code': 'OK', 'message': ''}
    """
    return {
        "version": status.version,
        "state": status.state,
        "code": status.code.name,
        "message": status.message,
    }


def metadata_record(metadata: ModelMetadata) -> dict[str, Any]:
    """Return the signatures of a model as JSON types."""
    signatures = {
        name: {
            "inputs": _specs(signature.inputs),
            "outputs": _specs(signature.outputs),
            "defaults": sorted(signature.defaults),
            "method_name": signature.method_name,
        }
        for name, signature in metadata.signatures.items()
    }
    return {"model": metadata.model, "version": metadata.version, "signatures": signatures}


def _specs(specs: Mapping[str, TensorSpec]) -> dict[str, Any]:
    shapes = {name: None if spec.shape is None else list(spec.shape) for name, spec in specs.items()}
    return {name: {"dtype": spec.dtype, "shape": shapes[name]} for name, spec in specs.items()}
