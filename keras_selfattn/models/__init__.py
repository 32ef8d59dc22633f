"""Models that take raw input, each with its config, and `load`."""

from keras_selfattn.models.config import ImageConfig, TextConfig
from keras_selfattn.models.images import ImageClassifier
from keras_selfattn.models.loading import load
from keras_selfattn.models.text import TextClassifier

__all__ = [
    "ImageClassifier",
    "ImageConfig",
    "TextClassifier",
    "TextConfig",
    "load",
]
