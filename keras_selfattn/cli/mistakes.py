"""The file of `evaluate --mistakes`."""

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_selfattn.atomic import check_writable, is_stream, text_destination
from keras_selfattn.errors import ConfigError, DataError

if TYPE_CHECKING:
    from keras_selfattn.metrics.report import Columns

_JSON = (".jsonl", ".ndjson")


def check_mistakes_file(file: Path, table: Path) -> None:
    """Raise ConfigError where no such file could be written, or it is `table`; before a model is asked."""
    try:
        if file.exists() and table.exists() and file.samefile(table):
            raise ConfigError(f"--mistakes must be another file than TABLE. Received {str(file)!r} for both.")
        if file.is_dir():
            raise ConfigError(f"--mistakes must be a file. Received {str(file)!r}, a folder.")
        if not (file.exists() and is_stream(file)):
            check_writable(file)
    except OSError as error:
        raise ConfigError(f"--mistakes {file} cannot be written: {error.strerror or error}.") from error


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return _encodable(json.dumps(value, ensure_ascii=False))
    return _encodable(value) if isinstance(value, str) else value


def _encodable(text: str) -> str:
    """Return a text without halves of surrogate pairs, which have no UTF-8."""
    return text.encode(errors="replace").decode()


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
                    stream.write(_encodable(json.dumps(record, ensure_ascii=False)) + "\n")
                return
            # Of "\n" alone as the end of a line, Python leaves a "\r" in a text without quotes.
            quoted = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
            csv.writer(stream, lineterminator="\n").writerow(mistakes.header)
            for line in mistakes.rows:
                quoted.writerow(map(_cell, line))
    except OSError as error:
        raise DataError(f"--mistakes {file} cannot be written: {error.strerror or error}.") from error
