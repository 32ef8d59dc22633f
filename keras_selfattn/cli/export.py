"""`keras-selfattn export`: a run folder or a .keras file to the next version, such as a SavedModel."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_selfattn.cli.shared.backend import import_tensorflow, use_tensorflow
from keras_selfattn.cli.shared.console import columns, console, print_command
from keras_selfattn.cli.shared.panels import COUNT, PATH, Option, PanelCommand, click_option
from keras_selfattn.cli.shared.task_options import READING, fetch_weights, given, has_model, panels_of_run
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, DataError, RunError
from keras_selfattn.extras import require
from keras_selfattn.files.folder_kinds import holds_pretrained, lacks
from keras_selfattn.files.hub_folders import HubFolder, located
from keras_selfattn.files.object_stores import uri_of
from keras_selfattn.files.version_files import PORTABLE
from keras_selfattn.options import REVISION
from keras_selfattn.tasks import check_task, task_named

if TYPE_CHECKING:
    from keras_selfattn.export import Comparison, Training

_PANELS = {
    "Most used": (
        Option("--version", type=int, metavar="N", help="Version number to write.", without="the next one"),
        Option("--keep", type=COUNT, help="Then remove all but the N highest versions."),
        Option(
            "--format",
            "form",
            type=click.Choice(["savedmodel", *PORTABLE]),
            help="For ONNX Runtime or LiteRT the model takes numbers: the ids of a text, not the text.",
            without="savedmodel",
        ),
        Option(
            "--precision",
            type=click.Choice(["float32", "bfloat16", "float16-weights", "int8-weights", "int8"]),
            help="Type of the stored weights. With bfloat16 and int8 the model computes in it as well.",
            without="as trained",
        ),
        click_option(REVISION),
        Option(
            "--labels",
            "labels_file",
            type=PATH,
            help="File with a label a line, in the order of the classes, for a .keras file of your own.",
        ),
    ),
    "Comparison before writing": (
        Option(
            "--data",
            type=PATH,
            help="Labelled rows on which the run and its export are compared before anything is written.",
        ),
        Option(
            "--max-accuracy-drop",
            type=click.FloatRange(0, 1),
            metavar="SHARE",
            help="Write nothing if the accuracy on --data falls by more than this, such as 0.005.",
        ),
    ),
    **panels_of_run(),
}


@click.command("export", cls=PanelCommand, panels=_PANELS)
@click.argument("run")
@click.argument("base_path", type=PATH)
def command(
    run: str,
    base_path: Path,
    revision: str | None,
    version: int | None,
    keep: int | None,
    form: str | None,
    labels_file: Path | None,
    precision: str | None,
    data: Path | None,
    max_accuracy_drop: float | None,
    **options: Any,
) -> None:
    """Export RUN, as a SavedModel by default: a run folder, a .keras file, or a pretrained model.

    A pretrained model is a folder, or its name in the Hugging Face hub, from where it is fetched.
    It is written as a new version under BASE_PATH, once it is checked in a fresh process: a folder, or the
    URI of one in an object store, such as s3://bucket/models/languages. --data is read like
    the file of the training, unless options say otherwise.
    """
    if max_accuracy_drop is not None and data is None:
        raise ConfigError("--max-accuracy-drop needs --data, a table to measure it on.")
    form = None if form == "savedmodel" else form
    if form is not None:
        _check_portable(form, precision, data)
    use_tensorflow()
    labels = None if labels_file is None else _labels(labels_file)
    place = _located(run, revision, base_path)
    if data is not None and holds_pretrained(place):
        raise ConfigError(
            f"--data compares labels, of a run or a .keras file. {place} is a pretrained model: if it "
            "holds a classifier, write a run of it first, with `keras-selfattn import`."
        )
    rows = None if data is None else _rows(Path(place), data, given(options, READING))
    import_tensorflow()
    fetch_weights(place)
    started = time.perf_counter()
    with console.status("Loading the model") as status:
        model, training = _load(place)
        common = {
            "labels": labels,
            "precision": precision,
            "training": training,
            "keep": keep,
            "progress": lambda stage: status.update(f"Exporting: {stage}"),
        }
        if form is not None:
            path = _export_portable(model, base_path, form, version, **common)
        else:
            compared = None if rows is None else (rows.inputs, targets_for(model, rows))
            path = _export_saved_model(model, base_path, version, compared, max_accuracy_drop, **common)
    seconds = time.perf_counter() - started
    uri = uri_of(base_path)
    shown = "Look at it" if form else "Look at it, and serve it"
    console.print(f"Exported and checked {path} in {seconds:.0f} s. {shown}:")
    print_command("inspect", path) if uri is None else print_command("versions", uri)
    name = base_path.resolve().name
    if form is None:
        print_command("serve", f"--model_name={name}", f"--model_base_path={uri or base_path}")


def _export_saved_model(
    model: Any, base_path: Path, version: int | None, compared: Any, drop: float | None, **common: Any
) -> Any:
    from keras_selfattn.export import export_saved_model

    checks = {"evaluation": compared, "max_accuracy_drop": drop, "report": _print_comparison}
    return export_saved_model(model, base_path, version, **checks, **common)


def _export_portable(model: Any, base_path: Path, form: str, version: int | None, **common: Any) -> Any:
    from keras_selfattn.export import export_portable

    return export_portable(model, base_path, form, version, **common)


def _check_portable(form: str, precision: str | None, data: Path | None) -> None:
    """Raise an error for an option of SavedModels, or a missing package, before anything is loaded."""
    if data is not None:
        raise ConfigError(f"--data compares SavedModels. Leave it out with --format {form}.")
    if precision not in (None, "float32"):
        raise ConfigError(
            f"--precision {precision} is of SavedModels. With --format {form} it can be float32 alone; the "
            "runtime has a quantizer of its own."
        )
    if form == "onnx":
        require("onnx", "--format onnx")


def _located(run: str, revision: str | None, base_path: Path) -> Path | HubFolder:
    """Return the place of a run; raise an error for places that cannot be used, before anything is loaded."""
    if base_path.exists() and not base_path.is_dir():
        raise ConfigError(f"BASE_PATH must be a folder. {base_path} is a file; choose another name.")
    place = located(run, revision)
    if not has_model(place):
        raise RunError(lacks(Path(place)))
    return place


def _labels(file: Path) -> list[str]:
    """Return the lines of a file."""
    try:
        return file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"--labels {file} cannot be read as text in UTF-8: {error}.") from error


def _rows(run: Path, data: Path, reading: dict[str, Any]) -> LabelledRows:
    """Return rows, read like the run's; for a .keras file, read for the task of the data file's ending."""
    from keras_selfattn.runs.run_folder import rows_for_run, task_of_run

    task = task_named(None, data) if run.suffix == ".keras" else task_of_run(run)
    check_task(task, reading)
    return task.rows(data, reading) if run.suffix == ".keras" else rows_for_run(run, data, reading)


def targets_for(model: Any, rows: LabelledRows) -> list[Any]:
    """Return targets as the model's head reads them; for a model without our heads, one label a row."""
    from keras_selfattn.models.heads.class_heads import ClassHead

    try:
        return getattr(model, "head", ClassHead).read(rows.targets)
    except DataError as error:
        raise DataError(f"{rows.source}: {error}") from error


