"""Large tables: set, read, written and loaded by parts."""

import subprocess
import sys
import tracemalloc

import keras
import numpy as np
import pytest

from keras_selfattn.models.optimizers import FineTuningAdamW
from keras_selfattn.models.pretrained.embedding import PretrainedEmbedding
from keras_selfattn.models.saving import weight_parts
from keras_selfattn.models.saving.weight_parts import array_of, assign, parts_of

ROWS, WIDTH = 1000, 8


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(weight_parts, "_PART", 8)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (5, 4, 3), (0, 4)])
def test_a_weight_is_set_by_parts(shape):
    variable, value = keras.Variable(np.zeros(shape, "float32")), np.random.default_rng(0).normal(size=shape)
    assign(variable, value)
    np.testing.assert_array_equal(variable, value.astype("float32"))


@pytest.mark.usefixtures("small_parts")
def test_another_shape_is_refused_as_by_keras():
    variable = keras.Variable(np.zeros((4, 6), "float32"))
    with pytest.raises(ValueError, match="must match"):
        assign(variable, np.ones((3, 6)))
    assert not np.array(variable).any()


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", ["tokens", "kernel"])
def test_a_table_of_tokens_alone_is_read_by_parts(name):
    value = np.random.default_rng(0).normal(size=(5, 6)).astype("float32")
    with keras.name_scope("embedding"):
        variable = keras.Variable(value, name=name)
    parts = list(parts_of(variable))
    assert [len(part) for part in parts] == ([1] * 5 if name == "tokens" else [5])
    np.testing.assert_array_equal(np.concatenate(parts), value)
    np.testing.assert_array_equal(array_of(variable), value)


_TWO_DEVICES = """
import numpy as np, tensorflow as tf, keras
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from keras_selfattn.models.saving import weight_parts
weight_parts._PART = 8
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    weight = keras.Variable(np.zeros((5, 6), "float32"), name="tokens")
weight_parts.assign(weight, np.ones((5, 6)))
print(*(float(each.numpy().min()) for each in weight.value.values))
"""


def fitted():
    """A model whose table some steps have looked up and moved."""
    ids = keras.Input((3,), dtype="int32")
    model = keras.Model(ids, keras.layers.GlobalAveragePooling1D()(PretrainedEmbedding(ROWS, WIDTH, 4)(ids)))
    model.compile(FineTuningAdamW(0.1, global_clipnorm=1.0), "mse")
    model.fit(np.array([[1, 2, 3], [4, 1, 0]]), np.ones((2, WIDTH)), epochs=2, verbose=0)
    return model


@pytest.mark.usefixtures("small_parts")
def test_an_embedding_and_its_moments_are_saved_and_loaded(tmp_path):
    model = fitted()
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    for one, other in ((model, loaded), (model.optimizer, loaded.optimizer)):
        assert len(one.variables) == len(other.variables)
        for ours, theirs in zip(one.variables, other.variables, strict=True):
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    model.layers[1].save_own_variables(store := {})
    with pytest.raises(ValueError, match="variables"):
        loaded.layers[1].load_own_variables({"0": store["0"]})


def test_a_table_becomes_an_array_without_other_copies(monkeypatch):
    monkeypatch.setattr(weight_parts, "_PART", 50_000)
    with keras.name_scope("embedding"):
        table = keras.Variable(np.ones((100_000, WIDTH), "float32"), name="tokens")
    copies = []
    for read in (array_of, np.array):
        tracemalloc.start()
        read(table)
        copies.append(tracemalloc.get_traced_memory()[1] / (4 * 100_000 * WIDTH))
        tracemalloc.stop()
    assert copies[0] < 1.3
    assert copies[1] > 1.9


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_table_of_tokens_alone_is_saved_by_parts(tmp_path, monkeypatch, dtype):
    monkeypatch.setattr(weight_parts, "_PART", 50_000)
    ids = keras.Input((3,), dtype="int32")
    embedding = PretrainedEmbedding(100_000, WIDTH, 4, dtype=dtype)
    model = keras.Model(ids, embedding(ids))
    tracemalloc.start()
    model.save_weights(tmp_path / "m.weights.h5")
    copies = tracemalloc.get_traced_memory()[1] / (4 * 100_000 * WIDTH)
    tracemalloc.stop()
    assert copies < 0.3 or dtype == "bfloat16"
    before = embedding.vectors.numpy()
    embedding.vectors.assign(np.zeros_like(before))
    model.load_weights(tmp_path / "m.weights.h5")
    np.testing.assert_array_equal(embedding.vectors.numpy(), before)


@pytest.mark.slow
@pytest.mark.process
def test_a_weight_of_several_devices_is_set_on_each():
    found = subprocess.run([sys.executable, "-c", _TWO_DEVICES], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["1.0", "1.0"]


def test_reading_by_parts_leaves_the_table_to_be_trained():
    model = fitted()
    before = model.layers[1].vectors.numpy()
    model.fit(np.array([[1, 2, 3]]), np.zeros((1, WIDTH)), verbose=0)
    moved = np.any(model.layers[1].vectors.numpy() != before, axis=1)
    assert np.flatnonzero(moved).tolist() == [1, 2, 3]
