"""Our clients against a server built on the stock stubs: what they send, remember and raise."""

import sys

import grpc
import numpy as np
import pytest
import tensorflow as tf
from stock_serving import StockServing, doubled
from tensorflow_serving.apis import predict_pb2

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Signature, TensorSpec, VersionStatus

NOBODY = "127.0.0.1:1"  # port 1 is reserved: nobody listens


def test_a_request_is_byte_for_byte_what_the_stock_client_would_send(stock_server, connect):
    serving = StockServing({"sig": doubled()})
    x = np.float32([[1, 2], [3, 4]])
    answer = connect(stock_server(serving), "m").predict({"x": x}, "sig", outputs=["y"], version=7)
    assert answer["y"].tolist() == [[2, 4], [6, 8]]
    expected = predict_pb2.PredictRequest(output_filter=["y"])
    expected.model_spec.name, expected.model_spec.signature_name = "m", "sig"
    expected.model_spec.version.value = 7
    expected.inputs["x"].CopyFrom(tf.make_tensor_proto(x))
    assert serving.received("Predict")[0].SerializeToString() == expected.SerializeToString()


def test_a_prediction_is_a_mapping_that_knows_who_answered(stock_server, connect):
    answer = connect(stock_server(StockServing(version=5)), "m").predict([[1, 2]])
    assert (answer.model, answer.version, answer.signature) == ("m", 5, "serving_default")
    assert set(answer) == {"y"}
    assert dict(answer)["y"].dtype == np.float32
    assert repr(answer) == "m, version 5, serving_default\n  y: float32 [1, 2] = [[2. 4.]]"


def test_a_machine_of_the_other_byte_order_is_refused(connect, monkeypatch):
    monkeypatch.setattr(sys, "byteorder", "big")
    with pytest.raises(
        errors.InvalidInputError, match="big end first.*run the client on a little-endian machine"
    ):
        connect(NOBODY)


def test_a_closed_client_says_so(connect):
    client = connect(NOBODY)
    client.close()
    client.close()
    with pytest.raises(errors.ClientClosedError, match="is closed"):
        client.status()


def test_one_client_answers_many_threads(half, in_background):
    calls = [in_background(half.predict, {"x": np.float32([n])}) for n in range(200)]
    assert [call.result()["y"].item() for call in calls] == [0.5 * n + 2 for n in range(200)]


def test_the_reprs_can_be_read():
    spec = TensorSpec("float32", (None, 4))
    assert repr(spec) == "float32 [None, 4]"
    assert repr(TensorSpec("string", None)) == "string [...]"
    assert repr(Signature({"x": spec}, {"y": spec})) == "(x: float32 [None, 4]) -> (y: float32 [None, 4])"
    ended = VersionStatus(2, "END", grpc.StatusCode.NOT_FOUND, "gone")
    assert str(ended) == "version 2 is END (NOT_FOUND: gone)"
