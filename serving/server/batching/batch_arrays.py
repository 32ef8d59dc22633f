"""The arrays of a batch: select requests that fit together, join their inputs, and split the answers.

Rows of unequal shapes are padded for `pad_variable_length_inputs`. A version of this project's exports names
the values that change no answer: rows get these, and each caller an answer of its own length. Of other models
nothing is known, and the padding is TensorFlow Serving's.

Reference: tensorflow_serving/batching/{batching_session,batching_util}.cc, with AddPadding; the error texts
are theirs.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import FailedPreconditionError, InvalidArgumentError
from ..models.servable import Servable
from ..runtime.batching_parameters import BatchingParameters
from ..runtime.row_padding import RowPadding

# The kind of arrays that hold each type of padding.
_KINDS = {bytes: "O", float: "f"}


class Padding:
    """No padding: a batch has rows of one shape."""

    def kind_of(self, name: str, array: np.ndarray) -> Hashable:
        """Return what arrays of an input must have in common to be in one batch."""
        return array.shape[1:]

    def value_for(self, name: str, array: np.ndarray) -> Any:
        """Return the value that lengthens the rows of an array."""
        raise NotImplementedError

    def cut(self, feeds: Mapping[str, np.ndarray], answer: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Return a request's answer, by output tensor, without the positions of padding."""
        return [*answer.values()]


class FirstElementPadding(Padding):
    """TensorFlow Serving's padding: the first element of each array, on all axes; answers keep it."""

    def kind_of(self, name: str, array: np.ndarray) -> Hashable:
        """As in `Padding`; an empty array has no first element."""
        return array.ndim if array.size else array.shape[1:]

    def value_for(self, name: str, array: np.ndarray) -> Any:
        """As in `Padding`."""
        return array.reshape(-1)[0]


class NeutralPadding(Padding):
    """Padding that changes no answer, on the second axis.

    Args:
        known: the values, and the outputs that grow with the inputs.
    """

    def __init__(self, known: RowPadding):
        self._known = known

    def kind_of(self, name: str, array: np.ndarray) -> Hashable:
        """As in `Padding`; rows that differ on further axes stay apart, since one of them is wrong.

        So do those of a type that cannot hold the padding: the graph refuses them.
        """
        value = self._known.values.get(name)
        if value is None or array.ndim < 2 or array.dtype.kind != _KINDS[type(value)]:
            return array.shape[1:]
        return array.ndim, array.shape[2:]

    def value_for(self, name: str, array: np.ndarray) -> Any:
        """As in `Padding`."""
        return self._known.values[name]

    def cut(self, feeds: Mapping[str, np.ndarray], answer: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """As in `Padding`."""
        lengths = [feeds[name].shape[1] for name in feeds.keys() & self._known.values.keys()]
        length = max(lengths, default=None)
        return [
            np.ascontiguousarray(array[:, :length]) if name in self._known.lengthened else array
            for name, array in answer.items()
        ]


def padding_for(servable: Servable, fetches: Sequence[str], parameters: BatchingParameters) -> Padding:
    """Return the padding of the requests for some outputs of a version."""
    if not parameters.pad:
        return Padding()
    known = servable.padding
    if known is None:
        return FirstElementPadding()
    if not known.lengthened.union(servable.row_tensors).issuperset(fetches):
        return Padding()  # such as attention weights, whose shapes grow in ways of their own
    return NeutralPadding(known)


def kind_of(feeds: Mapping[str, np.ndarray], padding: Padding) -> Hashable:
    """Return the key that tasks of a batch share: tensors, dtypes, and row shapes but for what is padded."""
    return tuple((name, feeds[name].dtype, padding.kind_of(name, feeds[name])) for name in sorted(feeds))


def rows_of(feeds: Mapping[str, np.ndarray]) -> int:
    """Return the number of rows of a request.

    Raises:
        InvalidArgumentError: its arrays differ in their number of rows, or one has no axis of rows.
    """
    if any(array.ndim == 0 for array in feeds.values()):
        raise InvalidArgumentError("Batching Run() input tensors must have at least one dimension")
    rows = {len(array) for array in feeds.values()}
    if len(rows) != 1:
        raise InvalidArgumentError("Batching Run() input tensors must have equal 0th-dimension size")
    return rows.pop()


def merged(
    many: Sequence[Mapping[str, np.ndarray]], parameters: BatchingParameters, padding: Padding
) -> dict[str, np.ndarray]:
    """Concatenate the rows of all tasks, and add copies of the first row up to an allowed number of rows."""
    batch: dict[str, np.ndarray] = {}
    for name in many[0]:
        arrays = _padded(name, [feeds[name] for feeds in many], padding)
        rows = sum(map(len, arrays))
        missing = parameters.padded_size(rows) - rows
        if missing:
            arrays.append(np.repeat(arrays[0][:1], missing, axis=0))
        batch[name] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    return batch


def _padded(name: str, arrays: Sequence[np.ndarray], padding: Padding) -> list[np.ndarray]:
    """Pad arrays of one kind to one shape except for the rows."""
    shape = tuple(max(sizes) for sizes in zip(*(array.shape[1:] for array in arrays), strict=True))
    padded: list[np.ndarray] = []
    for array in arrays:
        if array.shape[1:] == shape:
            padded.append(array)
            continue
        wider = np.full((len(array), *shape), padding.value_for(name, array), dtype=array.dtype)
        wider[tuple(slice(size) for size in array.shape)] = array
        padded.append(wider)
    return padded


def split(arrays: Sequence[np.ndarray], rows: Sequence[int], size: int) -> list[list[np.ndarray]]:
    """Split the values for each request.

    Args:
        arrays: the fetched values of the whole batch.
        rows: the number of rows of each request, in the order of the requests.
        size: the number of rows of the batch, including copies of the first row that fill it up.

    Raises:
        FailedPreconditionError: an array has more or fewer rows than the batch, so they match no request.
    """
    if len(rows) == 1 and rows[0] == size:
        return [list(arrays)]
    if any(array.ndim == 0 or len(array) != size for array in arrays):
        raise _wrong_rows()
    ends = np.cumsum(rows)
    return [
        [array[end - count : end] for array in arrays] for count, end in zip(rows, ends.tolist(), strict=True)
    ]


def joined(pieces: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    """Join the values of a request that was run in pieces.

    Raises:
        FailedPreconditionError: the values of the pieces have no rows, or rows of different shapes.
    """
    try:
        return [np.concatenate(arrays) for arrays in zip(*pieces, strict=True)]
    except ValueError:
        raise _wrong_rows() from None


def _wrong_rows() -> FailedPreconditionError:
    return FailedPreconditionError(
        "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of "
        "the input tensors"
    )
