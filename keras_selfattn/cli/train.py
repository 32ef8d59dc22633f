"""`keras-selfattn train`: a file of labelled rows to a run folder."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_selfattn.cli.console import console, import_tensorflow, print_command
from keras_selfattn.cli.panels import COUNT, PATH, Option, PanelCommand
from keras_selfattn.cli.processes import PROCESSES, check_processes, joined, launch_if_asked, use_jax
from keras_selfattn.cli.starting import check_start, check_start_exists
from keras_selfattn.cli.task_options import (
    COLUMNS,
    OUTPUT,
    RAY,
    READING,
    RESUME,
    SEED,
    TRAINING,
    WORKERS,
    advised_config,
    check_task,
    check_width,
    encoder_options,
    given,
    panels_of_tasks,
)
from keras_selfattn.errors import ConfigError
from keras_selfattn.run_folder import check_output
from keras_selfattn.tasks import TASKS, Task, task_named

if TYPE_CHECKING:
    from keras_selfattn.training import Run

# Tasks whose targets are numbers.
_NUMBERS = ("regression", "forecast")


_PANELS = {
    "Most used": (
        *OUTPUT,
        Option(
            "--task",
            "task_name",
            type=click.Choice([task.name for task in TASKS]),
            metavar="TASK",
            help="One of the tasks above.",
            without="by the ending of TABLE",
        ),
        *COLUMNS,
        Option(
            "--validation",
            "validation_file",
            type=PATH,
            help="File like TABLE on which the best epoch is chosen.",
            without="a tenth of TABLE",
        ),
        Option(
            "--tune",
            type=click.FloatRange(0, min_open=True),
            metavar="MINUTES",
            help="Try other settings for so long, and keep those that answer the validation rows better.",
        ),
        Option(
            "--trials",
            type=COUNT,
            help="Try so many other settings, in place of --tune or at most: the same seed then chooses the "
            "same ones.",
        ),
    ),
    **panels_of_tasks(),
    "Model, of all tasks": encoder_options(
        "128; of series 64", "2; of texts 1", "0.1; of texts without a pretrained encoder 0.2"
    ),
    "Training, of all tasks": (
        Option(
            "--epochs",
            type=COUNT,
            help="Passes over the rows, at most. Up to 1,000 texts with --from: sets of 4 batches.",
            without="4 to 200 by task and rows",
        ),
        Option("--batch-size", type=COUNT, help="Rows in a step.", without="16 to 64, by task"),
        Option(
            "--learning-rate",
            type=click.FloatRange(0, min_open=True),
            metavar="RATE",
            help="Highest learning rate of the schedule.",
            without="0.002; of tagged tokens 0.001; of a pretrained encoder 0.0002",
        ),
        Option(
            "--balanced",
            "class_weight",
            flag_value="balanced",
            default=None,
            help="Give each class the same weight, however few its rows. For tasks with a label a row.",
        ),
        Option(
            "--label-smoothing",
            type=click.FloatRange(0, 1, max_open=True),
            metavar="SHARE",
            help="Share of each label that is spread over all classes. For tasks with labels.",
            without="0; of images, and texts without a pretrained encoder, 0.1",
        ),
        Option(
            "--refit/--no-refit",
            default=None,
            help="Train again on all rows, where a tenth was held out.",
            without="refit; of images, and over 2000 rows of a pretrained encoder, no-refit",
        ),
        RESUME,
        SEED,
    ),
    "Several processes": PROCESSES,
    "Side by side, with --tune or --trials": (
        RAY,
        WORKERS,
        Option(
            "--trial-cpus", type=COUNT, default=1, help="Cores that each training claims and computes on."
        ),
        Option(
            "--trial-memory",
            type=click.FloatRange(0, min_open=True),
            default=2.0,
            metavar="GB",
            help="Memory that each training claims.",
        ),
    ),
}


@click.command("train", cls=PanelCommand, panels=_PANELS)
@click.argument("table", type=PATH)
def command(
    table: Path,
    output: Path,
    overwrite: bool,
    task_name: str | None,
    validation_file: Path | None,
    tune: float | None,
    trials: int | None,
    resume: bool,
    start: Path | None,
    **options: Any,
) -> None:
    """Train a model on TABLE, labelled rows or a folder of images.

    The ending of TABLE tells the task, unless --task does:

    \b
    text        .csv, .tsv, .jsonl   texts with a label each, or several
    tokens      .conllu, .conll      tokens with a label each
    series      .ts                  series with a class each
    regression  only with --task     series with a number each
    forecast    only with --task     long series, to be continued
    images      a folder, .npz       images in a folder a class; arrays x and y

    With --task, tokens are read from .jsonl and .txt files as well, and series, regression and forecast from
    .ts, .csv, .tsv, .jsonl, .txt and .npz files.
    """
    check_output(output, overwrite=overwrite)
    asked = given(options, TRAINING)
    _check_refit(asked, validation_file)
    if tune is not None and not math.isfinite(tune):
        raise ConfigError(f"--tune must be minutes, more than 0. Received {tune}.")
    searches = tune is not None or trials is not None
    if resume and searches:
        raise ConfigError("--resume goes on with one training; --tune and --trials make many. Leave one out.")
    several = check_processes(options, searches)
    _check_ray(options, searches)
    task = task_named(task_name, table)
    check_task(task, {**options, "start": start}, ", or name another task with --task")
    _check_labels_asked(task, asked)
    reading, settings = given(options, READING), given(options, task.all_settings)
    if start is None:
        check_width(settings)
        _check_freeze(settings)
    else:
        check_start_exists(start)
    if several:
        use_jax()
        launch_if_asked(options)
    rows = task.rows(table, reading)
    validation = None if validation_file is None else task.rows(validation_file, reading)
    import_tensorflow(batches=True)
    from keras_selfattn import training
    from keras_selfattn.cli.progress import TrainingProgress
    from keras_selfattn.cli.report_tables import print_report
    from keras_selfattn.training.tuning import changes_in_words

    with joined(options) as group, TrainingProgress() as progress:
        begun = None if start is None else task.begun(start)
        if begun is not None:
            check_start(begun, settings)
        model: Any = task.model(settings, begun)
        config = advised_config(model, len(rows), asked)
        if start is not None:
            console.print(model.start.described(rows.inputs, rows.targets))
        run = training.train(
            rows,
            output,
            model=model,
            config=config,
            validation=validation,
            reading=reading,
            tune=60 * (tune or 0),
            trials=trials or 0,
            side_by_side=_side_by_side(options),
            overwrite=overwrite,
            resume=resume,
            group=group,
            callbacks=[progress],
            verbose=0,
            report=console.print,
        )
    if searches:
        console.print(f"Tuning chose: {changes_in_words(run.changes)}.")
    print_report(run.figures, "validation")
    console.print(_said(run))
    print_command("export", run.path, f"models/{run.path.name}")


def _check_ray(options: dict[str, Any], searches: bool) -> None:
    if options["ray"] is None and options["workers"] is not None:
        raise ConfigError("--workers is that of --ray. Give the address of a cluster, or local.")
    if options["ray"] is not None and not searches:
        raise ConfigError("--ray trains trials side by side: give --tune MINUTES or --trials N as well.")


def _side_by_side(options: dict[str, Any]) -> Any:
    """Return the settings of a Ray cluster, or None without one."""
    from keras_selfattn.training.side_by_side import SideBySide

    if options["ray"] is None:
        return None
    claims = {"cpus": options["trial_cpus"], "memory": options["trial_memory"]}
    return SideBySide(options["ray"], options["workers"], **claims, timeout=options["timeout"])


def _check_refit(asked: dict[str, Any], validation_file: Path | None) -> None:
    if asked.get("refit") and validation_file is not None:
        raise ConfigError(
            "--refit trains on rows held out of TABLE. Leave it out where --validation is given."
        )


def _check_labels_asked(task: Task, asked: dict[str, Any]) -> None:
    """Refuse, before a file is read, settings that no training of the task has."""
    takes_weights = task.name not in ("tokens", *_NUMBERS)
    for option, name, fits in (
        ("--balanced", "class_weight", takes_weights),
        ("--label-smoothing", "label_smoothing", task.name not in _NUMBERS),
    ):
        if asked.get(name) and not fits:
            what = "one label a row" if name == "class_weight" else "labels"
            raise ConfigError(f"{option} is for {what}. The task is {task.name}: leave it out.")


def _check_freeze(settings: dict[str, Any]) -> None:
    if "frozen_layers" in settings:
        raise ConfigError("--freeze needs --from with a pretrained model.")


def _said(run: "Run") -> str:
    """Return the line that says what was trained, and for how long."""
    trained = f"Trained in {run.seconds:.0f} s"
    kept = f"the weights of epoch {run.best_epoch}"
    if run.epoch_chosen:
        kept += ", the best on the validation rows"
    if run.again:
        epochs = "1 epoch" if run.best_epoch == 1 else f"{run.best_epoch} epochs"
        kept = f"a model trained again, on {run.rows:,} rows for {epochs}"
    return f"{trained} and kept {kept}. The run is in {run.path}. Go on with:"
