"""`export`: its precisions, models without a record, damaged records."""

import json

import keras
import numpy as np
import pytest

from keras_selfattn import layers
from keras_selfattn.cli.export import command as export_command
from keras_selfattn.cli.export import training_of
from keras_selfattn.errors import RunError
from keras_selfattn.export.precision import PRECISIONS

VALUES = np.random.default_rng(0).normal(size=(6, 4, 16)).astype("float32")


def wide_model():
    """With kernels above the least size that is narrowed, of 1,024 numbers."""
    values = keras.Input((None, 16), name="values")
    x = layers.Encoder(num_layers=1, num_heads=2, feed_forward_dim=128, seed=0)(values)
    x = layers.AveragePooling()(x)
    model = keras.Model(values, keras.layers.Dense(3, activation="softmax", name="head")(x))
    random = np.random.default_rng(1)
    model.set_weights([random.normal(size=w.shape) * 0.3 for w in model.weights])
    return model


def test_a_keras_file_is_loaded_without_a_record_of_its_training(tmp_path):
    from keras_selfattn.cli.export import _load

    model = wide_model()
    model.save(tmp_path / "model.keras")
    found, training = _load(tmp_path / "model.keras")
    np.testing.assert_array_equal(found(VALUES), model(VALUES))
    assert training is None


def test_the_command_line_knows_every_precision():
    (option,) = [p for p in export_command.params if p.name == "precision"]
    assert tuple(option.type.choices) == PRECISIONS


@pytest.mark.parametrize(
    ("config", "damage"),
    [
        ({}, "`data` must hold"),
        ({"data": None, "training": {}}, "`data` must hold"),
        ({"data": {"train": 5}, "training": {}}, "`data: train` must be a JSON object"),
        (
            {"data": {"train": {"source": 5, "rows": 1}}, "training": {}},
            "`data: train: source` must be a text",
        ),
        ({"data": {"train": {"source": "t.csv", "rows": 1}}, "training": None}, "`data` must hold"),
    ],
)
def test_damaged_records_of_the_data_are_said_to_be_so(tmp_path, config, damage):
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunError, match=f"config.json is damaged: {damage}"):
        training_of(tmp_path)
