"""Large batches as several calls, and their answers as one."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from .answers import Prediction
from .server_ref import ServerRef


def parts(
    server: ServerRef, arrays: Mapping[str, np.ndarray], rowwise: Sequence[str], max_batch_size: int | None
) -> list[range]:
    """Return slices of rows, at most `max_batch_size` in each; one part if nothing has rows.

    Raises:
        InvalidInputError: the batch must be split, and its inputs have different numbers of rows.
    """
    counts = {name: len(arrays[name]) for name in rowwise}
    rows = max(counts.values(), default=0)
    if max_batch_size is None or rows <= max_batch_size:
        return [range(rows)]
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name!r} {count}" for name, count in counts.items())
        raise server.refused(
            f"inputs with different numbers of rows ({listed}) cannot be split to max_batch_size "
            f"{max_batch_size}"
        )
    return [range(start, min(start + max_batch_size, rows)) for start in range(0, rows, max_batch_size)]


def taken(arrays: Mapping[str, np.ndarray], rowwise: Sequence[str], rows: range) -> dict[str, np.ndarray]:
    """The inputs of one part; inputs without rows are not changed."""
    return {
        name: array[rows.start : rows.stop] if name in rowwise else array for name, array in arrays.items()
    }


def joined(server: ServerRef, answers: Sequence[Prediction], rows: Sequence[range]) -> Prediction:
    """Join the answers of the parts, in order.

    Raises:
        MalformedResponseError: an output lacks one entry for each row, or has rows of different shapes.
    """
    first = answers[0]
    if len(answers) == 1:
        return first
    together = {name: _together(server, name, answers, rows) for name in first}
    return Prediction(together, model=first.model, version=first.version, signature=first.signature)


def each_row(server: ServerRef, prediction: Prediction, count: int) -> Iterator[dict[str, object]]:
    """The outputs of each row by name."""
    for name, output in prediction.items():
        _check_rows(server, name, output, count)
    for row in range(count):
        yield {name: output[row] for name, output in prediction.items()}


def _together(
    server: ServerRef, name: str, answers: Sequence[Prediction], rows: Sequence[range]
) -> np.ndarray:
    outputs = [answer[name] for answer in answers]
    for output, part in zip(outputs, rows, strict=True):
        _check_rows(server, name, output, len(part))
    if len({output.shape[1:] for output in outputs}) > 1:
        shapes = ", ".join(sorted({str(list(output.shape)) for output in outputs}))
        raise server.malformed(
            f"output {name!r} has other shapes for other rows ({shapes}), so that max_batch_size= cannot put "
            f"its parts together: leave it out with outputs=, or send smaller batches"
        )
    return np.concatenate(outputs)


def _check_rows(server: ServerRef, name: str, output: np.ndarray, count: int) -> None:
    if output.ndim == 0 or len(output) != count:
        raise server.malformed(
            f"output {name!r} of shape {list(output.shape)} has not one entry for each of {count} rows: "
            f"leave it out with outputs="
        )
