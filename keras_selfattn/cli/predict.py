"""`keras-selfattn predict`: the answers of a model for files of any number of rows."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.progress import BarColumn, Progress, TextColumn

from keras_selfattn.asking.asked_rows import table_form
from keras_selfattn.asking.commands import (
    CALLS,
    ENCRYPTION,
    OUTPUTS,
    SIGNATURE,
    TEXT_PAIR,
    VERSION,
    connected,
)
from keras_selfattn.asking.exit_status import SOME_ROWS
from keras_selfattn.asking.input_cells import NamedColumns
from keras_selfattn.asking.query import CutTexts
from keras_selfattn.asking.raw_texts import OFFSETS, SignatureChoice, check_offsets, choice_for
from keras_selfattn.batch.journal import errors_of, partial_of, unfinished, writing
from keras_selfattn.batch.row_files import open_rows
from keras_selfattn.batch.run import Engine, Files, RunProgress, predict_files
from keras_selfattn.cli.shared.backend import import_tensorflow
from keras_selfattn.cli.shared.console import clock, console, error_console
from keras_selfattn.cli.shared.panels import COUNT, PATH, Option, PanelCommand
from keras_selfattn.cli.shared.task_options import RAY, WORKERS
from keras_selfattn.options import NO_HEADER, SEPARATOR
from keras_selfattn.serving.client import Signature
from keras_selfattn.serving.wire.signature_names import DEFAULT_SIGNATURE

if TYPE_CHECKING:
    from keras_selfattn.batch.part import Part

# Seconds between lines about a run, where there is no terminal.
_LINE_SECONDS = 60.0
_TARGET = Option(
    "--target",
    multiple=True,
    metavar="HOST:PORT",
    help="Ask a server: MODEL is then the name of its model. Given again, the calls are spread over all.",
)
_PANELS = {
    "Most used": (
        Option(
            "--file",
            type=PATH,
            required=True,
            help="Rows: a .csv, .tsv, .jsonl or .parquet file, a .txt of texts, or a folder of such files.",
        ),
        Option(
            "--output",
            type=PATH,
            required=True,
            help="File to write, with the rows' columns and the answers, in the form of its ending; for a "
            "folder a folder.",
        ),
        Option("--overwrite", is_flag=True, help="Replace an existing output, once the new one is whole."),
        Option(
            "--column",
            metavar="COLUMN",
            help="Column to read, of a model with one input; of pairs, that of the first texts.",
            without="the one of its training, or named as the input",
        ),
        TEXT_PAIR,
        SEPARATOR,
        NO_HEADER,
    ),
    "Answers": (
        OUTPUTS,
        SIGNATURE,
        OFFSETS,
        Option("--batch-size", type=COUNT, default=128, help="The most rows in a batch."),
    ),
    "Ray": (
        RAY,
        WORKERS,
    ),
    "Connection": (
        _TARGET,
        VERSION,
        *CALLS,
    ),
    "Encryption": ENCRYPTION,
}


@click.command(
    "predict",
    cls=PanelCommand,
    panels=_PANELS,
    epilog="Exit status: 0 all rows are answered, 6 some are not (OUTPUT.errors.jsonl says why), 1 failed; "
    "of a server 3 no such model, 4 no answer now, 5 not allowed. After all but 0 and 6 the same command "
    "goes on where it stopped.",
)
@click.argument("model")
def command(model: str, file: Path, output: Path, overwrite: bool, **options: Any) -> None:
    """Write the answers of MODEL for any number of rows.

    MODEL is a run folder, a .keras file, a SavedModel or, with --target, the name of a served model. The
    output has the columns of the rows, predicted_label and score, in the order of the rows. It appears when
    all of it is written. A run that ends early goes on where it stopped when the same command is given again.

    A labeller takes raw texts in a column text, in a .txt, or with --signature spans in any column. Their
    spans are written as doccano does, [start, end, label] under label, in place of those that the file has.
    """
    output = output.resolve() if output.is_symlink() else output  # a link stays one
    files = Files(file, output, overwrite)
    _check_options(model, options)
    files.check_places()
    with writing(output):
        begun = partial_of(output).exists()
    if not begun:  # or a run that was killed at its very end could not end
        files.check()
    options = options if overwrite else _as_begun(output, options)
    made_of, engine = (_served if options["target"] else _loaded)(model, files, options)
    with _shown(output) as shown:
        done = predict_files(files, made_of, engine, shown)
    seconds = time.monotonic() - shown.started
    console.print(
        f"Wrote {done.rows:,} rows to {output}, in {seconds:,.0f} s.", soft_wrap=True, highlight=False
    )
    if done.cut:
        click.echo(CutTexts(done.cut).warning, err=True)
    if done.failed:
        rows = "1 row has" if done.failed == 1 else f"{done.failed:,} rows have"
        click.echo(f"{rows} no answer: {errors_of(output)} says why.", err=True)
        raise SystemExit(SOME_ROWS)


def _check_options(model: str, options: dict[str, Any]) -> None:
    """Raise an error for options that do not go together."""
    target, ray = options["target"], options["ray"]
    if target and ray is not None:
        raise click.UsageError("Give --target or --ray: a server does not need a cluster to be asked.")
    if options["version"] is not None and not target:
        raise click.UsageError("--version is that of a served model: give --target, or the version's folder.")
    if options["workers"] is not None and ray is None:
        raise click.UsageError("--workers is that of --ray.")


def _loaded(model: str, files: Files, options: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return what the answers are made of, and the maker of an engine that loads the model."""
    from keras_selfattn.batch.model_graph import find_model

    found = find_model(model)
    choice = _signature_choice(files, options, found.columns.column)
    made_of = {"model": found.digest, "options": _read(options)}

    @contextmanager
    def local() -> Iterator[Engine]:
        from keras_selfattn.batch.model_graph import LoadedGraph
        from keras_selfattn.batch.run import LocalEngine
        from keras_selfattn.serving.server.runtime.cpus import available_cpus

        import_tensorflow(batches=True)
        graph = LoadedGraph(found, choice)
        # One batch at a time leaves cores idle: reading its texts takes one, whatever TensorFlow has.
        yield LocalEngine(
            graph,
            partial(_part, graph.signature, trained_columns=found.columns, options=options),
            available_cpus(),
        )

    @contextmanager
    def on_ray() -> Iterator[Engine]:
        from keras_selfattn.batch.on_ray import RayEngine
        from keras_selfattn.machines.ray_cluster import connect

        with error_console.status("Connecting to Ray") if error_console.is_terminal else nullcontext():
            connect(options["ray"], options["timeout"], "ray.data")
        make_part = partial(_part, trained_columns=found.columns, options=options)
        yield RayEngine(found, choice, make_part, options["workers"])

    return made_of, local if options["ray"] is None else on_ray


