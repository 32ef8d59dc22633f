"""The padding of rows of unequal shapes in a batch, for `pad_variable_length_inputs`.

A version of this project's exports names the values that change no answer: rows get these, and each caller an
answer of its own length. Of other models nothing is known, and the padding is TensorFlow Serving's.

Reference: AddPadding in tensorflow_serving/batching/batching_util.cc.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

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
