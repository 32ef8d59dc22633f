"""Settings of trainings: which are refused, and how they are recorded."""

import dataclasses
import json

import numpy as np
import pytest

from keras_selfattn import training
from keras_selfattn.errors import ConfigError


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"epochs": 0}, "`epochs`.*0"),
        ({"batch_size": 1.5}, "`batch_size`.*1.5"),
        ({"learning_rate": float("nan")}, "`learning_rate`.*nan"),
        ({"validation": 1}, "`validation`.*1"),
        ({"weight_decay": -1}, "`weight_decay`.*-1"),
        ({"seed": -1}, "`seed`.*-1"),
        ({"seed": 1.5}, "`seed` must be an integer.*1.5"),
        ({"learning_rate": "1e-3"}, "`learning_rate`.*'1e-3'"),
        ({"weight_decay": None}, "`weight_decay`.*None"),
        ({"validation": "0.1"}, "`validation`.*'0.1'"),
        ({"class_weight": "even"}, "`class_weight`.*'even'"),
        ({"class_weight": {"+": float("inf")}}, "`class_weight`.*inf for '\\+'"),
        ({"class_weight": {"+": -1}}, "`class_weight`.*-1 for '\\+'"),
        ({"class_weight": {"+": "much"}}, "`class_weight`.*'much' for '\\+'"),
        ({"class_weight": {1.5: 1}}, "`class_weight`.*1 for 1.5"),
    ],
)
def test_bad_settings_are_named_with_their_value(field, said):
    with pytest.raises(ConfigError, match=said):
        training.TrainConfig(**field)


@pytest.mark.parametrize(
    "given",
    [
        {"class_weight": {"+": np.float32(2), np.int64(1): 1}},
        {"learning_rate": np.float32(1)},
        {"seed": np.int64(3)},
    ],
)
def test_settings_of_numpy_are_recorded_as_json_has_them(given):
    recorded = json.dumps(dataclasses.asdict(training.TrainConfig(**given)))
    ((name, value),) = given.items()
    wanted = {"+": 2.0, "1": 1.0} if name == "class_weight" else value
    assert json.loads(recorded)[name] == wanted


def test_refit_is_yes_or_no():
    with pytest.raises(ConfigError, match="`refit` must be True or False. Received 'all'"):
        training.TrainConfig(refit="all")


pytestmark = pytest.mark.usefixtures("eager_steps")


def test_a_config_of_training_keeps_booleans_apart_from_indices():
    found = training.TrainConfig(class_weight={True: 5.0, np.False_: 2.0}).class_weight
    assert found == {"True": 5.0, "False": 2.0}
