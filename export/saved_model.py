"""Writes a model as the next SavedModel version: checked in a fresh process, then made visible at once."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.atomic import draft_directory, publish
from keras_selfattn.errors import ExportError
from keras_selfattn.models import TextClassifier

from .signatures import TextModule
from .versions import next_version

_CHECK = Path(__file__).with_name("check.py")
# Seconds for the fresh process: importing TensorFlow and loading take about ten on two busy cores.
_CHECK_TIMEOUT = 600.0


def export_saved_model(model: TextClassifier, base_path: str | Path, version: int | None = None) -> Path:
    """Writes `<base_path>/<version>/`, a SavedModel that takes raw text, and returns its path.

    Its signature `serving_default` maps `text`, string `[batch]`, to `probabilities`, float32 `[batch,
    classes]`, `label`, string `[batch]`, and `score`, float32 `[batch]`. It holds stock TensorFlow ops only.

    The folder is written under a hidden name, loaded in a fresh process without Keras, compared there with
    the model's own answers, and renamed: a reader sees a whole, checked version or none.

    Args:
        model: a trained classifier.
        base_path: the folder of all versions of this model; made if it is not there.
        version: a positive integer that is not taken; by default the next one.

    Raises:
        ExportError: if the model cannot be exported, the place cannot be written, the version is taken, or
            the reloaded graph answers differently.

    Example:

        >>> import tempfile
        >>> from keras_selfattn import models
        >>> small = models.TextConfig(width=8, num_layers=1, num_heads=1, ngram_buckets=64)
        >>> model = models.TextClassifier(small, vocabulary=["good", "bad"], labels=["+", "-"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export_saved_model(model, folder).name
        '1'

    Reference: tensorflow/core/protobuf/saved_model.proto.
    """
    base = Path(base_path)
    _check_model(model)
    _check_place(base, version)
    module = TextModule(model)
    try:
        with draft_directory(base / str(version or "next")) as draft:
            tf.saved_model.save(
                module,
                str(draft),
                signatures=module.signatures,
                # They would bring the training ops along, dropout's random numbers among them.
                options=tf.saved_model.SaveOptions(experimental_custom_gradients=False),
            )
            _check_answers(model, draft)
            return _publish(draft, base, version)
    except FileExistsError as error:
        raise ExportError(f"{error}. Leave `version` out to write the next one.") from error
    except OSError as error:
        raise ExportError(f"{base} cannot be written: {error}.") from error


def _check_model(model: TextClassifier) -> None:
    if not isinstance(model, TextClassifier):
        raise ExportError(
            f"`model` must be a TextClassifier. Received {type(model).__name__}; other Keras models export "
            "with their own `model.export(path)`."
        )
    if keras.backend.backend() != "tensorflow":
        raise ExportError(
            f"A SavedModel needs TensorFlow. Keras runs on {keras.backend.backend()!r}; save the model "
            "as .keras and load it with KERAS_BACKEND=tensorflow."
        )
    for weight in model.core.weights:
        if not np.isfinite(np.asarray(weight)).all():
            raise ExportError(f"The weight {weight.path!r} is not finite everywhere. Train the model again.")


def _check_place(base: Path, version: int | None) -> None:
    if base.exists() and not base.is_dir():
        raise ExportError(f"`base_path` must be a folder. {base} is a file; choose another name.")
    if {"[", "]"} & set(str(base.absolute())):
        raise ExportError(
            f"`base_path` must hold no brackets: TensorFlow cannot load from {base.absolute()}."
        )
    if version is None:
        return
    if isinstance(version, bool) or not isinstance(version, int) or not 0 < version < 2**63:
        raise ExportError(f"`version` must be a positive integer below 2**63. Received {version!r}.")
    if (base / str(version)).exists():
        raise ExportError(
            f"{base} has a version {version} already. Leave `version` out to write the next one."
        )


def _publish(draft: Path, base: Path, version: int | None) -> Path:
    while True:
        target = base / str(version or next_version(base))
        try:
            publish(draft, target)
        except FileExistsError:
            if version is not None:
                raise
            continue  # another export took this number meanwhile
        return target


def _check_answers(model: TextClassifier, saved_model: Path) -> None:
    cases = [
        # One call for each batch: `predict` would pad differently, which half precision shows.
        {
            "text": texts,
            "probabilities": _probabilities(model, texts),
            "labels": model.labels,
            "tolerance": _tolerance(model),
        }
        for texts in _samples(model.tokenizer.vocabulary)
    ]
    with tempfile.TemporaryDirectory() as folder:
        expected = Path(folder, "expected.json")
        expected.write_text(json.dumps(cases), encoding="utf-8")
        # -P keeps the script's own folder off the path: its neighbours are no top-level modules.
        command = [sys.executable, "-P", str(_CHECK), str(saved_model), str(expected)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_CHECK_TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            raise ExportError(f"The exported graph did not answer within {_CHECK_TIMEOUT:.0f} s.") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise ExportError(
            f"The exported graph failed its check, nothing was written: {lines[-1].rstrip('.')}."
        )


def _tolerance(model: TextClassifier) -> float:
    """Returns by how much probabilities of the model and of its graph, whose operations fuse, may differ."""
    half = {"float16", "bfloat16"} & {layer.compute_dtype for layer in model.core.layers}
    return 1e-2 if half else 1e-5


def _probabilities(model: TextClassifier, texts: Sequence[str]) -> list[list[float]]:
    return np.asarray(model(tf.constant(texts, tf.string), training=False)).tolist()


def _samples(vocabulary: Sequence[str]) -> list[list[str]]:
    """Returns batches of several sizes and lengths: empty, of one row, of unequal rows, of unknown words."""
    words = [*vocabulary[:64], "unknown-token"]
    rows = [" ".join(words[:count]) for count in (1, 2, 3, 5, 7, 11, 17, 31, len(words))]
    return [[], [""], rows[:1], ["", *rows], ["Ünknown ☃ 日本語 text.", rows[3], "\t\n "], rows[::-1] * 4]
