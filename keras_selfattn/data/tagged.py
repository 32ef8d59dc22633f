"""Rows of tokens with a label each, from CoNLL-U, columns, tables of lists, and texts with spans."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from keras_selfattn.data.annotations import annotated_texts, read_annotations
from keras_selfattn.data.formats.annotated_texts import Columns, Units
from keras_selfattn.data.formats.arrow_tables import ARROW_ENDINGS
from keras_selfattn.data.formats.cells import checked_items, token_texts
from keras_selfattn.data.formats.column_names import check_columns_differ
from keras_selfattn.data.formats.endings import checked_ending
from keras_selfattn.data.formats.tagged_words import are_mostly_columns, are_tagged_words, word_rows
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.texts import read_columns
from keras_selfattn.data.token_columns import BLANKS, Token, column_rows, is_empty, token_lines
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.rows.label_names import LabelReader
from keras_selfattn.rows.targets import LABEL_PER_POSITION
from keras_selfattn.rows.tokens import TOKENS

# Columns of CoNLL-U that hold one of a few labels, by place; the token is in the second.
_CONLLU_COLUMNS = {"upos": 3, "xpos": 4, "feats": 5, "deprel": 7}
_CONLLU_WIDTH = 10
_FORM = 1


def read_tagged(
    path: str | Path,
    text: str | None = None,
    label: str | None = None,
    column: str | None = None,
    *,
    offsets: Units | None = None,
    skip_unfit_texts: bool = False,
) -> LabelledRows:
    """Read rows of tokens, and a label for each token, from a file in UTF-8 or a folder of brat.

    A `.conllu` file has ten columns (Universal Dependencies): ranges ("3-4"), empty nodes ("8.1") and
    comments are left out. A `.conll` or `.txt` file has the token in the first column and its label in the
    last, and the same number of columns in all lines, separated by tabs or, in a file without tabs, by
    blanks. A line whose first column is "-DOCSTART-" begins a document, and one that begins with "#" and is
    no token, before or behind the tokens of a row, is a comment. In both an empty line ends a row. A
    `.jsonl`, `.ndjson`, `.parquet` or `.feather` file has a list of tokens and a list of labels in each row;
    labels that are numbers of classes, with names in the file's schema (`datasets`), are read by name. An
    `.iob` file has a row in each line, words with their labels, `word|LABEL`, or columns. So does a `.txt`
    file without tabs that cannot be columns: its lines have different numbers of words, for example.

    Texts with spans of characters are read from a `.jsonl` file of doccano or Prodigy, a `.json` one of Label
    Studio, and a folder of brat, which the content tells. Each text becomes a row: its tokens
    (`rows.text_tokens`) and their labels, B- and I- of the spans' labels, and O. `note` says what was read.

    Args:
        path: the file or folder.
        text: for lists, name of the column with the tokens, "tokens" if None; for spans, of that with the
            text, "text" if None.
        label: for lists, name of the column with the labels, "labels" if None; for spans, of that with the
            spans, the tool's if None.
        column: for CoNLL-U, the column with the labels: "upos", "xpos", "feats" or "deprel"; "upos" if None.
        offsets: for spans, what their offsets count: "characters" (code points) or "utf-16" (its units); if
            None, what the form or the file tells.
        skip_unfit_texts: for spans, True to leave out texts whose spans labels of tokens cannot mark: they
            overlap, have several parts, end inside a token, are empty, or two annotators differ.

    Raises:
        ConfigError: for an argument of another kind of file.
        DataError: for one column that is named twice; if the file is missing, empty, of another kind, not
            UTF-8, has no rows, or a line cannot be read, has no token, or no label; with the line.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "names.conll")
        ...     _ = file.write_text("Ada B-PER\\nwrote O\\n\\nShe O\\n")
        ...     read_tagged(file).inputs
        [['Ada', 'wrote'], ['She']]
    """
    file = Path(path)
    ending = "" if file.is_dir() else checked_ending(file, _READERS)
    columns = (*_LISTS, *_LIST_OF_TEXTS)
    allowed = (("text", text, columns), ("label", label, columns), ("column", column, _CONLLU))
    for name, value, endings in allowed:
        if value is not None and ending not in endings:
            raise ConfigError(f"`{name}` is for files ending in {' or '.join(endings)}. The file is {file}.")
    check_columns_differ(text=[text], label=[label])
    spans = annotated_texts(file, Columns(text, label)) if ending in _SPANS else None
    if spans is not None:
        return read_annotations(file, *spans, offsets, skip_unfit_texts)
    for name, value in (("offsets", offsets), ("skip_unfit_texts", skip_unfit_texts or None)):
        if value is not None:
            raise ConfigError(
                f"`{name}` is for texts with spans of characters. {file} has tokens: leave it out."
            )
    rows = _READERS[ending](file, text or "tokens", label or "labels", column or "upos")
    if not rows.inputs:
        raise DataError(f"{file} holds no tokens.")
    return rows


def _conllu(file: Path, text: str, label: str, column: str) -> LabelledRows:
    if column not in _CONLLU_COLUMNS:
        known = ", ".join(_CONLLU_COLUMNS)
        raise ConfigError(f"`column` must be one of {known}. Received {column!r}.")
    return _rows(file, list(_conllu_rows(file, column)))


def _conllu_rows(file: Path, column: str) -> Iterator[list[Token]]:
    for empty, lines in groupby(token_lines(file), lambda line: is_empty(line[1])):
        found = [] if empty else [_conllu_token(file, *line, column) for line in lines]
        if row := [token for token in found if token is not None]:
            yield row


def _conllu_token(file: Path, line: int, content: str, column: str) -> Token | None:
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
    label = fields[_CONLLU_COLUMNS[column]].strip(BLANKS)
    # "No features" is a label; in other columns "_" means that there is no annotation.
    if label == "_" and column != "feats":
        raise DataError(f"{file}: the token in line {line} has no {column} ('_'). Choose another column.")
    return Token(line, fields[_FORM], label)


def _columns(file: Path, text: str, label: str, column: str) -> LabelledRows:
    return _rows(file, column_rows(file))


def _columns_or_words(file: Path, text: str, label: str, column: str) -> LabelledRows:
    """Return the rows of a `.txt`: of columns, unless it can be words with labels alone."""
    try:
        found = column_rows(file)
    except DataError:
        if not are_tagged_words(file):
            raise
        found = word_rows(file)
    return _rows(file, found)


def _words_or_columns(file: Path, text: str, label: str, column: str) -> LabelledRows:
    """Return the rows of an `.iob`, which some programs write in columns."""
    return _rows(file, column_rows(file) if are_mostly_columns(file) else word_rows(file))


def _rows(file: Path, rows: list[list[Token]]) -> LabelledRows:
    """Return rows of tokens, none of which may lack its text or label."""
    for token in (token for row in rows for token in row):
        if not token.text or not token.label:
            missing = "label" if token.text else "token"
            raise DataError(f"{file}: line {token.line} has no {missing}.")
    inputs, targets = ([[each[place] for each in row] for row in rows] for place in (1, 2))
    return LabelledRows(inputs, targets, str(file), [row[0].line for row in rows], **_KINDS)


def _lists(file: Path, text: str, label: str, column: str) -> LabelledRows:
    records = read_columns(file, (text, label))
    inputs, targets, read = [], [], LabelReader()
    for line, record in records:
        tokens = token_texts(record.get(text), f"{file}: the {text!r} in line {line}")
        named = f"{file}: one of the {label!r} in line {line}"
        given = checked_items(record.get(label), f"{file}: the {label!r} in line {line}")
        labels = [read(named, each) for each in given]
        if len(tokens) != len(labels):
            raise DataError(
                f"{file}: line {line} has {len(tokens)} {text!r} and {len(labels)} {label!r}. Give one label "
                "for each token."
            )
        inputs.append(tokens)
        targets.append(labels)
    return LabelledRows(inputs, targets, str(file), [line for line, _ in records], **_KINDS)


_KINDS = {"kind": TOKENS, "target_kind": LABEL_PER_POSITION}
_CONLLU, _LISTS, _LIST_OF_TEXTS = (".conllu",), (".jsonl", ".ndjson", *ARROW_ENDINGS), (".json",)
# Where texts with spans may be; a folder has no ending.
_SPANS = (".jsonl", ".ndjson", *_LIST_OF_TEXTS, "")
_READERS = {
    **dict.fromkeys(_CONLLU, _conllu),
    ".conll": _columns,
    ".txt": _columns_or_words,
    **dict.fromkeys((*_LISTS, *_LIST_OF_TEXTS), _lists),
    ".iob": _words_or_columns,
}
