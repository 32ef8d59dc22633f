"""`keras-selfattn train`: a file of labelled rows to a run folder."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_selfattn.cli.console import console, import_tensorflow, print_command
from keras_selfattn.cli.task_options import (
    check_width,
    chosen_task,
    flag,
    reading_options,
    setting_options,
    task_option,
)
from keras_selfattn.cli.training_options import advised_config, taken, training_options
from keras_selfattn.errors import ConfigError
from keras_selfattn.run_folder import check_output, check_run
from keras_selfattn.tasks import Task

if TYPE_CHECKING:
    from keras_selfattn.training import Run

# Tasks whose targets are numbers.
_NUMBERS = ("regression", "forecast")


@click.command("train")
@click.argument("table", type=click.Path(path_type=Path))
@task_option
@reading_options
@training_options(
    validation="File of the same form that decides when to stop.  [default: a tenth of TABLE]",
    epochs="Passes over the rows, at most; stops early on validation rows.  [default: after the task]",
    batch_size="after the task",
    learning_rate="after the task",
)
@click.option(
    "--label-smoothing",
    type=click.FloatRange(0, 1, max_open=True),
    help="Share of each label that is spread over all classes.  [default: 0, of texts and images 0.1]",
)
@click.option(
    "--refit/--no-refit",
    default=None,
    help="Train again on all rows where a tenth was held out.  [default: yes, of images no]",
)
@click.option(
    "--tune",
    type=click.FloatRange(0, min_open=True),
    metavar="MINUTES",
    help="Try other settings on the held-out rows for so long, and keep those that are better.",
)
@click.option(
    "--from",
    "start",
    type=click.Path(path_type=Path),
    help="Run of `pretrain`, or of a classifier of text, whose vocabulary and weights to begin with.  [text]",
)
@click.option(
    "--balanced",
    "class_weight",
    flag_value="balanced",
    default=None,
    help="Give each class the same weight, however few its rows.",
)
@setting_options
def command(
    table: Path,
    output: Path,
    validation_file: Path | None,
    tune: float | None,
    start: Path | None,
    overwrite: bool,
    **options: Any,
) -> None:
    """Train a model on TABLE: texts with labels from a .csv, .tsv or .jsonl file; tokens with a label each
    from a .conllu or .conll file, or with --task tokens from a .jsonl or .txt file; images from a folder
    with a subfolder for each class, or an .npz file with x and y; series from a .ts file, or with --task
    series, regression or forecast from other files.
    """
    check_output(output, overwrite=overwrite)
    given = taken(options)
    _check_refit(given, validation_file)
    if tune is not None and not math.isfinite(tune):
        raise ConfigError(f"--tune must be minutes, more than 0. Received {tune}.")
    task, reading, settings = chosen_task(options, table)
    _check_labels_asked(task, given)
    if start is not None:
        _check_text(task, start)
    task.checked_settings(settings)
    if start is None:
        check_width(settings)
    rows = task.rows(table, reading)
    validation = None if validation_file is None else task.rows(validation_file, reading)
    import_tensorflow()
    from keras_selfattn import training
    from keras_selfattn.cli.figures import print_report
    from keras_selfattn.cli.progress import TrainingProgress
    from keras_selfattn.training.tuning import described as described_changes

    _check_start(start, settings)
    model: Any = task.model(settings, start)
    config = advised_config(model, len(rows), given)
    if start is not None:
        console.print(model.start.described(rows.inputs))
    with TrainingProgress() as progress:
        run = training.train(
            rows,
            output,
            model=model,
            config=config,
            validation=validation,
            reading=reading,
            tune=60 * (tune or 0),
            overwrite=overwrite,
            callbacks=[progress],
            verbose=0,
            report=console.print,
        )
    if tune is not None:
        console.print(f"Tuning chose: {described_changes(run.changes)}.")
    print_report(run.figures, "validation")
    console.print(_said(run))
    print_command("export", run.path, f"models/{run.path.name}")


def _check_refit(given: dict[str, Any], validation_file: Path | None) -> None:
    if given.get("refit") and validation_file is not None:
        raise ConfigError(
            "--refit trains on rows held out of TABLE. Leave it out where --validation is given."
        )


def _check_labels_asked(task: Task, given: dict[str, Any]) -> None:
    """Before a file is read: settings that no training of the task has."""
    takes_weights = task.name not in ("tokens", *_NUMBERS)
    for option, name, fits in (
        ("--balanced", "class_weight", takes_weights),
        ("--label-smoothing", "label_smoothing", task.name not in _NUMBERS),
    ):
        if given.get(name) and not fits:
            what = "one label a row" if name == "class_weight" else "labels"
            raise ConfigError(f"{option} is for {what}. The task is {task.name}: leave it out.")


def _check_text(task: Task, start: Path) -> None:
    if task.name != "text":
        raise ConfigError(f"--from is for the task text. The task is {task.name}: leave it out.")
    if start.suffix != ".keras":
        check_run(start)
    elif not start.is_file():
        raise ConfigError(f"--from must be a run folder or a .keras file. {start} is not there.")


def _said(run: "Run") -> str:
    """Return what was trained, and for how long."""
    trained = f"Trained in {run.seconds:.0f} s"
    kept = f"the weights of epoch {run.best_epoch}, the best on the validation rows"
    if run.again:
        epochs = "1 epoch" if run.epochs == 1 else f"{run.epochs} epochs"
        kept = f"a model trained again, on {run.rows:,} rows for {epochs}"
    return f"{trained} and kept {kept}. The run is in {run.path}. Go on with:"


def _check_start(start: Path | None, settings: dict[str, Any]) -> None:
    """By the names of the flags."""
    if start is None:
        return
    from keras_selfattn.models.text.pretrained import Start

    given = {name: value for name, value in settings.items() if value is not None}
    for name, bound in Start(start).contradicted(given).items():
        raise ConfigError(
            f"{flag(name)} contradicts {start}, whose weights the model begins with: there `{name}` is "
            f"{bound!r}. Received {given[name]!r}. Leave the option out, or pretrain with it."
        )
