"""Our clients against a server built on the stock stubs: what they send, remember and raise."""

import pickle
import sys

import grpc
import numpy as np
import pytest
import tensorflow as tf
from stock_serving import StockServing, doubled
from tensorflow_serving.apis import predict_pb2

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client, Label, Signature, TensorSpec, VersionStatus
from keras_selfattn.serving.client.server_ref import ADVICE

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


def test_a_label_asks_for_the_version_that_bears_it(stock_server, connect):
    serving = StockServing()
    client = connect(stock_server(serving), "m")
    client.predict([[1, 2]], version=Label("stable"))
    client.predict([[1, 2]])
    for _, request in serving.requests[:2]:
        assert request.model_spec.version_label == "stable"
    assert serving.received("Predict")[1].model_spec.WhichOneof("version_choice") is None
    assert len(serving.received("GetModelMetadata")) == 2  # what bears a label may be another version


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


@pytest.mark.slow
@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
def test_every_status_code_is_its_own_exception(raw_server, connect, code):
    answer = lambda data, context: context.abort(code, "the details")  # noqa: E731
    target = raw_server(answer, without="GetModelMetadata")
    with pytest.raises(errors.ServingError) as caught:
        connect(target, "m").predict({"x": np.float32([1])}, "sig")
    error = caught.value
    assert type(error) is errors.ERROR_OF_CODE[code]
    assert (error.code, error.details, error.target, error.model) == (code, "the details", target, "m")
    assert error.signature == "sig"
    assert ADVICE[code].format(target=target) in str(error)
    assert isinstance(error.__cause__, grpc.RpcError)
    for part in (code.name, target, "'m'", "'sig'", "the details"):
        assert part in str(error)


def test_the_table_of_codes_is_total_and_goes_both_ways():
    codes = {code for code in grpc.StatusCode if code is not grpc.StatusCode.OK}
    assert set(errors.ERROR_OF_CODE) == codes
    assert all(errors.ERROR_OF_CODE[code].code is code for code in codes)
    assert set(ADVICE) == codes
    assert all(errors.status_code(code.value[0]) is code for code in grpc.StatusCode)
    assert errors.status_code(99) is grpc.StatusCode.UNKNOWN


def test_the_tree_in_the_docstring_is_the_tree():
    classes = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, Exception)]
    assert all(f" {cls.__name__} " in f"{errors.__doc__} ".replace("\n", " ") for cls in classes)


def test_an_error_survives_pickling_with_all_it_carries():
    for cls in {*errors.ERROR_OF_CODE.values(), errors.InvalidInputError, errors.MalformedResponseError}:
        error = cls("m", details="d", target="t:1", model="n")
        error.signature, error.rows = "s", range(2, 4)
        error = pickle.loads(pickle.dumps(error))
        assert type(error) is cls
        assert (error.signature, error.rows) == ("s", range(2, 4))
        assert (str(error), error.details, error.target, error.model) == ("m", "d", "t:1", "n")


@pytest.mark.parametrize(
    "target", ["localhost", "http://a:1", "a:b", "a:0", "a:65536", "", "a b:1", "::1:80", None]
)
def test_a_target_that_is_no_host_and_port_is_refused(target):
    with pytest.raises(errors.InvalidInputError, match="host:port"):
        Client(target)


@pytest.mark.parametrize(
    "target", ["localhost:8500", "10.0.0.1:1", "[::1]:8500", "my-host.example:65535", "unix:/tmp/a.sock"]
)
def test_a_host_and_port_or_a_socket_is_accepted(target):
    with Client(target, insecure=True) as client:
        assert target in repr(client)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), None, "1", True])
def test_a_timeout_that_is_no_limit_is_refused(timeout):
    with pytest.raises(errors.InvalidInputError, match=r"timeout must be .*number of seconds"):
        Client("localhost:1", timeout=timeout)
    with Client("localhost:1") as client:
        with pytest.raises(errors.InvalidInputError, match="timeout"):
            client.wait_until_ready(timeout)
        if timeout is not None:
            for call in (
                lambda: client.predict([1.0], timeout=timeout),
                lambda: client.status(timeout=timeout),
            ):
                with pytest.raises(errors.InvalidInputError, match="timeout"):
                    call()


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
