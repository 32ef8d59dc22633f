"""Our server answers a stock client, with TensorFlow Serving's messages."""

import grpc
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from serving_models import HalfPlusTwo, save
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.wire import codec
from keras_selfattn.serving.wire import messages_pb2 as pb

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
X = np.float32([1, 2, 5])


@pytest.fixture
def channel():
    channels = []

    def connect(target):
        channels.append(grpc.insecure_channel(target, options=UNLIMITED))
        return channels[-1]

    yield connect
    for opened in channels:
        opened.close()


@pytest.fixture
def stock(channel, half_server):
    return prediction_service_pb2_grpc.PredictionServiceStub(channel(half_server.target))


@pytest.fixture
def stock_model(channel, half_server):
    return model_service_pb2_grpc.ModelServiceStub(channel(half_server.target))


def stock_request(name="half", signature="", version=None, **inputs):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    for alias, value in inputs.items():
        request.inputs[alias].CopyFrom(tf.make_tensor_proto(value))
    return request


def refused(call, *args):
    with pytest.raises(grpc.RpcError) as caught:
        call(*args, timeout=20)
    return caught.value.code().name, caught.value.details()


def test_a_stock_client_gets_the_response_tensorflow_serving_would_send(stock):
    response = stock.Predict(stock_request(x=X), timeout=20)
    expected = predict_pb2.PredictResponse()
    expected.model_spec.name = "half"
    expected.model_spec.version.value = 3
    expected.model_spec.signature_name = "serving_default"
    output = expected.outputs["y"]
    output.dtype = tf.float32.as_datatype_enum
    output.tensor_shape.CopyFrom(tf.TensorShape([3]).as_proto())
    output.float_val.extend([2.5, 3.0, 4.5])
    assert response == expected
    assert not output.tensor_content


def test_a_stock_request_and_ours_get_the_same_bytes(channel, half_server, text_server):
    def answers(target, name, signature, **inputs):
        call = channel(target).unary_unary("/tensorflow.serving.PredictionService/Predict")
        ours = pb.PredictRequest(
            model_spec=pb.ModelSpec(name=name, signature_name=signature),
            inputs={alias: codec.encode(value) for alias, value in inputs.items()},
        )
        theirs = stock_request(name, signature, **inputs)
        return [call(request.SerializeToString(), timeout=20) for request in (ours, theirs)]

    for target, name, signature, inputs in [
        (half_server.target, "half", "", {"x": X}),
        (
            half_server.target,
            "half",
            "matmul",
            {"left": np.ones((2, 3), "f4"), "right": np.ones((3, 5), "f4")},
        ),
        (text_server.target, "default", "serving_default", {"text": ["good", "", "naïve", "x" * 1_000_000]}),
    ]:
        ours, theirs = answers(target, name, signature, **inputs)
        assert ours == theirs
        parsed = predict_pb2.PredictResponse.FromString(theirs)
        positions = [theirs.index(alias.encode()) for alias in sorted(parsed.outputs)]
        assert positions == sorted(positions)
        read = pb.PredictResponse.FromString(ours)
        assert set(parsed.outputs) == set(read.outputs)
        for alias, output in parsed.outputs.items():
            expected = tf.make_ndarray(output)
            assert codec.decode(read.outputs[alias]).tolist() == expected.tolist()


def echoed(dtype):
    numpy_dtype = tf.as_dtype(dtype).as_numpy_dtype
    values = [[0, 1, 3], [1, 0, 1]]
    return (
        np.array([[b"\0a\0", b"", b"\xff"]], object) if dtype == "string" else np.array(values, numpy_dtype)
    )


@pytest.mark.parametrize(
    "dtype",
    [
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "string"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    ],
)
def test_every_type_survives_the_way_to_the_model_and_back(channel, types_server, dtype):
    array = echoed(dtype)
    with Client(types_server.target, "types") as client:
        ours = client.predict({"x": array}, dtype)["y"]
        scalar = client.predict({"x": array[0, 0] if dtype != "string" else b"\0a\0"}, dtype)["y"]
        empty = client.predict({"x": array[:, :0]}, dtype)["y"]
    assert (ours.dtype, ours.tolist()) == (array.dtype, array.tolist())
    assert (scalar.shape, scalar.item()) == ((), "\0a\0" if dtype == "string" else array[0, 0])
    assert empty.shape == (len(array), 0)
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel(types_server.target))
    output = stub.Predict(stock_request("types", dtype, x=array), timeout=20).outputs["y"]
    assert np.asarray(tf.make_ndarray(output)).tolist() == array.tolist()


