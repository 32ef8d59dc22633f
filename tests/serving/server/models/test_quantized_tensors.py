"""Tensors of quantized types, such as qint8, come and go as TensorFlow Serving sends them."""

import json
import logging
import urllib.error
import urllib.request

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig

TYPES = [tf.qint8, tf.quint8, tf.qint16, tf.quint16, tf.qint32]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Gives back what it got, of each type and of float; the default one makes qint8 of floats."""
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # TensorFlow 1's functions are all deprecated
    base, v1 = tmp_path_factory.mktemp("quantized"), tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        info, signature = v1.saved_model.build_tensor_info, v1.saved_model.build_signature_def
        x = v1.placeholder(tf.float32, [None])
        quantized = tf.quantization.quantize(x, -128.0, 127.0, tf.qint8).output
        signatures = {"serving_default": signature({"x": info(x)}, {"y": info(quantized)})}
        for dtype in (*TYPES, tf.float32):
            same = v1.placeholder(dtype, [None])
            outputs = {"y": info(tf.identity(same))}
            signatures[dtype.name] = signature({"x": info(same)}, outputs)
        builder = v1.saved_model.Builder(str(base / "1"))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
    return base


@pytest.fixture(scope="module", params=[False, True], ids=["alone", "batched"])
def server(base, request):
    with Server(ServerConfig("m", base, port=0, rest_api_port=-1, enable_batching=request.param)) as server:
        yield server


@pytest.fixture
def ask(server):
    """Asks a signature as the stock client does, with a TensorProto; gives the answer's."""
    with grpc.insecure_channel(server.target) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

        def predict(signature, proto):
            request = predict_pb2.PredictRequest()
            request.model_spec.name = "m"
            request.model_spec.signature_name = signature
            request.inputs["x"].CopyFrom(proto)
            return stub.Predict(request, timeout=20).outputs["y"]

        yield predict


def stock_tensor(dtype, *values):
    return tf.make_tensor_proto(np.array(list(values), dtype.as_numpy_dtype))


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
def test_each_type_is_taken_and_answered_as_itself(ask, dtype):
    sent = stock_tensor(dtype, 1, 100, 3)
    answer = ask(dtype.name, sent)
    assert answer.dtype == dtype.as_datatype_enum
    assert list(answer.int_val) == [1, 100, 3]
    assert tf.make_ndarray(answer).dtype == dtype.as_numpy_dtype


def test_values_in_their_typed_field_are_taken_too(ask):
    sent = tf.make_tensor_proto([0, 0], tf.int32)
    sent.ClearField("tensor_content")
    sent.dtype = tf.qint8.as_datatype_enum
    sent.int_val.extend([-128, 127])
    assert list(ask("qint8", sent).int_val) == [-128, 127]


def test_a_quantized_tensor_is_no_plain_one_and_the_other_way_round(ask):
    for signature, sent, words in (
        ("qint8", tf.make_tensor_proto([1], tf.int8), "Expects arg[0] to be qint8 but int8 is provided"),
        ("float32", stock_tensor(tf.qint32, 1), "Expects arg[0] to be float but qint32 is provided"),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            ask(signature, sent)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert words in refused.value.details()


def test_our_client_reads_their_numbers(server):
    with Client(server.target, "m") as client:
        answer = client.predict({"x": np.float32([-3, 5])})["y"]
    assert answer.dtype == np.int8
    assert answer.tolist() == [-3, 5]


def test_rest_has_no_json_for_them(server):
    body = json.dumps({"instances": [1.0]}).encode()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{server.rest_url}/v1/models/m:predict", body, timeout=20)
    assert refused.value.code == 400
    assert json.load(refused.value)["error"] == "Failed to write JSON value for tensor type: qint8"
