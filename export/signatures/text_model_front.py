"""The common part of the fronts of text models, for rows of one text or two: `explain`, `contributions`."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from keras_selfattn.errors import ExportError
from keras_selfattn.models.text.text_model import TextModel

from .contributions import contribution_signatures
from .model_signatures import Graphs, Signature
from .raw_front import RawFront
from .trial_requests import Request

Tensor = Any


class TextModelFront(RawFront):
    """Preprocess the rows of a model that may have a wide path of n-grams beside its encoder.

    Attributes:
        explained_requests: requests that try `explain`; None for all.
    """

    explained_requests: int | None = 3

    def __init__(self, model: TextModel) -> None:
        super().__init__(model)
        self._model = model

    @abstractmethod
    def explained(self, *raw: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tokens of rows, string `[B, T]`, padded with "", and their ids, of pairs with types."""

    def alone(self, ids: Tensor) -> Any:
        """Return the model's inputs for these ids, without the wide path."""
        return self._model.beside_wide(self._model.in_given_order(ids))

    def more_signatures(
        self, graphs: Graphs, requests: Sequence[Request], *, real: bool
    ) -> dict[str, Signature]:
        """Return `explain` and, with a wide path, `contributions`."""
        function = graphs.explain_tokens(self.explained, self.alone)
        explain = Signature(function, requests[: self.explained_requests])
        return {"explain": explain, **contribution_signatures(graphs, self._model, requests)}

    def check_portable(self) -> None:
        if self._model.wide is not None:
            raise ExportError(
                "The model has a wide path (`wide=True`): a linear model of hashed n-grams of the text, "
                "which takes strings that no other runtime hashes. Train it with `wide=False` "
                "(`keras-selfattn train --no-wide`), or export it as a SavedModel."
            )
