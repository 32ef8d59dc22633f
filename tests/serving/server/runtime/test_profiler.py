"""The profiler records what the server runs, and can be turned off."""

import re
import threading

import grpc
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.runtime import profile_service_pb2

X = np.float32([2])


def answer(client):
    return client.predict({"x": X})["y"].tolist()


@pytest.mark.slow
def test_the_profiler_records_what_the_server_runs(half_base, tmp_path, in_background):
    with (
        Server(ServerConfig("half", half_base, port=0)) as server,
        Client(server.target, "half") as client,
    ):
        stop = threading.Event()

        def load():
            while not stop.is_set():
                answer(client)

        asking = in_background(load)
        tf.profiler.experimental.client.trace(server.target, str(tmp_path), duration_ms=1000)
        stop.set()
        asking.result()
    (trace,) = tmp_path.rglob("*.xplane.pb")
    assert b"SessionRun" in trace.read_bytes()
    assert [file for file in trace.parent.iterdir() if file != trace] == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"repository_root": "traces"}, "repository_root must be an absolute folder"),
        ({"host_name": "../../etc/host"}, "session_id and host_name must be plain names"),
        ({"session_id": ".."}, "session_id and host_name must be plain names"),
        ({"duration_ms": 0}, "duration_ms must be positive"),
        ({"repository_root": "/dev/null"}, "the trace cannot be written: Not a directory"),
    ],
)
def test_a_profile_that_makes_no_sense_is_refused(half_server, tmp_path, fields, message):
    asked = {"duration_ms": 1, "repository_root": str(tmp_path), "session_id": "s", "host_name": "h"}
    request = profile_service_pb2.ProfileRequest(**{**asked, **fields})
    with grpc.insecure_channel(half_server.target) as channel:
        call = channel.unary_unary("/tensorflow.ProfilerService/Profile")
        with pytest.raises(grpc.RpcError, match=re.escape(message)):
            call(request.SerializeToString(), timeout=20)


def test_the_profiler_can_be_turned_off(half_base):
    config = ServerConfig("half", half_base, port=0, enable_profiler=False)
    with Server(config) as server, grpc.insecure_channel(server.target) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/tensorflow.ProfilerService/Profile")(b"", timeout=20)
        assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
