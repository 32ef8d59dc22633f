"""The cost of serving a model: its exported graph, one row at a time; and its answers in int8."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.accuracy.peer import accuracy, cpu_ms_of_one
from benchmarks.accuracy.sets import Split
from keras_selfattn.export import export_saved_model
from keras_selfattn.files.version_files import size_of
from keras_selfattn.layers.tensorflow.int8_products import runs_int8_products
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.rows.recordings import Recording


def measure_served(model: RawModel, inputs: Sequence[Any]) -> dict[str, float]:
    """Return the bytes of a model's SavedModel, and its CPU time for one row."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(export_saved_model(model, Path(folder, "model")))
        served = tf.saved_model.load(str(path))
        answer = served.signatures["serving_default"]
        (name,) = answer.structured_input_signature[1]
        ms = cpu_ms_of_one(lambda rows: answer(**{name: as_request(rows)}), inputs)
        return {"bytes": size_of(path), "cpu ms of one": ms}


def measure_in_int8(model: RawModel, split: Split) -> dict[str, float]:
    """Return the accuracy of a model's export in int8 on the test rows; none where it cannot run.

    A row is asked alone, as its answer does not depend on others.
    """
    if not runs_int8_products():
        return {}
    with tempfile.TemporaryDirectory() as folder:
        path = export_saved_model(model, Path(folder, "model"), precision="int8")
        served = tf.saved_model.load(str(path))
        answer = served.signatures["serving_default"]
        (name,) = answer.structured_input_signature[1]
        labels = [answer(**{name: as_request([row])})["label"].numpy()[0] for row in split.test.inputs]
    found = [np.char.decode(np.asarray(each, dtype=bytes), "utf-8").tolist() for each in labels]
    return {"int8 accuracy": accuracy(split.test.targets, found)}


def as_request(rows: Sequence[Any]) -> Any:
    """Return a single row as the graph takes it: a text, tokens, a WAV file, or numbers, `[1, ...]`.

    Example:

        >>> as_request([np.array([[1.5], [2.0]])]).shape
        TensorShape([1, 2, 1])
    """
    if isinstance(rows[0], str | list):
        return tf.constant(rows)
    if isinstance(rows[0], Recording):
        return tf.constant([rows[0].wav()])
    return tf.constant(np.asarray(rows, dtype="float32"))
