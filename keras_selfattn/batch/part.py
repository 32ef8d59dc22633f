"""One file of the input with its output: its windows of rows, each answered and made into bytes."""

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_selfattn.asking.answer_values import answer_columns
from keras_selfattn.asking.input_cells import NamedColumns, input_columns, input_value, is_text
from keras_selfattn.batch.length_batches import BatchModel, PendingAnswers
from keras_selfattn.batch.row_files import PARQUET, RowFile, Window, open_rows, values_of
from keras_selfattn.batch.row_writers import RowWriter, writer_for
from keras_selfattn.errors import DataError
from keras_selfattn.serving.client import Signature


@dataclass(frozen=True)
class Part:
    """A file of rows and the form of its answers; it can be pickled.

    Args:
        file: the input.
        target: the output, whose ending is its form.
        separator: of the columns of the input.
        has_header: False if the input's first line is a row.
        columns: of the input.
        inputs: the column of each input of the model.
        outputs: the column of each output of the model.
        batch_size: the most rows in a batch.
        named: True if errors name the file.
    """

    file: Path
    target: Path
    separator: str | None
    has_header: bool
    columns: tuple[str, ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    batch_size: int
    named: bool

    def writer(self) -> RowWriter:
        """Return the form of the output."""
        return writer_for(self.target, self.columns, list(self.outputs.values()))

    def rows(self) -> RowFile:
        """Return the opened input."""
        return open_rows(self.file, self.separator, self.has_header)

    def windows(self, place: Sequence[int] | None, end: Sequence[int] | None = None) -> Iterator[Window]:
        """Yield the windows from a place on, up to another one if it is given."""
        for window in self.rows().windows(place):
            yield window if end is None else window.cut(end)
            if end is not None and window.end[0] >= end[0]:
                return

    def places(self, place: Sequence[int] | None) -> Iterator[tuple[Sequence[int] | None, list[int]]]:
        """Yield beginning and end of each window from a place on."""
        for end in self.rows().ends(place):
            yield place, end
            place = end


@dataclass(frozen=True)
class Answered:
    """A window with its answers, as bytes.

    Args:
        rows: to append to the output's draft.
        errors: to append to the file of errors.
        count: rows with answers.
        failed: rows without.
        place: the place after the window.
        done: bytes, or rows of Parquet, before that place.
    """

    rows: bytes
    errors: bytes
    count: int
    failed: int
    place: list[int]
    done: int


class PendingWindow:
    """A window whose rows are being answered.

    Args:
        part: its file.
        window: the rows.
        model: answers them.
        executor: its threads compute the batches.
    """

    def __init__(self, part: Part, window: Window, model: BatchModel, executor: Executor) -> None:
        self._part, self._window = part, window
        self._problems = dict(window.problems)
        self._kept, inputs = self._read(model.signature)
        self._answers = PendingAnswers(model, inputs, list(part.outputs), part.batch_size, executor)

    def result(self, writer: RowWriter) -> Answered:
        """Return the window with its answers, once all are there."""
        found, failed = self._answers.result()
        window, part = self._window, self._part
        for place, reason in failed.items():
            self._problems[window.lines[self._kept[place]]] = reason
        good = [place for place in range(len(self._kept)) if place not in failed]
        kept = [self._kept[place] for place in good]
        columns = {part.outputs[name]: [values[place] for place in good] for name, values in found.items()}
        rows, unwritten = writer.encoded(window, kept, columns) if kept else (b"", {})
        for row, reason in unwritten.items():
            self._problems[window.lines[row]] = reason
        count = len(kept) - len(unwritten)
        return Answered(rows, self._errors(), count, len(self._problems), window.end, window.done)

    def cancel(self) -> None:
        """Drop what has not begun."""
        self._answers.cancel()

    def _read(self, signature: Signature) -> tuple[list[int], dict[str, list[Any]]]:
        """Return the places of the rows that can be asked, and their inputs."""
        columns = {name: values_of(self._window, column) for name, column in self._part.inputs.items()}
        if not columns:
            reason = "the first 1,000 rows cannot be read, so the columns of the model are not known"
            self._problems |= dict.fromkeys(self._window.lines, reason)
            return [], {}
        kept, inputs = [], {name: [] for name in columns}
        taken = set(self._part.outputs.values())
        for place in range(len(self._window.lines)):
            try:
                row = {name: self._cell(signature, name, values[place]) for name, values in columns.items()}
                self._check_columns(place, taken)
            except DataError as error:
                self._problems[self._window.lines[place]] = str(error)
                continue
            kept.append(place)
            for name, value in row.items():
                inputs[name].append(value)
        return kept, inputs

    def _cell(self, signature: Signature, name: str, value: Any) -> Any:
        column = self._part.inputs[name]
        if value is None and not is_text(signature, name):
            raise DataError(f"it has no {column!r}")
        return input_value(signature, name, value, repr(column))

    def _check_columns(self, place: int, taken: set[str]) -> None:
        if problem := self._window.problem(place):
            raise DataError(problem)
        if self._window.table is None and not taken.isdisjoint(self._window.records[place]):
            name = next(name for name in self._window.records[place] if name in taken)
            raise DataError(f"it has a column {name!r}, which is that of an answer")

    def _errors(self) -> bytes:
        place = "row" if self._part.file.suffix.lower() == PARQUET else "line"
        told = {"file": self._part.file.name} if self._part.named else {}
        lines = [
            json.dumps(told | {place: line, "reason": reason}, ensure_ascii=False) + "\n"
            for line, reason in sorted(self._problems.items())
        ]
        return "".join(lines).encode(errors="replace")


def answered(
    part: Part,
    place: Sequence[int] | None,
    model: BatchModel,
    executor: Executor,
) -> Generator[Answered, None, None]:
    """Yield the windows of a part from a place on, answered; the next is being answered meanwhile."""
    writer, windows = part.writer(), part.windows(place)
    before: PendingWindow | None = None
    after: PendingWindow | None = None
    try:
        while True:
            try:
                window = next(windows, None)
            except Exception:
                if before is not None:  # what stands before the trouble is kept
                    yield before.result(writer)
                raise
            after = None if window is None else PendingWindow(part, window, model, executor)
            if before is not None:
                yield before.result(writer)
            before = after
            if before is None:
                return
    finally:
        for pending in (before, after):
            if pending is not None:
                pending.cancel()


def part_for(
    file: Path,
    target: Path,
    signature: Signature,
    outputs: Sequence[str],
    *,
    columns: NamedColumns,
    trained_columns: NamedColumns,
    separator: str | None,
    has_header: bool,
    batch_size: int,
    named: bool,
) -> Part:
    """Return a part whose columns fit the model.

    Args:
        file: the input.
        target: the output.
        signature: of the model.
        outputs: the outputs to write; none for the usual ones.
        columns: those that are named: of a model with one input, or of pairs of texts.
        trained_columns: those that the model's training read, taken where they are there.
        separator: of the columns.
        has_header: False if the first line is a row.
        batch_size: the most rows in a batch.
        named: True if errors name the file.

    Raises:
        ConfigError: for an unknown output, or a named column that the model does not take.
        DataError: if columns are missing, or have the name of an answer.
    """
    present = open_rows(file, separator, has_header).columns
    # A JSON Lines file without a readable row has no columns; its rows are errors.
    inputs = input_columns(signature, file, present, columns, trained_columns) if present else {}
    names = answer_columns(signature, outputs, present, str(file))
    return Part(file, target, separator, has_header, tuple(present), inputs, names, batch_size, named)
