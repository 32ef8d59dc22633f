"""A client without a transport: checks, requests and answers of Predict, for a batch or a stream of rows.

Each operation is a generator of `steps`; the calls built on it are in `task_calls` and `management`.

`Operations.predict` needs all rows at once, sends a large batch as several calls, answers them from one
version and returns one result. A stream (`RowStream`, for `predict_iter`) may never end: its rows are
answered batch by batch.

Reference: tensorflow_serving/apis/prediction_service.proto and model_service.proto.
"""

import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import grpc
import numpy as np
from google.protobuf.message import DecodeError, Message
from numpy.typing import ArrayLike

from ..errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    InvalidInputError,
    NotFoundError,
    UnimplementedError,
)
from ..wire import message_bytes
from ..wire.dtypes import CodecError
from .answers import Prediction, with_text
from .inputs import Inputs, checked_inputs, rowwise
from .model_metadata import MetadataCache, ModelMetadata, Signature
from .server_ref import ServerRef, Version, is_name
from .steps import Many, Steps, at_least_one
from .transport.base import PREDICT, Request

_TRIES_FOR_A_VERSION = 5

_M = TypeVar("_M", bound=Message)
_T = TypeVar("_T")

# One row, without the batch's axis: a value of the only input, or a mapping from input names to values.
Row = Mapping[str, ArrayLike] | ArrayLike

_DEFAULT_BATCH_SIZE = 64


