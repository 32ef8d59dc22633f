"""The unfinished output: a hidden folder beside the output, with which the run after a killed one goes on.

    .answers.csv.partial/state.json     what it is made of, and how far it is
    .answers.csv.partial/rows-0         the rows of the first file so far; after a crash perhaps more
    .answers.csv.partial/errors         the rows that failed so far
    .answers.csv.partial/done/          finished files

`state.json` is replaced by rename, after the rows that it counts have reached the disk. What lies behind its
counts is cut off before more is written.
"""

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from keras_selfattn.errors import DataError
from keras_selfattn.files.atomic import lock_folder, publish, sync, write_file


@dataclass
class State:
    """The progress of an output.

    Args:
        made_of: input, model and options, as JSON types; an output goes on only with the same.
        part: the number of the input file that is being read.
        place: the place in it, None for its beginning.
        rows_bytes: bytes of the part's draft up to there.
        errors_bytes: bytes of the file of errors.
        rows: rows with answers, of all parts.
        failed: rows without.
        cut: written texts that the model's bound cut, of all parts.
        read: True if the part is read to its end.
    """

    made_of: Mapping[str, Any]
    part: int = 0
    place: list[int] | None = None
    rows_bytes: int = 0
    errors_bytes: int = 0
    rows: int = 0
    failed: int = 0
    read: bool = False
    cut: int = 0

    @property
    def is_empty(self) -> bool:
        """True if nothing is counted yet."""
        return (self.part, self.place, self.rows_bytes) == (0, None, 0)


class Journal:
    """The hidden folder of an output, locked by this process; make it with `open_journal`.

    Attributes:
        state: how far it is on the disk.
        resumed: True if an earlier run began it.
    """

    def __init__(self, folder: Path, output: Path, state: State, *, resumed: bool) -> None:
        self.folder, self.output, self.state, self.resumed = folder, output, state, resumed
        self._done = folder / "done"
        self._errors = folder / "errors"

    def draft(self) -> Path:
        """Return the draft of the current part."""
        return self.folder / f"rows-{self.state.part}"

    @contextmanager
    def writing(self) -> Iterator["DraftWriter"]:
        """Yield the writer of the current part, which goes on at the state's place."""
        with (
            _at(self.draft(), self.state.rows_bytes) as rows,
            _at(self._errors, self.state.errors_bytes) as errors,
        ):
            yield DraftWriter(self, rows, errors)

    def save(self) -> None:
        """Write the state, after what it counts has reached the disk."""
        write_file(self.folder / "state.json", json.dumps(asdict(self.state)).encode())

    def end_part(self, name: str, finish: Any) -> None:
        """Make the file of a part that is read to its end, and begin with the next part."""
        self._done.mkdir(exist_ok=True)
        # If a run was killed after the draft became the file, only the state is behind.
        if self.draft().exists():
            for child in self._done.iterdir():  # of a run that was killed while it made the file
                if child.name.startswith(f".{name}.tmp-"):
                    child.unlink()
            finish(self.draft(), self._done / name)
            sync(self._done)
        elif not (self._done / name).exists():
            raise DataError(f"{self.folder} is damaged: {name} is not in it. Begin anew with --overwrite.")
        state = self.state
        state.part, state.place, state.rows_bytes, state.read = state.part + 1, None, 0, False
        self.save()

    def publish(self, *, overwrite: bool, whole_folder: bool) -> None:
        """Let errors and output appear, in this order, and remove the folder."""
        target = errors_of(self.output)
        found = self._done if whole_folder else next(self._done.iterdir(), None)
        appears = found is not None and found.exists()
        if appears and self.output.exists() and not overwrite:
            raise FileExistsError(errno.EEXIST, "it has appeared meanwhile")
        if self._errors.exists():
            if self.state.errors_bytes:
                self._errors.replace(target)
            else:
                target.unlink(missing_ok=True)
        if found is not None and appears:
            if whole_folder:
                publish(found, self.output, overwrite=overwrite)
            else:
                found.replace(self.output)
                sync(self.output.parent)
        _empty(self.folder)
        self.folder.rmdir()


class DraftWriter:
    """Appends to the drafts of a journal."""

    def __init__(self, journal: Journal, rows: BinaryIO, errors: BinaryIO) -> None:
        self._journal, self._rows, self._errors = journal, rows, errors

    def append(self, rows: bytes, errors: bytes) -> None:
        """Append without counting it: `commit` does."""
        self._rows.write(rows)
        self._errors.write(errors)

    def commit(
        self, place: list[int] | None, *, rows: int, failed: int, read: bool = False, cut: int = 0
    ) -> None:
        """Count all that was appended, up to a place of the input, once it is on the disk."""
        for file in (self._rows, self._errors):
            file.flush()
            os.fsync(file.fileno())
        state = self._journal.state
        state.place, state.read = place, read
        state.rows_bytes, state.errors_bytes = self._rows.tell(), self._errors.tell()
        state.rows += rows
        state.failed += failed
        state.cut += cut
        self._journal.save()


