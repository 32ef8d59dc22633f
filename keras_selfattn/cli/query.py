"""`keras-selfattn query`: asks a served model, without TensorFlow, and prints its answers.

They are a table for people, or JSON Lines or CSV for programs, on standard output or in a file.
"""

import csv
import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import click
import numpy as np

from keras_selfattn.atomic import text_destination
from keras_selfattn.batch.answer_values import cell_text, default_outputs, plain
from keras_selfattn.batch.cells import without_padding
from keras_selfattn.cli.connect import CONNECTION_PANELS, connected
from keras_selfattn.cli.console import columns, console
from keras_selfattn.cli.panels import COUNT, PATH, Option, PanelCommand
from keras_selfattn.cli.query_rows import QueryRow, asked_rows, check_asked
from keras_selfattn.cli.task_options import OUTPUTS, SEPARATOR, SIGNATURE
from keras_selfattn.errors import DataError
from keras_selfattn.serving.client import Client, Signature
from keras_selfattn.serving.errors import FailedPreconditionError, ServingError

Answer = dict[str, Any]

_SHOWN_ROWS = 100


def write_answers(answers: Iterable[Answer], form: str, output: Path | None) -> None:
    """Write answers, which all have the same names. A file appears when all answers are written.

    Raises:
        DataError: if it cannot be written.
    """
    if form == "table" and output is None:
        _show(iter(answers))
        return
    if output is None:
        _WRITERS[form](sys.stdout, answers)
        return
    try:
        if output.is_dir():
            raise DataError(f"--output must be a file. Received {str(output)!r}, a folder.")
        with text_destination(output) as stream:
            _WRITERS[form](stream, answers)
    except BaseException as error:
        # Some ServingErrors are OSErrors, too: no answer is a ConnectionError or a TimeoutError.
        if isinstance(error, OSError) and not isinstance(error, ServingError):
            raise DataError(f"--output {output} cannot be written: {error.strerror or error}.") from error
        click.echo(f"{output} was not written.", err=True)
        raise


def _show(answers: Iterator[Answer]) -> None:
    shown = list(islice(answers, _SHOWN_ROWS))
    more = next(answers, None) is not None
    if shown:
        names = ["probability" if name == "score" else name for name in shown[0]]
        table = columns(None, *names, right=("probability",))
        for answer in shown:
            table.add_row(*(_cell(name, value) for name, value in answer.items()))
        console.print(table)
    if more:
        console.print(f"These are the first {_SHOWN_ROWS} rows; --format csv or json writes all.")


def _cell(name: str, value: Any) -> str:
    if name == "score" and isinstance(value, float | np.floating):
        return f"{value:.1%}"
    return cell_text(value)


def _write_json(stream: TextIO, answers: Iterable[Answer]) -> None:
    for answer in answers:
        stream.write(
            json.dumps({name: plain(value) for name, value in answer.items()}, ensure_ascii=False) + "\n"
        )


def _write_csv(stream: TextIO, answers: Iterable[Answer]) -> None:
    writer, first = csv.writer(stream, lineterminator="\n"), True
    for answer in answers:
        if first:
            writer.writerow(answer)
            first = False
        writer.writerow(cell_text(value) for value in answer.values())


_WRITERS = {"json": _write_json, "csv": _write_csv, "table": _write_csv}


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
def command(
    model: str, texts: tuple[str, ...], file: Path | None, column: str | None, **options: Any
) -> None:
    """Ask the served MODEL about texts, tokens, series or images.

    Rows are TEXTS, those of --file or, without either, the lines of standard input.

    A classifier answers with a label and its probability, other models with all their outputs. Numbers, and
    lists of them, are written as JSON: a series is '[0.1, 0.3]'. Tokens stand between blanks, or in a JSON
    list. Images are names of files, with --signature encoded.

    The columns of --file are written along with the answers; an output with the name of a column is written
    as predicted_NAME. A model with several inputs takes each from the column of
    its name.
    """
    check_asked(texts, file, column, options["separator"])
    with connected(model, options) as client:
        signature = _signature(client, options)
        outputs = list(options["outputs"]) or default_outputs(signature)
        with asked_rows(signature, texts, file, column, options["separator"]) as asked:
            answers = _answered(client, signature, asked, outputs, options)
            write_answers(answers, options["form"], options["output"])


def _signature(client: Client, options: dict[str, Any]) -> Signature:
    metadata = client.metadata(options["version"], label=options["label"])
    name = options["signature"]
    if name in metadata.signatures:
        return metadata.signatures[name]
    raise FailedPreconditionError(f"The model has no signature {name!r}. It is:\n{metadata!r}")


def _answered(
    client: Client,
    signature: Signature,
    asked: Iterator[QueryRow],
    outputs: list[str],
    options: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    """Yield the answers of the queried rows, each beside the columns that identify its row."""
    given: deque[QueryRow] = deque()

    def rows() -> Iterator[dict[str, Any]]:
        for record, row in asked:
            given.append((record, row))
            yield row

    asked_of = {name: options[name] for name in ("version", "label", "batch_size")}
    answers = client.predict_iter(rows(), options["signature"], outputs, **asked_of)
    for answer in answers:
        record, row = given.popleft()
        values = without_padding(signature, row, {name: answer[name] for name in outputs})
        yield record | {f"predicted_{name}" if name in record else name: values[name] for name in outputs}
