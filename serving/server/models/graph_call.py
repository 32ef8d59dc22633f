"""A request prepared for the graph: feeds, fetches, and the function that makes the response."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np

_Response_co = TypeVar("_Response_co", covariant=True)


class GraphCall(Protocol[_Response_co]):
    """A request as a servable runs it.

    Attributes:
        feeds: arrays by tensor name.
        fetches: tensor names.
    """

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