def test_classify_gives_a_label_and_a_score_for_each_text(text):
    answers = text.classify(["good", "bad", "what?"])
    assert [(answer.label, answer.score) for answer in answers] == [
        ("pos", 0.75),
        ("neg", 0.75),
        ("wörds", 0.75),
    ]
    assert text.classify([]) == []
    assert text.predict(["good"])["probabilities"].tolist() == [[0.125, 0.75, 0.125]]


def test_classify_on_a_model_that_is_no_classifier_says_so(types_server, half):
    with pytest.raises(errors.InvalidInputError, match="strings cannot be sent as float32"):
        half.classify(["good"])


@pytest.mark.parametrize(
    "texts", [["", "naïve", "日本語 😀"], ["x" * 1_000_000], [], "one", [["a", "b"], ["", "c"]]]
)
def test_text_of_every_kind_comes_back_as_str(text, texts):
    answer = text.predict({"text": texts}, "echo")
    assert answer["text"].tolist() == texts
    assert answer["text"].dtype == object
    lengths = np.vectorize(lambda item: len(item.encode()), otypes=[int])(np.array(texts, object))
    assert answer["bytes"].tolist() == lengths.tolist()


def test_strings_that_are_not_all_utf8_stay_bytes(text):
    assert text.predict({"text": ["a", b"\xff"]}, "echo")["text"].tolist() == [b"a", b"\xff"]


def test_outputs_can_be_chosen(text):
    assert set(text.predict(["good"], outputs=["label"])) == {"label"}


def test_answers_larger_than_grpcs_default_limit_arrive(half):
    x = np.arange(3_000_000, dtype=np.float32)  # 12 MB each way
    np.testing.assert_array_equal(half.predict({"x": x})["y"], 0.5 * x + 2)


@pytest.mark.parametrize(
    ("request_", "code", "details"),
    [
        (stock_request("nope", x=X), "NOT_FOUND", "Servable not found for request: Latest(nope)"),
        (
            stock_request("nope", x=X, version=7),
            "NOT_FOUND",
            "Servable not found for request: Specific(nope, 7)",
        ),
        (stock_request(x=X, version=7), "NOT_FOUND", "Servable not found for request: Specific(half, 7)"),
        (stock_request("", x=X), "INVALID_ARGUMENT", "ModelSpec has no name specified."),
        (predict_pb2.PredictRequest(), "INVALID_ARGUMENT", "Missing ModelSpec"),
        (stock_request(signature="s", x=X), "FAILED_PRECONDITION", 'Serving signature key "s" not found.'),
        (
            stock_request(),
            "INVALID_ARGUMENT",
            "input size does not match signature: 0!=1 len({}) != len({x}). Sent extra: {}. "
            "Missing but required: {x}.",
        ),
        (
            stock_request(signature="matmul", left=X),
            "INVALID_ARGUMENT",
            "input size does not match signature: 1!=2 len({left}) != len({left,right}). Sent extra: {}. "
            "Missing but required: {right}.",
        ),
        (
            stock_request(x=X, extra=X),
            "INVALID_ARGUMENT",
            "input size does not match signature: 2!=1 len({extra,x}) != len({x}). Sent extra: {extra}. "
            "Missing but required: {}.",
        ),
        (
            stock_request(zz=X),
            "INVALID_ARGUMENT",
            "Signature input alias: x(feed name: serving_default_x:0) not found in request and no default "
            "value provided. Inputs expected to be in the request {zz}, or default input alias set: ",
        ),
        (
            stock_request(x=np.int64([1])),
            "INVALID_ARGUMENT",
            "Expects arg[0] to be float but int64 is provided",
        ),
        (stock_request(x=["a"]), "INVALID_ARGUMENT", "Expects arg[0] to be float but string is provided"),
    ],
)
def test_what_does_not_fit_is_refused_in_tensorflow_servings_words(stock, request_, code, details):
    assert refused(stock.Predict, request_) == (code, details)


