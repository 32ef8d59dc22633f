"""Train on labelled rows and write a run folder."""

import dataclasses
import json
import math
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_selfattn.data.labelled import LabelledRows, as_rows
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.metrics.evaluation import measured, read_labelled_rows, source_named, split_unknown_labels
from keras_selfattn.metrics.report import Report
from keras_selfattn.models import TextClassifier
from keras_selfattn.models.config import check_flag, is_number
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.report.run_report import Findings, write_run_report
from keras_selfattn.runs.run_folder import draft_run, write_run, writing
from keras_selfattn.training.checkpoints import Checkpoints, checkpoint_folder, digest_of, training_digests
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.fitting import enough_to_choose_epoch, fit_again, fit_monitored
from keras_selfattn.training.model_copies import copy_of, has_two_paths, members_of
from keras_selfattn.training.processes.clusters import Cluster, Members, OnCluster, SideBySide, cluster_of
from keras_selfattn.training.processes.group import ProcessGroup
from keras_selfattn.training.tuning import Candidate, Limits, OneAtATime, tuned
from keras_selfattn.user_warnings import warn_user


@dataclass(frozen=True)
class Run:
    """The outcome of a training.

    Args:
        path: the run folder.
        model: with the weights of the epoch that was best on the validation rows; or trained again without
            monitoring, on all rows or, for several encoders, on those that were not held out.
        figures: on the held-out rows, of a model that was not trained on them.
        best_epoch: the epochs that the weights were trained for: up to the best on the validation rows, or
            all.
        seconds: of vocabulary and training.
        rows: the number of rows that the weights were trained on.
        again: True if the model was trained again.
        changes: settings that tuning found better than the given ones.
        epoch_chosen: False if all epochs were taken: the model was trained on pairs, or on all rows again and
            fewer than 100 had been held out.
    """

    path: Path
    model: RawModel
    figures: Report
    best_epoch: int
    seconds: float
    rows: int
    again: bool
    changes: dict[str, Any]
    epoch_chosen: bool = True


