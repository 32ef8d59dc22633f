"""Groups of texts from tables: pairs with scores, or texts that belong together, beside negatives."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_selfattn.data.formats.records import Record
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.scores import score_of
from keras_selfattn.data.texts import read_columns, texts_of
from keras_selfattn.errors import DataError
from keras_selfattn.rows.targets import SIMILARITY
from keras_selfattn.rows.text_groups import TEXT_GROUPS, numbered
from keras_selfattn.user_warnings import warn_user

_SCORE = "label"
"""The column with scores that is read where none is named."""


def read_groups(
    path: str | Path,
    text: str = "text",
    text_pair: str = "text_pair",
    label: str | None = None,
    negatives: Sequence[str] | None = None,
    *,
    separator: str | None = None,
    has_header: bool = True,
) -> LabelledRows:
    """Read groups of texts from a `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.parquet` or `.feather` file.

    Args:
        path: the file.
        text: name of the column with the first texts, such as queries; its number without a header.
        text_pair: that of the second texts, such as the document of each query.
        label: that of the scores, "" for none; by default "label", if there is such a column and no negatives
            are named. Without scores, the texts of a row belong together.
        negatives: those of texts that do not belong to the first one; empty cells are missing ones.
        separator: the separator of columns, as for `records.iter_records`.
        has_header: False if the first line is a row.

    Returns:
        Rows `(text, text_pair, negative, …)`; targets are floats, or `TextNumbers` without scores.

    Raises:
        ConfigError: for an invalid `separator`; for one, or no header, of a file without columns.
        DataError: as for `texts.read_table`; for one column with two uses, both scores and negatives, a score
            that is missing or no finite number, and a column of texts that is empty in all rows.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "pairs.csv")
        ...     _ = file.write_text("text,text_pair,label\\na film,a movie,4.5\\na film,a song,1\\n")
        ...     rows = read_groups(file)
        >>> rows.inputs, rows.targets
        ([('a film', 'a movie'), ('a film', 'a song')], [4.5, 1.0])
    """
    file, hard = Path(path), list(negatives or ())
    if label and hard:
        raise DataError(
            f"{file}: scores (`label`, --label {label}) are of two texts; with negatives (`negatives`, "
            f"--negative {hard[0]}) the texts of a row belong together. Leave one of them out."
        )
    named = [text, text_pair, *hard, *([label] if label else [])]
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise DataError(
            f"{file}: {twice!r} is named for two columns. Name another one with `text` (--text), `text_pair` "
            "(--text-pair), `label` (--label) or `negatives` (--negative)."
        )
    hint = " Name those with `text` (--text) and `text_pair` (--text-pair), scores with `label` (--label ''"
    hint += " for none)."
    records = read_columns(file, named, hint, separator=separator, has_header=has_header)
    if label is None and not hard and any(_SCORE in record for _, record in records):
        label = None if _SCORE in named else _SCORE
    columns = [texts_of(file, name, records) for name in (text, text_pair, *hard)]
    _check_blank(file, (text, text_pair, *hard), columns, records)
    groups: list[Any] = [
        (first, second, *(negative if negative.strip() else None for negative in others))
        for first, second, *others in zip(*columns, strict=True)
    ]
    targets: Sequence[Any] = _scores(file, label, records) if label else numbered(groups)
    kinds = {"kind": TEXT_GROUPS, "target_kind": SIMILARITY}
    where = [line for line, _ in records]
    return LabelledRows(groups, targets, str(file), where, **kinds, note=_note(file, label, hard))


def _check_blank(
    file: Path, names: Sequence[str], columns: Sequence[Sequence[str]], records: Sequence[Record]
) -> None:
    """Refuse columns without any text; warn of pairs that lack one."""
    for place, (name, texts) in enumerate(zip(names, columns, strict=True)):
        if not any(text.strip() for text in texts):
            raise DataError(
                f"{file}: the {name!r} is empty in all {len(texts):,} rows. Name the column of these texts, "
                "or leave it out."
            )
        # Rows of JSON without the key have a warning of their own.
        rows = zip(records, texts, strict=True)
        blank = [line for (line, record), text in rows if name in record and not text.strip()]
        if blank and place < 2:
            warn_user(
                f"{file}: {len(blank):,} of {len(texts):,} rows have an empty {name!r}, the first at line "
                f"{blank[0]}. Each is learned, and measured, as an empty text."
            )


def _scores(file: Path, column: str, records: Sequence[Record]) -> list[float]:
    """Return the score of each row."""
    otherwise = "Name another column with `label` (--label), or '' if the texts of a row belong together."
    return [
        score_of(f"{file}: the {column!r} in line {line}", record.get(column), otherwise)
        for line, record in records
    ]


def _note(file: Path, label: str | None, negatives: Sequence[str]) -> str:
    """Return how the rows are read, which no error would tell."""
    if label:
        return f"{file}: pairs of texts with scores, the column {label!r}."
    beside = f", beside negatives, {', '.join(map(repr, negatives))}" if negatives else ""
    return f"{file}: texts that belong together{beside}; there are no scores."