def test_a_wrong_shape_is_refused_in_the_clients_words(stock):
    request = stock_request(signature="matmul", left=np.ones((2, 4), "f4"), right=np.ones((3, 5), "f4"))
    words = "input 'left' has shape [2, 4]. The model wants float32 [None, 3]"
    assert refused(stock.Predict, request) == ("INVALID_ARGUMENT", words)


def test_axes_of_size_one_at_the_end_are_left_to_the_kernels(stock):
    response = stock.Predict(stock_request(x=np.float32([[1], [2]])), timeout=20)
    assert tf.make_ndarray(response.outputs["y"]).tolist() == [[2.5], [3.0]]


def test_output_filters_are_checked_in_tensorflow_servings_words(stock):
    request = stock_request(x=X)
    request.output_filter.append("q")
    expected = "output tensor alias not found in signature: q Outputs expected to be in the set {y}."
    assert refused(stock.Predict, request) == ("INVALID_ARGUMENT", expected)
    request.output_filter[:] = ["y", "y"]
    assert refused(stock.Predict, request) == ("INVALID_ARGUMENT", "duplicate output tensor alias: y")


def test_version_labels_are_unknown(stock):
    request = stock_request(x=X)
    request.model_spec.version_label = "stable"
    expected = ("INVALID_ARGUMENT", "Unrecognized servable version label: stable")
    assert refused(stock.Predict, request) == expected


def test_a_tensor_that_does_not_parse_is_named(stock):
    request = stock_request(x=X)
    request.inputs["x"].tensor_content = b"123"
    assert refused(stock.Predict, request) == ("INVALID_ARGUMENT", "tensor parsing error: x")


def test_a_request_that_does_not_parse_is_an_internal_error(channel, half_server):
    for method in (
        "PredictionService/Predict",
        "PredictionService/GetModelMetadata",
        "ModelService/GetModelStatus",
    ):
        call = channel(half_server.target).unary_unary(f"/tensorflow.serving.{method}")
        assert refused(call, b"\xff\xff") == ("INTERNAL", "Unable to parse request")


def test_long_messages_are_cut_where_tensorflow_serving_cuts_them(stock):
    code, details = refused(stock.Predict, stock_request("é" * 2000, x=X))
    assert code == "NOT_FOUND"
    assert details.endswith("é...TRUNCATED")
    assert len(details.removesuffix("...TRUNCATED").encode()) in (1023, 1024)


def test_a_call_that_is_not_there_is_unimplemented(channel, half_server):
    call = channel(half_server.target).unary_unary("/tensorflow.serving.SessionService/SessionRun")
    assert refused(call, b"")[0] == "UNIMPLEMENTED"


def test_metadata_for_a_stock_client_is_the_saved_models_own(stock, half_base):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "half"
    response = stock.GetModelMetadata(request, timeout=20)
    assert (response.model_spec.name, response.model_spec.version.value) == ("half", 3)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    saved = tf.compat.v1.saved_model.load
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        expected = saved(session, ["serve"], str(half_base / "3")).signature_def
    assert set(signatures.signature_def) == set(expected)
    assert all(signatures.signature_def[name] == expected[name] for name in expected)


def test_metadata_for_our_client_reads_well(half):
    metadata = half.metadata()
    assert (metadata.model, metadata.version) == ("half", 3)
    assert "  serving_default: (x: float32 [None]) -> (y: float32 [None])" in repr(metadata)
    matmul = metadata.signatures["matmul"]
    assert repr(matmul.inputs["left"]) == "float32 [None, 3]"
    assert repr(matmul.outputs["product"]) == "float32 [None, None]"


@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ([], "GetModelMetadataRequest must specify at least one metadata_field"),
        (["signature_def", "other"], "Metadata field other is not supported"),
    ],
)
def test_metadata_fields_are_checked(stock, fields, details):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields)
    request.model_spec.name = "half"
    assert refused(stock.GetModelMetadata, request) == ("INVALID_ARGUMENT", details)


def test_metadata_and_status_need_a_known_model(stock, stock_model):
    metadata = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    status = get_model_status_pb2.GetModelStatusRequest()
    assert refused(stock.GetModelMetadata, metadata) == ("INVALID_ARGUMENT", "Missing ModelSpec")
    assert refused(stock_model.GetModelStatus, status) == ("INVALID_ARGUMENT", "Missing ModelSpec")
    metadata.model_spec.name = status.model_spec.name = "m"
    assert refused(stock.GetModelMetadata, metadata)[1] == "Servable not found for request: Latest(m)"
    expected = ("NOT_FOUND", "Could not find any versions of model m")
    assert refused(stock_model.GetModelStatus, status) == expected
    status.model_spec.name = "half"
    status.model_spec.version.value = 7
    expected = ("NOT_FOUND", "Could not find version 7 of model half")
    assert refused(stock_model.GetModelStatus, status) == expected