def errors_of(output: Path) -> Path:
    """Return the file with the rows of an output that failed."""
    return output.with_name(f"{output.name}.errors.jsonl")


def partial_of(output: Path) -> Path:
    """Return the hidden folder of an unfinished output."""
    return output.with_name(f".{output.name}.partial")


def unfinished(output: Path) -> Mapping[str, Any]:
    """Return what an unfinished output is made of, as JSON types; nothing without one."""
    state = _read(partial_of(output))
    return {} if state is None else state.made_of


def published(output: Path, made_of: Mapping[str, Any]) -> State | None:
    """Remove the folder of a run that was killed after its output had appeared.

    Returns:
        Its state, if the output is made of the same; None otherwise, and if there is no such folder.
    """
    folder = partial_of(output)
    state = _read(folder)
    if state is None or state.part == 0 or not output.exists():
        return None
    done = folder / "done"
    if (done.is_dir() and any(done.iterdir())) or any(folder.glob("rows-*")) or not _is_last(state):
        return None
    shutil.rmtree(folder, ignore_errors=True)
    return state if state.made_of == _as_json(made_of) else None


@contextmanager
def open_journal(output: Path, made_of: Mapping[str, Any], *, overwrite: bool) -> Iterator[Journal]:
    """Yield the journal of an output: a new one, or that of an earlier run with the same input and model.

    Args:
        output: the file or folder to make.
        made_of: input, model and options, as JSON types.
        overwrite: True begins anew if an earlier run had others.

    Raises:
        DataError: if another process writes it, it was made of something else, or it cannot be written.
    """
    folder = partial_of(output)
    with writing(output):
        folder.mkdir(parents=True, exist_ok=True)
        lock = _locked(folder, output)
        try:
            state = _read(folder)
            if state is not None and state.is_empty:
                state = None
            if state is not None and state.made_of != _as_json(made_of):
                if not overwrite:
                    raise DataError(_differs(folder, output, state.made_of, made_of))
                state = None
            resumed = state is not None
            if state is None:
                _empty(folder)
                state = State(made_of)
            journal = Journal(folder, output, state, resumed=resumed)
            journal.save()
            try:
                yield journal
            finally:
                if journal.state.is_empty:
                    shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


@contextmanager
def writing(output: Path) -> Iterator[None]:
    """Raise errors of the disk as DataError, with the next step."""
    try:
        yield
    except OSError as error:
        if isinstance(error, DataError) or error.errno is None or type(error).__module__ != "builtins":
            raise
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        step = "Free space on it" if full else "See to that"
        raise DataError(
            f"--output {output} cannot be written: {error.strerror or error}. {step}, and run the same "
            "command again: it goes on with what is written."
        ) from error


def _locked(folder: Path, output: Path) -> int:
    try:
        return lock_folder(folder)
    except BlockingIOError:
        raise DataError(
            f"Another process is writing {output} now. Wait for it, or choose another --output."
        ) from None


def _read(folder: Path) -> State | None:
    try:
        return State(**json.loads((folder / "state.json").read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _is_last(state: State) -> bool:
    return state.part == len(state.made_of.get("input", ()))


def _empty(folder: Path) -> None:
    # The state goes last: without it, the next run could not tell that the output is whole.
    for child in sorted(folder.iterdir(), key=lambda child: child.name == "state.json"):
        if child.is_dir():
            shutil.rmtree(child)
        else:
            with contextlib.suppress(FileNotFoundError):
                child.unlink()


def _differs(folder: Path, output: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    names = [name for name in now if before.get(name) != _as_json(now[name])]
    told = " and ".join(f"{name} {_shown(before.get(name))}, now {_shown(now[name])}" for name in names)
    return (
        f"An unfinished {output} is in {folder}, made of something else: {told}. Give the same as before to "
        "go on, or begin anew with --overwrite."
    )


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:200] + "…"


@contextmanager
def _at(file: Path, size: int) -> Iterator[BinaryIO]:
    """Yield a file that is cut at a size, to append to."""
    found = file.stat().st_size if file.exists() else 0
    if found < size:
        raise DataError(f"{file} is damaged: it has {found} of {size} bytes. Begin anew with --overwrite.")
    with file.open("r+b" if file.exists() else "w+b") as opened:
        opened.truncate(size)
        opened.seek(size)
        yield opened
