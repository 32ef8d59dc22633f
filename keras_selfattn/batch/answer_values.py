"""The answers of a signature: those that are asked for, and their values as JSON types and as text."""

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_selfattn.serving.client import Signature

_ANSWER = ("label", "score")


def default_outputs(signature: Signature) -> list[str]:
    """Return a classifier's label and score, or all labels of a row; all outputs of any other signature."""
    if "labels" in signature.outputs:
        return ["labels"]
    return list(_ANSWER) if set(_ANSWER) <= signature.outputs.keys() else list(signature.outputs)


def answer_name(output: str, columns: Sequence[str]) -> str:
    """Return the column of an output beside the columns of a row.

    Example:

        >>> answer_name("label", ["text"]), answer_name("score", ["text"]), answer_name("score", ["score"])
        ('predicted_label', 'score', 'predicted_score')
    """
    return f"predicted_{output}" if output in ("label", "labels") or output in columns else output


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


def cell_text(value: Any) -> str:
    """Return a value as the text of a cell: lists and numbers as JSON."""
    found = plain(value)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
