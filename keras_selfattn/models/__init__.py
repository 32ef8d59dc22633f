"""Models that take raw input, each with its config, and `load`."""

from keras_selfattn.models.config import ImageConfig, TextConfig, TokenConfig
from keras_selfattn.models.images import ImageClassifier
from keras_selfattn.models.loading import load
from keras_selfattn.models.masked import MaskedTokenModel
from keras_selfattn.models.regression import ForecastConfig, SeriesForecaster, SeriesRegressor
from keras_selfattn.models.series import SeriesClassifier, SeriesClassifierConfig, SeriesConfig
from keras_selfattn.models.text import TextClassifier
from keras_selfattn.models.tokens import TokenClassifier

__all__ = [
    "ForecastConfig",
    "ImageClassifier",
    "ImageConfig",
    "MaskedTokenModel",
    "SeriesClassifier",
    "SeriesClassifierConfig",
    "SeriesConfig",
    "SeriesForecaster",
    "SeriesRegressor",
    "TextClassifier",
    "TextConfig",
    "TokenClassifier",
    "TokenConfig",
    "load",
]
