"""One file of the input with its output: its windows of rows, each answered and made into bytes."""

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_selfattn.asking.answer_values import answer_columns, writes_texts
from keras_selfattn.asking.input_cells import (
    NamedColumns,
    input_columns,
    input_value,
    is_text,
    stretched,
)
from keras_selfattn.asking.raw_texts import (
    OFFSETS,
    SPAN_OUTPUTS,
    TOKENS,
    annotated_record,
    answers_spans,
    are_tokens,
    asked_outputs,
    columns_without_rest,
    doccano_spans,
    is_annotation,
)
from keras_selfattn.batch.length_batches import BatchModel, PendingAnswers
from keras_selfattn.batch.row_files import PARQUET, RowFile, Window, open_rows, values_of
from keras_selfattn.batch.row_writers import RowWriter, writer_for
from keras_selfattn.errors import DataError
from keras_selfattn.rows.recordings import END, START
from keras_selfattn.serving.client import Signature
from keras_selfattn.serving.wire.signature_names import AUDIO, ENDED, LABEL, TEXT


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
        spans: what offsets of spans in doccano's form count, which are then the answers; "" for the outputs.
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
    spans: str = ""

    @property
    def added(self) -> tuple[str, ...]:
        """The columns of the answers."""
        return (LABEL,) if self.spans else tuple(self.outputs.values())

    def writer(self) -> RowWriter:
        """Return the form of the output."""
        return writer_for(self.target, self.columns, self.added)

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
        cut: written texts that the model's bound of symbols cut, of the rows with answers.
    """

    rows: bytes
    errors: bytes
    count: int
    failed: int
    place: list[int]
    done: int
    cut: int = 0


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
        self._of_spans = answers_spans(model.signature)
        self._kept, inputs = self._read(model.signature)
        self._inputs = inputs
        outputs = asked_outputs(list(part.outputs)) if self._of_spans else list(part.outputs)
        self._of_texts = writes_texts(model.signature) and TEXT in outputs
        if self._of_texts and ENDED not in outputs:  # so that texts that are not whole are told
            outputs = [*outputs, ENDED]
        self._answers = PendingAnswers(model, inputs, outputs, part.batch_size, executor)

    def result(self, writer: RowWriter) -> Answered:
        """Return the window with its answers, once all are there."""
        found, failed = self._answers.result()
        window, part = self._window, self._part
        for place, reason in failed.items():
            self._problems[window.lines[self._kept[place]]] = reason
        good = [place for place in range(len(self._kept)) if place not in failed]
        kept = [self._kept[place] for place in good]
        found = {name: [values[place] for place in good] for name, values in found.items()}
        if self._of_spans and kept:
            window, kept, columns = self._with_spans(window, kept, good, found)
        else:
            columns = {column: found[name] for name, column in part.outputs.items() if name in found}
        rows, unwritten = writer.encoded(window, kept, columns) if kept else (b"", {})
        for row, reason in unwritten.items():
            self._problems[window.lines[row]] = reason
        count = len(kept) - len(unwritten)
        cut = 0
        if self._of_texts and kept:
            ended = zip(kept, found[ENDED], strict=True)
            cut = sum(not whole for row, whole in ended if row not in unwritten)
        return Answered(rows, self._errors(), count, len(self._problems), window.end, window.done, cut)

    def _with_spans(
        self, window: Window, kept: list[int], good: list[int], found: Mapping[str, list[Any]]
    ) -> tuple[Window, list[int], dict[str, list[Any]]]:
        """Return the rows and the columns of their answers: spans, without what is beyond their number."""
        part = self._part
        if not part.spans:
            own = columns_without_rest(found, list(part.outputs))
            return window, kept, {part.outputs[name]: values for name, values in own.items()}
        answers = [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]
        ((name, column),) = part.inputs.items()
        texts = [self._inputs[name][place] for place in good]
        as_lines = _is_json_lines(part.target)
        written: dict[int, Any] = {}  # by row
        for row, text, answer in zip(kept, texts, answers, strict=True):
            try:
                spans = doccano_spans(text, answer, part.spans)
                written[row] = (
                    annotated_record(window.records[row], column, text, spans) if as_lines else spans
                )
            except DataError as error:
                self._problems[window.lines[row]] = str(error)
        if not as_lines:
            return window, [*written], {LABEL: [*written.values()]}
        lines = [window.lines[row] for row in written]
        records = Window(lines, [*written.values()], window.end, window.done)
        return records, list(range(len(lines))), {}

    def cancel(self) -> None:
        """Drop what has not begun."""
        self._answers.cancel()

    def _read(self, signature: Signature) -> tuple[list[int], dict[str, list[Any]]]:
        """Return the places of the rows that can be asked, and their inputs."""
        columns = {name: values_of(self._window, column) for name, column in self._part.inputs.items()}
        if AUDIO in columns:
            columns[AUDIO] = self._stretched(columns[AUDIO])
        if not columns:
            reason = "the first 1,000 rows cannot be read, so the columns of the model are not known"
            self._problems |= dict.fromkeys(self._window.lines, reason)
            return [], {}
        kept, inputs = [], {name: [] for name in columns}
        taken = set(self._part.added)
        for place in range(len(self._window.lines)):
            try:
                row = {name: self._cell(signature, name, values[place]) for name, values in columns.items()}
                self._check_text(place, row)
                self._check_columns(place, taken)
            except DataError as error:
                self._problems[self._window.lines[place]] = str(error)
                continue
            kept.append(place)
            for name, value in row.items():
                inputs[name].append(value)
        return kept, inputs

    def _stretched(self, cells: list[Any]) -> list[Any]:
        """Return the cells of recordings with their stretches, where the table has such columns."""
        # Of JSON Lines the columns of the first rows alone are known.
        only = self._part.columns if self._part.file.suffix.lower() == PARQUET else (START, END)
        names = [name for name in (START, END) if name in only]
        others = zip(*(values_of(self._window, name) for name in names), strict=True)
        if not names:
            return cells
        rows = (dict(zip(names, each, strict=True)) for each in others)
        return [stretched(AUDIO, cell, row) for cell, row in zip(cells, rows, strict=True)]

    def _cell(self, signature: Signature, name: str, value: Any) -> Any:
        column = self._part.inputs[name]
        if value is None and not is_text(signature, name):
            raise DataError(f"it has no {column!r}")
        return input_value(signature, name, value, repr(column), self._part.file.parent)

    def _check_text(self, place: int, row: Mapping[str, Any]) -> None:
        """Raise DataError for a row of tokens where raw texts are asked for: its text is no empty one."""
        if not self._of_spans or any(row.values()):
            return
        record, (column,) = self._window.records[place], self._part.inputs.values()
        if record.get(column) is None and are_tokens(record.get(TOKENS)):
            raise DataError(
                f"it has tokens and no {column!r}, where the first rows are raw texts: give them a file of "
                "their own"
            )

    def _check_columns(self, place: int, taken: set[str]) -> None:
        if problem := self._window.problem(place):
            raise DataError(problem)
        if self._window.table is not None and not self._part.spans:
            return
        record = self._window.records[place]
        replaces = bool(self._part.spans) and _is_json_lines(self._part.target)
        for name in record.keys() & taken:
            if not (replaces and is_annotation(name, record[name])):
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
    offsets: str | None = None,
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
        offsets: what offsets of spans count; None for units of UTF-16.

    Raises:
        ConfigError: for an unknown output, or a named column that the model does not take.
        DataError: if columns are missing, or have the name of an answer.
    """
    present = open_rows(file, separator, has_header).columns
    # A JSON Lines file without a readable row has no columns; its rows are errors.
    inputs = input_columns(signature, file, present, columns, trained_columns) if present else {}
    table = (file, target, separator, has_header, tuple(present), inputs)
    if answers_spans(signature) and not outputs:
        _check_replaced(file, target, present)
        names = {name: name for name in SPAN_OUTPUTS}
        return Part(*table, names, batch_size, named, offsets or OFFSETS.choices[0])
    names = answer_columns(signature, outputs, present, str(file))
    return Part(*table, names, batch_size, named)


def _check_replaced(file: Path, target: Path, columns: Sequence[str]) -> None:
    """Raise DataError for a column that has the place of spans, unless JSON Lines replace those of a tool."""
    if LABEL not in columns or (_is_json_lines(target) and file.suffix.lower() not in (".csv", ".tsv")):
        return
    hint = "" if _is_json_lines(target) else ", or write .jsonl, where spans of a tool are replaced"
    raise DataError(f"{file} has a column {LABEL!r} already, which is that of the answers. Rename it{hint}.")


def _is_json_lines(file: Path) -> bool:
    return file.suffix.lower() in (".jsonl", ".ndjson")
