"""Train a model on labelled rows and write its run folder: all steps of `train`, in their order.

Rows are read and split; one encoder is trained with validation rows, which finds the number of epochs; if
the model is to see all rows, or has several encoders, it is trained again; it is measured, and written.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from keras_selfattn.data.labelled import LabelledRows, as_rows
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.metrics.evaluation import (
    Evaluation,
    measured,
    read_labelled_rows,
    source_named,
    split_unknown_labels,
    warn_of_out_of_reach,
)
from keras_selfattn.metrics.report import Report
from keras_selfattn.models import TextClassifier
from keras_selfattn.models.config import check_flag, is_number
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.report.run_report import Findings, write_run_report
from keras_selfattn.runs.run_folder import as_json, data_record, draft_run, peak_memory, write_run, writing
from keras_selfattn.training.checkpoints import Checkpoints, checkpoint_folder, digest_of, training_digests
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.fitting import (
    copy_of,
    enough_to_choose_epoch,
    fit_with_validation,
    fit_without_validation,
    members_of,
)
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
    # Refuse what cannot train: rows that the model cannot read, and options that contradict each other.
    check_plots(plots)
    model = TextClassifier() if model is None else model
    model.check_backend()  # else the first epoch is trained before its figures are refused
    rows = as_rows(rows, "training rows", model.row_kind)
    config = config or TrainConfig(**model.advised_training(len(rows)))
    splits = read_and_split(model, rows, validation, test, config)
    limits = search_limits(tune, trials, side_by_side)
    check_resume(resume, limits is not None)
    check_group(group, limits is not None)
    # Held-out rows are trained on in the end; given validation rows never are.
    refit = config.refit and validation is None
    split = "validation" if test is None else "test"
    record = {
        "processes": 1 if group is None else group.count,
        "data": {name: data_record(each) for name, each in splits.by_name.items()},
        "reading": as_json("reading", dict(reading or {})),
    }
    # Open the places: the cluster of the trials, the folder of checkpoints, the draft of the run folder.
    connected = nullcontext() if side_by_side is None else cluster_of(side_by_side)
    with connected as cluster, _open_folders(Path(output), resume, overwrite, group) as (kept, draft):
        report(f"Training on {rows_in_words(splits.all)}")
        started = time.perf_counter()
        # Only who goes on, or shares steps with others, must know whether the training is the same.
        digests = training_digests(model, config, splits.all, splits.validation) if resume or group else {}
        if group is not None:
            options = digest_of([resume, refit, split])
            group.agree({**digests, "options (--resume, --refit, --validation)": options})
        checkpoints = Checkpoints(kept, digests, report, group) if resume else None
        means = _Means(callbacks, verbose, report, checkpoints, group, cluster)
        # One encoder with validation rows finds the number of epochs, and is calibrated. For that number the
        # encoders of the run's model are trained again: on all rows, or several to average their answers.
        again = refit or members_of(model) > 1
        candidate = _find_candidate(model, splits, config, limits, refit, again, means)
        trained_on = splits.all if refit else splits.train
        final = candidate.model
        if again:
            final = model if limits is None else copy_of(model, candidate.changes)
            _train_again(final, trained_on, candidate, means)
        seconds = time.perf_counter() - started
        # A refitted model has seen the validation rows, so figures on them come from the candidate.
        answering = candidate.model if refit and test is None else final
        warn_of_out_of_reach(answering, splits.by_name[split], split)
        evaluation = measured(answering, splits.by_name[split])
        run = Run(
            Path(output),
            final,
            evaluation.figures,
            candidate.fitted.best_epoch,
            seconds,
            rows=len(trained_on),
            again=again,
            changes=candidate.changes,
            epoch_chosen=candidate.fitted.chosen,
        )
        if draft is not None:
            record |= _training_record(run, candidate)
            _write_files(draft, run, candidate, record, evaluation, split)
            shown = evaluation, answering, splits.by_name, candidate.fitted.calibrated
            write_run_report(draft, run.path, Findings(evaluation.figures, split, *shown))
    return run


def check_plots(plots: bool) -> None:
    """Warn of pictures that are not written any more."""
    if plots:
        warn_user(
            "`plots` writes no PNG files any more. The figures are in report.html of the run folder, as SVG; "
            "`keras_selfattn.plots` draws training_curves, confusion_matrix and reliability for a script."
        )


@dataclass(frozen=True)
class Splits:
    """The rows of a training by their use, as the model reads them.

    Args:
        all: those that were given to train on.
        train: those of them that are not held out.
        validation: the held-out rows, or those given as such.
        comparable: those of the validation rows whose labels are all in `train`: for the stop, the choice of
            weights and the calibration.
        test: for the figures, if they were given.
    """

    all: LabelledRows
    train: LabelledRows
    validation: LabelledRows
    comparable: LabelledRows
    test: LabelledRows | None

    @property
    def by_name(self) -> dict[str, LabelledRows]:
        """The rows of each split that there is, for records and reports."""
        splits = {"train": self.train, "validation": self.validation}
        return splits if self.test is None else {**splits, "test": self.test}


def read_and_split(
    model: RawModel, rows: LabelledRows, validation: Any, test: Any, config: TrainConfig
) -> Splits:
    """Return the rows of a training as the model reads them, checked; without validation rows, hold some out.

    `split` of the rows holds them out: at random (`data.labelled.split_rows`), or as their class defines it.
    """
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
        with source_named(validation_rows.source):
            kind.check_validation(rows.targets, validation_rows.targets)
    test_rows = None if test is None else read(test, "test rows")
    labels = train_rows.labels()
    comparable, unknown = split_unknown_labels(validation_rows, labels, "validation rows")
    _check_measurable(comparable, kind, "validation")
    if unknown:
        warn_user(f"{unknown} They do not decide when to stop, and count as wrong in the figures.")
    if test_rows is not None:
        _, unknown = split_unknown_labels(test_rows, labels, "test rows")
        _check_measurable(test_rows, kind, "test")
        if unknown:
            warn_user(f"{unknown} They count as wrong in the figures.")
    return Splits(rows, train_rows, validation_rows, comparable, test_rows)


def _check_settings(head: Head, rows: LabelledRows, config: TrainConfig) -> None:
    """Raise ConfigError for settings of a training that are not for such targets."""
    head.class_weights(config.class_weight, rows.targets)
    if config.label_smoothing and not head.smooths_labels:
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


def search_limits(tune: Any, trials: Any, side_by_side: SideBySide | None) -> Limits | None:
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


@contextmanager
def _open_folders(
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


@dataclass(frozen=True)
class _Means:
    """The means of each fit of a training: callbacks, checkpoints, and who computes together."""

    callbacks: Sequence[keras.callbacks.Callback]
    verbose: str | int
    report: Callable[[str], None]
    checkpoints: Checkpoints | None
    group: ProcessGroup | None
    cluster: Cluster | None


def _find_candidate(
    model: RawModel,
    splits: Splits,
    config: TrainConfig,
    limits: Limits | None,
    refit: bool,
    again: bool,
    means: _Means,
) -> Candidate:
    """Train one encoder with validation rows, or the trials of a search; return it with its epochs."""
    parts = splits.train, splits.comparable
    shown: dict[str, Any] = {"callbacks": means.callbacks, "verbose": means.verbose}
    # The epochs of a training on all rows are those of this one, whose rows are fewer: if too few are held
    # out to compare epochs, all are taken.
    choose = not refit or enough_to_choose_epoch(splits.comparable)
    if limits is None:
        # A copy, if `model` itself is trained afterwards.
        first = copy_of(model, {"members": 1}) if again else model
        together: dict[str, Any] = {"checkpoints": means.checkpoints, "group": means.group}
        fitted = fit_with_validation(first, *parts, config, choose_epoch=choose, **together, **shown)
        return Candidate(first, config, fitted, {}, [])
    # The trials run here, one at a time, or on the cluster; a search has neither checkpoints nor a group.
    if means.cluster is None:
        trainer = OneAtATime(model, *parts, config, choose_epoch=choose, **shown)
    else:
        trainer = OnCluster(means.cluster, model, *parts, config, choose_epoch=choose)
    return tuned(model, config, trainer, limits, means.report)


def _train_again(model: RawModel, rows: LabelledRows, candidate: Candidate, means: _Means) -> None:
    """Train the model of the run for the epochs of the candidate, without validation rows."""
    fit_without_validation(
        model,
        rows,
        candidate.fitted.best_epoch,
        candidate.model,
        candidate.config,
        means.callbacks,
        means.verbose,
        means.report,
        on_pairs=candidate.fitted.on_pairs,
        checkpoints=means.checkpoints,
        group=means.group,
        fit_encoders=None if means.cluster is None else Members(means.cluster),
    )


def _write_files(
    draft: Path, run: Run, candidate: Candidate, record: Mapping[str, Any], evaluation: Evaluation, split: str
) -> None:
    """Write the files of a run folder, but for its report."""
    of_rows: dict[str, Any] = {"split": split, "example": evaluation.example()}
    with writing(run.path):
        write_run(draft, run.model, run.figures, history=candidate.fitted.history, settings=record, **of_rows)


def _training_record(run: Run, candidate: Candidate) -> dict[str, Any]:
    """Return the record of a training."""
    trials = [dataclasses.asdict(trial) for trial in candidate.trials]
    return {
        "training": dataclasses.asdict(candidate.config),
        "best_epoch": run.best_epoch,
        "trained_on": run.rows,
        "seconds": round(run.seconds, 1),
        "peak_memory_mb": peak_memory(),
        **({"trials": trials} if trials else {}),
    }
