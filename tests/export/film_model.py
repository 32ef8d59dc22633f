"""A small text classifier with weights that tell rows apart, and what is said of its training."""

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.export import Training

CONFIG = models.TextConfig(width=12, num_layers=2, num_heads=3, ngram_buckets=64, max_ngram=3, dropout=0.5)
TRAINING = Training(
    data={"train": {"source": "films.csv", "rows": 40}, "test": {"source": "test.csv", "rows": 7}},
    metrics={"accuracy": 0.75, "macro_f1": 0.5, "rows": 7, "split": "test"},
    settings={"epochs": 3},
)


def make_model(**options):
    keras.utils.set_random_seed(0)
    made = models.TextClassifier(
        CONFIG, vocabulary=["good", "bad", "film", "a"], labels=["+", "-", "ü"], **options
    )
    random = np.random.default_rng(0)
    made.core.set_weights([random.normal(size=w.shape) * 0.3 for w in made.core.weights])
    return made


def load(path):
    """The signatures of a SavedModel, and what they die with."""
    loaded = tf.saved_model.load(str(path))
    return loaded.signatures, loaded
