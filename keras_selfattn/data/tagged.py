"""Rows of tokens with a label each, from CoNLL-U, columns of tokens and labels, and JSON Lines."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from keras_selfattn.data.endings import checked_ending
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.records import iter_lines
from keras_selfattn.data.texts import read_columns
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.label_names import LabelReader

# Columns of CoNLL-U that hold one of a few labels, by place; the token is in the second.
_CONLLU_COLUMNS = {"upos": 3, "xpos": 4, "feats": 5, "deprel": 7}
_CONLLU_WIDTH = 10
_FORM = 1


class _Token(NamedTuple):
    """A token with its label and their line."""

    line: int
    text: str
    label: str


def read_tagged(
    path: str | Path, text: str | None = None, label: str | None = None, column: str | None = None
) -> LabelledRows:
    """Read rows of tokens, and a label for each token, from a file in UTF-8.

    A `.conllu` file has ten columns (Universal Dependencies): ranges ("3-4"), empty nodes ("8.1") and
    comments are left out. A `.conll` or `.txt` file has the token in the first column and its label in the
    last, separated by tabs or blanks; "-DOCSTART-" is not a token. In both an empty line ends a row. A
    `.jsonl` or `.ndjson` file has a list of tokens and a list of labels on each line.

    Args:
        path: the file.
        text: for JSON Lines, name of the column with the tokens; "tokens" if None.
        label: for JSON Lines, name of the column with the labels; "labels" if None.
        column: for CoNLL-U, the column with the labels: "upos", "xpos", "feats" or "deprel"; "upos" if None.

    Raises:
        ConfigError: for an argument of another kind of file.
        DataError: if the file is missing, empty, of another kind, not UTF-8, has no rows, or a line cannot be
            read, has no token, or no label; with the line.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "names.conll")
        ...     _ = file.write_text("Ada B-PER\\nwrote O\\n\\nShe O\\n")
        ...     read_tagged(file).inputs
        [['Ada', 'wrote'], ['She']]
    """
    file = Path(path)
    ending = checked_ending(file, _READERS)
    for name, value, endings in (("text", text, _JSON), ("label", label, _JSON), ("column", column, _CONLLU)):
        if value is not None and ending not in endings:
            raise ConfigError(f"`{name}` is for files ending in {' or '.join(endings)}. The file is {file}.")
    rows = _READERS[ending](file, text or "tokens", label or "labels", column or "upos")
    if not rows.inputs:
        raise DataError(f"{file} holds no tokens.")
    return rows


def _conllu(file: Path, text: str, label: str, column: str) -> LabelledRows:
    if column not in _CONLLU_COLUMNS:
        known = ", ".join(_CONLLU_COLUMNS)
        raise ConfigError(f"`column` must be one of {known}. Received {column!r}.")
    return _rows(file, lambda line, content: _conllu_token(file, line, content, column))


def _conllu_token(file: Path, line: int, content: str, column: str) -> _Token | None:
    """Return the token of a line; None for a comment, a range or an empty node."""
    if content.startswith("#"):
        return None
    fields = content.split("\t")
    if len(fields) != _CONLLU_WIDTH:
        raise DataError(
            f"{file}: line {line} has {len(fields)} columns between tabs, where CoNLL-U has {_CONLLU_WIDTH}."
        )
    first, mark, second = fields[0].partition("-" if "-" in fields[0] else ".")
    if not first.isdecimal() or (mark and not second.isdecimal()):
        raise DataError(
            f"{file}: line {line} begins with {fields[0]!r:.40}, which is not the number of a token."
        )
    if mark:
        return None
    label = fields[_CONLLU_COLUMNS[column]].strip()
    # "No features" is a label; in other columns "_" means that there is no annotation.
    if label == "_" and column != "feats":
        raise DataError(f"{file}: the token in line {line} has no {column} ('_'). Choose another column.")
    return _Token(line, fields[_FORM], label)


def _columns(file: Path, text: str, label: str, column: str) -> LabelledRows:
    return _rows(file, lambda line, content: _columns_token(file, line, content))


def _columns_token(file: Path, line: int, content: str) -> _Token | None:
    if content.startswith("-DOCSTART-"):
        return None
    fields = content.split("\t") if "\t" in content else content.split()
    if len(fields) < 2:
        raise DataError(
            f"{file}: line {line} has one column, {content!r:.60}. Give a token, a tab or blank, and its "
            "label; an empty line between rows."
        )
    return _Token(line, fields[0].strip(), fields[-1].strip())


def _rows(file: Path, token_of: Callable[[int, str], _Token | None]) -> LabelledRows:
    """Return the rows of a file with one token on each line and an empty line between rows."""
    rows = list(_between_blanks(file, token_of))
    for token in (token for row in rows for token in row):
        if not token.text or not token.label:
            missing = "label" if token.text else "token"
            raise DataError(f"{file}: line {token.line} has no {missing}.")
    inputs, targets = ([[each[place] for each in row] for row in rows] for place in (1, 2))
    return LabelledRows(inputs, targets, str(file), [row[0].line for row in rows])


def _between_blanks(file: Path, token_of: Callable[[int, str], _Token | None]) -> Iterator[list[_Token]]:
    row: list[_Token] = []
    for line, content in iter_lines(file):
        token = token_of(line, content) if content.strip() else None
        if token is not None:
            row.append(token)
        elif not content.strip() and row:
            yield row
            row = []
    if row:
        yield row


def _json(file: Path, text: str, label: str, column: str) -> LabelledRows:
    records = read_columns(file, (text, label))
    inputs, targets, read = [], [], LabelReader()
    for line, record in records:
        tokens = [_as_text(token) for token in _strings(file, line, text, record.get(text))]
        named = f"{file}: one of the {label!r} in line {line}"
        labels = [read(named, each) for each in _strings(file, line, label, record.get(label))]
        if len(tokens) != len(labels):
            raise DataError(
                f"{file}: line {line} has {len(tokens)} {text!r} and {len(labels)} {label!r}. Give one label "
                "for each token."
            )
        inputs.append(tokens)
        targets.append(labels)
    return LabelledRows(inputs, targets, str(file), [line for line, _ in records])


def _strings(file: Path, line: int, column: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise DataError(f"{file}: the {column!r} in line {line} must be a list. Received {value!r:.60}.")
    for item in value:
        if item is None or isinstance(item, list | dict | bool):
            raise DataError(
                f"{file}: the {column!r} in line {line} hold {item!r:.60}, which is not a string."
            )
        if item == "":
            raise DataError(
                f"{file}: the {column!r} in line {line} hold '', which is neither a token nor a label."
            )
    return value


def _as_text(token: Any) -> str:
    # A lone surrogate, which JSON can hold, is invalid in UTF-8.
    return str(token).encode(errors="replace").decode()


_CONLLU, _JSON = (".conllu",), (".jsonl", ".ndjson")
_READERS = {
    **dict.fromkeys(_CONLLU, _conllu),
    **dict.fromkeys((".conll", ".txt"), _columns),
    **dict.fromkeys(_JSON, _json),
}
