"""One export of the small model, for all tests of exports."""

import json
from pathlib import Path

import pytest
import tensorflow as tf
from film_model import TRAINING, make_model

from keras_selfattn.export import export_saved_model


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


@pytest.fixture(scope="package")
def schema():
    return json.loads(
        (Path(__file__).parents[2] / "docs" / "model-card.schema.json").read_text(encoding="utf-8")
    )
