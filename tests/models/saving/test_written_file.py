"""The `.keras` file of a run: that of `model.save`, written with little memory."""

import tracemalloc
import zipfile

import h5py
import keras
import numpy as np
import pytest

from keras_selfattn.models.saving.saved_file import load_file
from keras_selfattn.models.saving.written_file import write_file

WIDTH, LAYERS = 256, 12


@pytest.fixture(scope="module")
def model():
    """A model of several kernels after a step, whose moments are not zero."""
    model = keras.Sequential([keras.Input((WIDTH,)), *(keras.layers.Dense(WIDTH) for _ in range(LAYERS))])
    model.compile("adam", "mse", run_eagerly=True)
    model.train_on_batch(np.ones((2, WIDTH), "float32"), np.zeros((2, WIDTH), "float32"))
    return model


def contents(path):
    """Returns the names in an archive, its config, and the arrays of its weights by their names."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        with archive.open("model.weights.h5") as file, h5py.File(file) as weights:
            weights.visititems(
                lambda name, each: arrays.update({name: each[()]}) if hasattr(each, "shape") else None
            )
        return sorted(archive.namelist()), archive.read("config.json"), arrays


def test_the_file_holds_what_the_file_of_keras_holds(model, tmp_path):
    ours, theirs = tmp_path / "ours.keras", tmp_path / "theirs.keras"
    write_file(model, ours)
    model.save(theirs)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ours.keras", "theirs.keras"]
    names, config, arrays = contents(ours)
    wanted_names, wanted_config, wanted = contents(theirs)
    assert (names, config, set(arrays)) == (wanted_names, wanted_config, set(wanted))
    assert any("optimizer" in name for name in arrays), "moments are in it"
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, wanted[name])
    for found, weight in zip(load_file(ours).optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(found.numpy(), weight.numpy())


def test_the_weights_are_not_all_in_memory_again(model, tmp_path):
    size = sum(
        array.nbytes for array in [*model.get_weights(), *(v.numpy() for v in model.optimizer.variables)]
    )
    peaks = []
    for write in (write_file, lambda model, path: model.save(path)):
        tracemalloc.start()
        write(model, tmp_path / "model.keras")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] < size / 3
    assert peaks[1] > size, "Keras has no file beside: write_file is needless"