def train(
    rows: LabelledRows | tuple[Any, Any],
    output: str | Path,
    *,
    model: RawModel | None = None,
    config: TrainConfig | None = None,
    validation: LabelledRows | tuple[Any, Any] | None = None,
    test: LabelledRows | tuple[Any, Any] | None = None,
    reading: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    tune: float = 0.0,
    trials: int = 0,
    side_by_side: SideBySide | None = None,
    resume: bool = False,
    group: ProcessGroup | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: str | int = "auto",
    report: Callable[[str], None] = lambda _line: None,
    plots: bool = False,
) -> Run:
    """Train a model of raw rows and write its run folder.

    Args:
        rows: training rows, a pair of inputs and targets or `LabelledRows`, in any containers. Without
            `validation`, a share of them is held out, and trained on afterwards with `config.refit`.
        output: the run folder; it appears when all of it is written.
        model: the model to train, which has seen no rows yet; a `TextClassifier` by default.
        config: the settings of training; by default those that the model's kind advises.
        validation: rows for the stop and the choice of weights; never trained on. Rows with a label that no
            training row has are ignored for this.
        test: rows for the figures in `metrics.json`; by default the validation rows. A label that no training
            row has counts as wrong.
        reading: the arguments of the rows' reader, such as columns; other files of the run are then read in
            the same way.
        overwrite: True replaces an existing run folder, once the new one is whole.
        tune: seconds for trials of other settings on the validation rows (`tuning.tuned`). The run's model is
            then a new one with the best settings, not `model`.
        trials: the most trials of other settings, instead of seconds or besides them; 0 for no limit, or
            without `tune` none. Without `tune` the same seed chooses the same settings.
        side_by_side: the Ray cluster that trials, and a model's encoders after them, are trained on, several
            at a time; `callbacks` are not called there.
        resume: True goes on from the checkpoint that the same call left when it was killed, and writes one
            after an epoch, at most each ten seconds. It is in a hidden folder beside `output`, which is
            removed at the end. The result is that of a call that was never killed. Not with `tune` or
            `trials`.
        group: the processes that train together, each with the same arguments. Process 0 writes the run
            folder and the checkpoints. The result is that of one process, but for the rounding of sums, and
            for rows that do not divide among the processes: an epoch leaves out fewer than there are
            processes. Not with `tune` or `trials`.
        callbacks: more Keras callbacks, such as a progress bar; used for every training if there are several.
            In a group those of process 0 decide which epoch is the last; a stop within one waits for its end.
        verbose: as in `keras.Model.fit`.
        report: called with a line as each training begins.
        plots: True only warns: `report.html` has the figures, and `keras_selfattn.plots` draws such as PNG.

    Raises:
        ConfigError: for `reading` that is not JSON, or settings that are not for such targets.
        DataError: for rows that cannot train the model, before training begins.
        RunError: if `output` cannot be written, exists without `overwrite`, or is not a run folder.
        TrainingError: if the loss became NaN or infinite.

    Example:

        >>> import tempfile
        >>> from keras_selfattn.models import TextConfig
        >>> rows = ["good", "fine", "bad", "poor"] * 10, ["+", "+", "-", "-"] * 10
        >>> held_out = ["good", "poor"], ["+", "-"]
        >>> small = TextClassifier(TextConfig(width=8, num_layers=1, num_heads=1, ngram_buckets=64))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     settings = TrainConfig(epochs=2)
        ...     run = train(rows, f"{folder}/run", model=small, config=settings,
        ...                 validation=held_out, verbose=0)
        >>> run.figures.rows
        2
    """
    # First all that can be refused: the rows as the model reads them, and options that contradict each other.
    check_plots(plots)
    model = TextClassifier() if model is None else model
    rows = as_rows(rows, "training rows", model.row_kind)
    config = config or TrainConfig(**model.advised_training(len(rows)))
    tables = split_tables(model, rows, validation, test, config)
    limits = limits_of(tune, trials, side_by_side)
    check_resume(resume, limits is not None)
    check_group(group, limits is not None)
    refit = config.refit and validation is None
    split = "validation" if test is None else "test"
    settings = {
        "processes": 1 if group is None else group.count,
        "data": {name: data_record(each) for name, each in tables.by_split.items()},
        "reading": as_json("reading", dict(reading or {})),
    }
    # Then the places: trials on a cluster or here; files of this process, or of process 0 of its group.
    fit_options = {"callbacks": callbacks, "verbose": verbose}
    connected = nullcontext() if side_by_side is None else cluster_of(side_by_side)
    with connected as cluster, _places(Path(output), resume, overwrite, group) as (kept, draft):
        report(f"Training on {rows_in_words(rows)}")
        started = time.perf_counter()
        # Only who goes on, or shares steps with others, must know whether the training is the same.
        digests = training_digests(model, config, tables.all, tables.validation) if resume or group else {}
        if group is not None:
            options = digest_of([resume, refit, split])
            group.agree({**digests, "options (--resume, --refit, --validation)": options})
        checkpoints = Checkpoints(kept, digests, report, group) if resume else None
        together = {"checkpoints": checkpoints, "group": group}
        done = _trained(model, tables, config, refit, limits, report, cluster, together, **fit_options)
        seconds = time.perf_counter() - started
        # A refitted model has seen the validation rows, so figures on them come from the monitored model.
        answering = done.monitored.model if refit and test is None else done.model
        evaluation = measured(answering, tables.by_split[split])
        run = Run(
            Path(output),
            done.model,
            evaluation.figures,
            done.monitored.fitted.best_epoch,
            seconds,
            rows=done.rows,
            again=done.again,
            changes=done.monitored.changes,
            epoch_chosen=done.monitored.fitted.chosen,
        )
        if draft is not None:
            _write(draft, run, done.monitored, settings, split=split, example=evaluation.example())
            effect = done.monitored.fitted.calibrated
            findings = Findings(evaluation.figures, split, evaluation, answering, tables.by_split, effect)
            write_run_report(draft, run.path, findings)
    return run


def check_plots(plots: bool) -> None:
    """Warn of pictures that are not written any more."""
    if plots:
        warn_user(
            "`plots` writes no PNG files any more. The figures are in report.html of the run folder, as SVG; "
            "`keras_selfattn.plots` draws training_curves, confusion_matrix and reliability for a script."
        )


@dataclass(frozen=True)
class Tables:
    """The rows of a training by their use, as the model reads them.

    Args:
        all: those that were given to train on.
        train: those of them that are not held out.
        validation: the held-out rows, or those given as such.
        known: those of the validation rows whose labels are all in `train`: for the stop, the choice of
            weights and the calibration.
        test: for the figures, if they were given.
    """

    all: LabelledRows
    train: LabelledRows
    validation: LabelledRows
    known: LabelledRows
    test: LabelledRows | None

    @property
    def by_split(self) -> dict[str, LabelledRows]:
        """The rows of each split that there is, for records and reports."""
        found = {"train": self.train, "validation": self.validation}
        return found if self.test is None else {**found, "test": self.test}


