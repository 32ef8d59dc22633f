"""Tokens and labels in columns, as in CoNLL's shared tasks: separator, width and comments of a file."""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from keras_selfattn.data.formats.records import iter_lines
from keras_selfattn.errors import DataError
from keras_selfattn.rows.span_schemes import OUTSIDE, SpanScheme, scheme_of

# Blanks between columns. All others, such as U+00A0 and U+2028, are part of a token.
BLANKS = " \t"
_BETWEEN = re.compile(f"[{BLANKS}]+")
DOCUMENT = "-DOCSTART-"
"""The token that begins a document, and is none of its tokens."""
# Comments whose form tells them: CoNLL-2012's, and those of CoNLL-U.
_COMMENT = re.compile(r"# ?(?:begin document|end document|newdoc|newpar)(?![^ \t])|#[ \t]*[\w.:-]+[ \t]*=")
_NUMBER = re.compile(r"([0-9]+)(?:[-.][0-9]+)?")


class Token(NamedTuple):
    """A token with its label and their line."""

    line: int
    text: str
    label: str


class _Line(NamedTuple):
    """A line that is not empty: its number, content and columns, and True if it begins with "#"."""

    number: int
    content: str
    fields: tuple[str, ...]
    has_sign: bool

    @property
    def label(self) -> str:
        return self.fields[-1]


class _Layout(NamedTuple):
    """The form of a file's lines: their separator, number of columns, and labels beyond doubt."""

    file: Path
    tabs: bool
    width: int
    labels: frozenset[str]
    scheme: SpanScheme | None

    @property
    def kinds(self) -> set[str]:
        """The kinds of the spans that the labels mark."""
        marks = [] if self.scheme is None else map(self.scheme.read, self.labels)
        return {mark.kind for mark in marks if mark is not None}


