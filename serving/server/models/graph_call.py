"""A request made ready for the graph: what to feed and fetch, and how to say what comes out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

_Response = TypeVar("_Response")


@dataclass(frozen=True)
class Call(Generic[_Response]):
    """A request as a servable runs it.

    Attributes:
        feeds: arrays by tensor name.
        fetches: tensor names.
        respond: the response to the values of `fetches`; raises a ServingError if they cannot be it.
    """

    feeds: dict[str, np.ndarray]
    fetches: Sequence[str]
    respond: Callable[[Sequence[np.ndarray]], _Response]
