"""Cells of a table as the inputs of a signature, and its answers without padding."""

import functools
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_selfattn.data.formats.cells import text_of, token_texts
from keras_selfattn.data.formats.separators import other_separator
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.rows.label_names import is_missing
from keras_selfattn.rows.recordings import END, START, Recording, Stretch, read_recording
from keras_selfattn.rows.sound_files import as_wav, decoded
from keras_selfattn.rows.written_lists import written_list
from keras_selfattn.serving.client import Signature, TensorSpec
from keras_selfattn.serving.client.inputs import takes_pairs
from keras_selfattn.serving.wire.signature_names import AUDIO, TEXT, TEXT_PAIR

# Names of the inputs for files, of images and of sound: the user gives their names, and their content is
# sent.
_FILES = ("encoded", AUDIO)
# The column of a table that names recordings.
PATH = "path"
# Name of the input for series, and the rank of a batch of series.
_VALUES = "values"
_SERIES_RANK = 3


class NamedColumns(NamedTuple):
    """The columns that a user or a training named: of a single input or first texts, and of second texts."""

    column: str | None = None
    text_pair: str | None = None


def input_columns(
    signature: Signature,
    file: Path,
    record: Sequence[str],
    named: NamedColumns,
    trained: NamedColumns = NamedColumns(),  # noqa: B008 - a tuple
) -> dict[str, str]:
    """Return the column of each input: the one named for it, that of the training, or that of its name.

    A single input may also take the only column.

    Args:
        signature: of the model.
        file: of the rows, for messages.
        record: the names of its columns.
        named: the columns that the user named.
        trained: those of the model's training, which are taken where they are there.

    Raises:
        ConfigError: if one is named that the model does not take.
        DataError: if the columns do not fit the inputs.
    """
    check_text_pair(signature, named.text_pair)
    for name in named:
        if name is not None and name not in record:
            known = ", ".join(map(repr, record))
            hint = other_separator(file, record)
            raise DataError(f"{file} has no column {name!r}. Its columns are {known}.{hint}")
    present = NamedColumns(*(name if name in record else None for name in trained))
    column = named.column
    if column is None and len(signature.inputs) == 1:
        column = present.column
    if takes_pairs(signature):
        found = _pair_columns(signature, record, named, present)
    elif column is not None:
        found = {next(iter(signature.inputs)): column}
    else:
        found = {name: name for name in signature.inputs if name in record}
        if AUDIO in signature.inputs and PATH in record:  # as tables are trained on
            found.setdefault(AUDIO, PATH)
        if not found and len(signature.inputs) == len(record) == 1:
            found = {next(iter(signature.inputs)): _only_column(file, next(iter(record)))}
    wanted = set(signature.inputs) - set(signature.defaults)
    if not wanted <= found.keys() or not set(found.values()) <= set(record):
        known, inputs = ", ".join(map(repr, record)), ", ".join(map(repr, signature.inputs))
        hint = " Name the column of a single input with --column."
        if takes_pairs(signature):
            hint = " Name the columns of both texts with --column and --text-pair."
        hint = other_separator(file, record) or hint
        raise DataError(f"{file} has the columns {known}; the model takes {inputs}.{hint}")
    return found


def check_text_pair(signature: Signature, column: str | None) -> None:
    """Raise ConfigError for a named column of second texts, of a model that takes none."""
    if column is not None and not takes_pairs(signature):
        raise ConfigError(
            "`text_pair` (--text-pair) names the column of the second texts, of a model of pairs. The model "
            f"takes {', '.join(map(repr, signature.inputs))}: leave it out. Received {column!r}."
        )


def _pair_columns(
    signature: Signature, record: Sequence[str], named: NamedColumns, trained: NamedColumns
) -> dict[str, str]:
    """Return the columns of the inputs of a pair of texts, of those that are there.

    Raises:
        DataError: for one column as both texts.
    """
    given = {TEXT: named.column or trained.column, TEXT_PAIR: named.text_pair or trained.text_pair}
    found = {name: given.get(name) or name for name in signature.inputs}
    if found[TEXT] == found[TEXT_PAIR]:
        raise DataError(
            f"The texts of a pair are in two columns. Received {found[TEXT]!r} for both: name them "
            "with --column and --text-pair."
        )
    return {name: source for name, source in found.items() if source in record}


def _only_column(file: Path, name: str) -> str:
    if hint := other_separator(file, [name]):
        raise DataError(
            f"{file} has the column {name!r}.{hint} If it is one column all the same, name it with --column."
        )
    return name


def input_value(signature: Signature, name: str, value: Any, where: str, folder: Path | None = None) -> Any:
    """Return a cell as its input: text and tokens as a training reads them, files read, numbers from JSON.

    A missing text, null or NaN, is an empty one; any other input needs a value.

    Args:
        signature: of the model.
        name: of the input.
        value: of the cell.
        where: the place of the cell, for messages.
        folder: of the table, in which a training looks for its recordings; None for the current one.

    Raises:
        DataError: for a cell that cannot be such an input.
    """
    if name == _tokens_input(signature):
        return _tokens(value, where)
    if is_text(signature, name):
        return text_of(value, f"{where}: {name!r}")
    spec = signature.inputs[name]
    if value is None or (spec.dtype == "string" and is_missing(value)):
        raise DataError(f"{where} has no {name!r}")
    if name == AUDIO and spec.dtype == "string":
        return _sound(value, where, folder or Path())
    if name in _FILES and spec.dtype == "string" and isinstance(value, str):
        return _content(Path(value), where)
    if spec.dtype == "string":
        return value
    try:
        found = json.loads(value) if isinstance(value, str) else value
        return _frames(found, spec) if name == _VALUES and len(spec.shape or ()) == _SERIES_RANK else found
    except ValueError:
        raise DataError(
            f"{where}: {name!r} must be one row of {signature.inputs[name]!r}, written as JSON. "
            f"Received {value[:40]!r}."
        ) from None


