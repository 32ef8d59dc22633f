"""`benchmarks tuning`: the same minutes of search by the list of `train --tune`, and by Optuna."""

import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from benchmarks.accuracy.own_process import in_own_process
from benchmarks.accuracy.peer import labelled
from benchmarks.accuracy.sets import SETS, DataSet, Split, shortened
from benchmarks.results import Result, Table
from benchmarks.rounds import Settings
from keras_selfattn.errors import ConfigError, DataError, TrainingError
from keras_selfattn.tasks import Task, task_named
from keras_selfattn.training import TrainConfig
from keras_selfattn.training.fitting import changed, copy_of, fit_with_validation
from keras_selfattn.training.tuning import Limits, OneAtATime, changes_in_words, tuned

_NOTES = [
    "Each trains one encoder on nine tenths of the training rows, and chooses on the rest by log loss or",
    "accuracy as `train --tune` does. Optuna: TPE, the given settings first, median pruning of epochs.",
]
# What Optuna may choose for the fields that the list changes; no others, so that both search the same.
_SPACE: dict[str, Callable[[Any], Any]] = {
    "learning_rate": lambda trial: trial.suggest_float("learning_rate", 3e-4, 1e-2, log=True),
    "dropout": lambda trial: trial.suggest_float("dropout", 0.0, 0.5),
    "width": lambda trial: trial.suggest_categorical("width", [64, 128, 256]),
    "num_layers": lambda trial: trial.suggest_int("num_layers", 1, 3),
    "batch_size": lambda trial: trial.suggest_categorical("batch_size", [16, 32, 64]),
    "tokens": lambda trial: trial.suggest_categorical("tokens", ["words", "characters"]),
    "lowercase": lambda trial: trial.suggest_categorical("lowercase", [True, False]),
    "max_ngram": lambda trial: trial.suggest_int("max_ngram", 1, 3),
    "kernel_size": lambda trial: trial.suggest_int("kernel_size", 3, 21, step=2),
    "max_positions": lambda trial: trial.suggest_categorical("max_positions", [24, 48, 96]),
}


def run(
    settings: Settings, data: Path, names: tuple[str, ...], minutes: float, seeds: int, rows: int
) -> Table:
    """Return test accuracy and log loss of what each search chose on the sets in a folder.

    Args:
        settings: of the measurement; the searches run in turns.
        data: folder that holds a folder for each set.
        names: of the sets.
        minutes: of each search.
        seeds: searches of each kind on each set; each has another split, and figures are means.
        rows: the most training rows of each set, drawn at random.
    """
    sets = {each.name: _read(each, data, settings.quick) for each in SETS if each.name in names}
    wanted = [(row, name) for row in sets for name in _SEARCHES if settings.chosen(row, name)]
    missing = importlib.util.find_spec("optuna") is None
    skipped = [each for each in wanted if missing and each[1] == "Optuna"]
    wanted = [each for each in wanted if each not in skipped]
    found: dict[tuple[str, str], list[dict[str, Any]]] = {each: [] for each in wanted}
    for seed in range(seeds):
        for known, name in wanted:
            figures = in_own_process(_searched, name, *sets[known], seed, 60 * minutes, rows, settings.quick)
            found[known, name].append(figures)
            settings.progress(f"{known}, seed {seed}, {name}: {figures}")
    results = [_result(*each, found[each]) for each in wanted]
    return Table(results + [Result(*each, skipped="optuna is not installed") for each in skipped], _NOTES)


def _read(known: DataSet, data: Path, quick: bool) -> tuple[Task, Split]:
    task = task_named(known.task, data)
    split = known.read(data / known.name, task)[0]
    return task, shortened([split])[0] if quick else split


def _result(row: str, name: str, found: list[dict[str, Any]]) -> Result:
    numbers = ("accuracy", "log loss", "validation", "trials")
    figures = {figure: statistics.mean(each[figure] for each in found) for figure in numbers}
    accuracies = [each["accuracy"] for each in found]
    return Result(row, name, figures, f"accuracy {min(accuracies):.1%} to {max(accuracies):.1%}")


