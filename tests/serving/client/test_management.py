"""Reloads: the configuration that TensorFlow Serving reads, and what is none."""

import numpy as np
import pytest
from stock_serving import StockServing
from tensorflow_serving.config import model_server_config_pb2

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import (
    ModelConfig,
)

CONFIG = """
model_config_list {
  config {
    name: "film" base_path: "/models/film" model_platform: "tensorflow"
    model_version_policy { specific { versions: 2 versions: 3 } }
    version_labels { key: "stable" value: 2 }
  }
  config { name: "all" base_path: "/models/all" model_platform: "tensorflow" model_version_policy { all {} } }
  config { name: "last" base_path: "/models/last" model_platform: "tensorflow" }
}
"""


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        [
            ModelConfig("film", "/models/film", versions=[2, 3], labels={"stable": 2}),
            ModelConfig("all", "/models/all", versions="all"),
            ModelConfig("last", "/models/last"),
        ],
    ],
)
def test_reload_sends_the_configuration_that_tensorflow_serving_reads(stock_server, connect, config):
    from google.protobuf import text_format

    serving = StockServing()
    assert connect(stock_server(serving)).reload(config) is None
    expected = text_format.Parse(CONFIG, model_server_config_pb2.ModelServerConfig())
    assert serving.received("HandleReloadConfigRequest")[0].config == expected


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (ModelConfig("film", "/models/film"), "config must be a list of ModelConfig"),
        (None, "config must be a list of ModelConfig"),
        ("model_config_list {", "config must be a ModelServerConfig in protobuf's text format"),
        ([("film", "/models/film")], "config must be a list of ModelConfig, or text. Received tuple"),
    ],
)
def test_a_configuration_that_is_none_is_refused(connect, config, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        connect("127.0.0.1:1").reload(config)


@pytest.mark.parametrize("versions", ["latest", [], ["3"], [True], 5, [-1], [2**63]])
def test_versions_that_are_none_are_refused(versions):
    with pytest.raises(errors.InvalidInputError, match='versions must be a list of numbers, "all" or None'):
        ModelConfig("film", "/models/film", versions=versions)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": 3, "base_path": "/x"}, "name must be a str"),
        ({"name": "m", "base_path": ""}, "base_path must be a str"),
        ({"name": "m", "base_path": "/x", "labels": {"stable": "t"}}, "labels must be a dict"),
        ({"name": "m", "base_path": "/x", "labels": ["stable"]}, "labels must be a dict"),
    ],
)
def test_a_model_that_is_none_is_refused(settings, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        ModelConfig(**settings)


def test_numpys_numbers_are_versions():
    proto = ModelConfig("m", "/x", np.int64([2, 3]).tolist(), {"stable": np.int64(2)}).proto()
    assert proto.version_labels["stable"] == 2
