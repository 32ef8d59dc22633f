"""The answers to rows beside the columns that identify them, and what is written of them."""

import csv
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from keras_selfattn.asking.answer_values import cell_text, plain
from keras_selfattn.asking.asked_rows import QueryRow
from keras_selfattn.asking.input_cells import without_padding
from keras_selfattn.errors import DataError
from keras_selfattn.files import valid_json
from keras_selfattn.serving.client import Client, ModelMetadata, Signature, TensorSpec, VersionStatus
from keras_selfattn.serving.errors import FailedPreconditionError, ServingError

Answer = dict[str, Any]


def signature_of(client: Client, options: Mapping[str, Any]) -> Signature:
    """Return the signature that the options name.

    Raises:
        FailedPreconditionError: if the model has none of this name.
    """
    metadata = client.metadata(options["version"], label=options["label"])
    name = options["signature"]
    if name in metadata.signatures:
        return metadata.signatures[name]
    raise FailedPreconditionError(f"The model has no signature {name!r}. It is:\n{metadata!r}")


def answered(
    client: Client,
    signature: Signature,
    asked: Iterator[QueryRow],
    outputs: Sequence[str],
    options: Mapping[str, Any],
) -> Iterator[Answer]:
    """Yield the answers of the rows, each beside the columns that identify its row."""
    given: deque[QueryRow] = deque()

    def rows() -> Iterator[dict[str, Any]]:
        for record, row in asked:
            given.append((record, row))
            yield row

    asked_of = {name: options[name] for name in ("version", "label", "batch_size")}
    for answer in client.predict_iter(rows(), options["signature"], outputs, **asked_of):
        record, row = given.popleft()
        values = without_padding(signature, row, {name: answer[name] for name in outputs})
        yield record | {f"predicted_{name}" if name in record else name: values[name] for name in outputs}


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


def status_record(status: VersionStatus) -> dict[str, Any]:
    """Return the state of a version as JSON types.

    Example:

        >>> status_record(VersionStatus(3, "AVAILABLE"))
        {'version': 3, 'state': 'AVAILABLE', 'code': 'OK', 'message': ''}
    """
    return {
        "version": status.version,
        "state": status.state,
        "code": status.code.name,
        "message": status.message,
    }


def metadata_record(metadata: ModelMetadata) -> dict[str, Any]:
    """Return the signatures of a model as JSON types."""
    signatures = {
        name: {
            "inputs": _specs(signature.inputs),
            "outputs": _specs(signature.outputs),
            "defaults": sorted(signature.defaults),
            "method_name": signature.method_name,
        }
        for name, signature in metadata.signatures.items()
    }
    return {"model": metadata.model, "version": metadata.version, "signatures": signatures}


def _specs(specs: Mapping[str, TensorSpec]) -> dict[str, Any]:
    shapes = {name: None if spec.shape is None else list(spec.shape) for name, spec in specs.items()}
    return {name: {"dtype": spec.dtype, "shape": shapes[name]} for name, spec in specs.items()}