def _frames(value: Any, spec: TensorSpec) -> Any:
    """Return a series as our exports take it: null becomes NaN, and a bare number a frame of one feature."""
    value = _with_gaps(value)
    bare = isinstance(value, list) and value and not any(isinstance(each, list) for each in value)
    return [[each] for each in value] if bare and (spec.shape or ())[-1] == 1 else value


def _with_gaps(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_gaps(each) for each in value]
    return math.nan if value is None else value


def without_padding(signature: Signature, row: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a row of tokens, cut to its number of tokens: rows are padded to be sent."""
    name = _tokens_input(signature)
    if name is None:
        return answer
    positions = {
        output
        for output, spec in signature.outputs.items()
        if spec.shape is not None and len(spec.shape) > 1 and spec.shape[1] is None
    }
    count = len(row[name])
    return {output: value[:count] if output in positions else value for output, value in answer.items()}


def is_text(signature: Signature, name: str) -> bool:
    """Return True if an input is a text, which may be missing, and no row of tokens or content of a file."""
    spec = signature.inputs[name]
    return spec.dtype == "string" and spec.shape == (None,) and name not in _FILES


def _tokens_input(signature: Signature) -> str | None:
    """Return the name of the input for rows of tokens, string `[batch, length]`, if there is one."""
    found = [name for name, spec in signature.inputs.items() if spec.dtype == "string"]
    return next((name for name in found if (signature.inputs[name].shape or ())[1:] == (None,)), None)


def _tokens(value: Any, where: str) -> list[str]:
    """Return the tokens of a row from a list, a list as JSON, or a text that is split at blanks and tabs."""
    if isinstance(value, str):
        value = _tokens_of_text(value, where)
    if not isinstance(value, list):
        raise DataError(f"{where}: a row of tokens must be a list of strings. Received {value!r:.60}.")
    if "" in value:
        raise DataError(
            f"{where} has an empty token, which is padding: leave it out. Received {value!r:.60}."
        )
    return token_texts(value, f"{where}: the tokens")


def _tokens_of_text(text: str, where: str) -> list[Any]:
    """Return the items of a JSON list, or the parts of any other text between blanks and tabs.

    Brackets of the text itself, as in "[ 2 ]" and "[ Tholt , Jane ]", are tokens: a list has quotes, or no
    blank behind its bracket and numbers alone, which could be either.
    """
    if text == "[]":
        return []
    found = written_list(text) if text.startswith("[") else None
    if found is not None and found.names and any(isinstance(name, str) for name in found.names):
        return found.names
    is_list = "'" in text or '"' in text or (found is not None and bool(found.names) and text[1] not in " \t")
    if found is not None and is_list:
        raise DataError(
            f"{where}: the tokens are {found.form}, {text!r:.60}. Write a JSON list of texts (json.dumps in "
            "Python), or the tokens with blanks between them."
        )
    # As in files of tokens: any other blank, such as U+00A0 in "10 000", is part of a token.
    return [token for token in re.split(r"[ \t\r\n]+", text) if token]


def stretched(name: str, value: Any, record: Mapping[str, Any]) -> Any:
    """Return a cell with those of its row that name a stretch of its recording, if there are any."""
    if name != AUDIO or value is None or not {START, END} & record.keys():
        return value
    found = Stretch(value, record.get(START), record.get(END))
    return value if found.is_whole else found


def _sound(value: Any, where: str, folder: Path) -> Any:
    """Return the WAV of a cell: the name of a file, its content, or what `datasets` has of both."""
    if isinstance(value, Stretch):
        return value.of(_whole(value.recording, where, folder), where).wav()
    path = value
    if isinstance(value, dict):
        path, value = value.get("path"), value.get("bytes")
        value = path if value is None else value
    if isinstance(value, str):
        value = _content(folder / value, where)
    return as_wav(value, f"{where}: {path}") if isinstance(value, bytes) else value


def _whole(cell: Any, where: str, folder: Path) -> Recording:
    """Return the recording of a cell of which a stretch is asked."""
    content = cell
    if isinstance(cell, dict):
        content = cell.get("path") if cell.get("bytes") is None else cell["bytes"]
    if isinstance(content, str):
        file = folder / content.strip()
        try:
            state = file.stat()
            return _file_recording(file, state.st_mtime_ns, state.st_size)
        except (OSError, ValueError, DataError) as error:  # a name with a NUL in it is a ValueError
            raise DataError(f"{where}: the file {str(file)!r} cannot be read: {_why(error)}") from error
    if isinstance(content, bytes):
        return Recording(*decoded(content, where))
    raise DataError(f"{where}: a recording must be a file or its content. Received {content!r:.60}.")


@functools.lru_cache(maxsize=1)
def _file_recording(file: Path, _changed: int, _size: int) -> Recording:
    """Return the sound of a file; the last one is kept, since the next row is often a stretch of it, too."""
    return read_recording(file)


def _content(file: Path, where: str) -> bytes:
    try:
        return file.read_bytes()
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        raise DataError(f"{where}: the file {str(file)!r} cannot be read: {_why(error)}") from error


def _why(error: Exception) -> str:
    """Return why a file cannot be read, in a sentence, without its name again."""
    if isinstance(error, FileNotFoundError):
        return f"There is no such file. Current folder: {Path.cwd()}."
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return said if said.endswith(".") else f"{said}."
