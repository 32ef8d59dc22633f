"""Models that take raw input: `TextClassifier`, its `TextConfig`, and `load`."""

from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.loading import load
from keras_selfattn.models.text import TextClassifier

__all__ = ["TextClassifier", "TextConfig", "load"]
