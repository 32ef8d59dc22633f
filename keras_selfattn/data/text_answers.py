"""Texts with their right answers, texts too: two columns of a table, or two files of lines."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_selfattn.data.formats.cells import text_of
from keras_selfattn.data.formats.column_names import check_columns_differ
from keras_selfattn.data.formats.endings import checked_ending, ending_of, packing_of
from keras_selfattn.data.formats.records import Record, iter_lines
from keras_selfattn.data.formats.separators import checked_separator
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.texts import TABLES, read_columns, texts_of, warn_of_absent
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.rows.targets import ANSWERS
from keras_selfattn.rows.texts import TEXTS
from keras_selfattn.user_warnings import warn_user

FAR_APART = 9.0
"""Lengths of both sides are far apart if one has more than so many times the other's characters."""
SHORT = 20
"""Lengths are not compared if neither side has more than so many characters."""
# The column of sources, where none is named.
_SOURCE = "source"
# The column of objects by language, as data sets of translations have it.
_TRANSLATION = "translation"

Answers = tuple[str, ...]


def read_answers(
    path: str | Path,
    source: str = _SOURCE,
    target: str = "target",
    alternatives: str | None = None,
    *,
    separator: str | None = None,
    has_header: bool = True,
) -> LabelledRows:
    """Read texts and the answers to them from a table, or from two files whose lines belong together.

    A table is a `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.parquet` or `.feather` file. In JSON and Parquet both
    sides may be within a column `translation`, `{"en": "a man", "de": "ein Mann"}`, and a target may be a
    list of right answers. Any other file, such as `train.en` or `en.txt`, holds a source a line.

    A row without a source or without an answer is left out, and counted in a warning: it says nothing about
    how the one follows from the other. Rows whose lengths are far apart (over `FAR_APART` times the
    characters, one side having over `SHORT`) are kept, since a title is right for a long text, and counted
    in another warning.

    Args:
        path: the table, or the file with the sources.
        source: name of the column with the sources; its number, such as "1", without a header; left out for
            files of lines.
        target: that of the answers. Of files of lines, the ending of the file with the answers (".de" beside
            `train.en`), or its name in the folder of the sources ("de.txt" beside `en.txt`), or its path.
        alternatives: the separator of right answers in a target, such as "|"; the first is the main one.
        separator: the separator of columns, as for `records.iter_records`.
        has_header: False if the first line is a row.

    Returns:
        Rows of texts, whose targets are tuples of right answers.

    Raises:
        ConfigError: for an invalid `separator`; for one, no header, or a `source`, of a file without
            columns; for empty `alternatives`.
        DataError: as for `texts.read_table`; for one column as both sides, files of unequal numbers of
            lines (with both), an alternative that is empty (with its line), and rows that all lack a side.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "pairs.csv")
        ...     _ = file.write_text("en,de\\na man,ein Mann|der Mann\\n")
        ...     rows = read_answers(file, "en", "de", alternatives="|")
        >>> rows.inputs, rows.targets
        (['a man'], [('ein Mann', 'der Mann')])
    """
    file = Path(path)
    if alternatives == "":
        raise ConfigError(
            "`alternatives` (--alternatives) must be at least one character, the separator of right answers, "
            "such as '|'. Received ''. Leave it out for one answer a row."
        )
    note = ""
    if ending_of(file) in TABLES:
        lines, sources, cells = _of_table(file, source, target, separator=separator, has_header=has_header)
        where = f"the {target!r}"
    else:
        checked_separator(file, separator, has_header)
        if source != _SOURCE:
            raise ConfigError(
                f"`source` (--source) names a column, and {file} has none: each line of it is a source. "
                f"Received {source!r}: leave it out. Tables end in {', '.join(TABLES)}."
            )
        other = _target_file(file, target)
        lines, sources, cells = _of_lines(file, other)
        note, where = f"{len(lines):,} lines of {file} with their answers in {other}.", f"the line of {other}"
    answers = [
        _answers(cell, alternatives, f"{file}: {where} in line {line}")
        for line, cell in zip(lines, cells, strict=True)
    ]
    kept = _with_both_sides(file, lines, sources, answers)
    found = LabelledRows(sources, answers, str(file), lines, kind=TEXTS, target_kind=ANSWERS, note=note)
    found = found if len(kept) == len(lines) else found.take(kept)
    _warn_of_lengths(found)
    return found


def _of_table(
    file: Path, source: str, target: str, **form: Any
) -> tuple[list[int], list[str], list[str | list[str]]]:
    """Return the number of the line, the source and the target of each row of a table."""
    check_columns_differ(source=[source], target=[target])
    hint = " Name the columns of both sides with `source` (--source) and `target` (--target)."
    records = read_columns(file, (source, target), hint, within=_TRANSLATION, **form)
    return [line for line, _ in records], texts_of(file, source, records), _cells(file, target, records)


