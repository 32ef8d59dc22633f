"""Preprocessing and named answers of this library's own models in the graph."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from keras_selfattn.errors import ExportError
from keras_selfattn.models import (
    ImageClassifier,
    MaskedTokenModel,
    SeriesClassifier,
    SeriesForecaster,
    SeriesRegressor,
    TextClassifier,
    TextEncoder,
    TokenClassifier,
)
from keras_selfattn.models.heads.class_heads import ClassHead, Head, MultiLabelHead
from keras_selfattn.models.pretrained.text_encoder import VectorHead
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.models.series.number_head import NumbersHead
from keras_selfattn.models.tokens.position_head import PositionHead

from .image_preprocessing import ImageFront
from .named_outputs import Answers, Classification, Labelling, LabelSets, Numbers, Vectors
from .piece_preprocessing import PieceFront
from .preprocessing import Front, TextFront
from .series_preprocessing import SeriesFront
from .token_preprocessing import PieceTokenFront, TokenFront
from .trial_requests import Request


class RawFront(Front, Protocol):
    """The preprocessing of a model of raw rows.

    Attributes:
        subject: the kind of its rows, with which the card's task begins.
    """

    subject: str

    def asked(self, row: Any) -> Request:
        """Return the request for a row, given as the model reads it or as JSON types."""
        ...


def raw_front(model: RawModel) -> RawFront:
    """Return the preprocessing before the model's core in the graph.

    Raises:
        ExportError: for a model that cannot answer requests.
    """
    if isinstance(model, MaskedTokenModel):
        raise ExportError(
            "A MaskedTokenModel is what a classifier begins with. Train one from it and export that: "
            "`keras-selfattn train TABLE --from RUN`, or `models.TextClassifier(start=RUN)`."
        )
    return _found(_FRONTS, model)(model)


def raw_answers(head: Head) -> Answers:
    """Return the names for a head's outputs."""
    return _found(_ANSWERS, head)(head)


def _found(known: Mapping[type, Any], asked: Any) -> Any:
    """Return the entry for the class of an object, or for its nearest base class."""
    for kind in type(asked).__mro__:
        if kind in known:
            return known[kind]
    raise ExportError(f"A {type(asked).__name__} has no signatures of its own. Export its `core`.")


_FRONTS: dict[type[RawModel], Callable[[Any], RawFront]] = {
    TextClassifier: lambda model: (PieceFront if model.fine_tuned else TextFront)(model),
    TextEncoder: PieceFront,
    ImageClassifier: ImageFront,
    TokenClassifier: lambda model: (PieceTokenFront if model.fine_tuned else TokenFront)(model),
    SeriesClassifier: SeriesFront,
    SeriesForecaster: SeriesFront,
    SeriesRegressor: SeriesFront,
}
_ANSWERS: dict[type[Head], Callable[[Head], Answers]] = {
    ClassHead: lambda head: Classification(cast(ClassHead, head).labels),
    MultiLabelHead: lambda head: LabelSets(cast(MultiLabelHead, head).labels),
    PositionHead: lambda head: Labelling(cast(PositionHead, head).labels, cast(PositionHead, head).decoder),
    VectorHead: lambda _head: Vectors(),
    NumbersHead: lambda head: Numbers(None, single=len(cast(NumbersHead, head).mean) == 1),
}
