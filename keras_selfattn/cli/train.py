"""`keras-selfattn train`: a file of labelled rows to a run folder."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from keras_selfattn.cli.shared.backend import import_tensorflow
from keras_selfattn.cli.shared.console import (
    console,
    print_command,
    print_notes,
    reading_steps,
    report_in_words,
)
from keras_selfattn.cli.shared.panels import COUNT, PATH, Option, PanelCommand
from keras_selfattn.cli.shared.processes import PROCESSES, check_processes, in_process_group, launch_if_asked
from keras_selfattn.cli.shared.task_options import (
    OUTPUT,
    RAY,
    READING,
    RESUME,
    SEED,
    TRAINING,
    WORKERS,
    advised_config,
    check_place,
    check_start,
    check_width,
    encoder_options,
    fetch_weights,
    given,
    located_start,
    panels_of_tasks,
)
from keras_selfattn.errors import ConfigError
from keras_selfattn.files.hub_folders import HubFolder
from keras_selfattn.rows.targets import ONE_LABEL
from keras_selfattn.task_options import COLUMNS
from keras_selfattn.tasks import FILES_BESIDES, TASKS, Task, check_task, task_named, tasks_in_words

if TYPE_CHECKING:
    from keras_selfattn.training import Run, SideBySide

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
        "128; of series 64; of seq2seq 256",
        "2; of texts 1; of seq2seq 3",
        "0.1; of texts without a pretrained encoder 0.2",
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
            without="0.002; of tagged tokens and seq2seq 0.001; of a pretrained encoder 0.0002",
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
            without="0; of images, seq2seq, and texts without a pretrained encoder, 0.1",
        ),
        Option(
            "--refit/--no-refit",
            default=None,
            help="Train again on all rows, where a tenth was held out.",
            without="refit; of images, seq2seq, and over 2000 rows of a pretrained encoder, no-refit",
        ),
        RESUME,
        SEED,
    ),
    "Several processes": PROCESSES,
    "On a Ray cluster: trials side by side, or one training on several workers": (
        RAY,
        WORKERS,
        Option(
            "--trial-cpus", type=COUNT, help="Cores that each worker claims and computes on.", without="1"
        ),
        Option(
            "--trial-memory",
            type=click.FloatRange(0, min_open=True),
            metavar="GB",
            help="Memory that each worker claims.",
            without="2.0",
        ),
    ),
}


_HELP = f"""Train a model on TABLE, labelled rows or a folder of images or recordings.

The ending of TABLE tells the task, unless --task does:

\b
{tasks_in_words()}

