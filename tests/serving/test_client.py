"""Our client: against servers built on the stock stubs, broken servers, and none at all."""

import pickle
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2, prediction_service_pb2_grpc

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client, Signature, TensorSpec, VersionStatus
from keras_selfattn.serving.wire import messages_pb2 as pb

NOBODY = "127.0.0.1:1"  # port 1 is reserved: nobody listens


class Doubler(prediction_service_pb2_grpc.PredictionServiceServicer):
    """A model server as TensorFlow Serving's users write one in tests: y = 2 x, input named `self.name`."""

    def __init__(self, name="x", dtype=tf.float32, version=1):
        self.name, self.dtype, self.version = name, dtype, version
        self.requests = []
        self.metadata_calls = 0

    def Predict(self, request, context):  # noqa: N802 - the stub's name
        self.requests.append(request)
        if list(request.inputs) != [self.name]:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"expected {self.name}")
        if request.inputs[self.name].dtype != self.dtype.as_datatype_enum:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"expected {self.dtype.name}")
        response = predict_pb2.PredictResponse()
        array = tf.make_ndarray(request.inputs[self.name])
        response.outputs["y"].CopyFrom(tf.make_tensor_proto(array * 2))
        response.model_spec.name = request.model_spec.name
        response.model_spec.version.value = self.version
        return response

    def GetModelMetadata(self, request, context):  # noqa: N802 - the stub's name
        self.metadata_calls += 1
        signatures = get_model_metadata_pb2.SignatureDefMap()
        info = signatures.signature_def["serving_default"].inputs[self.name]
        info.dtype = self.dtype.as_datatype_enum
        info.tensor_shape.CopyFrom(tf.TensorShape([None, 2]).as_proto())
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.metadata["signature_def"].Pack(signatures)
        response.model_spec.version.value = self.version
        return response


def test_a_request_is_byte_for_byte_what_the_stock_client_would_send(stock_server):
    servicer = Doubler()
    x = np.float32([[1, 2], [3, 4]])
    with Client(stock_server(servicer), "m") as client:
        answer = client.predict({"x": x}, "sig", outputs=["y"], version=7)
    assert answer["y"].tolist() == [[2, 4], [6, 8]]
    expected = predict_pb2.PredictRequest(output_filter=["y"])
    expected.model_spec.name, expected.model_spec.signature_name = "m", "sig"
    expected.model_spec.version.value = 7
    expected.inputs["x"].CopyFrom(tf.make_tensor_proto(x))
    assert servicer.requests[0].SerializeToString() == expected.SerializeToString()


def test_a_bare_value_gets_the_served_name_and_dtype_which_are_asked_for_once(stock_server):
    servicer = Doubler("number", tf.int64)
    with Client(stock_server(servicer)) as client:
        for _ in range(3):
            assert client.predict([[1, 2]])["y"].tolist() == [[2, 4]]
            assert client.predict({"number": [[1, 2]]})["y"].dtype == np.int64
    assert servicer.metadata_calls == 1


def test_an_array_with_a_dtype_is_sent_as_it_is_without_asking_for_metadata(stock_server):
    servicer = Doubler()
    with Client(stock_server(servicer)) as client:
        client.predict({"x": np.float32([1])})
        with pytest.raises(errors.InvalidArgumentError, match="expected float32"):
            client.predict({"x": np.float64([1])})
    assert servicer.metadata_calls == 0


@pytest.mark.parametrize(("name", "dtype"), [("renamed", tf.float32), ("x", tf.float64)])
def test_a_new_version_with_another_input_is_noticed(stock_server, name, dtype):
    servicer = Doubler()
    with Client(stock_server(servicer)) as client:
        client.predict([1.0])
        servicer.name, servicer.dtype, servicer.version = name, dtype, 2
        assert client.predict([1.5])["y"].tolist() == [3.0]
        assert client.predict([1.5])["y"].tolist() == [3.0]
    assert servicer.metadata_calls == 2


def test_metadata_is_forgotten_when_an_answer_comes_from_another_version(stock_server):
    servicer = Doubler()
    with Client(stock_server(servicer)) as client:
        client.predict([1.0])
        servicer.version = 2
        client.predict([1.0])
        client.predict([1.0])
    assert servicer.metadata_calls == 2


def test_a_refused_request_is_not_sent_again_when_the_metadata_is_the_same(stock_server):
    servicer = Doubler()
    servicer.Predict = lambda request, context: (
        servicer.requests.append(request),
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no"),
    )
    with Client(stock_server(servicer)) as client, pytest.raises(errors.InvalidArgumentError):
        client.predict([1.0])
    assert len(servicer.requests) == 1


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
def test_every_status_code_is_its_own_exception(raw_server, code):
    target = raw_server(lambda data, context: context.abort(code, "the details"))
    with Client(target, "m") as client, pytest.raises(errors.ServingError) as caught:
        client.predict({"x": np.float32([1])}, "sig")
    error = caught.value
    assert type(error) is errors.ERROR_OF_CODE[code]
    assert (error.code, error.details, error.target, error.model) == (code, "the details", target, "m")
    assert isinstance(error.__cause__, grpc.RpcError)
    for part in (code.name, target, "'m'", "'sig'", "the details"):
        assert part in str(error)


