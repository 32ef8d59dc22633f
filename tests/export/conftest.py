"""One export of the small model, for all tests of exports."""

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
