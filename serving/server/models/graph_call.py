"""A request prepared for the graph: feeds, fetches, and the function that makes the response."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

_Response = TypeVar("_Response")


@dataclass(frozen=True)
class Call(Generic[_Response]):
    """A request in the form that a servable runs.

    Attributes:
        feeds: arrays by tensor name.
        fetches: tensor names.
        respond: makes the response from the values of `fetches`; raises a ServingError if they do not fit.
    """

    feeds: dict[str, np.ndarray]
    fetches: Sequence[str]
    respond: Callable[[Sequence[np.ndarray]], _Response]
