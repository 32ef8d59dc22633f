"""The server's addresses, encryption and limits."""

import re
import socket
import threading

import certificates
import grpc
import numpy as np
import pytest
import tensorflow as tf
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tensorflow_serving.apis import predict_pb2

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import TLS, Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.runtime import profile_service_pb2
from keras_selfattn.serving.server.runtime.listening import is_loopback
from keras_selfattn.serving.wire import codec
from keras_selfattn.serving.wire import messages_pb2 as pb

X = np.float32([2])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("certificates"))


def ssl_config(files, path, **more):
    names = {"server_key": "server.key", "server_cert": "server.pem", **more}
    lines = [f"{field}: {(files / name).read_text()!r}" for field, name in names.items()]
    path.write_text("\n".join([*lines, f"client_verify: {'true' if 'custom_ca' in more else 'false'}"]))
    return path


def answer(client):
    return client.predict({"x": X})["y"].tolist()


def test_a_unix_socket_serves_what_the_port_serves(half_base, tmp_path):
    path = tmp_path / "server.sock"
    for _ in range(2):  # the second finds the socket that the first one used
        with Server(ServerConfig("half", half_base, port=0, grpc_socket_path=path)) as server:
            for target in (f"unix:{path}", server.target):
                with Client(target, "half") as client:
                    assert answer(client) == [3.0]


def test_a_file_in_the_place_of_the_unix_socket_is_left_alone(half_base, tmp_path):
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(errors.ServerStartError, match=f"cannot listen on unix:{path}: it is a file, and no"):
        Server(ServerConfig("half", half_base, port=0, grpc_socket_path=path)).start()
    assert path.read_text() == "data"


@pytest.mark.slow
def test_with_a_key_and_a_certificate_the_port_is_encrypted(half_base, files, tmp_path):
    config = ssl_config(files, tmp_path / "ssl.conf")
    with Server(ServerConfig("half", half_base, host="127.0.0.1", port=0, ssl_config_file=config)) as server:
        target = f"localhost:{server.port}"
        with Client(target, "half", tls=TLS(ca=files / "ca.pem")) as client:
            assert answer(client) == [3.0]
        with Client(target, "half") as client, pytest.raises(errors.UnavailableError):
            answer(client)


@pytest.mark.slow
def test_with_client_verify_only_known_clients_are_served(half_base, files, tmp_path):
    config = ssl_config(files, tmp_path / "ssl.conf", custom_ca="ca.pem")
    with Server(ServerConfig("half", half_base, host="127.0.0.1", port=0, ssl_config_file=config)) as server:
        target = f"localhost:{server.port}"
        known = TLS(ca=files / "ca.pem", certificate=files / "client.pem", key=files / "client.key")
        with Client(target, "half", tls=known) as client:
            assert answer(client) == [3.0]
        with (
            Client(target, "half", tls=TLS(ca=files / "ca.pem")) as client,
            pytest.raises(errors.UnavailableError),
        ):
            answer(client)


def test_a_key_that_is_a_path_or_no_ssl_config_is_refused(half_base, tmp_path):
    config = tmp_path / "ssl.conf"
    config.write_text("server_key: '/etc/key.pem' server_cert: '/etc/cert.pem'")
    with pytest.raises(errors.ServerStartError, match="server_key .* must be a PEM text, .* and no path"):
        Server(ServerConfig("half", half_base, port=0, ssl_config_file=config))
    config.write_text("key: 1")
    with pytest.raises(errors.InvalidArgumentError) as caught:
        Server(ServerConfig("half", half_base, port=0, ssl_config_file=config))
    assert "Error parsing text-format tensorflow.serving.SSLConfig: 1:1: " in caught.value.cause


@pytest.mark.parametrize(
    ("settings", "host"),
    [({}, "127.0.0.1"), ({"host": "::1"}, "::1"), ({"ssl_config_file": "ssl.conf"}, "0.0.0.0")],
)
def test_without_encryption_only_this_machine_is_served_unless_told_otherwise(settings, host):
    assert ServerConfig("m", "models", **settings).grpc_host == host
    assert is_loopback(host) == (host != "0.0.0.0")


def test_the_loopback_port_is_closed_to_other_addresses(half_server):
    outside = socket.gethostbyname(socket.gethostname())
    if is_loopback(outside):
        pytest.skip("this machine has no other address")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((outside, half_server.port), timeout=5)


