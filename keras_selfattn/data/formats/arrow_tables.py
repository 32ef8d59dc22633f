"""Rows of Parquet and Feather tables, for training: whole columns in memory; and the names of their classes.

A label may be the number of a class. Dictionary columns (Categorical of pandas, Enum of Polars) hold the
names, too. Hugging Face `datasets` has them in the schema's metadata, which this module reads:
`{"info": {"features": {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}}}}`.

Reference: https://huggingface.co/docs/datasets/package_reference/main_classes, `Features` and `ClassLabel`.
"""

import importlib
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_selfattn.data.formats.arrow_values import held_values, unreadable
from keras_selfattn.data.formats.records import Record
from keras_selfattn.errors import ConfigError, DataError

ARROW_ENDINGS = (".parquet", ".feather")
FEATURES_KEY = b"huggingface"
"""The key of the metadata that holds the features of `datasets`."""

# A feature as JSON: an object with its "_type", an object of features by name, or a list of one feature.
Feature = Any
_CLASSES = "ClassLabel"
# The number of a missing class, in `datasets`.
_MISSING = -1
# Names of classes in a message.
_SHOWN = 20


def arrow_records(file: Path, columns: Sequence[str], more: Sequence[str] = ()) -> list[Record]:
    """Return the rows of a table with their numbers, from 1 on; of the columns that the table has.

    Args:
        file: a `.parquet` or `.feather` file.
        columns: names of the columns to read. If one is missing, the rows have all columns.
        more: names of columns to read as well, of those that are there.

    Classes that the schema's metadata names are read by name; a missing one, -1, is None.

    Raises:
        ConfigError: if pyarrow is not installed.
        DataError: if the file is missing or not whole, has a type that pyarrow cannot read, or two columns
            of one name; for a class that has no name and a value that Python cannot hold, with its row.
    """
    if not file.is_file():
        raise DataError(f"There is no file {file}. Current folder: {Path.cwd()}.")
    arrow = _pyarrow("pyarrow")
    try:
        names = _names(file)
        wanted = [*columns, *(name for name in more if name in names)]
        chosen = [*dict.fromkeys(wanted)] if set(columns) <= set(names) else names
        if file.suffix.lower() == ".parquet":
            table = _pyarrow("pyarrow.parquet").ParquetFile(file).read(columns=chosen)
        else:
            table = _pyarrow("pyarrow.feather").read_table(file, columns=chosen)
        records = _records(file, table)
    except (OSError, arrow.ArrowException) as error:
        raise unreadable(file, error) from error
    for name, feature in class_features(file, table.schema).items():
        for row, record in records:
            record[name] = named_classes(record[name], feature, f"{file}: the {name!r} in row {row}")
    return records


def _records(file: Path, table: Any) -> list[Record]:
    """Return the rows of a table with their numbers."""
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        values, refused = held_values(column)
        for row, reason in refused.items():
            raise DataError(f"{file}: the {name!r} in row {row + 1} cannot be read: {reason}.")
        columns.append(values)
    rows = zip(*columns, strict=True) if columns else itertools.repeat((), len(table))
    return [(row, dict(zip(table.column_names, each, strict=True))) for row, each in enumerate(rows, start=1)]


def class_features(file: Path, schema: Any) -> dict[str, Feature]:
    """Return the features of the columns that hold classes by number, by column.

    Args:
        file: for messages.
        schema: of its table, as Arrow has it.

    Raises:
        DataError: if the metadata cannot be read.
    """
    content = (schema.metadata or {}).get(FEATURES_KEY)
    if content is None:
        return {}
    try:
        found = json.loads(content)
        for name in ("info", "features"):
            found = found.get(name) if isinstance(found, dict) else None
        features = found if isinstance(found, dict) else {}
        return {name: each for name, each in features.items() if name in schema.names and _has_names(each)}
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{file}: its schema's metadata {FEATURES_KEY.decode()!r}, where datasets keeps the names of "
            f"classes, cannot be read ({error}). Write the file again."
        ) from error


def named_classes(value: Any, feature: Feature, where: str) -> Any:
    """Return a value with names in place of the numbers of its classes; a missing class, -1, is None.

    Args:
        value: as Python types.
        feature: of the value.
        where: its place, as the beginning of a sentence.

    Raises:
        DataError: for the number of a class that has no name.

    Example:

        >>> labels = {"feature": {"names": ["neg", "pos"], "_type": "ClassLabel"}, "_type": "List"}
        >>> named_classes([1, 0, -1], labels, "row 1")
        ['pos', 'neg', None]
    """
    inner = _of_items(feature)
    if inner is not None and isinstance(value, list):
        return [named_classes(each, inner, where) for each in value]
    if isinstance(value, dict):  # in a `Sequence` of several features there is a list of each
        fields = feature if inner is None else {name: [each] for name, each in _fields(inner).items()}
        return {name: named_classes(each, _fields(fields).get(name), where) for name, each in value.items()}
    return _named_class(value, feature["names"], where) if _is_class(feature) else value


def _named_class(value: Any, names: Sequence[str], where: str) -> Any:
    # Rows that went through pandas with a missing class have fractions.
    if value != value or not isinstance(value, int | float):  # noqa: PLR0124
        return value
    if value == _MISSING:
        return None
    if value not in range(len(names)):
        raise DataError(
            f"{where} is class {value}, where the file's schema names {len(names)} classes, from 0 on "
            f"({', '.join(map(repr, names[:_SHOWN]))}{', …' if len(names) > _SHOWN else ''}). Mend the "
            "number, or the names (`ClassLabel` of datasets)."
        )
    return names[int(value)]


def _has_names(feature: Feature) -> bool:
    """Return True if there are classes with names in a feature."""
    inner = _of_items(feature)
    if inner is not None:
        return _has_names(inner)
    return _is_class(feature) or any(map(_has_names, _fields(feature).values()))


def _fields(feature: Feature) -> dict[str, Feature]:
    return feature if isinstance(feature, dict) else {}


def _is_class(feature: Feature) -> bool:
    return (
        isinstance(feature, dict)
        and feature.get("_type") == _CLASSES
        and isinstance(feature.get("names"), list)
        and all(isinstance(name, str) for name in feature["names"])
    )


def _of_items(feature: Feature) -> Feature | None:
    """Return the feature of a list's items; None for what is no list."""
    if isinstance(feature, list):
        return feature[0] if len(feature) == 1 else None
    # `Sequence`, `List` and `LargeList`; a column may be called "feature", too.
    known = isinstance(feature, dict) and isinstance(feature.get("_type"), str)
    return feature.get("feature") if known else None


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
