"""The fronts and the named answers of this library's own models."""

from collections.abc import Callable
from typing import Any, cast

from keras_selfattn.errors import ExportError
from keras_selfattn.models import MaskedTokenModel
from keras_selfattn.models.heads.class_heads import ClassHead, Head, MultiLabelHead
from keras_selfattn.models.pretrained.text_encoder import VectorHead
from keras_selfattn.models.series.number_head import NumbersHead
from keras_selfattn.models.tokens.position_head import PositionHead

# Each module registers the fronts of its kind of rows.
from . import (  # noqa: F401
    image_preprocessing,
    series_preprocessing,
    text_preprocessing,
    token_preprocessing,
)
from .answers import Answers, Classification, Labelling, LabelSets, Numbers, Vectors
from .raw_front import RawFront, front_of, nearest, raw_front  # noqa: F401  imported from here


@front_of(MaskedTokenModel)
def _refused(_model: MaskedTokenModel) -> Any:
    raise ExportError(
        "A MaskedTokenModel is what a classifier begins with. Train one from it and export that: "
        "`keras-selfattn train TABLE --from RUN`, or `models.TextClassifier(start=RUN)`."
    )


def raw_answers(head: Head) -> Answers:
    """Return the names for a head's outputs."""
    return nearest(_ANSWERS, head)(head)


_ANSWERS: dict[type[Head], Callable[[Head], Answers]] = {
    ClassHead: lambda head: Classification(cast(ClassHead, head).labels),
    MultiLabelHead: lambda head: LabelSets(cast(MultiLabelHead, head).labels),
    PositionHead: lambda head: Labelling(cast(PositionHead, head).labels, cast(PositionHead, head).decoder),
    VectorHead: lambda _head: Vectors(),
    NumbersHead: lambda head: Numbers(None, single=len(cast(NumbersHead, head).mean) == 1),
}