def test_arguments_of_the_channel_reach_the_core(half_base):
    arguments = "grpc.max_receive_message_length=1000,grpc.lb_policy_name=grpclb"
    with (
        Server(ServerConfig("half", half_base, port=0, grpc_channel_arguments=arguments)) as server,
        Client(server.target, "half") as client,
    ):
        assert answer(client) == [3.0]
        with pytest.raises(errors.ResourceExhaustedError, match="larger than max"):
            client.predict({"x": np.ones(1000, np.float32)})
    with pytest.raises(errors.InvalidInputError, match="name=value, comma-separated. Received 'a'"):
        Server(ServerConfig("half", half_base, grpc_channel_arguments="a"))


def test_reflection_tells_the_services_and_their_messages(half_server):
    with grpc.insecure_channel(half_server.target) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)

        def ask(**question):
            request = reflection_pb2.ServerReflectionRequest(**question)
            (reply,) = stub.ServerReflectionInfo(iter([request]), timeout=20)
            return reply

        services = {each.name for each in ask(list_services="").list_services_response.service}
        found = ask(file_containing_symbol="tensorflow.serving.PredictRequest")
    assert services == {
        "tensorflow.serving.PredictionService",
        "tensorflow.serving.ModelService",
        "inference.GRPCInferenceService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    assert predict_pb2.DESCRIPTOR.serialized_pb in found.file_descriptor_response.file_descriptor_proto


@pytest.mark.slow
def test_one_request_too_many_is_refused_at_once(slow_base, in_background, until):
    with (
        Server(ServerConfig("slow", slow_base, port=0, max_concurrent_requests=2)) as server,
        Client(server.target, "slow") as client,
    ):
        running = [in_background(client.predict, {"seconds": np.float32(3)}) for _ in range(2)]
        until(lambda: server.models._models["slow"].running == 2)
        with pytest.raises(errors.ResourceExhaustedError, match="2 requests wait or run, .* try again later"):
            client.predict({"seconds": np.float32(0)})
        assert client.status()[0].state == "AVAILABLE"  # what runs no graph is not held up
        assert all(each.result()["rounds"] > 0 for each in running)
        assert client.predict({"seconds": np.float32(0)})


@pytest.mark.slow
def test_a_request_that_expires_in_the_queue_is_never_started(slow_base, in_background, until):
    with (
        Server(ServerConfig("slow", slow_base, port=0, grpc_max_threads=1)) as server,
        Client(server.target, "slow") as client,
    ):
        started = []
        with server.models._models["slow"].loaded.lease(None) as servable:
            run = servable.run
        servable.run = lambda *args: started.append(args) or run(*args)
        first = in_background(client.predict, {"seconds": np.float32(2)})
        until(lambda: len(started) == 1)
        with pytest.raises(errors.DeadlineExceededError):
            client.predict({"seconds": np.float32(0)}, timeout=0.2)
        assert first.result()["rounds"] > 0
        until(lambda: server.models._models["slow"].running == 0)
        assert len(started) == 1


@pytest.mark.slow
def test_a_request_that_is_cancelled_in_the_queue_is_never_started(slow_base, in_background, until):
    with (
        Server(ServerConfig("slow", slow_base, port=0, grpc_max_threads=1)) as server,
        Client(server.target, "slow") as client,
        grpc.insecure_channel(server.target) as channel,
    ):
        started = []
        model = server.models._models["slow"]
        with model.loaded.lease(None) as servable:
            run = servable.run
        servable.run = lambda *args: started.append(args) or run(*args)
        first = in_background(client.predict, {"seconds": np.float32(2)})
        until(lambda: len(started) == 1)
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        spec, inputs = pb.ModelSpec(name="slow"), {"seconds": codec.encode(np.float32(0))}
        waiting = call.future(pb.PredictRequest(model_spec=spec, inputs=inputs).SerializeToString())
        until(lambda: model.running == 2)
        waiting.cancel()
        until(lambda: model.running == 1)
        assert first.result()["rounds"] > 0
        threading.Event().wait(0.2)
        assert len(started) == 1


def test_numbers_are_answered_as_raw_bytes_where_asked_for(half_base):
    config = ServerConfig("half", half_base, port=0, enable_serialization_as_tensor_content=True)
    with Server(config) as server, grpc.insecure_channel(server.target) as channel:
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        request = pb.PredictRequest(model_spec=pb.ModelSpec(name="half"), inputs={"x": codec.encode(X)})
        response = pb.PredictResponse.FromString(call(request.SerializeToString(), timeout=20))
    assert response.outputs["y"].tensor_content == np.float32([3]).tobytes()
    assert not response.outputs["y"].float_val


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
