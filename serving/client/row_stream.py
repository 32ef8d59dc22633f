"""Send any number of rows as calls of one batch each.

`predict_iter` uses this module instead of `Operations.predict`, which needs all rows at once, answers them
from one version and returns one result. A stream may never end: its rows are answered batch by batch.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from ..errors import InvalidInputError, UnimplementedError
from .answers import with_text
from .inputs import Inputs, checked_inputs
from .model_metadata import Signature
from .operations import Operations, each_row
from .server_ref import Version
from .steps import Steps, at_least_one
from .transport.base import Request

# One row, without the batch's axis: a value of the only input, or a mapping from input names to values.
Row = Mapping[str, ArrayLike] | ArrayLike

_DEFAULT_BATCH_SIZE = 64

_T = TypeVar("_T")


class RowStream:
    """Turn batches of rows into calls, and their answers into rows.

    Args:
        operations: the model's calls.
        name: the signature to call.
        signature: the served signature, if known.
        outputs: names of the requested outputs; empty for all.
        which: the requested version.
    """

    def __init__(
        self,
        operations: Operations,
        name: str,
        signature: Signature | None,
        outputs: Sequence[str],
        which: Version,
    ):
        self._operations, self._name, self._signature, self._which = operations, name, signature, which
        self._outputs = outputs

    def request(self, batch: tuple[int, list[Row]]) -> Request:
        """The call for a batch: the number of its first row, and its rows."""
        first, rows = batch
        part = range(first, first + len(rows))
        try:
            arrays = checked_inputs(self._operations.server, _stacked(rows), self._name, self._signature)
        except InvalidInputError as error:
            raise self._operations.server.refused(error.details, part) from error
        return self._operations.request(arrays, self._name, self._outputs, self._which, part)

    def answers(self, request: Request, data: bytes) -> Iterator[dict[str, Any]]:
        """The outputs of each row of a call, by name."""
        prediction = with_text(self._operations.prediction(data, self._name, self._which))
        return each_row(self._operations.server, prediction, len(request.rows or ()))


def open_stream(
    operations: Operations,
    name: str,
    outputs: Sequence[str] | None,
    which: Version,
    known: Signature | None = None,
) -> Steps[RowStream]:
    """A stream to a signature, after a check that it exists and has the outputs."""
    names = operations.output_names(outputs)
    signature = known
    if signature is None:
        # Not from the cache: during a stream nothing would notice that a new version has other inputs.
        try:
            metadata = yield from operations.metadata_cache.ask(which, name)
        except UnimplementedError:
            metadata = None  # rows are sent unchecked
        signature = operations.signature(metadata, name)
    operations.check_outputs(names, name, signature)
    return RowStream(operations, name, signature, names, which)


def rows_in_a_call(operations: Operations, batch_size: int | None) -> int:
    """`batch_size`, up to the client's limit; if it is None, that limit, or 64 if there is no limit."""
    most = operations.max_batch_size
    if batch_size is None:
        return most or _DEFAULT_BATCH_SIZE
    size = at_least_one("batch_size", batch_size)
    return size if most is None else min(size, most)


def check_rows(rows: Any) -> None:
    """Refuse a single row, or a batch by names, where rows are expected.

    Raises:
        InvalidInputError: it is one of these.
    """
    frame = hasattr(rows, "iloc") and hasattr(rows, "columns")
    if frame or isinstance(rows, str | bytes | Mapping):
        found = f"{type(rows).__name__} {str(rows)[:60]!r}"  # pyright: ignore[reportUnknownArgumentType]
        raise InvalidInputError(
            f"rows must be an iterable of rows, such as a list of texts, a column, or the dicts of "
            f"DataFrame.to_dict('records'). Received {found}"
        )


def numbered_batches(rows: Iterable[_T], size: int) -> Iterator[tuple[int, list[_T]]]:
    """The rows in lists of `size` at most, each with the number of its first row."""
    batch: list[_T] = []
    number = 0
    for number, row in enumerate(rows, 1):
        batch.append(row)
        if len(batch) == size:
            yield number - size, batch
            batch = []
    if batch:
        yield number - len(batch), batch


async def numbered_batches_async(
    rows: Iterable[_T] | AsyncIterable[_T], size: int
) -> AsyncIterator[tuple[int, list[_T]]]:
    """As `numbered_batches`, for rows that may have to be awaited."""
    if not isinstance(rows, AsyncIterable):
        for numbered in numbered_batches(rows, size):
            yield numbered
        return
    batch: list[_T] = []
    number = 0
    async for row in rows:
        number += 1
        batch.append(row)
        if len(batch) == size:
            yield number - size, batch
            batch = []
    if batch:
        yield number - len(batch), batch


def _stacked(rows: list[Row]) -> Inputs:
    """Rows as a batch; rows that are mappings become one mapping of lists."""
    if not isinstance(rows[0], Mapping):
        return rows  # pyright: ignore[reportReturnType]  # rows of one kind, which is checked with their values
    names = rows[0].keys()
    for row in rows:
        if not isinstance(row, Mapping) or row.keys() != names:
            found = list(row) if isinstance(row, Mapping) else row
            raise InvalidInputError(f"rows must all have the inputs {list(names)}. Received {found!r:.80}")
    return {name: [row[name] for row in rows] for name in names}  # pyright: ignore
