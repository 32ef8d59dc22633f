"""The file of `evaluate --mistakes`."""

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING

from keras_selfattn.atomic import check_writable, is_stream, text_destination
from keras_selfattn.errors import ConfigError, DataError

if TYPE_CHECKING:
    from keras_selfattn.metrics.report import Columns

_JSON = (".jsonl", ".ndjson")


def check_mistakes_file(file: Path) -> None:
    """Raises ConfigError where no such file could be written; before a model is asked."""
    try:
        if file.is_dir():
            raise ConfigError(f"--mistakes must be a file. Received {str(file)!r}, a folder.")
        if not (file.exists() and is_stream(file)):
            check_writable(file)
    except OSError as error:
        raise ConfigError(f"--mistakes {file} cannot be written: {error.strerror or error}.") from error


def write_mistakes(file: Path, mistakes: "Columns") -> None:
    """Writes rows that were answered wrongly: JSON Lines to a .jsonl or .ndjson, else CSV with lists as JSON.

    Raises:
        DataError: if the file cannot be written.
    """
    try:
        with text_destination(file) as stream:
            if file.suffix.lower() in _JSON:
                for line in mistakes.rows:
                    record = dict(zip(mistakes.header, line, strict=True))
                    stream.write(json.dumps(record, ensure_ascii=False) + "\n")
                return
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(mistakes.header)
            for line in mistakes.rows:
                writer.writerow(json.dumps(v, ensure_ascii=False) if isinstance(v, list) else v for v in line)
    except OSError as error:
        raise DataError(f"--mistakes {file} cannot be written: {error.strerror or error}.") from error
