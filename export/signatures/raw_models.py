"""The fronts of this library's own models: each import registers those of a kind of rows."""

from typing import Any

from keras_selfattn.errors import ExportError
from keras_selfattn.models import MaskedTokenModel

from . import (  # noqa: F401
    audio_preprocessing,
    image_preprocessing,
    sequence_preprocessing,
    series_preprocessing,
    text_preprocessing,
    token_preprocessing,
)
from .raw_front import RawFront, front_of, raw_front  # noqa: F401  imported from here


@front_of(MaskedTokenModel)
def _refused(_model: MaskedTokenModel) -> Any:
    raise ExportError(
        "A MaskedTokenModel is what a classifier begins with. Train one from it and export that: "
        "`keras-selfattn train TABLE --from RUN`, or `models.TextClassifier(start=RUN)`."
    )
