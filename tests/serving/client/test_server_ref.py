"""Versions and labels that a client asks for."""

import pytest
from stock_serving import StockServing

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import (
    Label,
)


def test_a_label_asks_for_the_version_that_bears_it(stock_server, connect):
    serving = StockServing()
    client = connect(stock_server(serving), "m")
    client.predict([[1, 2]], version=Label("stable"))
    client.predict([[1, 2]])
    for _, request in serving.requests[:2]:
        assert request.model_spec.version_label == "stable"
    assert serving.received("Predict")[1].model_spec.WhichOneof("version_choice") is None
    assert len(serving.received("GetModelMetadata")) == 2  # what bears a label may be another version


@pytest.mark.parametrize("name", [3, "", "\ud800", None])
def test_a_label_is_checked(name):
    with pytest.raises(errors.InvalidInputError, match="a label must be a str"):
        Label(name)


def test_the_state_of_a_label_is_not_asked_for(connect):
    with pytest.raises(errors.InvalidInputError, match="version must be an integer, or None for all"):
        connect("127.0.0.1:1").status(Label("stable"))


def test_metadata_of_a_version_or_label(stock_server, connect):
    serving = StockServing(version=4)
    client = connect(stock_server(serving), "m")
    metadata = client.metadata(Label("stable"))
    assert (metadata.model, metadata.version) == ("m", 4)
    assert metadata.signatures["serving_default"].method_name == "tensorflow/serving/predict"
    assert repr(metadata).splitlines()[1].strip() == (
        "serving_default: (x: float32 [None, 2]) -> (y: float32 [None, 2])"
    )
    client.metadata(version=4)
    specs = [request.model_spec for request in serving.received("GetModelMetadata")]
    assert (specs[0].version_label, specs[1].version.value) == ("stable", 4)
