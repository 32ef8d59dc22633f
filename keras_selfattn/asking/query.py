"""The steps of `query`, for both programs: rows asked, each answer beside its row, and what is written."""

import csv
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from keras_selfattn.asking.answer_values import cell_text, default_outputs, plain, writes_texts
from keras_selfattn.asking.asked_rows import QueryRow, Wrap, asked_rows, check_asked, signature_choice
from keras_selfattn.asking.commands import connected, signature_of, version_of
from keras_selfattn.asking.input_cells import without_padding
from keras_selfattn.asking.raw_texts import (
    annotated_record,
    answers_spans,
    asked_outputs,
    check_offsets,
    doccano_spans,
    without_rest,
)
from keras_selfattn.errors import DataError
from keras_selfattn.files import valid_json
from keras_selfattn.serving.client import Client, Signature
from keras_selfattn.serving.errors import ServingError
from keras_selfattn.serving.wire.signature_names import ENDED, TEXT

Answer = dict[str, Any]
SHOWN_ROWS = 100
"""The most rows of a table for people."""
MORE_ROWS = f"These are the first {SHOWN_ROWS} rows; --format csv or json writes all."
"""The line below a table of so many rows, if there are more."""


@dataclass
class CutTexts:
    """The number of written texts that the model's bound of symbols cut, of those that were answered so far.

    Example:

        >>> CutTexts(2).warning[:17]
        '2 texts were cut:'
    """

    count: int = 0

    @property
    def warning(self) -> str:
        """A sentence for people; empty if no text was cut."""
        if not self.count:
            return ""
        texts = "1 text was" if self.count == 1 else f"{self.count:,} texts were"
        return (
            f"{texts} cut: the model's bound of symbols came before the end ({ENDED} is false). For longer "
            "ones train it with a larger --max-new-tokens."
        )


def query(
    model: str,
    texts: tuple[str, ...],
    file: Path | None,
    options: Mapping[str, Any],
    *,
    show: Callable[[Iterator[Answer], Signature], None],
    say: Callable[[str], Any],
    wrap: Wrap | None = None,
) -> None:
    """Ask a served model about rows, and write its answers: all that `query` does, in its order.

    Args:
        model: the name of the served model.
        texts: rows of a model with one input.
        file: a table, or series.
        options: of `commands.QUERY`.
        show: prints answers of a signature as a table for people, `SHOWN_ROWS` of them.
        say: prints a line beside the answers.
        wrap: as for `asked_rows`.

    Raises:
        SelfAttentionError, ServingError: for rows, options or a server that do not fit.
    """
    check_asked(texts, file, options)
    with connected(model, options) as client:
        metadata = client.metadata(version_of(options))
        name = signature_choice(file, options).of(metadata.signatures)
        signature = signature_of(metadata, name)
        check_offsets(signature, options["offsets"], options["outputs"])
        rows = asked_rows(signature, texts, file, options, wrap)
        cut = CutTexts()
        answers = answered(client, name, signature, rows, options, cut)
        if options["output"] is not None:
            write_file(options["output"], answers, options["form"])
            say(f"The answers are in {options['output']}.")
        elif options["form"] == "table":
            show(answers, signature)
        else:
            write(sys.stdout, answers, options["form"])
        if cut.count:
            say(cut.warning)


def answered(
    client: Client,
    name: str,
    signature: Signature,
    asked: Iterator[QueryRow],
    options: Mapping[str, Any],
    cut: CutTexts,
) -> Iterator[Answer]:
    """Yield the answers of the rows, each beside the columns that identify its row.

    Args:
        client: connected to the server.
        name: of the signature.
        signature: to ask.
        asked: the rows.
        options: `outputs`, `offsets`, `batch_size`, and the version or its label.
        cut: counts texts that are not whole.
    """
    of_spans, outputs = answers_spans(signature), list(options["outputs"])
    outputs = asked_outputs(outputs) if of_spans else outputs or default_outputs(signature)
    of_texts = TEXT in outputs and writes_texts(signature)
    asked_too = [ENDED] if of_texts and ENDED not in outputs else []
    given: deque[QueryRow] = deque()

    def rows() -> Iterator[dict[str, Any]]:
        for record, row in asked:
            given.append((record, row))
            yield row

    asked_of = {"version": version_of(options), "batch_size": options["batch_size"], "known": signature}
    for answer in client.predict_iter(rows(), name, [*outputs, *asked_too], **asked_of):
        record, row = given.popleft()
        cut.count += of_texts and not answer[ENDED]
        if of_spans and not options["outputs"]:
            yield _annotated(record, row, answer, options)
        elif of_spans:
            yield _beside(record, without_rest(answer, options["outputs"]))
        else:
            named = {output: answer[output] for output in outputs}
            yield _beside(record, without_padding(signature, row, named))


def _beside(record: dict[str, Any], values: dict[str, Any]) -> Answer:
    return record | {f"predicted_{name}" if name in record else name: each for name, each in values.items()}


def _annotated(
    record: dict[str, Any], row: dict[str, Any], answer: Mapping[str, Any], options: Mapping[str, Any]
) -> Answer:
    """Return a row with the spans of its text in doccano's form."""
    ((name, text),), column = row.items(), options["column"]
    found = column if column in record else name if name in record else next(iter(record))
    try:
        return annotated_record(record, found, text, doccano_spans(text, answer, options["offsets"]))
    except DataError as error:
        raise DataError(f"The row with the text {text!r:.60} cannot be written: {error}.") from None


def write(stream: TextIO, answers: Iterable[Answer], form: str) -> None:
    """Write answers as "json", an object a line, or as "csv", whose columns are those of the first answer.

    Raises:
        DataError: for an answer with another column, in "csv".
    """
    if form == "json":
        for answer in answers:
            record = {name: plain(value) for name, value in answer.items()}
            stream.write(valid_json.dumps(record, ensure_ascii=False) + "\n")
        return
    writer, names = csv.writer(stream, lineterminator="\n"), None
    for answer in answers:
        if names is None:
            names = dict.fromkeys(answer)
            writer.writerow(names)
        if other := [name for name in answer if name not in names]:
            raise DataError(f"A row has a column {other[0]!r}, which the first row lacks: use --format json.")
        writer.writerow(cell_text(answer.get(name)) for name in names)


def write_file(output: Path, answers: Iterable[Answer], form: str) -> None:
    """Write answers to a file, which appears when all are written.

    Raises:
        DataError: if it cannot be written.
    """
    from keras_selfattn.files.atomic import text_destination  # here: Windows lacks its file locks

    try:
        if output.is_dir():
            raise DataError(f"--output must be a file. Received {str(output)!r}, a folder.")
        with text_destination(output) as stream:
            write(stream, answers, form)
    except BaseException as error:
        # Some ServingErrors are OSErrors, too: no answer is a ConnectionError or a TimeoutError.
        if isinstance(error, OSError) and not isinstance(error, ServingError):
            raise DataError(f"--output {output} cannot be written: {error.strerror or error}.") from error
        with suppress(OSError):
            print(f"{output} was not written.", file=sys.stderr)
        raise
