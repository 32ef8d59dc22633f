"""Runs a SavedModel as a stranger would and compares its answers with the expected ones.

A program of its own, run in a fresh process: `python check.py <saved model> <expected.json>`. Keras is shut
out, and with it our layers, so that a graph which needs them fails here and not on the server. Ends with 0,
or with 1 and the reason on standard error.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def main(saved_model: str, expected: str) -> int:
    """Returns 0 if the model in folder `saved_model` answers as the file `expected` says."""
    sys.modules["keras"] = None  # pyright: ignore[reportArgumentType]  any import of it now fails
    import tensorflow as tf

    loaded = tf.saved_model.load(saved_model)
    serve = loaded.signatures["serving_default"]  # pyright: ignore[reportAttributeAccessIssue]
    for case in json.loads(Path(expected).read_text(encoding="utf-8")):
        text = tf.constant(case["text"], dtype=tf.string)
        answer = {name: value.numpy() for name, value in serve(text=text).items()}
        again = {name: value.numpy() for name, value in serve(text=text).items()}
        reason = _difference(case, answer) or _change(answer, again)
        if reason:
            shown = [row[:40] for row in case["text"][:4]]
            print(f"{reason} for {len(case['text'])} texts beginning with {shown}", file=sys.stderr)
            return 1
    return 0


def _difference(case: dict[str, Any], answer: dict[str, np.ndarray]) -> str | None:
    probabilities = np.array(case["probabilities"], dtype="float32")
    probabilities = probabilities.reshape(len(case["text"]), len(case["labels"]))
    found = answer["probabilities"]
    if found.shape != probabilities.shape:
        return f"probabilities have shape {found.shape} instead of {probabilities.shape}"
    worst, allowed = float(np.abs(found - probabilities).max(initial=0.0)), case["tolerance"]
    if not worst <= allowed:  # NaN is no match either
        return f"probabilities differ from the Keras model's by {worst:.2g} (allowed: {allowed:.0e})"
    labels = [case["labels"][index] for index in found.argmax(axis=-1)]
    if [label.decode() for label in answer["label"]] != labels:
        return "labels do not belong to the highest probabilities"
    if not np.array_equal(answer["score"], found.max(axis=-1, initial=0.0)):
        return "scores are not the highest probabilities"
    return None


def _change(answer: dict[str, np.ndarray], again: dict[str, np.ndarray]) -> str | None:
    changed = [name for name in answer if not np.array_equal(answer[name], again[name])]
    return f"{changed[0]} changed between two runs" if changed else None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