def split_tables(
    model: RawModel, rows: LabelledRows, validation: Any, test: Any, config: TrainConfig
) -> Tables:
    """Return the rows of a training, with validation rows held out unless they are given; check all."""
    kind = model.head_type(rows.targets)

    def read(given: Any, source: str) -> LabelledRows:
        return read_labelled_rows(model, as_rows(given, source, model.row_kind), kind)

    rows = read_labelled_rows(model, rows, kind)
    with source_named(rows.source):
        _check_settings(kind.from_targets(rows.targets), rows, config)
    if validation is None:
        train_rows, validation_rows = rows.split(config.validation, config.seed)
    else:
        train_rows = rows
        validation_rows = read(validation, "validation rows")
    test_rows = None if test is None else read(test, "test rows")
    labels = train_rows.labels()
    known, unknown = split_unknown_labels(validation_rows, labels, "validation rows")
    _check_measurable(known, kind, "validation")
    if unknown:
        warn_user(f"{unknown} They do not decide when to stop, and count as wrong in the figures.")
    if test_rows is not None:
        _, unknown = split_unknown_labels(test_rows, labels, "test rows")
        _check_measurable(test_rows, kind, "test")
        if unknown:
            warn_user(f"{unknown} They count as wrong in the figures.")
    return Tables(rows, train_rows, validation_rows, known, test_rows)


def _check_settings(head: Head, rows: LabelledRows, config: TrainConfig) -> None:
    """Raise ConfigError for settings of a training that are not for such targets."""
    head.class_weights(config.class_weight, rows.targets)
    if config.label_smoothing and not head.target_kind.has_labels:
        raise ConfigError(
            f"`label_smoothing` (--label-smoothing) is for labels. The task is {head.task}: leave it out."
        )


def _check_measurable(rows: LabelledRows, kind: type[Head], name: str) -> None:
    if not len(rows):
        raise DataError(
            f"{rows.source}: no {name} row is without a label that training lacks. Give others, or none."
        )
    if kind.per_position and not any(len(target) for target in rows.targets):
        raise DataError(
            f"{rows.source}: all {len(rows)} {name} rows are empty, so that nothing can be measured on them. "
            "Give others, or leave rows without tokens out."
        )


def limits_of(tune: Any, trials: Any, side_by_side: SideBySide | None) -> Limits | None:
    """Return the limits of a search for settings, or None if none is asked for."""
    if not (is_number(tune) and tune >= 0):
        raise ConfigError(f"`tune` must be seconds, 0 or more. Received {tune!r}.")
    if isinstance(trials, bool) or not isinstance(trials, int) or trials < 0:
        raise ConfigError(f"`trials` must be an integer, 0 or more. Received {trials!r}.")
    if tune or trials:
        return Limits(tune or math.inf, trials or math.inf)
    if side_by_side is not None:
        raise ConfigError(
            "`side_by_side` (--ray) trains the trials of a search for settings: give `tune` (--tune) or "
            "`trials` (--trials) as well."
        )
    return None


def check_resume(resume: Any, searches: bool = False) -> None:
    """Raise ConfigError for a `resume` that is no flag, or of a search for settings, which keeps none."""
    check_flag("resume", resume)
    if resume and searches:
        raise ConfigError(
            "`resume` (--resume) goes on with one training; `tune` (--tune) and `trials` (--trials) make "
            "many. Leave one of them out."
        )


def check_group(group: ProcessGroup | None, searches: bool) -> None:
    """Raise ConfigError for a group of processes in a search for settings."""
    if group is not None and searches:
        raise ConfigError(
            "`group` (--processes, --coordinator) is for one training; `tune` (--tune) and `trials` "
            "(--trials) make many, which `side_by_side` (--ray) spreads. Leave one of them out."
        )


def data_record(rows: LabelledRows) -> dict[str, Any]:
    """Return the record of rows."""
    return {"source": rows.source, "rows": len(rows)}


def as_json(name: str, value: Any) -> Any:
    """Return settings as JSON types; raise before a training that could not be recorded."""
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"`{name}` must hold what JSON can, such as str and int: {error}.") from error
    return value


