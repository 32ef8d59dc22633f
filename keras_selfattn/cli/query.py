"""`keras-selfattn query`: asks a served model, without TensorFlow, and prints its answers.

They are a table for people, or JSON Lines or CSV for programs, on standard output or in a file.
"""

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np

from keras_selfattn.asking.answer_values import cell_text, default_outputs
from keras_selfattn.asking.asked_rows import check_asked
from keras_selfattn.asking.connected_client import connected
from keras_selfattn.asking.row_answers import Answer, answered, signature_of, write, write_file
from keras_selfattn.cli.connection_options import CONNECTION_PANELS
from keras_selfattn.cli.console import columns, console, error_console
from keras_selfattn.cli.panels import COUNT, PATH, Option, PanelCommand
from keras_selfattn.cli.query_rows import rows_with_progress
from keras_selfattn.cli.task_options import NO_HEADER, OUTPUTS, SEPARATOR, SIGNATURE

_SHOWN_ROWS = 100


def write_answers(answers: Iterable[Answer], form: str, output: Path | None) -> None:
    """Write answers. A file appears when all answers are written.

    Raises:
        DataError: if it cannot be written.
    """
    if output is not None:
        write_file(output, answers, form)
        error_console.print(f"The answers are in {output}.")
    elif form == "table":
        _show(iter(answers))
    else:
        write(sys.stdout, answers, form)


def _show(answers: Iterator[Answer]) -> None:
    shown = list(islice(answers, _SHOWN_ROWS))
    more = next(answers, None) is not None
    if shown:
        names = dict.fromkeys(name for answer in shown for name in answer)
        headers = ["probability" if name == "score" else name for name in names]
        table = columns(None, *headers, right=("probability",))
        for answer in shown:
            table.add_row(*(_cell(name, answer.get(name)) for name in names))
        console.print(table)
    if more:
        console.print(f"These are the first {_SHOWN_ROWS} rows; --format csv or json writes all.")


def _cell(name: str, value: Any) -> str:
    if name == "score" and isinstance(value, float | np.floating):
        return f"{value:.1%}"
    return cell_text(value)


_PANELS = {
    "Most used": (
        Option(
            "--file",
            type=PATH,
            help="Rows to ask: a .csv, .tsv or .jsonl file, or series in .ts or .npz.",
        ),
        Option(
            "--column",
            metavar="COLUMN",
            help="Column of --file to ask, of a model with one input.",
            without="the one named as the input",
        ),
        SEPARATOR,
        NO_HEADER,
        Option(
            "--format",
            "form",
            type=click.Choice(["table", "json", "csv"]),
            default="table",
            help="Form of the answers; json is an object a line.",
        ),
        Option("--output", type=PATH, help="File to write the answers to, as CSV unless --format is json."),
    ),
    "Call": (
        Option("--version", type=int, metavar="N", help="Version to ask.", without="the latest"),
        Option("--label", metavar="NAME", help="Label of the version to ask, such as stable."),
        SIGNATURE,
        OUTPUTS,
        Option("--batch-size", type=COUNT, default=64, help="Rows in a call."),
    ),
    **CONNECTION_PANELS,
}


@click.command(
    "query",
    cls=PanelCommand,
    panels=_PANELS,
    epilog="Exit status: 0 answered, 1 failed, 2 refused before it was sent, 3 no such "
    "model, version or signature, 4 no answer now (ask again later), 5 not allowed.",
)
@click.argument("model")
@click.argument("texts", nargs=-1)
def command(model: str, texts: tuple[str, ...], file: Path | None, **options: Any) -> None:
    """Ask the served MODEL about texts, tokens, series or images.

    Rows are TEXTS, those of --file or, without either, the lines of standard input.

    A classifier answers with a label and its probability, other models with all their outputs. Numbers, and
    lists of them, are written as JSON: a series is '[0.1, 0.3]'. Tokens stand between blanks, or in a JSON
    list. Images are names of files, with --signature encoded.

    The columns of --file are written along with the answers; an output with the name of a column is written
    as predicted_NAME. A model with several inputs takes each from the column of
    its name.
    """
    check_asked(texts, file, options)
    with connected(model, options) as client:
        signature = signature_of(client, options)
        outputs = list(options["outputs"]) or default_outputs(signature)
        with rows_with_progress(signature, texts, file, options) as asked:
            answers = answered(client, signature, asked, outputs, options)
            write_answers(answers, options["form"], options["output"])