def test_status_for_a_stock_client(stock_model):
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "half"
    (status,) = stock_model.GetModelStatus(request, timeout=20).model_version_status
    assert (status.version, status.state, status.status.error_code) == (3, 30, 0)


def test_health_is_serving_for_every_service_name(channel, half_server):
    stub = health_pb2_grpc.HealthStub(channel(half_server.target))
    for service in (
        "",
        "tensorflow.serving.PredictionService",
        "tensorflow.serving.ModelService",
        "ModelService",
    ):
        assert stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=20).status == 1
    assert refused(stub.Check, health_pb2.HealthCheckRequest(service="x"))[0] == "NOT_FOUND"


def test_the_deadline_stops_the_graph(slow_server, until):
    with Client(slow_server.target, "slow") as client:
        with pytest.raises(errors.DeadlineExceededError):
            client.predict({"seconds": np.float32(60)}, timeout=0.3)
        # The run is over, not only unheard: otherwise unloading would wait for it.
        until(lambda: slow_server.models._models["slow"].running == 0)


def test_what_the_graph_ends_with_names_no_folder_of_the_server(channel, tmp_path):
    class Reader(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([], tf.string, name="name")])
        def serve(self, name):
            return {"text": tf.io.read_file(name)}

    save(Reader(), tmp_path)
    with (
        Server(ServerConfig("m", tmp_path, port=0)) as server,
        Client(server.target, "m") as client,
        pytest.raises(errors.NotFoundError) as caught,
    ):
        client.predict({"name": f"{tmp_path}/1/secret"})
    assert "secret" in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_a_default_value_is_used_for_a_missing_input(channel, tmp_path):
    module = HalfPlusTwo()
    path = save(module, tmp_path, serving_default=module.matmul)
    # tf.saved_model.save takes defaults for Keras' saved functions only: write one as it would.
    saved_model = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    default = tf.make_tensor_proto(np.full((3, 1), 2, "f4"))
    signature = saved_model.meta_graphs[0].signature_def["serving_default"]
    signature.defaults["right"].CopyFrom(default)
    (path / "saved_model.pb").write_bytes(saved_model.SerializeToString())
    with Server(ServerConfig("m", tmp_path, port=0)) as server:
        with Client(server.target, "m") as client:
            left = np.ones((1, 3), "f4")
            assert client.predict({"left": left}, outputs=["product"])["product"].tolist() == [[6.0]]
            both = client.predict({"left": left, "right": left.T}, outputs=["product"])
            assert both["product"].tolist() == [[3.0]]
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel(server.target))
        request = stock_request("m", left=np.ones((1, 3), "f4"), wrong=X)
        expected = "Inputs contains invalid name. Used request inputs: left, request input: left,wrong"
        assert refused(stub.Predict, request) == ("INVALID_ARGUMENT", expected)


def test_a_model_of_tensorflow_1_without_variables_is_complete(tmp_path):
    path = tmp_path / "1"
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        x = tf.compat.v1.placeholder(tf.float32, [None], "x")
        inputs, outputs = {"x": x}, {"y": x * 3.0}
        tf.compat.v1.saved_model.simple_save(session, str(path), inputs, outputs)
    assert not (path / "variables" / "variables.index").exists()
    with Server(ServerConfig("m", tmp_path, port=0)) as server, Client(server.target, "m") as client:
        assert client.predict([2.0])["y"].tolist() == [6.0]


def test_bfloat16_answers_use_the_stock_field(channel, types_server):
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel(types_server.target))
    array = np.array([1.5], ml_dtypes.bfloat16)
    output = stub.Predict(stock_request("types", "bfloat16", x=array), timeout=20).outputs["y"]
    assert output == tensor_pb2.TensorProto(
        dtype=tf.bfloat16.as_datatype_enum, tensor_shape=tf.TensorShape([1]).as_proto(), half_val=[0x3FC0]
    )
