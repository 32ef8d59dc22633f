"""The output of `query`: a table for people, JSON Lines or CSV for programs, to standard output or a file."""

import base64
import csv
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import click
import numpy as np

from keras_selfattn.atomic import text_destination
from keras_selfattn.cli.console import columns, console
from keras_selfattn.errors import DataError
from keras_selfattn.serving.errors import ServingError

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
    return _text(value)


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
        writer.writerow(_text(value) for value in answer.values())


_WRITERS = {"json": _write_json, "csv": _write_csv, "table": _write_csv}


def plain(value: Any) -> Any:
    """Return a value as JSON types; bytes become what TensorFlow Serving's REST API writes."""
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, np.ndarray | np.generic):
        # The fewest digits that identify a float32, not those of the nearest double.
        short = value.dtype in (np.float16, np.float32)
        return plain(np.asarray(value).astype(str).astype(float).tolist() if short else value.tolist())
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, complex):
        return [value.real, value.imag]
    return value


def _text(value: Any) -> str:
    found = plain(value)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
