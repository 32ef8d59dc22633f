"""Trains many models in one process; prints what is alive after the first ones and at the end, as JSON.

A command of its own: in a process of other tests, what they have left would be counted.
"""

import gc
import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from sklearn.model_selection import GridSearchCV
from tensorflow.python.framework import ops as framework

from keras_selfattn import layers, models
from keras_selfattn.estimators import SeriesClassifierEstimator

TEXTS = ["good film", "bad plot here", "good cast", "a bad end"] * 3
LABELS = ["up", "down"] * 6
SERIES = np.random.default_rng(0).normal(size=(12, 8)).astype("float32")
TINY = {"width": 4, "num_layers": 1, "num_heads": 1, "epochs": 1}
KINDS = {"graphs": tf.Graph, "layers": keras.layers.Layer, "variables": keras.Variable}


def alive():
    keras.backend.clear_session()
    gc.collect()
    types = [type(each) for each in gc.get_objects()]
    counts = {name: sum(issubclass(each, kind) for each in types) for name, kind in KINDS.items()}
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    registered = len(framework.gradient_registry.list())
    return {**counts, "custom gradients": registered, "MB": pages * 4096 / 2**20}


def text():
    """Fit, evaluate, predict, save and load, with Keras' own optimizer."""
    model = models.TextClassifier({"width": 4, "num_layers": 1, "num_heads": 1, "dropout": 0.1})
    model.compile("adam")
    model.fit(TEXTS, LABELS, verbose=0)
    path = sys.argv[1] + "/model.keras"
    model.save(path)
    models.load(path).predict(TEXTS, verbose=0)


def series():
    """Two fits of a grid search; TensorFlow registers a sum of gradients where none is of an embedding."""
    grid = GridSearchCV(SeriesClassifierEstimator(**TINY), {"dropout": [0.1]}, cv=2, refit=False)
    grid.fit(SERIES, LABELS)


def layer():
    """A user's own model with a layer of ours."""
    inputs = keras.Input([None], dtype="int32")
    x = keras.layers.Embedding(9, 4, mask_zero=True)(inputs)
    x = keras.layers.GlobalAveragePooling1D()(layers.EncoderBlock(2, 4)(x))
    model = keras.Model(inputs, keras.layers.Dense(1)(x))
    model.compile("adam", "mse")
    model.fit(np.array([[1, 2, 0], [3, 4, 5]]), np.array([0.0, 1.0]), verbose=0)


def main():
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # half of the time
    text()
    series()
    layer()
    first = alive()  # after four fits, and at the end after twenty
    text()
    series()
    for _ in range(13):
        layer()
    print(json.dumps([first, alive()]))


main()