{FILES_BESIDES}"""


@click.command("train", cls=PanelCommand, panels=_PANELS, help=_HELP)
@click.argument("table", type=PATH)
def command(
    table: Path,
    output: Path,
    overwrite: bool,
    task_name: str | None,
    validation_file: Path | None,
    start: str | None,
    revision: str | None,
    **options: Any,
) -> None:
    """Train a model on a table; see `_HELP`."""
    # Refuse before a file is read: a place, or options that contradict each other or the task.
    check_place(output, overwrite, options["resume"])
    searches = _check_train(options, validation_file)
    task = task_named(task_name, table)
    check_task(task, {**options, "start": start, "revision": revision}, ", or name another task with --task")
    _check_labels_asked(task, given(options, TRAINING))
    reading, settings = given(options, READING), given(options, task.all_settings)
    _check_symmetric(options)
    place = None
    if start is None:
        check_width(settings)
        _check_without_start(settings, revision)
    else:
        place = located_start(start, revision, folders=task.begins_with_folders)
    # With --processes this one ends here: those that it starts go on, each with all of the rows.
    launch_if_asked(options)
    validation = None
    with reading_steps():
        rows = task.rows(table, reading)
        if validation_file is not None:
            validation = task.rows(validation_file, task.fitting(validation_file, reading))
    print_notes(rows, validation)
    # Rows that cannot be read are refused within a second, so TensorFlow is imported after them.
    files = {"validation": validation, "reading": reading, "overwrite": overwrite}
    import_tensorflow("sklearn.metrics", batches=True)
    if place is not None:
        fetch_weights(place)
    from keras_selfattn.cli.shared.progress import TrainingProgress
    from keras_selfattn.cli.shared.report_tables import print_report
    from keras_selfattn.training.tuning import changes_in_words

    with in_process_group(options) as group, TrainingProgress() as progress:
        model = _model(task, settings, place, rows)
        common = {"model": model, "config": advised_config(model, len(rows), given(options, TRAINING))}
        common |= {**files, "report": console.print}
        run = _train_where_asked(rows, output, common, options, searches, group, progress)
    if searches:
        console.print(f"Tuning chose: {changes_in_words(run.changes)}.")
    print_report(run.figures, "validation")
    console.print(_run_in_words(run))
    print_command("export", run.path, f"models/{run.path.name}")


def _check_train(options: dict[str, Any], validation_file: Path | None) -> bool:
    """Refuse options that contradict each other; return True if settings are to be searched for."""
    tune = options["tune"]
    if options["refit"] and validation_file is not None:
        raise ConfigError(
            "--refit trains on rows held out of TABLE. Leave it out where --validation is given."
        )
    if tune is not None and not math.isfinite(tune):
        raise ConfigError(f"--tune must be minutes, more than 0. Received {tune}.")
    searches = tune is not None or options["trials"] is not None
    if options["resume"] and searches:
        raise ConfigError("--resume goes on with one training; --tune and --trials make many. Leave one out.")
    check_processes(options, searches)
    _check_ray(options, searches)
    _check_timeout(options)
    return searches


def _check_timeout(options: dict[str, Any]) -> None:
    typed = click.get_current_context().get_parameter_source("timeout") is ParameterSource.COMMANDLINE
    if typed and all(options[name] is None for name in ("ray", "processes", "coordinator")):
        raise ConfigError(
            "--timeout is for other processes and clusters, of --processes, --coordinator and --ray. Leave "
            "it out where this process trains alone."
        )


def _check_ray(options: dict[str, Any], searches: bool) -> None:
    if options["ray"] is None:
        for name in ("workers", "trial_cpus", "trial_memory"):
            if options[name] is not None:
                option = f"--{name.replace('_', '-')}"
                raise ConfigError(f"{option} is that of --ray. Give the address of a cluster, or local.")
        return
    if not searches and options["workers"] is None:
        raise ConfigError(
            "--ray trains trials side by side, with --tune MINUTES or --trials N, or one model on several "
            "workers, with --workers N. Give one of them."
        )
    if options["processes"] is not None or options["coordinator"] is not None:
        raise ConfigError("--ray starts its own processes. Leave --processes and --coordinator out.")
    if options["resume"]:
        raise ConfigError(
            "--resume keeps its checkpoint on the machine of process 0, which on Ray is any. Leave it out, "
            "or start the processes with --coordinator."
        )


def _check_labels_asked(task: Task, asked: dict[str, Any]) -> None:
    """Refuse settings that no training of the task has."""
    for option, name, fits in (
        ("--balanced", "class_weight", task.target == ONE_LABEL),
        ("--label-smoothing", "label_smoothing", task.target.has_labels),
    ):
        if asked.get(name) and not fits:
            what = "one label a row" if name == "class_weight" else "labels"
            raise ConfigError(f"{option} is for {what}. The task is {task.name}: leave it out.")


def _check_symmetric(options: dict[str, Any]) -> None:
    """Refuse both orders of rows that have one."""
    if options["symmetric"] and options["text_pair"] is None:
        raise ConfigError(
            "--symmetric needs two texts a row: name the column of the second ones with --text-pair, or "
            "leave it out."
        )


def _check_without_start(settings: dict[str, Any], revision: str | None) -> None:
    """Refuse frozen layers, or a revision, of a model that starts from nothing."""
    if "frozen_layers" in settings:
        raise ConfigError("--freeze needs --from with a pretrained model.")
    if revision is not None:
        raise ConfigError("--revision needs --from with a name in the Hugging Face hub.")


def _model(task: Task, settings: dict[str, Any], start: Path | HubFolder | None, rows: Any) -> Any:
    """Return the untrained model."""
    begun = None if start is None else task.begun(start)
    if begun is not None:
        check_start(begun, settings)
    model: Any = task.model(settings, begun)
    if start is not None:
        bounded = getattr(model.config, "bounded", False)
        console.print(model.start.described(rows.inputs, rows.targets, bounded=bounded))
    return model


def _train_where_asked(
    rows: Any,
    output: Path,
    common: dict[str, Any],
    options: dict[str, Any],
    searches: bool,
    group: Any,
    progress: Any,
) -> "Run":
    """Train in this process, in a group of them, or on a Ray cluster, as the options say."""
    from keras_selfattn.training import train
    from keras_selfattn.training.processes.on_workers import train_on_workers

    cluster = _ray_settings(options)
    if cluster is not None and not searches:
        return train_on_workers(rows, output, cluster, **common)
    search: dict[str, Any] = {"tune": 60 * (options["tune"] or 0), "trials": options["trials"] or 0}
    return train(
        rows,
        output,
        **common,
        **search,
        side_by_side=cluster,
        resume=options["resume"],
        group=group,
        callbacks=[progress],
        verbose=0,
    )


def _ray_settings(options: dict[str, Any]) -> "SideBySide | None":
    """Return the settings of a Ray cluster, or None without one."""
    from keras_selfattn.training import SideBySide

    if options["ray"] is None:
        return None
    claims = {"cpus": options["trial_cpus"], "memory": options["trial_memory"]}
    asked = {name: value for name, value in claims.items() if value is not None}
    return SideBySide(options["ray"], options["workers"], **asked, timeout=options["timeout"])


def _run_in_words(run: "Run") -> str:
    """Return the line that says what was trained, and for how long."""
    trained = f"Trained in {run.seconds:.0f} s"
    kept = f"the weights of epoch {run.best_epoch}"
    if run.epoch_chosen:
        kept += ", the best on the validation rows"
    if run.again:
        epochs = "1 epoch" if run.best_epoch == 1 else f"{run.best_epoch} epochs"
        kept = f"a model trained again, on {run.rows:,} rows for {epochs}"
    return f"{trained} and kept {kept}. The run is in {run.path}.{report_in_words(run.path)} Go on with:"
