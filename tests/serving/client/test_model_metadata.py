"""Metadata is asked for once, and anew where an answer or a refusal says that the model is another."""

import grpc
import numpy as np
import pytest
import tensorflow as tf
from stock_serving import StockServing, doubled

from keras_selfattn.serving import errors


def test_metadata_is_asked_for_once(stock_server, connect):
    serving = StockServing({"serving_default": doubled("number", tf.int64)})
    client = connect(stock_server(serving))
    for _ in range(3):
        assert client.predict([[1, 2]])["y"].tolist() == [[2, 4]]
        assert client.predict({"number": [[1, 2]]})["y"].dtype == np.int64
    assert len(serving.received("GetModelMetadata")) == 1


def test_a_server_without_metadata_is_asked_as_told(stock_server, connect):
    def no_metadata(rpc, request, context):
        if rpc == "GetModelMetadata":
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "")

    serving = StockServing(before=no_metadata)
    client = connect(stock_server(serving))
    for _ in range(2):
        assert client.predict({"x": np.float32([[1, 2]])})["y"].tolist() == [[2, 4]]
    with pytest.raises(errors.InvalidInputError, match="pass a mapping from their names"):
        client.predict([[1, 2]])
    with pytest.raises(errors.InvalidArgumentError, match="expected float32"):
        client.predict({"x": np.float64([[1, 2]])})
    assert len(serving.received("GetModelMetadata")) == 1


@pytest.mark.parametrize(("name", "dtype"), [("renamed", tf.float32), ("x", tf.float64), ("x", tf.int32)])
def test_a_new_version_with_another_input_is_noticed(stock_server, connect, name, dtype):
    serving = StockServing()
    client = connect(stock_server(serving))
    client.predict([[1.0, 2.0]])
    serving.signatures, serving.version = {"serving_default": doubled(name, dtype)}, 2
    for _ in range(2):
        assert client.predict([[1.0, 3.0]])["y"].tolist() == [[2.0, 6.0]]
    assert len(serving.received("GetModelMetadata")) == 2


def test_what_memory_refuses_is_asked_anew_where_a_newer_version_takes_it(stock_server, connect):
    serving = StockServing()
    client = connect(stock_server(serving))
    client.predict([[1.0, 2.0]])
    serving.signatures, serving.version = {"serving_default": doubled(shape=(None, 3))}, 2
    assert client.predict([[1.0, 2.0, 3.0]]).version == 2


def test_metadata_is_forgotten_when_an_answer_comes_from_another_version(stock_server, connect):
    serving = StockServing()
    client = connect(stock_server(serving))
    client.predict([[1.0, 2.0]])
    serving.version = 2
    client.predict([[1.0, 2.0]])
    client.predict([[1.0, 2.0]])
    assert len(serving.received("GetModelMetadata")) == 2


def test_a_refused_request_is_not_sent_again_when_the_metadata_is_the_same(stock_server, connect):
    def refuse(rpc, request, context):
        if rpc == "Predict":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")

    serving = StockServing(before=refuse)
    client = connect(stock_server(serving))
    for times in (1, 2):
        with pytest.raises(errors.InvalidArgumentError):
            client.predict([[1.0, 2.0]])
        assert len(serving.received("Predict")) == times


def test_a_refusal_stands_where_metadata_cannot_be_asked_anew(stock_server, connect):
    serving = StockServing()
    client = connect(stock_server(serving))
    client.predict([[1.0, 2.0]])
    serving.before = lambda rpc, request, context: context.abort(grpc.StatusCode.INTERNAL, "broken")
    with pytest.raises(errors.InvalidInputError, match="input 'x' has shape"):
        client.predict([1.0])
