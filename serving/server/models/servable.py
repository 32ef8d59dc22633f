"""A loaded version of a model and a call of it, as the rest of the server sees them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from ...wire import messages_pb2 as pb
from ...wire.shapes import Shape
from ..runtime.batching_parameters import BatchingParameters
from ..runtime.row_padding import RowPadding
from ..runtime.search_cost import SearchCost

_Response_co = TypeVar("_Response_co", covariant=True)


class GraphCall(Protocol[_Response_co]):
    """A request as a servable runs it.

    Attributes:
        feeds: arrays by tensor name.
        fetches: tensor names.
        signature_name: the name of the signature that it calls; empty if it calls several.
    """

    @property
    def signature_name(self) -> str: ...

    @property
    def feeds(self) -> Mapping[str, np.ndarray]: ...

    @property
    def fetches(self) -> Sequence[str]: ...

    def respond(self, arrays: Sequence[np.ndarray]) -> _Response_co:
        """Return the response to the values of `fetches`.

        Raises:
            ServingError: the values do not form a valid response.
        """
        ...


class Servable(Protocol):
    """A version of a model, ready to answer.

    Attributes:
        model: the model's name.
        version: the version's number.
        signatures: its signatures, by name.
        input_limits: the shapes that input tensors take, by name; those that are not here take the shapes of
            the signatures.
        takes_declared_shapes_only: False for graphs of others, whose kernels may take more.
        row_tensors: names of the tensors whose first axis is rows that are known to be independent.
        padding: lengthens rows of a batch without changing their answers; None if that is not known.
        batching: the parameters of batching for its requests; None uses the server's.
        card: its model card, if the server has a page that shows it; otherwise None.
        search: the cost of the search for the answer to a row, of a model that writes texts; None for all
            others, the time of whose runs follows from the sizes of their inputs.
    """

    model: str
    version: int
    signatures: dict[str, pb.SignatureDef]
    input_limits: Mapping[str, Shape]
    takes_declared_shapes_only: bool
    row_tensors: frozenset[str]
    padding: RowPadding | None
    batching: BatchingParameters | None
    card: dict[str, Any] | None
    search: SearchCost | None

    def run(
        self, feeds: Mapping[str, np.ndarray], fetches: Sequence[str], timeout: float | None
    ) -> list[np.ndarray]:
        """The fetched tensors' values.

        Args:
            feeds: arrays by tensor name, as in a signature's TensorInfo.
            fetches: names of tensors.
            timeout: seconds the graph may run; None for no limit.

        Raises:
            ServingError: the graph failed.
        """
        ...

    def close(self) -> None:
        """Free the model. Current runs end with CANCELLED."""
        ...


def without_path(message: str, place: Path | str) -> str:
    """`message` without the folders, or the URI, of a version: clients need not know them."""
    folder = str(place)
    for each in (folder, folder.rpartition("/")[0]):
        name = each.rpartition("/")[2]
        if name:  # the root is part of every path
            message = message.replace(each, name)
    return message
