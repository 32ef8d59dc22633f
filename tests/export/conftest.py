"""A small model with weights that tell rows apart, and one export of it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.export import Training, export_saved_model, saved_model

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


@pytest.fixture(scope="package")
def model():
    return make_model()


@pytest.fixture(scope="package")
def version(model, tmp_path_factory):
    return export_saved_model(model, tmp_path_factory.mktemp("base") / "film", training=TRAINING)


@pytest.fixture(scope="package")
def signatures(version):
    loaded = tf.saved_model.load(str(version))
    yield loaded.signatures  # noqa: PT022  they die with `loaded`


@pytest.fixture
def unchecked(monkeypatch):
    """Exports are not tried in a fresh process, which takes ten seconds; other tests see it work."""
    monkeypatch.setattr(saved_model, "try_saved_model", lambda *_: {"load_seconds": 0.0, "request_ms": 0.0})
