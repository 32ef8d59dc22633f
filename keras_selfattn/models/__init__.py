"""Models that take raw input: `TextClassifier`, its `TextConfig`, and `load`."""

from keras_selfattn.models.base import RawModel
from keras_selfattn.models.classifier import Classifier
from keras_selfattn.models.config import EncoderConfig, TextConfig
from keras_selfattn.models.loading import load
from keras_selfattn.models.text import TextClassifier

__all__ = ["Classifier", "EncoderConfig", "RawModel", "TextClassifier", "TextConfig", "load"]