def _cells(file: Path, column: str, records: Sequence[Record]) -> list[str | list[str]]:
    """Return the targets of a table: texts, or lists of them."""
    if not any(isinstance(record.get(column), list) for _, record in records):
        return [*texts_of(file, column, records)]
    warn_of_absent(file, [column], records, "an empty text")
    found: list[str | list[str]] = []
    for line, record in records:
        cell, where = record.get(column), f"{file}: the {column!r} in line {line}"
        found.append(
            [text_of(each, where) for each in cell] if isinstance(cell, list) else text_of(cell, where)
        )
    return found


def _answers(cell: str | list[str], separator: str | None, where: str) -> Answers:
    """Return the right answers in a target, each once; none if it is empty."""
    if isinstance(cell, str):
        if not cell.strip():
            return ()
        if separator is None:
            return (cell,)
        found = [each.strip() for each in cell.split(separator)]
    else:
        found = cell
    for number, answer in enumerate(found, start=1):
        if not answer.strip():
            raise DataError(
                f"{where}: alternative {number} of {len(found)} is empty. Received {cell!r:.80}. Write "
                "it, or remove its separator."
            )
    return tuple(dict.fromkeys(found))


def _target_file(file: Path, target: str) -> Path:
    """Return the file with the answers to the lines of another.

    Raises:
        DataError: for a name from which the one of other sources, such as those of a test, would not follow.
    """
    if not file.is_file():
        checked_ending(file, TABLES)
    stem = _stem(file)
    if Path(target).name == target and not Path(target).suffix:  # an ending, such as .de or de
        name = f"{stem}.{target.removeprefix('.')}"
        named = [file.with_name(name), file.with_name(f"{name}{file.suffix}")]  # the latter is packed, too
    else:
        # A name alone is beside the sources, so that those of a test have the answers in their own folder.
        named = [file.with_name(target) if Path(target).name == target else Path(target)]
    for each in named:
        alike = _stem(each) == stem or ending_of(each) == ending_of(file)
        if alike and each.is_file() and not each.samefile(file):
            return each
    raise DataError(
        f"{file} has no columns, so it is read as a source a line, with the answers in the same lines of "
        f"another file, and `target` (--target) names none there. Give its ending, as .de for train.de "
        f"beside train.en, or its name, as de.txt beside en.txt. Received {target!r}. Tables end in "
        f"{', '.join(TABLES)}."
    )


def _stem(file: Path) -> str:
    return (file if packing_of(file) is None else Path(file.stem)).stem


def _of_lines(file: Path, other: Path) -> tuple[list[int], list[str], list[str | list[str]]]:
    """Return the numbers of the lines, the sources and the targets of two files of lines."""
    sources = [line for _, line in iter_lines(file)]
    targets: list[str | list[str]] = [line for _, line in iter_lines(other)]
    if len(sources) != len(targets):
        raise DataError(
            f"{file} has {len(sources):,} lines and {other} has {len(targets):,}, so that sources and "
            "answers do not belong together line by line. Give two files of as many lines."
        )
    return list(range(1, 1 + len(sources))), sources, targets


def _with_both_sides(
    file: Path, lines: Sequence[int], sources: Sequence[str], answers: Sequence[Answers]
) -> list[int]:
    """Return the numbers of the rows that have a source and an answer; the others are told."""
    whole = [bool(source.strip() and found) for source, found in zip(sources, answers, strict=True)]
    left_out = [line for line, is_whole in zip(lines, whole, strict=True) if not is_whole]
    if len(left_out) == len(lines):
        raise DataError(
            f"{file}: none of the {len(lines):,} rows has both a source and an answer. Name the columns of "
            "both sides with `source` (--source) and `target` (--target)."
        )
    if left_out:
        warn_user(
            f"{file}: {_of_rows(left_out, len(lines))} lack a source or an answer, the first at line "
            f"{left_out[0]}. They are left out."
        )
    return [row for row, is_whole in enumerate(whole) if is_whole]


def _warn_of_lengths(rows: LabelledRows) -> None:
    """Warn of rows whose lengths are far apart."""
    pairs = zip(rows.inputs, rows.targets, strict=True)
    far = [rows.place(row) for row, (source, each) in enumerate(pairs) if are_far_apart(source, each[0])]
    if far:
        warn_user(
            f"{rows.source}: in {_of_rows(far, len(rows))} one side has over {FAR_APART:g} times the "
            f"characters of the other, the first at line {far[0]}. They are kept; remove those that do not "
            "belong together."
        )


def are_far_apart(source: str, answer: str) -> bool:
    """Return True if the lengths of a source and its answer are far apart.

    Example:

        >>> are_far_apart("a man", "x" * 46), are_far_apart("a", "x" * 20)
        (True, False)
    """
    short, long = sorted((len(source), len(answer)))
    return long > SHORT and long > FAR_APART * short


def _of_rows(found: Iterable[Any], rows: int) -> str:
    return f"{len([*found]):,} of {rows:,} rows"
