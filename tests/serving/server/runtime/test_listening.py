"""The server's addresses, arguments and limits."""

import socket
import threading

import grpc
import numpy as np
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tensorflow_serving.apis import predict_pb2

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.runtime.listening import is_loopback
from keras_selfattn.serving.wire import codec
from keras_selfattn.serving.wire import messages_pb2 as pb

X = np.float32([2])


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
