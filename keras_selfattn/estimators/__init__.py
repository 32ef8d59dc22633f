"""scikit-learn estimators over the models, for cross-validation, searches and pipelines."""

from keras_selfattn.extras import importing, require

require("train", __name__)

with importing("train", __name__):
    from keras_selfattn.estimators.classifiers import (
        ImageClassifierEstimator,
        SeriesClassifierEstimator,
        TextClassifierEstimator,
    )
    from keras_selfattn.estimators.labeller import TokenClassifierEstimator
    from keras_selfattn.estimators.regressors import (
        SeriesForecasterEstimator,
        SeriesRegressorEstimator,
        TextRegressorEstimator,
    )
    from keras_selfattn.estimators.text_answers import SequenceToSequenceEstimator

__all__ = [
    "ImageClassifierEstimator",
    "SequenceToSequenceEstimator",
    "SeriesClassifierEstimator",
    "SeriesForecasterEstimator",
    "SeriesRegressorEstimator",
    "TextClassifierEstimator",
    "TextRegressorEstimator",
    "TokenClassifierEstimator",
]