def test_the_table_of_codes_is_total_and_goes_both_ways():
    codes = {code for code in grpc.StatusCode if code is not grpc.StatusCode.OK}
    assert set(errors.ERROR_OF_CODE) == codes
    assert all(errors.ERROR_OF_CODE[code].code is code for code in codes)
    assert all(errors.status_code(code.value[0]) is code for code in grpc.StatusCode)
    assert errors.status_code(99) is grpc.StatusCode.UNKNOWN


def test_the_tree_in_the_docstring_is_the_tree():
    classes = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, Exception)]
    assert all(f" {cls.__name__} " in f"{errors.__doc__} ".replace("\n", " ") for cls in classes)


def test_an_error_survives_pickling_with_all_it_carries():
    for cls in {*errors.ERROR_OF_CODE.values(), errors.InvalidInputError, errors.MalformedResponseError}:
        error = pickle.loads(pickle.dumps(cls("m", details="d", target="t:1", model="n")))
        assert type(error) is cls
        assert (str(error), error.details, error.target, error.model) == ("m", "d", "t:1", "n")


def test_nobody_there_is_an_error_at_once_that_names_the_target():
    with Client(NOBODY, timeout=20) as client, pytest.raises(errors.UnavailableError) as caught:
        client.predict({"x": np.float32([1])})
    assert f"Is a server running at {NOBODY}?" in str(caught.value)


def test_waiting_for_nobody_ends_at_the_deadline_and_names_the_target():
    started = time.monotonic()
    with Client(NOBODY, "m") as client, pytest.raises(errors.DeadlineExceededError) as caught:
        client.wait_until_ready(0.5)
    assert time.monotonic() - started < 5
    assert f"Is a server running at {NOBODY}" in str(caught.value)
    assert "within 0.5 s" in str(caught.value)


def test_a_port_that_accepts_and_never_speaks_ends_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = f"127.0.0.1:{listener.getsockname()[1]}"
        with Client(target, timeout=0.5) as client:
            with pytest.raises((errors.DeadlineExceededError, errors.UnavailableError), match=target):
                client.predict({"x": np.float32([1])})
            with pytest.raises(errors.DeadlineExceededError, match=target):
                client.wait_until_ready(0.5)


def test_a_server_that_hangs_ends_at_the_deadline(raw_server):
    release = threading.Event()
    target = raw_server(lambda data, context: release.wait(60) and b"")
    try:
        with Client(target, timeout=30) as client:
            for call in (
                lambda: client.predict({"x": np.float32([1])}, timeout=0.3),
                lambda: client.predict([1.0], timeout=0.3),
                lambda: client.classify(["a"], timeout=0.3),
            ):
                started = time.monotonic()
                with pytest.raises(errors.DeadlineExceededError, match="timeout="):
                    call()
                assert time.monotonic() - started < 5
    finally:
        release.set()


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage that is no message",
        b"\xff" * 50,
        pb.PredictResponse(outputs={"y": pb.TensorProto(dtype=pb.DT_FLOAT, float_val=b"123")}),
        pb.PredictResponse(outputs={"y": pb.TensorProto(dtype=pb.DT_FLOAT, tensor_content=b"12345")}),
        pb.PredictResponse(outputs={"y": pb.TensorProto(dtype=pb.DT_VARIANT)}),
    ],
)
def test_an_answer_that_cannot_be_read_is_an_error_of_its_own(raw_server, answer):
    data = answer if isinstance(answer, bytes) else answer.SerializeToString()
    target = raw_server(lambda request, context: data)
    with Client(target) as client, pytest.raises(errors.MalformedResponseError, match=target) as caught:
        client.predict({"x": np.float32([1])})
    assert caught.value.code is grpc.StatusCode.INTERNAL


def test_garbage_for_metadata_and_status_is_an_error_too(raw_server):
    with Client(raw_server(lambda request, context: b"\xff\xff")) as client:
        for call in (client.metadata, client.status, lambda: client.wait_until_ready(5)):
            with pytest.raises(errors.MalformedResponseError):
                call()


def test_waiting_goes_on_until_a_version_is_available_and_reports_the_last_reason(raw_server):
    states = [None, pb.ModelVersionStatus.LOADING, pb.ModelVersionStatus.AVAILABLE]

    def status(data, context):
        state = states.pop(0) if len(states) > 1 else states[0]
        if state is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "Could not find any versions of model m")
        return pb.GetModelStatusResponse(
            model_version_status=[pb.ModelVersionStatus(version=4, state=state)]
        ).SerializeToString()

    target = raw_server(status)
    with Client(target, "m") as client:
        assert client.wait_until_ready(20) == [VersionStatus(4, "AVAILABLE")]
        states[:] = [pb.ModelVersionStatus.LOADING]
        with pytest.raises(errors.DeadlineExceededError, match="version 4 is LOADING"):
            client.wait_until_ready(0.5)
        states[:] = [None]
        with pytest.raises(errors.DeadlineExceededError, match="NOT_FOUND: Could not find any versions"):
            client.wait_until_ready(0.5)