def _load(run: Path | HubFolder) -> tuple[Any, Any]:
    """Return the model and, from a run folder, the record of its training; otherwise None."""
    from keras_selfattn.models import load
    from keras_selfattn.runs.run_folder import load_run

    if isinstance(run, HubFolder) or run.suffix == ".keras" or holds_pretrained(run):
        return load(run), None
    return load_run(run), training_of(run)


def training_of(run: Path) -> "Training":
    """Return the record of a run's training, for the model card. Paths are cut to their last part.

    Raises:
        RunError: if the folder's record is damaged.
    """
    from keras_selfattn.export import Training
    from keras_selfattn.runs.run_folder import read_config, read_example, read_metrics

    config = read_config(run)
    parts, settings = (config.get(name) for name in ("data", "training"))
    if not (isinstance(parts, dict) and isinstance(settings, dict) and all(map(_is_part, parts.values()))):
        raise RunError(
            f"{run / 'config.json'} is damaged: `data` must hold the source and number of rows of each part, "
            f"`training` the settings. Received {parts!r:.80} and {settings!r:.80}. Train the run again."
        )
    data = {name: {**part, "source": Path(part["source"]).name} for name, part in parts.items()}
    return Training(data, read_metrics(run), settings, read_example(run))


def _is_part(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("source"), str) and type(part.get("rows")) is int


def _print_comparison(comparison: "Comparison") -> None:
    headers = ("weights, MB", "ms, 1 row", "ms, 32 rows", "accuracy")
    table = columns(None, "precision", *headers, right=headers)
    for row in (comparison.before, comparison.after):
        table.add_row(
            row.precision,
            f"{row.weight_bytes / 1e6:.2f}",
            f"{row.row_ms:.2f}",
            f"{row.batch_ms:.2f}",
            f"{row.accuracy:.2%}",
        )
    console.print(table)
    console.print(
        f"{comparison.changed:,} of {comparison.rows:,} rows are answered differently; "
        "the milliseconds are of CPU time."
    )