def _served(model: str, files: Files, options: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return what the answers are made of, and the maker of an engine that asks a server."""
    from keras_selfattn.batch.remote_model import RemoteModel
    from keras_selfattn.batch.run import LocalEngine

    client = connected(model, options)
    served = RemoteModel(client, _signature_choice(files, options, None), options["version"])
    made_of = {"model": f"{model}, version {served.version}", "options": _read(options)}

    @contextmanager
    def engine() -> Iterator[Engine]:
        with client:
            made = partial(_part, served.signature, trained_columns=NamedColumns(), options=options)
            yield LocalEngine(served, made, _CALLS)

    return made_of, engine


# Calls at once: some are computed while others travel.
_CALLS = 4


def _read(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that answers depend on."""
    names = ("column", "separator", "has_header", "outputs", "signature")
    # A run that an earlier version began has no such options.
    later = {name: options[name] for name in ("text_pair", "offsets") if options[name] is not None}
    return {name: options[name] for name in names} | later


def _as_begun(output: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options, with the signature of an unfinished run that an earlier version began.

    Those versions had a default, which they wrote down, where now the rows and the model decide.
    """
    named = {**options, "signature": DEFAULT_SIGNATURE}
    before = {**_read(named), "outputs": list(options["outputs"])}  # as JSON has them
    if options["signature"] is not None or unfinished(output).get("options") != before:
        return options
    click.echo(f"Going on with --signature {DEFAULT_SIGNATURE}, with which the run began.", err=True)
    return named


def _part(
    signature: Signature,
    file: Path,
    target: Path,
    *,
    trained_columns: NamedColumns,
    options: dict[str, Any],
    named: bool,
) -> "Part":
    from keras_selfattn.batch.part import part_for

    check_offsets(signature, options["offsets"], options["outputs"])
    return part_for(
        file,
        target,
        signature,
        options["outputs"],
        columns=NamedColumns(options["column"], options["text_pair"]),
        trained_columns=trained_columns,
        **table_form(options),
        batch_size=options["batch_size"],
        named=named,
        offsets=options["offsets"],
    )


def _signature_choice(files: Files, options: dict[str, Any], trained_column: str | None) -> SignatureChoice:
    """Return the signature that the rows of all files ask for."""
    source, given = str(files.source), options["signature"]
    if given is not None:
        return SignatureChoice("tokens", source, given)
    found = set()
    for file, _ in files.parts():
        if row := open_rows(file, **table_form(options)).first():
            found.add(choice_for(row, source, None, options["column"], trained_column))
    return found.pop() if len(found) == 1 else SignatureChoice("mixed" if found else "tokens", source)


class _Shown:
    """A bar with rows a second and the time left; without a terminal a line a minute."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.last: RunProgress | None = None
        self._first: RunProgress | None = None
        self._line = self.started
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[told]}"),
            console=error_console,
            disable=not error_console.is_terminal,
            transient=True,
        )
        self._task = self.bar.add_task("starting", total=1.0, told="")

    def __call__(self, done: RunProgress) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first, self._began = done, now
        self.last = done
        told = self._told(done, now - self._began)
        self.bar.update(self._task, completed=done.share, description=f"{done.share:.0%}", told=told)
        if not error_console.is_terminal and now - self._line >= _LINE_SECONDS:
            self._line = now
            click.echo(f"{done.share:.0%}: {told}", err=True)

    def _told(self, done: RunProgress, seconds: float) -> str:
        assert self._first is not None
        rows, share = done.rows - self._first.rows, done.share - self._first.share
        if not rows or seconds <= 0 or share <= 0:
            return f"{done.rows:,} rows"
        left = clock(seconds / share * (1 - done.share))
        return f"{done.rows:,} rows, {rows / seconds:,.0f} rows/s, {left} left"


@contextmanager
def _shown(output: Path) -> Iterator[_Shown]:
    shown = _Shown()
    try:
        with shown.bar:
            yield shown
    except BaseException:
        if shown.last is not None:
            kept = f"{shown.last.rows:,} rows are kept in {partial_of(output)}"
            click.echo(f"{kept}: the same command goes on with them.", err=True)
        raise