@contextmanager
def _places(
    output: Path, resume: bool, overwrite: bool, group: ProcessGroup | None
) -> Iterator[tuple[Path, Path | None]]:
    """Yield the folder of the checkpoints and the draft of the run folder, None where another one writes."""
    if group is not None and not group.is_first:
        yield output, None
        return
    kept_in = checkpoint_folder(output) if resume else nullcontext(output)
    with kept_in as kept, draft_run(output, overwrite=overwrite) as draft:
        if group is not None:
            group.removes(draft)
        yield kept, draft


def rows_in_words(rows: LabelledRows) -> str:
    """Return the numbers of rows and classes, for a line on the terminal.

    Example:

        >>> rows_in_words(LabelledRows(["good", "bad"], ["+", "-"], "films.csv"))
        '2 rows of films.csv, 2 classes'
    """
    classes = len(rows.labels())
    return f"{len(rows):,} rows of {rows.source}" + (f", {classes:,} classes" if classes else "")


class _Trained(NamedTuple):
    """Trained models: the one to keep, the validated one, and the fields of `Run`."""

    model: RawModel
    monitored: Candidate
    rows: int
    again: bool


def _trained(
    model: RawModel,
    tables: Tables,
    config: TrainConfig,
    refit: bool,
    limits: Limits | None,
    report: Callable[[str], None],
    cluster: Cluster | None,
    together: Mapping[str, Any],
    **fit_options: Any,
) -> _Trained:
    """Train a monitored model and, with `refit` or several encoders, again without monitoring.

    `together` has the checkpoints and the group of one training; a search for settings has neither.
    """
    again = refit or members_of(model) > 1
    parts = tables.train, tables.known
    # The epochs of a training on all rows are those of the monitored model, whose rows are fewer.
    choose = not refit or enough_to_choose_epoch(tables.known)
    # The monitored model: the best of a search, or the only one.
    if limits is not None:
        if cluster is None:
            trainer = OneAtATime(model, *parts, config, choose_epoch=choose, **fit_options)
        else:
            trainer = OnCluster(cluster, model, *parts, config, choose_epoch=choose)
        monitored = tuned(model, config, trainer, limits, report)
        model = copy_of(model, monitored.changes) if again else monitored.model
    else:
        # A copy, if `model` itself is trained afterwards.
        first = copy_of(model, {"members": 1}) if again else model
        fitted = fit_monitored(first, *parts, config, choose_epoch=choose, **together, **fit_options)
        monitored = Candidate(first, config, fitted, {}, [])
    # The model of the run: the monitored one, or another of all rows or of several encoders.
    rows = tables.all if refit else tables.train
    if again:
        fit_options |= {"report": report, "on_pairs": monitored.fitted.on_pairs, **together}
        fit_options |= {"fit_members": None if cluster is None else Members(cluster)}
        fit_again(model, rows, monitored.fitted.best_epoch, monitored.model, monitored.config, **fit_options)
    return _Trained(model, monitored, len(rows), again)


def _write(
    draft: Path, run: Run, found: Candidate, settings: dict[str, Any], *, split: str, example: Any
) -> None:
    """Write a run folder; the figures are of `split`, and `example` is a row of it."""
    settings = {**settings, **_training_record(run, found)}
    history = named_history(found.model, found.fitted.history)
    with writing(run.path):
        write_run(
            draft, run.model, run.figures, history=history, settings=settings, split=split, example=example
        )


def _training_record(run: Run, found: Candidate) -> dict[str, Any]:
    """Return the record of a training."""
    trials = [dataclasses.asdict(trial) for trial in found.trials]
    return {
        "training": dataclasses.asdict(found.config),
        "best_epoch": run.best_epoch,
        "trained_on": run.rows,
        "seconds": round(run.seconds, 1),
        "peak_memory_mb": peak_memory(),
        **({"trials": trials} if trials else {}),
    }


def named_history(model: RawModel, history: Mapping[str, Sequence[float]]) -> dict[str, Sequence[float]]:
    """Return the values of each epoch under clear names.

    If a model has two paths, training loss and accuracy are of attention alone, so their names begin with
    "attention_"; validation loss and accuracy are of both paths.
    """
    if not has_two_paths(model):
        return dict(history)
    return {
        name if name.startswith("val_") or name == "learning_rate" else f"attention_{name}": values
        for name, values in history.items()
    }


def peak_memory() -> int:
    """Return the largest resident memory of this process so far, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 10**6