class Operations:
    """The operations on one model, and its cached metadata.

    Args:
        server: the server and the model.
        max_batch_size: the most rows in one call; None for no limit.
    """

    def __init__(self, server: ServerRef, max_batch_size: int | None = None):
        if not is_name(server.model):
            raise InvalidInputError(f"model must be a model's name. Received {server.model!r}")
        if sys.byteorder != "little":
            raise InvalidInputError(
                "this machine stores numbers big end first, and TensorFlow Serving's tensors hold them "
                "little end first: run the client on a little-endian machine"
            )
        self.server = server
        self.model = server.model
        self.max_batch_size = max_batch_size
        self.metadata_cache = MetadataCache(self.server)

    def predict(
        self, inputs: Inputs, signature: str, outputs: Sequence[str] | None, which: Version
    ) -> Steps[Prediction]:
        """The outputs of `signature` for all rows."""
        answers, rows = yield from self.predict_parts(inputs, signature, outputs, which)
        return with_text(_joined(self.server, answers, rows))

    def predict_parts(
        self,
        inputs: Inputs,
        signature: str,
        outputs: Sequence[str] | None,
        which: Version,
        parts: list[range] | None = None,
    ) -> Steps[tuple[list[Prediction], list[range]]]:
        """The answers for the parts of a batch, all of one version, with the rows of each.

        Strings are still `bytes`. The parts are of `max_batch_size` rows at most, unless they are given.
        """
        names = self.output_names(outputs)
        known = yield from self.metadata_cache.known(which, signature)
        try:
            return (yield from self._predict_known(inputs, signature, names, which, known, parts))
        except (InvalidArgumentError, InvalidInputError, FailedPreconditionError) as error:
            # The input was checked against cached metadata, and a newer version may have other inputs.
            fresh = None if known is None else (yield from self.metadata_cache.fresh(which, error, signature))
            if fresh is None:
                raise
            return (yield from self._predict_known(inputs, signature, names, which, fresh, parts))

    def parsed(self, message: type[_M], answer: bytes) -> _M:
        """Parse an answer.

        Raises:
            MalformedResponseError: it does not parse.
        """
        try:
            return message.FromString(answer)
        except DecodeError as error:
            raise self.server.malformed(f"{message.DESCRIPTOR.name} does not parse: {error}") from error

    def signature(self, known: ModelMetadata | None, name: str) -> Signature | None:
        """A signature, if it is known.

        Raises:
            FailedPreconditionError: the model has no such signature.
        """
        if known is None or name in known.signatures:
            return known and known.signatures[name]
        names = ", ".join(repr(other) for other in known.signatures if not other.startswith("__"))
        details = f'Serving signature key "{name}" not found; the model has {names or "none"}'
        raise self.server.error(grpc.StatusCode.FAILED_PRECONDITION, details, name)

    def output_names(self, outputs: Sequence[str] | None) -> Sequence[str]:
        """The requested outputs as a list, empty for all.

        Raises:
            InvalidInputError: they are not a list of names.
        """
        if outputs is None:
            return []
        names = outputs if isinstance(outputs, str) else list(outputs)
        if isinstance(names, str) or not names or not all(map(is_name, names)):
            raise self.server.refused(f"outputs must be a list of names, or None for all. Received {names!r}")
        return names

    def check_outputs(self, outputs: Sequence[str], name: str, signature: Signature | None) -> None:
        """Refuse outputs that a signature lacks.

        Raises:
            InvalidInputError: the signature lacks one.
        """
        unknown = [output for output in outputs if signature and output not in signature.outputs]
        if unknown:
            listed = ", ".join(map(repr, unknown))
            raise self.server.refused(f"signature {name!r} has no output {listed}. It is {signature!r}")

    def request(
        self,
        arrays: dict[str, np.ndarray],
        signature: str,
        outputs: Sequence[str],
        which: Version,
        rows: range | None,
    ) -> Request:
        """The Predict call for arrays that have been checked."""
        message = message_bytes.predict_request(self.server.spec(which, signature), arrays, outputs)
        return Request(PREDICT, message, signature, rows)

    def prediction(self, answer: bytes, signature: str, which: Version) -> Prediction:
        """The outputs in a Predict answer."""
        try:
            outputs, spec = message_bytes.predict_response(answer)
        except (DecodeError, CodecError) as error:
            what = "PredictResponse does not parse: " if isinstance(error, DecodeError) else ""
            raise self.server.malformed(f"{what}{error}", signature) from error
        self.metadata_cache.answered(which, spec.version.value)
        return Prediction(outputs, model=self.model, version=spec.version.value, signature=signature)

    def _predict_known(
        self,
        inputs: Inputs,
        name: str,
        outputs: Sequence[str],
        which: Version,
        known: ModelMetadata | None,
        parts: list[range] | None = None,
    ) -> Steps[tuple[list[Prediction], list[range]]]:
        signature = self.signature(known, name)
        self.check_outputs(outputs, name, signature)
        arrays = checked_inputs(self.server, inputs, name, signature)
        split = rowwise(arrays, signature)
        rows = _parts(self.server, arrays, split, self.max_batch_size) if parts is None else parts

        def request(which: Version, part: range) -> Request:
            taken = arrays if len(rows) == 1 else _taken(arrays, split, part)
            return self.request(taken, name, outputs, which, None if len(rows) == 1 else part)

        if len(rows) == 1:
            answer = yield request(which, rows[0])
            return [self.prediction(answer, name, which)], rows
        answers = yield Many(request(which, part) for part in rows)
        found = [self.prediction(answer, name, which) for answer in answers]
        return (yield from self._of_one_version(found, rows, name, request)), rows

    def _of_one_version(
        self,
        found: list[Prediction],
        rows: list[range],
        name: str,
        request: Callable[[Version, range], Request],
    ) -> Steps[list[Prediction]]:
        """Request the parts that older versions answered again, from the version of the last answer."""
        last = found[-1].version
        one: list[Prediction] = []
        for answer, part in zip(found, rows, strict=True):
            if answer.version == last:
                one.append(answer)
            else:
                one.append((yield from self._asked_of(last, part, name, request)))
        return one

    def _asked_of(
        self, version: int, part: range, name: str, request: Callable[[Version, range], Request]
    ) -> Steps[Prediction]:
        # Some of several servers may not have the version yet, and calls go to the servers in turn.
        for _ in range(_TRIES_FOR_A_VERSION):
            try:
                answer = yield request(version, part)
            except NotFoundError:
                continue
            return self.prediction(answer, name, version)
        raise AbortedError(
            f"several versions of model {self.model!r} at {self.server.target} answered parts of one batch, "
            f"and version {version} does not answer all of them. Ask again",
            target=self.server.target,
            model=self.model,
        )


# Large batches as several calls, and their answers as one.


def _parts(
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


def _taken(arrays: Mapping[str, np.ndarray], rowwise: Sequence[str], rows: range) -> dict[str, np.ndarray]:
    """The inputs of one part; inputs without rows are not changed."""
    return {
        name: array[rows.start : rows.stop] if name in rowwise else array for name, array in arrays.items()
    }


def _joined(server: ServerRef, answers: Sequence[Prediction], rows: Sequence[range]) -> Prediction:
    """Join the answers of the parts, in order.

    Raises:
        MalformedResponseError: an output lacks one entry for each row, or has rows of different shapes.
    """
    first = answers[0]
    if len(answers) == 1:
        return first
    together = {name: _together(server, name, answers, rows) for name in first}
    return Prediction(together, model=first.model, version=first.version, signature=first.signature)


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


# Any number of rows, as calls of one batch each.


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
        return _each_row(self._operations.server, prediction, len(request.rows or ()))


def _each_row(server: ServerRef, prediction: Prediction, count: int) -> Iterator[dict[str, object]]:
    """The outputs of each row by name."""
    for name, output in prediction.items():
        _check_rows(server, name, output, count)
    for row in range(count):
        yield {name: output[row] for name, output in prediction.items()}


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
