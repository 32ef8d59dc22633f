"""`keras-selfattn evaluate`: how good a run is on a file it has not seen, and the rows it answers wrongly."""

import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_selfattn.cli.shared.backend import import_tensorflow
from keras_selfattn.cli.shared.console import check_page_file, console, print_notes, reading_steps
from keras_selfattn.cli.shared.panels import PATH, Option, PanelCommand
from keras_selfattn.cli.shared.task_options import READING, given, panels_of_run
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.files import valid_json
from keras_selfattn.files.atomic import check_writable, is_stream, text_destination
from keras_selfattn.rows.targets import ANSWERS
from keras_selfattn.rows.texts import TEXTS
from keras_selfattn.runs.run_folder import check_no_file_of_run
from keras_selfattn.tasks import check_task

if TYPE_CHECKING:
    from keras_selfattn.metrics.report import Columns


_JSON = (".jsonl", ".ndjson")
_PANELS = {
    "Most used": (
        Option(
            "--mistakes",
            type=PATH,
            help="File to write the rows answered wrongly to, the worst first: the surest label, or the "
            "largest error. CSV, or JSON Lines (.jsonl).",
        ),
        Option(
            "--report",
            "report_file",
            type=PATH,
            help="File to write a report to (.html), as `train` does: figures, mistakes, rows, settings.",
        ),
        Option(
            "--skip-unknown-labels",
            is_flag=True,
            help="Leave out rows with a label that was not in training. They count as wrong otherwise.",
        ),
    ),
    **panels_of_run(),
}


@click.command("evaluate", cls=PanelCommand, panels=_PANELS)
@click.argument("run", type=PATH)
@click.argument("table", type=PATH)
def command(
    run: Path,
    table: Path,
    mistakes: Path | None,
    report_file: Path | None,
    skip_unknown_labels: bool,
    **options: Any,
) -> None:
    """Show how well RUN, a run folder, answers the rows of TABLE.

    TABLE is a file like that of the training, and read like it unless options say otherwise.
    """
    from keras_selfattn.runs.run_folder import is_pretrained, load_run, rows_for_run, task_of_run

    reading = given(options, READING)
    if mistakes is not None:
        check_no_file_of_run("--mistakes", mistakes)
        check_mistakes_file(mistakes, table)
    if report_file is not None:
        check_no_file_of_run("--report", report_file)
        check_page_file("--report", report_file)
    if is_pretrained(run):
        for flag, value in (("--mistakes", mistakes), ("--skip-unknown-labels", skip_unknown_labels)):
            if value:
                raise ConfigError(f"{flag} is for labels. {run} was pretrained on texts alone: leave it out.")
        _measure_pretrained(run, table, reading, report_file)
        return
    check_task(task_of_run(run), reading)
    with reading_steps():
        rows = rows_for_run(run, table, reading)
    print_notes(rows)
    import_tensorflow("sklearn.metrics", batches=True)
    from keras_selfattn.cli.shared.report_tables import print_report, print_worst_answers
    from keras_selfattn.metrics.evaluation import examine

    model = load_run(run)
    found = examine(model, rows, skip_unknown_labels=skip_unknown_labels)
    print_report(found.figures, str(table))
    if found.rows.target_kind == ANSWERS:
        print_worst_answers(found.mistakes())
    if mistakes is not None:
        lines = found.mistakes()
        write_mistakes(mistakes, lines)
        console.print(f"Wrote {len(lines.rows):,} mistakes to {mistakes}.", soft_wrap=True)
    if report_file is not None:
        tables = {"evaluated": found.rows}
        _write_report(report_file, run, figures=found.figures, evaluation=found, model=model, tables=tables)


def _measure_pretrained(run: Path, table: Path, reading: dict[str, Any], report_file: Path | None) -> None:
    """Print the figures of a pretrained run on texts, and write their report."""
    from keras_selfattn.runs.run_folder import corpus_for_run, load_run

    texts = corpus_for_run(run, table, reading)
    import_tensorflow("sklearn.metrics", batches=True)
    from keras_selfattn import training
    from keras_selfattn.cli.shared.report_tables import print_report

    figures = training.evaluate_pretrained(load_run(run), texts)  # type: ignore[arg-type]
    print_report(figures, str(table))
    if report_file is not None:
        rows = LabelledRows(texts, [None] * len(texts), str(table), kind=TEXTS)
        _write_report(report_file, run, figures=figures, tables={"evaluated": rows})


def _write_report(file: Path, run: Path, **found: Any) -> None:
    """Write the report of a run on other rows than those of its training."""
    from keras_selfattn.report.page import page_html
    from keras_selfattn.report.run_report import Findings, run_report

    content = page_html(run_report(run, run.resolve().name, Findings(split="evaluated", **found)))
    try:
        with text_destination(file) as stream:
            stream.write(_encodable(content))
    except OSError as error:
        raise DataError(f"--report {file} cannot be written: {error.strerror or error}.") from error
    console.print(f"Wrote the report to {file}.", soft_wrap=True)


def check_mistakes_file(file: Path, table: Path) -> None:
    """Raise ConfigError if `file` cannot be written or is `table`; called before the model predicts."""
    try:
        if file.exists() and table.exists() and file.samefile(table):
            raise ConfigError(f"--mistakes must be another file than TABLE. Received {str(file)!r} for both.")
        if file.is_dir():
            raise ConfigError(f"--mistakes must be a file. Received {str(file)!r}, a folder.")
        if not (file.exists() and is_stream(file)):
            check_writable(file)
    except OSError as error:
        raise ConfigError(f"--mistakes {file} cannot be written: {error.strerror or error}.") from error


def write_mistakes(file: Path, mistakes: "Columns") -> None:
    """Write rows that were answered wrongly: JSON Lines to a .jsonl or .ndjson, else CSV with lists as JSON.

    Raises:
        DataError: if the file cannot be written.
    """
    try:
        with text_destination(file) as stream:
            if file.suffix.lower() in _JSON:
                for line in mistakes.rows:
                    record = dict(zip(mistakes.header, line, strict=True))
                    stream.write(_encodable(valid_json.dumps(record, ensure_ascii=False)) + "\n")
                return
            # With "\n" as the end of lines, Python would not quote a text for its "\r", so all are quoted.
            quoted = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
            csv.writer(stream, lineterminator="\n").writerow(mistakes.header)
            for line in mistakes.rows:
                quoted.writerow(map(_cell, line))
    except OSError as error:
        raise DataError(f"--mistakes {file} cannot be written: {error.strerror or error}.") from error


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return _encodable(valid_json.dumps(value, ensure_ascii=False))
    if isinstance(value, float) and math.isnan(value):
        return ""
    return _encodable(value) if isinstance(value, str) else value


def _encodable(text: str) -> str:
    """Return a text without halves of surrogate pairs, which have no UTF-8."""
    return text.encode(errors="replace").decode()