def token_lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file of tokens with their numbers.

    Raises:
        DataError: as for `iter_lines`; for a line with a carriage return inside: two lines in one.
    """
    for number, content in iter_lines(file):
        if "\r" in content:
            raise DataError(
                f"{file}: line {number} holds a carriage return, {content!r:.60}. Lines end with a line "
                f"feed, or with both: convert the file first, for example with `tr '\\r' '\\n' < {file}`."
            )
        yield number, content


def is_empty(content: str) -> bool:
    """Return True for a line of blanks and tabs alone, which ends a row."""
    return not content.strip(BLANKS)


def column_rows(file: Path) -> list[list[Token]]:
    """Return the rows of a file with a token in the first column and its label in the last.

    The number of columns is that of most lines, and the same for all tokens. A line that begins with "#" is
    a comment if it stands before the first or behind the last token of a row, and has another number of
    columns or a label that no token has.

    Raises:
        DataError: for a line with another number of columns, for tabs and blanks as separators in one file,
            for what could be a comment or a token, and for columns in another order; with the line.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "names.conll")
        ...     _ = file.write_text("# id 7\\nAda B-PER\\n# O\\n")
        ...     [[token.text for token in row] for row in column_rows(file)]
        [['Ada', '#']]
    """
    parts = list(_parts(file))
    tabs = _has_tabs(file, [each for part in parts for each in part])
    blocks = [[_line(*each, tabs) for each in part] for part in parts]
    del parts  # of a large file, half of the memory
    layout = _layout(file, tabs, blocks)
    rows = []
    for block in blocks:
        if row := [_token(line) for line in _without_comments(layout, block)]:
            rows.append(row)
        block.clear()
    _check_order(layout, rows)
    return rows


def _parts(file: Path) -> Iterator[list[tuple[int, str]]]:
    """Yield the lines between empty ones and those that begin a document."""

    def is_between(line: tuple[int, str]) -> bool:
        return is_empty(line[1]) or _BETWEEN.split(line[1].strip(BLANKS), maxsplit=1)[0] == DOCUMENT

    for between, lines in groupby(token_lines(file), is_between):
        if not between:
            yield list(lines)


def _has_tabs(file: Path, lines: Sequence[tuple[int, str]]) -> bool:
    """Return True if tabs separate the columns of a file, False for blanks."""
    lines = [line for line in lines if not line[1].lstrip(" ").startswith("#")] or lines
    tabbed = next((number for number, content in lines if "\t" in content), None)
    if tabbed is None:
        return False
    for number, content in lines:
        if "\t" not in content and " " in content.strip(BLANKS):
            raise DataError(
                f"{file}: line {number} has blanks between its columns, and line {tabbed} has a tab. "
                "Separate the columns of all lines by tabs, or all by blanks."
            )
    return True


def _line(number: int, content: str, tabs: bool) -> _Line:
    fields = _fields(content, tabs)
    return _Line(number, content, fields, fields[0].startswith("#"))


def _fields(content: str, tabs: bool) -> tuple[str, ...]:
    if tabs:
        return tuple(field.strip(" ") for field in content.split("\t"))
    if "\t" in content:  # of a comment
        content = content.replace("\t", " ")
    # `split()` without a sign would split at U+00A0, too. An empty part is one blank of several.
    fields = content.split(" ")
    return tuple(filter(None, fields) if "" in fields else fields)


def _layout(file: Path, tabs: bool, blocks: Sequence[Sequence[_Line]]) -> _Layout:
    """Return the form of the lines.

    Raises:
        DataError: for a line that cannot be a comment and has another number of columns than most.
    """
    plain = [line for block in blocks for line in block if not line.has_sign]
    every = plain or [line for block in blocks for line in block]
    width = Counter(len(line.fields) for line in every).most_common(1)[0][0] if every else 0
    between = "tabs" if tabs else "blanks"
    certain = [line for block in blocks for line in block[slice(*_inner(block))]]
    for line in certain:
        if len(line.fields) == 1 and not line.has_sign:
            raise DataError(
                f"{file}: line {line.number} has one column, {line.content!r:.60}. Give a token, a tab or "
                "blank, and its label; an empty line between rows."
            )
        if len(line.fields) != width:
            raise DataError(
                f"{file}: line {line.number}, {line.content!r:.60}, has {len(line.fields)} columns between "
                f"{between}, where most lines have {width}. {_next_step(line, tabs)}"
            )
    labels = frozenset(line.label for line in certain)
    return _Layout(file, tabs, width, labels, scheme_of(labels))


def _next_step(line: _Line, tabs: bool) -> str:
    if line.has_sign:
        return "A comment stands before the first token of a row; a token needs all columns."
    if tabs:
        return "Give all tokens the same columns; comments begin with '#'."
    return "Separate columns by tabs if a token or a label has a blank; comments begin with '#'."


def _inner(block: Sequence[_Line]) -> tuple[int, int]:
    """Return the places from the first to behind the last line of a row that is a token for certain."""
    plain = [place for place, line in enumerate(block) if not line.has_sign]
    return (plain[0], plain[-1] + 1) if plain else (0, 0)


def _without_comments(layout: _Layout, block: Sequence[_Line]) -> Iterator[_Line]:
    first, end = _inner(block)
    for place, line in enumerate(block):
        if first <= place < end or not _is_comment(layout, line):
            yield line


def _is_comment(layout: _Layout, line: _Line) -> bool:
    """Return True for a comment among lines that begin with "#" before or behind the tokens of a row.

    Its number of columns tells, or else its label: of a token it is one that others have, or the mark of a
    span, which behind a bare "#" must be of a kind that others have. A comment has a known form, or is a
    word behind "#" and a blank, in a file of spans.

    Raises:
        DataError: if neither its columns nor its label tell a comment from a token.
    """
    if len(line.fields) != layout.width or layout.width == 1:
        words = _fields(line.content, tabs=False)
        if layout.tabs and len(words) == layout.width and words[-1] in layout.labels:
            raise DataError(
                f"{layout.file}: line {line.number}, {line.content!r:.60}, has blanks between its columns, "
                "and others have tabs. Separate the columns of all lines by tabs."
            )
        return True
    mark = (layout.scheme or SpanScheme()).read(line.label)
    is_mark = mark is not None and (mark.mark == OUTSIDE or mark.kind in layout.kinds)
    if line.label in layout.labels or is_mark or (mark is not None and line.fields[0] != "#"):
        return False
    content = line.content.lstrip(BLANKS)
    if _COMMENT.match(content) or (layout.scheme is not None and mark is None and content.startswith("# ")):
        return True
    raise DataError(
        f"{layout.file}: line {line.number}, {line.content!r:.60}, begins with '#' and has {layout.width} "
        f"columns, as tokens have, but no other token has the label {line.label!r}. If it is a comment, "
        "delete it or add a word; if it is a token, write the file as .jsonl, which has no comments."
    )


def _token(line: _Line) -> Token:
    return Token(line.number, line.fields[0], sys.intern(line.label))


def _check_order(layout: _Layout, rows: Sequence[Sequence[Token]]) -> None:
    """Raise DataError if the first column holds labels or counts the tokens."""
    tokens = {token.text for row in rows for token in row}
    first = scheme_of(tokens)
    if (
        first is not None
        and first.separator
        and scheme_of(token.label for row in rows for token in row) is None
    ):
        raise DataError(
            f"{layout.file}: the first column holds labels of spans, such as {_marked(tokens)!r}, and the "
            "last holds none. Put the token first and its label last."
        )
    if layout.width > 2 and rows and all(map(_counts, rows)) and max(map(len, rows)) > 1:
        raise DataError(
            f"{layout.file}: the first column counts the tokens of each row, as in CoNLL-U and CoNLL-X, from "
            f"line {rows[0][0].line} on. Name a file in CoNLL-U .conllu; in others put the token first."
        )


def _marked(labels: Iterable[str]) -> str:
    return min(label for label in labels if label != "O")


def _counts(row: Sequence[Token]) -> bool:
    """Return True if the tokens of a row are numbers that count them, from 0 or 1 on."""
    found = [_NUMBER.fullmatch(token.text) for token in row]
    # Ranges and empty nodes of CoNLL-U, such as 3-4 and 8.1, are not counted.
    numbers = [int(each[1]) for each in found if each is not None and each[0] == each[1]]
    return None not in found and numbers in ([*range(len(numbers))], [*range(1, len(numbers) + 1)])
