"""Texts, or pairs of texts, with a score each, or several, from the columns of tables."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_selfattn.data.formats.column_names import check_columns_differ
from keras_selfattn.data.formats.plain_numbers import bare, number_of
from keras_selfattn.data.formats.records import Record
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.texts import pairs_of, read_columns, texts_of
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.rows.containers import TableRows, ordered_rows
from keras_selfattn.rows.targets import NUMBERS
from keras_selfattn.rows.text_pairs import TEXT_PAIRS
from keras_selfattn.rows.texts import TEXTS

_CLASSES = "Names of classes are learned with the task text (--task text)."


def read_scores(
    path: str | Path,
    text: str = "text",
    label: str | Sequence[str] = "label",
    *,
    text_pair: str | None = None,
    separator: str | None = None,
    has_header: bool = True,
) -> LabelledRows:
    """Read a text column and one or several columns of numbers; the files are those of `read_table`.

    A number is written with a point, in ASCII. In JSON Lines or Parquet a cell may be a list of numbers.

    Args:
        path: a `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.parquet` or `.feather` file.
        text: name of the column with the texts; its number, such as "2", without a header.
        label: name of the column with the scores, or several with commas between them, or a list of names.
        text_pair: name of the column with the second text of each row, as for `read_table`.
        separator: the separator of columns, as for `records.iter_records`.
        has_header: False if the first line is a row.

    Raises:
        ConfigError: for an invalid `separator`; for no column, or one named twice.
        DataError: as for `read_table`; for a score that is missing, no number or not finite, with its line
            and value; for rows with different counts of scores; for one column as a text and a score.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "essays.csv")
        ...     _ = file.write_text("text,style,content\\ngood,4.5,3\\nbad,1,2\\n")
        ...     rows = read_scores(file, label="style,content")
        >>> rows.targets.columns, [target.tolist() for target in rows.targets]
        (['style', 'content'], [[4.5, 3.0], [1.0, 2.0]])
    """
    file = Path(path)
    hint = " Name those with `text` (--text) and `label` (--label)."
    both = (text,) if text_pair is None else (text, text_pair)
    if text_pair is not None:
        hint = " Name those with `text` (--text), `text_pair` (--text-pair) and `label` (--label)."
    form: dict[str, Any] = {"separator": separator, "has_header": has_header}
    records = read_columns(file, both, hint, **form)
    names = _names(label, records)
    check_columns_differ(text=[text], label=names, text_pair=[text_pair])
    records = read_columns(file, (*both, *names), hint, **form)
    inputs: Sequence[Any] = texts_of(file, text, records)
    if text_pair is not None:
        inputs = pairs_of(file, inputs, text_pair, records)
    found = [_scores(file, names, each) for each in records]
    _check_alike(file, names, records, found)
    columns = [name for name, cells in zip(names, found[0], strict=True) for name in _of_cells(name, cells)]
    scores: Sequence[Any] = [np.concatenate(row) for row in found]
    if has_header:  # numbers of columns are no names
        scores = TableRows(scores, columns)
    where = [line for line, _ in records]
    kind = TEXTS if text_pair is None else TEXT_PAIRS
    return LabelledRows(inputs, scores, str(file), where, kind=kind, target_kind=NUMBERS)


def _names(label: str | Sequence[str], records: Sequence[Record]) -> list[str]:
    """Return the names of the columns with scores."""
    if isinstance(label, str):
        alone = any(label in record for _, record in records)
        names = [label] if alone else [bare(name) for name in label.split(",")]
    else:
        names = list(ordered_rows(label))
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise ConfigError(
            "`label` (--label) must name a column of scores, or several that differ, with commas between "
            f"them. Received {label!r:.80}."
        )
    return names


def _of_cells(name: str, cells: np.ndarray) -> list[str]:
    """Return the names of the scores of a column: of lists with their places in them."""
    return [name] if len(cells) == 1 else [f"{name}_{place}" for place in range(1, len(cells) + 1)]


def _check_alike(
    file: Path, names: Sequence[str], records: Sequence[Record], found: Sequence[Sequence[np.ndarray]]
) -> None:
    """Raise DataError for a column with more or fewer scores than in the first line; it would shift all."""
    first = records[0][0]
    for (line, _), row in zip(records, found, strict=True):
        for name, values, others in zip(names, row, found[0], strict=True):
            if len(values) != len(others):
                raise DataError(
                    f"{file}: the {name!r} in line {line} has {len(values)} scores, line {first} has "
                    f"{len(others)}. Give the same number of scores to each text."
                )


def _scores(file: Path, names: Sequence[str], record: Record) -> list[np.ndarray]:
    """Return the scores of a line, float64 `[scores]` of each column: several of a list."""
    line, cells = record
    found: list[np.ndarray] = []
    for name in names:
        cell = cells.get(name)
        if isinstance(cell, np.ndarray):
            cell = cell.tolist()
        values = cell if isinstance(cell, list) and cell else [cell]
        numbers = [score_of(f"{file}: the {name!r} in line {line}", value, _CLASSES) for value in values]
        found.append(np.array(numbers, np.float64))
    return found


def score_of(place: str, value: Any, otherwise: str) -> float:
    """Return the score in a cell of a table.

    Args:
        place: of the cell, as the beginning of a sentence.
        value: of the cell.
        otherwise: what to do if the cells are no scores, as a sentence.

    Raises:
        DataError: for a missing one, what is no number, and one that is not finite in float32.
    """
    number = None if isinstance(value, bool | np.bool_) else number_of(value)
    with np.errstate(over="ignore"):
        if number is not None and np.isfinite(np.float32(number)):
            return number
    missing = value is None or (isinstance(value, str) and not bare(value))
    if missing or (isinstance(value, float) and math.isnan(value)):
        raise DataError(f"{place} is missing. Give the row a score, or leave it out. {otherwise}")
    hint = " Write decimals with a point." if isinstance(value, str) and "," in value else ""
    raise DataError(f"{place} must be a score, a finite number. Received {value!r:.60}.{hint} {otherwise}")
