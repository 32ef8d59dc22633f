"""Our models, trained like `keras-selfattn train` without a flag, and measured like the linear ones."""

import dataclasses
import tempfile
from typing import Any

import numpy as np

from benchmarks.accuracy.own_process import in_own_process
from benchmarks.accuracy.peer import accuracy, labelled, timed
from benchmarks.accuracy.served import measure_in_int8, measure_served
from benchmarks.accuracy.sets import Split
from keras_selfattn import training
from keras_selfattn.metrics.classes import calibration_error
from keras_selfattn.models.heads.class_heads import Probabilities
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.tasks import Task

NAME = "ours"
_QUICK: dict[str, Any] = {"epochs": 2}
# Smaller than any probability in a float32 softmax.
_LEAST = 1e-38


def config_of(task: Task, rows: int, *, quick: bool, seed: int = 0) -> training.TrainConfig:
    """Return the default settings of `keras-selfattn train` for a number of rows."""
    settings = {**task.model({}).advised_training(rows), **(_QUICK if quick else {})}
    return training.TrainConfig(**settings, seed=seed)


def settings_of(task: Task, split: Split, *, quick: bool) -> dict[str, Any]:
    """Return all settings that the figures depend on besides data and seed."""
    config = dataclasses.asdict(config_of(task, len(labelled(split)), quick=quick))
    del config["seed"]
    return {"kind": task.kind, "model": task.model({}).config.to_dict(), "training": config}


def measure_ours(task: Task, split: Split, seed: int, *, quick: bool) -> dict[str, Any]:
    """Train the model of a task on all but the test rows, and return its figures on the test rows.

    Each training has its own process: after twenty trainings, a single process held 10 GB.
    """
    return in_own_process(measure_here, task, split, seed, quick)


def measure_here(task: Task, split: Split, seed: int, quick: bool) -> dict[str, Any]:
    """Do the same as `measure_ours`, in this process."""
    rows = labelled(split)
    config = config_of(task, len(rows), quick=quick, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        run, seconds = timed(
            lambda: training.train(rows, f"{folder}/run", model=task.model({}), config=config, verbose=0)
        )
    figures = {"seconds": seconds[0], "cpu seconds": seconds[1], "best epoch": run.best_epoch}
    figures |= tested(run.model, split) | measure_served(run.model, split.test.inputs)
    figures |= measure_in_int8(run.model, split)
    return {"figures": figures, "note": f"{task.kind}, epoch {run.best_epoch}", "choices": {}}


def tested(model: RawModel, split: Split) -> dict[str, float]:
    """Return the accuracy, and the calibration errors with and without the temperature."""
    labels = np.array(model.head.labels)  # pyright: ignore[reportAttributeAccessIssue]
    outputs = model.predict(split.test.inputs, batch_size=256, verbose=0)
    if model.head.per_position:
        found: Any = [labels[row.argmax(axis=-1)].tolist() for row in outputs]
        targets = [name for row in split.test.targets for name in row]
        predicted, outputs = [name for row in found for name in row], np.concatenate(outputs)
    else:
        found = predicted = labels[outputs.argmax(axis=-1)].tolist()
        targets = split.test.targets
    untempered = without_temperature(outputs, temperature_of(model))
    return {
        "accuracy": accuracy(split.test.targets, found),
        "calibration error": calibration_error(targets, predicted, outputs.max(axis=-1)),
        "calibration error before": calibration_error(targets, predicted, untempered.max(axis=-1)),
    }


def temperature_of(model: RawModel) -> float:
    """Return the temperature that divides a model's logits."""
    layer = next(each for each in model.core.layers if isinstance(each, Probabilities))
    return float(layer.temperature.numpy())


def without_temperature(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Return the probabilities of a softmax without a temperature, float `[rows, classes]`.

    Example:

        >>> without_temperature(np.array([[2 / 3, 1 / 3]]), 2.0).round(3)
        array([[0.8, 0.2]])
    """
    logits = temperature * np.log(np.maximum(probabilities.astype(np.float64), _LEAST))
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
