"""Rows of Parquet and Feather tables, for training: whole columns in memory."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_selfattn.data.records import Record
from keras_selfattn.errors import ConfigError, DataError

ARROW_ENDINGS = (".parquet", ".feather")


def arrow_records(file: Path, columns: Sequence[str]) -> list[Record]:
    """Return the rows of a table with their numbers, from 1 on; of the columns that the table has.

    Args:
        file: a `.parquet` or `.feather` file.
        columns: names of the columns to read. If one is missing, the rows have all columns.

    Raises:
        ConfigError: if pyarrow is not installed.
        DataError: if the file is missing or not whole, or has two columns of one name.
    """
    if not file.is_file():
        raise DataError(f"There is no file {file}. Current folder: {Path.cwd()}.")
    arrow = _pyarrow("pyarrow")
    try:
        names = _names(file)
        chosen = [*dict.fromkeys(columns)] if set(columns) <= set(names) else names
        if file.suffix.lower() == ".parquet":
            table = _pyarrow("pyarrow.parquet").ParquetFile(file).read(columns=chosen)
        else:
            table = _pyarrow("pyarrow.feather").read_table(file, columns=chosen)
        return list(enumerate(table.to_pylist(), start=1))
    except (OSError, arrow.ArrowException) as error:
        reason = (str(error).splitlines() or ["no reason"])[0].rstrip(".")
        raise DataError(
            f"{file} is not a whole {file.suffix.lower()} file: {reason}. Write or copy it again."
        ) from error


def _names(file: Path) -> list[str]:
    if file.suffix.lower() == ".parquet":
        names = _pyarrow("pyarrow.parquet").read_schema(file).names
    else:
        names = _pyarrow("pyarrow.ipc").open_file(file).schema.names
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"{file} has two columns named {twice[0]!r}. Rename one.")
    return names


def _pyarrow(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            "Parquet and Feather need pyarrow: pip install 'keras-selfattn[parquet]'"
        ) from error
