"""Answers for many rows: a callable for a job of one's own; `keras-selfattn predict` uses the rest.

It imports neither TensorFlow nor Keras before the first batch.
"""

from keras_selfattn.batch.predictor import Predictor, predictor

__all__ = ["Predictor", "predictor"]
