"""`python -m benchmarks accuracy`: the models with their defaults beside linear ones, on public sets."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from keras_selfattn.cli.shared.backend import import_tensorflow
from keras_selfattn.cli.shared.console import columns, console

if TYPE_CHECKING:
    from benchmarks.accuracy.run import Outcome

_PIPE = 160  # columns


@click.command("accuracy")
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder that holds a folder for each set.",
)
@click.option("--only", multiple=True, help="Only sets with this text in their name; may be repeated.")
@click.option("--seeds", type=click.IntRange(1), default=3, help="How often ours is trained on each set.")
@click.option("--quick", is_flag=True, help="Few rows and epochs: to see that it runs.")
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), help="Markdown file to write the table to."
)
@click.option(
    "--results",
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSON Lines file that keeps each row: what is in it is not measured again.  "
    "[default: as --output, ending in .jsonl; else accuracy.jsonl]",
)
def accuracy(
    folder: Path, only: tuple[str, ...], seeds: int, quick: bool, output: Path | None, results: Path | None
) -> None:
    """Test accuracy of ours, trained with its defaults, beside the best of several linear models.

    A set is a folder of --data with the files that its authors give out; one that is missing is skipped and
    named. Interrupt it when you like: the same command goes on where it stopped.
    """
    from benchmarks.accuracy.store import Store
    from keras_selfattn.errors import ConfigError

    results = results or (Path("accuracy.jsonl") if output is None else output.with_suffix(".jsonl"))
    if output is not None and output.absolute() == results.absolute():
        raise ConfigError(f"--output and --results must be two files. Received {output} for both.")
    store = Store(results)
    import_tensorflow()
    from benchmarks.accuracy.run import run

    command = _command(folder, only, seeds, quick)
    outcome = run(
        folder,
        store,
        only=only,
        seeds=seeds,
        quick=quick,
        progress=lambda line: click.echo(line, err=True),
        after_set=lambda found: _write(output, found, command),
    )
    if not outcome.sets:
        reasons = "\n".join(f"  {name}: {reason}" for name, reason in outcome.skipped.items())
        raise ConfigError(f"Nothing to measure in {folder}:\n{reasons}")
    _print(outcome)
    _write(output, outcome, command)
    console.print(f"The rows are in {results}" + ("" if output is None else f", the table in {output}"))


def _print(outcome: "Outcome") -> None:
    from benchmarks.accuracy.table import HEADER, NOTES, NUMERIC, cells
    from benchmarks.machine import machine, versions

    table = columns(None, *HEADER, right=NUMERIC)
    for result in outcome.sets:
        table.add_row(*cells(result))
    wide = console if console.is_terminal else Console(markup=False, emoji=False, width=_PIPE)
    wide.print(table)
    for line in (*NOTES, machine(), versions()):
        console.print(line, highlight=False, soft_wrap=True)
    for name, reason in outcome.skipped.items():
        console.print(f"Left out: {name}: {reason}", highlight=False, soft_wrap=True)


def _write(output: Path | None, outcome: "Outcome", command: str) -> None:
    from benchmarks.accuracy.table import markdown
    from keras_selfattn.files.atomic import write_file

    if output is not None:
        write_file(output, markdown(outcome, command).encode())


def _command(folder: Path, only: tuple[str, ...], seeds: int, quick: bool) -> str:
    """Return the command that makes the same table."""
    words = ["python", "-m", "benchmarks", "accuracy", "--data", str(folder), "--seeds", str(seeds)]
    words += [word for name in only for word in ("--only", name)]
    return " ".join([*words, *(["--quick"] if quick else [])])
