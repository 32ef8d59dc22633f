"""Labelled recordings of sound, from a folder with a subfolder for each class, or from a table of files."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras_selfattn.data.formats.arrow_tables import ARROW_ENDINGS
from keras_selfattn.data.formats.cells import text_of
from keras_selfattn.data.formats.class_folders import class_files, lie_in_folder
from keras_selfattn.data.formats.column_names import check_columns_differ
from keras_selfattn.data.formats.endings import ending_of
from keras_selfattn.data.formats.records import Record
from keras_selfattn.data.grouped import GroupedRows
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.shown_steps import shown
from keras_selfattn.data.texts import labels_of, read_columns
from keras_selfattn.errors import ConfigError, DataError, MissingExtraError
from keras_selfattn.rows.label_names import LabelReader
from keras_selfattn.rows.recordings import END, RECORDINGS, START, Recording, Stretch, read_recording
from keras_selfattn.rows.sound_files import SOUND_ENDINGS, decoded
from keras_selfattn.rows.targets import ONE_LABEL
from keras_selfattn.user_warnings import warn_user

# File names that a message lists.
_NAMED = 3


def read_audio(
    path: str | Path,
    *,
    audio: str | None = None,
    label: str | None = None,
    label_separator: str | None = None,
    group: str | None = None,
    separator: str | None = None,
    has_header: bool = True,
) -> LabelledRows:
    """Read recordings and their labels from a folder, or from a table.

    A folder holds a subfolder for each class, named as the class, with files of sound: .wav, .flac, .ogg,
    .oga, .opus, .mp3, .aiff, .aif. Names that begin with a dot are skipped; other files are counted in a
    warning.

    A table, as `read_table` reads it, has a column with the path of each file, from the table's folder on. In
    Parquet and Feather files its cells may be what `datasets` writes, objects with "bytes" and "path". With
    columns "start" and "end", a row is a stretch of its recording, in seconds; where both are empty, it is
    all of it. The stretches of one recording are one group, unless `group` names a column.

    Recordings of one channel and 16 bits are kept so; channels become one by their mean. Files that are not
    WAV need the package soundfile.

    Args:
        path: the folder or the table.
        audio: name of the table's column with the recordings; by default "path", of Parquet and Feather
            "audio".
        label: name of the column with the labels; "label" if None.
        label_separator: the separator of a row's labels, if it can have several.
        group: name of a column such as a speaker's, whose rows are never split: those of one group are all
            held out, or none of them.
        separator: the separator of columns, as for `records.iter_records`.
        has_header: False if the first line is a row.

    Raises:
        ConfigError: for a folder with a column, a separator or no header.
        DataError: if `path` does not exist or has no recordings; for files that are missing, empty, damaged
            or no sound, with their names; as for `read_table`.
        MissingExtraError: for files that need the package soundfile, if it is not installed.

    Example:

        >>> import pathlib, tempfile, numpy as np
        >>> from keras_selfattn.rows.wav_files import wav_bytes
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("cat", "dog"):
        ...         pathlib.Path(folder, name).mkdir()
        ...         _ = pathlib.Path(folder, name, "1.wav").write_bytes(wav_bytes(np.ones(80, "int16"), 8000))
        ...     read_audio(folder).targets
        ['cat', 'dog']
    """
    place = Path(path)
    if place.is_dir():
        given = {"audio": audio, "label": label, "group": group, "label_separator": label_separator}
        given |= {"separator": separator, "has_header": None if has_header else False}
        for name, value in given.items():
            if value is not None:
                raise ConfigError(
                    f"`{name}` is for tables. {place} is a folder, whose subfolders are the labels."
                )
        return _from_folder(place)
    label = label or "label"
    column = audio or ("audio" if ending_of(place) in ARROW_ENDINGS else "path")
    check_columns_differ(audio=[column], label=[label], group=[group])
    hint = " Name those with `audio` (--audio) and `label` (--label)."
    names = [column, label] if group is None else [column, label, group]
    records = read_columns(place, names, hint, separator=separator, has_header=has_header, more=(START, END))
    return _from_table(place, records, column, label, label_separator, group)


def _from_folder(folder: Path) -> LabelledRows:
    files, others = class_files(folder, SOUND_ENDINGS, "recordings")
    if not files:
        beside = lie_in_folder(others, folder, SOUND_ENDINGS)
        lack = "its recordings in no subfolder, which would be their class" if beside else "no recordings"
        raise DataError(
            f"{folder} holds {lack}. Give a folder with a subfolder for each class, with files in it that "
            f"end in {', '.join(SOUND_ENDINGS)}; or a table that names files."
        )
    if others:
        warn_user(
            f"{folder}: {len(others)} files are no files of sound in a class's folder and are skipped, such "
            f"as {others[0].relative_to(folder)}."
        )
    where = [str(file.relative_to(folder)) for file in files]
    recordings = _read_all(str(folder), where, [lambda file=file: read_recording(file) for file in files])
    read = LabelReader()
    labels = [read(f"The name of {str(file.parent)!a}", file.parent.name) for file in files]
    note = _rates(str(folder), recordings)
    return LabelledRows(
        recordings, labels, str(folder), where, kind=RECORDINGS, target_kind=ONE_LABEL, note=note
    )


def _from_table(
    file: Path,
    records: Sequence[Record],
    column: str,
    label: str,
    label_separator: str | None,
    group: str | None,
) -> LabelledRows:
    lines = [line for line, _ in records]
    where = [f"{file}: the {column!r} in line {line}" for line in lines]
    start, end = (name if name not in (column, label, group) else None for name in (START, END))
    cells = [
        Stretch(record.get(column), record.get(start or ""), record.get(end or "")) for _, record in records
    ]
    recordings = _read_stretches(file, where, cells)
    labels, kind, _ = labels_of(file, label, label_separator, records)  # its note is about texts
    kinds: dict[str, Any] = {"kind": RECORDINGS, "target_kind": kind, "note": _rates(str(file), recordings)}
    if group is not None:
        of_rows = [
            _group(f"{file}: the {group!r} in line {line}", record.get(group)) for line, record in records
        ]
    else:
        group, of_rows = f"the recording of {START} and {END}", _recordings_cut(file, cells)
    if not of_rows:
        return LabelledRows(recordings, labels, str(file), lines, **kinds)
    return GroupedRows(recordings, labels, str(file), lines, groups=of_rows, group=group, **kinds)


def _recordings_cut(file: Path, cells: Sequence[Stretch]) -> list[str]:
    """Return the recording of each row as its group; none if no recording is cut into stretches."""
    names = [_recording_named(cell.recording) for cell in cells]
    if len(set(names)) == len(names) or all(cell.is_whole for cell in cells):
        return []
    if len(set(names)) == 1:
        warn_user(
            f"{file}: all rows are stretches of one recording, so held-out rows are, too: figures flatter "
            "the model. Add recordings, or name a column with `group` (--group)."
        )
        return []
    return names


def _recording_named(cell: Any) -> str:
    """Return a name that all cells of one recording have."""
    content = cell.get("bytes") if isinstance(cell, dict) else None
    if content is not None:
        return hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else ""
    path = cell.get("path") if isinstance(cell, dict) else cell
    return os.path.normpath(str(path).strip())


def _read_stretches(file: Path, where: Sequence[str], cells: Sequence[Stretch]) -> list[Recording]:
    """Return the stretch of each row; a recording is decoded once for all of its stretches."""
    known: dict[str, Recording] = {}  # the last one

    def whole(cell: Any, place: str) -> Recording:
        read = _reader(file.parent, place, cell)
        if not isinstance(cell, str):
            return read()
        if cell not in known:
            known.clear()
            known[cell] = read()
        return known[cell]

    def reader(cell: Stretch, place: str) -> Callable[[], Recording]:
        _reader(file.parent, place, cell.recording)  # what names no recording is refused before any is read
        return lambda: cell.of(whole(cell.recording, place), place)

    readers = [reader(cell, place) for cell, place in zip(cells, where, strict=True)]
    if all(cell.is_whole for cell in cells):
        return _read_all(str(file), where, readers)
    paths = [_recording_named(cell.recording) for cell in cells]
    order = sorted(range(len(cells)), key=paths.__getitem__)
    found = _read_all(str(file), [where[row] for row in order], [readers[row] for row in order])
    return [found[place] for place in sorted(range(len(order)), key=order.__getitem__)]


def _reader(folder: Path, where: str, cell: Any) -> Callable[[], Recording]:
    """Return what reads the recording of a cell."""
    if isinstance(cell, dict) and isinstance(cell.get("bytes"), bytes):
        return lambda: Recording(*decoded(cell["bytes"], where))
    path = cell.get("path") if isinstance(cell, dict) and cell.get("bytes") is None else cell
    if isinstance(path, str) and path.strip():
        return lambda: read_recording(folder / path.strip())
    wanted = 'an object with "bytes" or "path"' if isinstance(cell, dict) else "the path of a file"
    raise DataError(f"{where} must be {wanted}. Received {cell!r:.80}.")


def _group(where: str, cell: Any) -> str:
    found = text_of(cell, where)
    if not found.strip():
        raise DataError(f"{where} is empty. Name the group of each row, such as its speaker.")
    return found


def _read_all(
    source: str, where: Sequence[str], readers: Sequence[Callable[[], Recording]]
) -> list[Recording]:
    """Return all recordings; the error names the first that cannot be read, and counts them."""
    recordings, broken = [], []
    steps = list(zip(where, readers, strict=True))
    for place, read in shown(steps, f"Reading {Path(source).name}"):
        try:
            found = read()
        except MissingExtraError:
            raise
        except DataError as error:
            broken.append(str(error) if place in str(error) else f"{place}: {error}")
            continue
        if not len(found.samples):
            broken.append(f"{place} has no samples.")
        recordings.append(found)
    if broken:
        raise DataError(
            f"{source}: {len(broken)} of {len(readers)} recordings cannot be read. Repair or remove them: "
            f"{' '.join(broken[:_NAMED])}{' …' if len(broken) > _NAMED else ''}"
        )
    return recordings


def _rates(source: str, recordings: Sequence[Recording]) -> str:
    """Return what is told of recordings of several sample rates; "" of one."""
    counts = Counter(row.rate for row in recordings)
    if len(counts) < 2:
        return ""
    told = ", ".join(f"{count:,} of {rate:,} Hz" for rate, count in counts.most_common())
    return f"recordings of {len(counts)} sample rates, which are resampled to one: {told}."
