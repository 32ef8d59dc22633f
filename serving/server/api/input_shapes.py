"""The shapes that the inputs of a version take, checked before its graph runs."""

from collections.abc import Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ...errors import InvalidArgumentError
from ...wire import messages_pb2 as pb
from ...wire.dtypes import CodecError, dtype_name
from ...wire.shapes import Shape, declared_shape, misfit, takes, takes_but_for_ones
from ..models.quantized_tensors import code_of
from ..models.servable import Servable


class _Input(NamedTuple):
    alias: str
    dtype: int
    shape: Shape

    def may_take(self, array: np.ndarray) -> bool:
        """Return True if a graph could take an array but for its rows or for axes of size one at the end."""
        any_rows = self.shape and (None, *self.shape[1:])
        return takes_but_for_ones(any_rows, array.shape)

    def misfit(self, array: np.ndarray) -> InvalidArgumentError:
        return InvalidArgumentError(misfit(self.alias, array.shape, dtype_name(self.dtype), self.shape))


class InputShapes:
    """The shapes that the inputs of a version's signatures take.

    TensorFlow Serving leaves shapes to the kernels, and its clients rely on two things in that. Most graphs
    take axes of size one at the end, or do without them: `[3]` for `[-1, 1]` is the first example of its
    documentation. And many that declare one row, since they were converted so, take any number. So a graph
    of others gets such arrays; this project's exports and TFLite files do not. No model gets other sizes
    beside, or another number of axes, than it declares.

    Args:
        signatures: the version's signatures, by name.
        limits: the shapes that tensors take, by name; the others take those of the signatures.
        strict: True if a run takes the declared shapes only.

    Example:
        >>> info = pb.TensorInfo(name="x:0", dtype=pb.DT_FLOAT, tensor_shape={"dim": [{"size": -1}]})
        >>> shapes = InputShapes({"serving_default": pb.SignatureDef(inputs={"x": info})}, {}, strict=True)
        >>> shapes.as_declared("serving_default", "x", np.zeros((3, 1))).shape
        (3,)
    """

    def __init__(
        self,
        signatures: Mapping[str, pb.SignatureDef],
        limits: Mapping[str, Shape],
        strict: bool,
    ):
        self._strict = strict
        self._by_alias: dict[str, dict[str, _Input]] = {}
        self._by_tensor: dict[str, dict[str, _Input]] = {}
        for name, signature in signatures.items():
            aliases = self._by_alias[name] = dict[str, _Input]()
            tensors = self._by_tensor[name] = dict[str, _Input]()
            for alias, info in signature.inputs.items():
                shape = limits[info.name] if info.name in limits else declared_shape(info)
                aliases[alias] = tensors[info.name] = _Input(alias, info.dtype, shape)
        self._any = {name: each for tensors in self._by_tensor.values() for name, each in tensors.items()}

    @staticmethod
    def of(servable: Servable) -> "InputShapes":
        """The shapes of a version, read from its signatures once."""
        known = _known.get(servable)
        if known is None:
            known = InputShapes(
                servable.signatures, servable.input_limits, strict=servable.takes_declared_shapes_only
            )
            _known[servable] = known
        return known

    def check(self, signature_name: str, feeds: Mapping[str, np.ndarray]) -> InvalidArgumentError | None:
        """Check the arrays of a call.

        Args:
            signature_name: the signature that it calls; empty if it calls several.
            feeds: arrays by tensor name.

        Returns:
            The error to raise if the graph refuses an array that fits but for its rows or axes of size one.

        Raises:
            InvalidArgumentError: an array has other sizes, or another number of axes, than its input.
        """
        tensors = self._by_tensor.get(signature_name, self._any)
        may_fail = None
        for name, array in feeds.items():
            known = tensors.get(name)
            if known is None or takes(known.shape, array.shape) or not _has_type(array, known.dtype):
                continue
            if self._strict or not known.may_take(array):
                raise known.misfit(array)
            may_fail = known.misfit(array)
        return may_fail

    def as_declared(self, signature_name: str, alias: str, array: np.ndarray) -> np.ndarray:
        """Return an input's array with its declared number of axes, if it fits but for axes of size one."""
        known = self._by_alias.get(signature_name, {}).get(alias)
        if known is None or known.shape is None or not takes_but_for_ones(known.shape, array.shape):
            return array
        return array.reshape((*array.shape, *(1,) * len(known.shape))[: len(known.shape)])


_known: WeakKeyDictionary[Servable, InputShapes] = WeakKeyDictionary()


def _has_type(array: np.ndarray, dtype: int) -> bool:
    """Return True if an array has an input's type; otherwise the runtime refuses it for its type."""
    try:
        return (pb.DT_STRING if array.dtype == object else code_of(array.dtype)) == dtype
    except CodecError:
        return False
