"""Answers to many rows at once: sorted by length into batches, and back in the order of the rows."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Protocol

import numpy as np

from keras_selfattn.asking.input_cells import without_padding
from keras_selfattn.batch.model_graph import RowError
from keras_selfattn.serving.client import Signature

DEFAULT_BATCH_SIZE = 128
# The most characters, tokens or values of a batch, padding included: long rows go in smaller batches.
_MOST_VALUES = 2**16


class BatchModel(Protocol):
    """A model that answers batches; several threads can use it at once.

    Attributes:
        signature: its inputs and outputs.
    """

    @property
    def signature(self) -> Signature: ...

    def answers(self, inputs: Mapping[str, Sequence[Any]], outputs: Sequence[str]) -> Mapping[str, Any]:
        """Return the named outputs, an array `[rows, ...]` each.

        Raises:
            RowError: if rows are no inputs of the model.
        """
        ...


class PendingAnswers:
    """The answers to some rows, while they are computed.

    Args:
        model: answers batches.
        inputs: a list of the rows' values for each input.
        outputs: names of outputs.
        batch_size: the most rows in a batch.
        executor: its threads compute the batches.
    """

    def __init__(
        self,
        model: BatchModel,
        inputs: Mapping[str, Sequence[Any]],
        outputs: Sequence[str],
        batch_size: int,
        executor: Executor,
    ) -> None:
        self._model, self._inputs, self._outputs = model, inputs, outputs
        self._rows = len(next(iter(inputs.values()), ()))
        lengths = row_lengths(inputs)
        # The longest first: the last batch to end is then a short one.
        batches = batches_by_length(lengths, batch_size)[::-1]
        self._futures: list[tuple[np.ndarray, Future]] = [
            (places, executor.submit(self._answered, places)) for places in batches
        ]

    def result(self) -> tuple[dict[str, list[Any]], dict[int, str]]:
        """Return the value of each row by output, and the reasons of the rows without answers by place."""
        found: dict[str, list[Any]] = {name: [None] * self._rows for name in self._outputs}
        failed: dict[int, str] = {}
        for places, future in self._futures:
            columns, reasons = future.result()
            failed |= reasons
            for name, values in columns.items():
                column = found[name]
                for place, value in zip(places.tolist(), values, strict=True):
                    column[place] = value
        return found, failed

    def cancel(self) -> None:
        """Drop the batches that have not begun."""
        for _, future in self._futures:
            future.cancel()

    def _answered(self, places: np.ndarray) -> tuple[dict[str, list[Any]], dict[int, str]]:
        rows = {name: [values[place] for place in places] for name, values in self._inputs.items()}
        try:
            arrays = self._model.answers(rows, self._outputs)
        except RowError as error:
            return self._in_halves(places, error)
        return self._values(rows, arrays), {}

    def _in_halves(self, places: np.ndarray, error: RowError) -> tuple[dict[str, list[Any]], dict[int, str]]:
        """Find the rows that a batch fails for."""
        if len(places) == 1:
            return {name: [None] for name in self._outputs}, {int(places[0]): str(error)}
        half = len(places) // 2
        first, second = self._answered(places[:half]), self._answered(places[half:])
        return {name: first[0][name] + second[0][name] for name in self._outputs}, first[1] | second[1]

    def _values(self, rows: Mapping[str, list[Any]], arrays: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Return the outputs of a batch row by row: bytes as text if they are some, without padding."""
        columns = {name: list(_decoded(arrays[name])) for name in self._outputs}
        if all(spec.shape is None or len(spec.shape) < 2 for spec in self._model.signature.inputs.values()):
            return columns
        for place in range(len(next(iter(rows.values())))):
            row = {name: values[place] for name, values in rows.items()}
            answer = {name: values[place] for name, values in columns.items()}
            for name, value in without_padding(self._model.signature, row, answer).items():
                columns[name][place] = value
        return columns


def row_lengths(inputs: Mapping[str, Sequence[Any]]) -> np.ndarray:
    """Return the length of each row: characters, tokens or values, int64 `[rows]`.

    Example:

        >>> row_lengths({"text": ["ab", "", "abc"]}).tolist()
        [2, 0, 3]
    """
    columns = [np.array([_length(value) for value in values], np.int64) for values in inputs.values()]
    return np.stack(columns).sum(axis=0) if columns else np.zeros(0, np.int64)


def batches_by_length(lengths: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """Return the places of the rows of each batch, the shortest rows first.

    A batch has `batch_size` rows, or fewer if its rows are long.

    Example:

        >>> [places.tolist() for places in batches_by_length(np.array([3, 1, 2]), 2)]
        [[1, 2], [0]]
    """
    order = np.argsort(lengths, kind="stable")
    batches, start = [], 0
    while start < len(order):
        end = min(start + batch_size, len(order))
        while end > start + 1 and lengths[order[end - 1]] * (end - start) > _MOST_VALUES:
            end = start + (end - start + 1) // 2
        batches.append(order[start:end])
        start = end
    return batches


def _length(value: Any) -> int:
    # The bytes of a file tell nothing: images of one model have one size.
    return len(value) if hasattr(value, "__len__") and not isinstance(value, bytes) else 1


def _decoded(array: np.ndarray) -> np.ndarray:
    if array.dtype != object:
        return array
    decode: Callable[[Any], np.ndarray] = np.frompyfunc(_text, 1, 1)
    return decode(array)


def _text(value: Any) -> Any:
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value
