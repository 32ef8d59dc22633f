"""Models that take raw input, each with its config, and `load`."""

from keras_selfattn.extras import importing, require

require("train", __name__)

with importing("train", __name__):
    from keras_selfattn.models.audio.classifier import AudioClassifier
    from keras_selfattn.models.config import (
        AudioConfig,
        ImageConfig,
        ScoreConfig,
        SequenceConfig,
        TextConfig,
        TokenConfig,
    )
    from keras_selfattn.models.images.classifier import ImageClassifier
    from keras_selfattn.models.loading import load
    from keras_selfattn.models.pretrained.fine_tuning_config import (
        FineTunedConfig,
        FineTunedScoreConfig,
        FineTunedTokenConfig,
        TextEncoderConfig,
    )
    from keras_selfattn.models.pretrained.keras_hub_backbones import from_keras_hub
    from keras_selfattn.models.pretrained.text_encoder import TextEncoder
    from keras_selfattn.models.pretrained_folders.pretrained_config import PretrainedConfig
    from keras_selfattn.models.sequences.sequence_to_sequence import SequenceToSequence
    from keras_selfattn.models.series.classifier import SeriesClassifier, SeriesClassifierConfig, SeriesConfig
    from keras_selfattn.models.series.regression import ForecastConfig, SeriesForecaster, SeriesRegressor
    from keras_selfattn.models.text.classifier import TextClassifier
    from keras_selfattn.models.text.masked_model import MaskedTokenModel
    from keras_selfattn.models.text.regressor import TextRegressor
    from keras_selfattn.models.tokens.classifier import TokenClassifier

__all__ = [
    "AudioClassifier",
    "AudioConfig",
    "FineTunedConfig",
    "FineTunedScoreConfig",
    "FineTunedTokenConfig",
    "ForecastConfig",
    "ImageClassifier",
    "ImageConfig",
    "MaskedTokenModel",
    "PretrainedConfig",
    "ScoreConfig",
    "SequenceConfig",
    "SequenceToSequence",
    "SeriesClassifier",
    "SeriesClassifierConfig",
    "SeriesConfig",
    "SeriesForecaster",
    "SeriesRegressor",
    "TextClassifier",
    "TextConfig",
    "TextEncoder",
    "TextEncoderConfig",
    "TextRegressor",
    "TokenClassifier",
    "TokenConfig",
    "from_keras_hub",
    "load",
]
