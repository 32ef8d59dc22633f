"""Our clients and what can go wrong on the other side: nobody there, silence, garbage, death, restarts."""

import socket
import subprocess
import sys
import threading
import time

import grpc
import numpy as np
import pytest
from ports import free_port
from stock_serving import StockServing

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import VersionStatus
from keras_selfattn.serving.wire import messages_pb2 as pb

NOBODY = "127.0.0.1:1"  # port 1 is reserved: nobody listens


@pytest.mark.slow
def test_nobody_there_is_an_error_soon_that_names_the_target(connect):
    started = time.monotonic()
    with pytest.raises(errors.UnavailableError) as caught:
        connect(NOBODY, timeout=60).predict({"x": np.float32([1])})
    assert time.monotonic() - started < 15
    assert f"Is a server running at {NOBODY}, or does it still load its models?" in str(caught.value)


def test_waiting_for_nobody_ends_at_the_deadline_and_names_the_target(connect):
    started = time.monotonic()
    with pytest.raises(errors.DeadlineExceededError) as caught:
        connect(NOBODY, "m").wait_until_ready(0.5)
    assert time.monotonic() - started < 5
    assert f"Is a server running at {NOBODY}" in str(caught.value)
    assert "within 0.5 s" in str(caught.value)


def test_a_port_that_accepts_and_never_speaks_ends_at_the_deadline(connect):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = f"127.0.0.1:{listener.getsockname()[1]}"
        client = connect(target, timeout=0.5)
        with pytest.raises((errors.DeadlineExceededError, errors.UnavailableError), match=target):
            client.predict({"x": np.float32([1])})
        with pytest.raises(errors.DeadlineExceededError, match=target):
            client.wait_until_ready(0.5)


@pytest.mark.slow
def test_a_server_that_hangs_ends_at_the_deadline(raw_server, connect):
    release = threading.Event()
    target = raw_server(lambda data, context: release.wait(60) and b"")
    client = connect(target, timeout=30, max_batch_size=1)
    try:
        for call in (
            lambda: client.predict({"x": np.float32([1])}, timeout=0.3),
            lambda: client.predict([1.0], timeout=0.3),
            lambda: list(client.predict_iter([1.0], timeout=0.3)),
            lambda: client.classify(["a"], timeout=0.3),
            lambda: client.label(["a"], timeout=0.3),
            lambda: client.explain(["a"], timeout=0.3),
            lambda: client.metadata(timeout=0.3),
            lambda: client.status(timeout=0.3),
            lambda: client.versions(timeout=0.3),
            lambda: client.reload([], timeout=0.3),
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
def test_an_answer_that_cannot_be_read_is_an_error_of_its_own(raw_server, connect, answer):
    data = answer if isinstance(answer, bytes) else answer.SerializeToString()
    target = raw_server(lambda request, context: data, without="GetModelMetadata")
    with pytest.raises(errors.MalformedResponseError, match=target) as caught:
        connect(target).predict({"x": np.float32([1])})
    assert caught.value.code is grpc.StatusCode.INTERNAL


def test_garbage_for_anything_else_is_an_error_too(raw_server, connect):
    client = connect(raw_server(lambda request, context: b"\xff\xff"))
    for call in (
        client.metadata,
        client.status,
        lambda: client.wait_until_ready(5),
        lambda: client.reload([]),
    ):
        with pytest.raises(errors.MalformedResponseError):
            call()


@pytest.mark.slow
def test_waiting_goes_on_until_a_version_is_available_and_reports_the_last_reason(raw_server, connect):
    states = [None, pb.ModelVersionStatus.LOADING, pb.ModelVersionStatus.AVAILABLE]

    def status(data, context):
        state = states.pop(0) if len(states) > 1 else states[0]
        if state is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "Could not find any versions of model m")
        return pb.GetModelStatusResponse(
            model_version_status=[pb.ModelVersionStatus(version=4, state=state)]
        ).SerializeToString()

    target = raw_server(status)
    client = connect(target, "m")
    assert client.wait_until_ready(20) == [VersionStatus(4, "AVAILABLE")]
    states[:] = [pb.ModelVersionStatus.LOADING]
    assert client.versions() == []
    with pytest.raises(errors.DeadlineExceededError, match="version 4 is LOADING"):
        client.wait_until_ready(0.5)
    states[:] = [None]
    with pytest.raises(errors.DeadlineExceededError, match="NOT_FOUND: Could not find any versions"):
        client.wait_until_ready(0.5)


def test_waiting_does_not_go_on_when_it_cannot_help(raw_server, connect):
    target = raw_server(lambda data, context: context.abort(grpc.StatusCode.UNIMPLEMENTED, "?"))
    with pytest.raises(errors.UnimplementedError, match="gRPC API"):
        connect(target).wait_until_ready(30)


def test_waiting_starts_before_the_server_does(connect, in_background):
    port = free_port()
    waiting = in_background(connect(f"127.0.0.1:{port}").wait_until_ready, 30)
    threading.Event().wait(0.5)
    server, _ = StockServing().serve(port)
    assert waiting.result(30)[0].available
    server.stop(None).wait()


def test_closing_in_the_middle_of_a_call_ends_it(raw_server, connect, in_background):
    arrived, release = threading.Event(), threading.Event()
    target = raw_server(lambda data, context: (arrived.set(), release.wait(60), b"")[-1])
    client = connect(target)
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
