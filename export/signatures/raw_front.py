"""The graph side of a kind of rows: its preprocessing, and all that it adds to an export.

A further kind is a subclass of `RawFront` in a module beside this one, registered for its models with
`front_of`; `raw_models` imports it.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from keras_selfattn.errors import ExportError
from keras_selfattn.models.raw_model import RawModel

from .model_signatures import Graphs, Signature
from .preprocessing import Front
from .trial_requests import Request, as_one_array

Maker = TypeVar("Maker", bound="Callable[[Any], RawFront]")

_MAKERS: dict[type[RawModel], Callable[[Any], "RawFront"]] = {}


class RawFront(Front):
    """The preprocessing of a model of raw rows, and what its signatures and files have beside the usual ones.

    Args:
        model: the trained model.

    Attributes:
        subject: the kind of its rows, with which the card's task begins.
        number_input: the name of the core's input in a file for another runtime; None for the core's own.
        number_columns: the names of the columns of its last axis, if each is an input of its own there.
        graphs: makes the functions of its signatures.
        described: further parts of the card, as JSON types.
    """

    graphs: type[Graphs] = Graphs
    number_input: str | None = None
    number_columns: tuple[str, ...] = ()

    def __init__(self, model: RawModel) -> None:
        self.subject = model.row_kind.subject
        self.described: dict[str, Any] = {}

    @abstractmethod
    def asked(self, row: Any) -> Request:
        """Return the request for a row, given as the model reads it or as JSON types."""

    def named(self, rows: Any) -> Mapping[str, Any]:
        """Return rows in any container as inputs by name."""
        return {next(iter(self.specs)): as_one_array(rows)}

    def more_requests(self) -> list[Request]:
        """Return requests for `serving_default` alone, such as each length that is to be warm."""
        return []

    def more_signatures(
        self, graphs: Graphs, requests: Sequence[Request], *, real: bool
    ) -> dict[str, Signature]:
        """Return the signatures beside those of every model, in their order; by default `explain`.

        Args:
            graphs: makes their functions, around the trace of the model.
            requests: for the front's own inputs.
            real: True if the first request is a row of real data; signatures with other inputs then begin
                with the same row.
        """
        return {"explain": Signature(graphs.explain(together=True), requests)}

    def check_portable(self) -> None:
        """Raise ExportError if the core has an input that no other runtime can compute."""

    def id_files(self) -> dict[str, Any]:
        """Return the JSON files by name from which other programs make a core's ids, if it takes ids."""
        return {}


def front_of(*models: type[RawModel]) -> Callable[[Maker], Maker]:
    """Register what makes the front of models of these classes and of those derived from them."""

    def registered(maker: Maker) -> Maker:
        _MAKERS.update(dict.fromkeys(models, maker))
        return maker

    return registered


def raw_front(model: RawModel) -> RawFront:
    """Return the preprocessing before the model's core in the graph.

    Raises:
        ExportError: for a model that cannot answer requests.
    """
    for kind in type(model).__mro__:
        if kind in _MAKERS:
            return _MAKERS[kind](model)
    raise ExportError(f"A {type(model).__name__} has no signatures of its own. Export its `core`.")