def test_waiting_does_not_go_on_when_it_cannot_help(raw_server):
    target = raw_server(lambda data, context: context.abort(grpc.StatusCode.UNIMPLEMENTED, "?"))
    with Client(target) as client, pytest.raises(errors.UnimplementedError, match="gRPC API"):
        client.wait_until_ready(30)


def test_waiting_starts_before_the_server_does(until, in_background):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with Client(f"127.0.0.1:{port}") as client:
        waiting = in_background(client.wait_until_ready, 30)
        threading.Event().wait(0.5)
        server = grpc.server(ThreadPoolExecutor(1))
        version = pb.ModelVersionStatus(version=1, state=pb.ModelVersionStatus.AVAILABLE)
        answer = pb.GetModelStatusResponse(model_version_status=[version]).SerializeToString()
        method = grpc.unary_unary_rpc_method_handler(lambda data, context: answer)
        handler = grpc.method_handlers_generic_handler(
            "tensorflow.serving.ModelService", {"GetModelStatus": method}
        )
        server.add_generic_rpc_handlers((handler,))
        assert server.add_insecure_port(f"127.0.0.1:{port}") == port
        server.start()
        assert waiting.result(30)[0].available
        server.stop(None).wait()


@pytest.mark.parametrize(
    "target", ["localhost", "http://a:1", "a:b", "a:0", "a:65536", "", "a b:1", "::1:80", None]
)
def test_a_target_that_is_no_host_and_port_is_refused(target):
    with pytest.raises(errors.InvalidInputError, match="host:port"):
        Client(target)


@pytest.mark.parametrize("target", ["localhost:8500", "10.0.0.1:1", "[::1]:8500", "my-host.example:65535"])
def test_a_host_and_port_is_accepted(target):
    with Client(target) as client:
        assert target in repr(client)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), None, "1", True])
def test_a_timeout_that_is_no_limit_is_refused(timeout):
    with pytest.raises(errors.InvalidInputError, match=r"timeout must be .*number of seconds"):
        Client("localhost:1", timeout=timeout)
    with Client("localhost:1") as client:
        with pytest.raises(errors.InvalidInputError, match="timeout"):
            client.wait_until_ready(timeout)
        if timeout is not None:
            with pytest.raises(errors.InvalidInputError, match="timeout"):
                client.predict({"x": np.float32([1])}, timeout=timeout)


def test_input_that_cannot_be_sent_is_refused_before_anything_is_sent():
    with Client(NOBODY, "m") as client:
        for call, message in [
            (lambda: client.predict({"x": ["a", 1]}), "input 'x': every element must be a str or bytes"),
            (lambda: client.predict({1: np.float32([1])}), "names of inputs are strings. Received 1"),
            (lambda: client.predict({"x": np.array("2020", "datetime64")}), "cannot be sent"),
            (lambda: client.predict({"x": np.float32([1])}, outputs="y"), "outputs must be a list"),
            (lambda: client.predict({"x": np.float32([1])}, version="3"), "version must be an integer"),
            (lambda: client.classify("a text"), r"texts must be a list of str. Received 'a text'"),
            (lambda: client.classify(b"a text"), "texts must be a list of str"),
            (lambda: client.classify([1]), "Received int 1"),
        ]:
            with pytest.raises(errors.InvalidInputError) as caught:
                call()
            assert message in str(caught.value)
            assert isinstance(caught.value, ValueError)


def test_a_bare_value_for_a_signature_with_two_inputs_asks_for_a_mapping(half):
    with pytest.raises(errors.InvalidInputError, match=r"has 2 inputs \(left, right\): pass a mapping"):
        half.predict([[1.0]], "matmul")


def test_a_closed_client_says_so():
    client = Client(NOBODY)
    client.close()
    client.close()
    with pytest.raises(errors.ClientClosedError, match="is closed"):
        client.status()


def test_closing_in_the_middle_of_a_call_ends_it(raw_server, in_background, until):
    arrived, release = threading.Event(), threading.Event()
    target = raw_server(lambda data, context: (arrived.set(), release.wait(60), b"")[-1])
    client = Client(target)
    call = in_background(client.status)
    assert arrived.wait(20)
    client.close()
    try:
        assert isinstance(call.exception(20), errors.CancelledError)
    finally:
        release.set()


def test_ctrl_c_works_in_the_middle_of_a_call(raw_server):
    arrived, release = threading.Event(), threading.Event()
    target = raw_server(lambda data, context: (arrived.set(), release.wait(60), b"")[-1])
    code = (
        # Where the tests run in the background of a shell, Ctrl-C is ignored, and children inherit that.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"from keras_selfattn.serving.client import Client; Client({target!r}, timeout=60).status()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    try:
        assert arrived.wait(30)
        process.send_signal(2)
        assert "KeyboardInterrupt" in process.communicate(timeout=20)[1]
    finally:
        release.set()
        process.kill()


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