def _searched(
    name: str, task: Task, split: Split, seed: int, seconds: float, most: int, quick: bool
) -> dict[str, Any]:
    began, rows = time.perf_counter(), labelled(split)
    drawn = np.random.default_rng(seed).permutation(len(rows))[:most]
    rows = rows.take(sorted(drawn.tolist()))
    model = task.model({"members": 1} if "members" in task.settings else {})
    advised: dict[str, Any] = model.advised_training(len(rows)) | ({"epochs": 1} if quick else {})
    config = TrainConfig(**advised, seed=seed)
    kept, held_out = rows.split(config.validation, seed)
    best, fitted, changes, trials = _SEARCHES[name](model, kept, held_out, config, seconds)
    labels = best.head.labels
    outputs = best.predict(split.test.inputs, batch_size=256, verbose=0)
    places = np.array([labels.index(target) for target in split.test.targets])
    of_targets = np.maximum(outputs[np.arange(len(places)), places], 1e-7)
    return {
        "accuracy": float((outputs.argmax(-1) == places).mean()),
        "log loss": float(-np.log(of_targets).mean()),
        "validation": fitted.score,
        "trials": trials,
        "seconds": round(time.perf_counter() - began, 1),
        "changes": changes_in_words(changes),
    }


def _given(model: Any, kept: Any, held_out: Any, config: TrainConfig, _seconds: float) -> Any:
    return model, fit_with_validation(model, kept, held_out, config, [], 0), {}, 1


def _list(model: Any, kept: Any, held_out: Any, config: TrainConfig, seconds: float) -> Any:
    trainer = OneAtATime(model, kept, held_out, config, verbose=0)
    found = tuned(model, config, trainer, Limits(seconds))
    return found.model, found.fitted, found.changes, len(found.trials)


def _optuna(model: Any, kept: Any, held_out: Any, config: TrainConfig, seconds: float) -> Any:
    import optuna  # pyright: ignore[reportMissingImports]

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    first = copy_of(model, {})
    best = (first, fit_with_validation(first, kept, held_out, config, [], 0), {})
    end = time.perf_counter() + seconds
    fields = sorted({name for change in model.alternatives() for name in change} & set(_SPACE))

    def objective(trial: Any) -> float:
        nonlocal best
        changes, told = {name: _SPACE[name](trial) for name in fields}, _Told(trial, end)
        try:
            copied = copy_of(model, changes)
            fitted = fit_with_validation(copied, kept, held_out, changed(config, changes), [told], 0)
        except (TrainingError, ConfigError, DataError) as error:
            raise optuna.TrialPruned from error
        if told.pruned:
            raise optuna.TrialPruned
        best = (copied, fitted, changes) if fitted.beats(best[1]) else best
        return fitted.score

    study = optuna.create_study(
        direction="minimize" if best[1].monitored == "val_loss" else "maximize",
        sampler=optuna.samplers.TPESampler(seed=config.seed, n_startup_trials=5),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=1),
    )
    known = {name: getattr(model.config, name, getattr(config, name, None)) for name in fields}
    space = {name: _distribution(optuna, name) for name in fields}
    study.add_trial(optuna.trial.create_trial(params=known, distributions=space, value=best[1].score))
    study.optimize(objective, timeout=seconds)
    return *best, len(study.trials)


def _distribution(optuna: Any, name: str) -> Any:
    """Return the distribution that an entry of `_SPACE` draws from."""
    asked = optuna.create_study().ask()
    _SPACE[name](asked)
    return asked.distributions[name]


class _Told(keras.callbacks.Callback):
    """Tell Optuna each epoch; stop a training that it prunes, or whose time is over."""

    def __init__(self, trial: Any, end: float) -> None:
        super().__init__()
        self._trial, self._end, self.pruned = trial, end, False

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if time.perf_counter() >= self._end and self.model is not None:
            self.model.stop_training = self.pruned = True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        model: Any = self.model
        self._trial.report((logs or {})[model.head.monitored], epoch)
        if self._trial.should_prune():
            model.stop_training = self.pruned = True


_SEARCHES: dict[str, Callable[..., Any]] = {
    "given settings": _given,
    "the list": _list,
    "Optuna": _optuna,
}
