"""Servers of one program each share ports: one of them leaves, and no request fails."""

import contextlib
import functools
import http.client
import json
import sys
import time

import grpc
import pytest
from asking import asking
from ports import free_port
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from keras_selfattn.serving.client import Client, ModelConfig
from keras_selfattn.serving.errors import ServerStartError, UnimplementedError
from keras_selfattn.serving.server import Server, ServerConfig

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="SO_REUSEPORT spreads connections on Linux"),
]


@pytest.fixture
def config(slow_base):
    return ServerConfig("slow", slow_base, port=free_port(), rest_api_port=free_port())


def predict(channel, seconds):
    """Asks with a stock stub."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "slow"
    request.inputs["seconds"].dtype = 1
    request.inputs["seconds"].tensor_shape.SetInParent()
    request.inputs["seconds"].float_val.append(seconds)
    # A connection that is opened just when the port closes is refused; gRPC opens another one.
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    stub.Predict(request, timeout=60, wait_for_ready=True)


def over_rest(port):
    """Asks over a new connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/models/slow:predict", json.dumps({"inputs": 0.01}))
        response = connection.getresponse()
        body = response.read()
        assert response.status == 200, body


def test_a_server_that_leaves_answers_what_it_has_and_refuses_no_more(config, until):
    target = f"127.0.0.1:{config.port}"
    options = [("grpc.use_local_subchannel_pool", 1)]  # a connection each

    def on_a_new_connection():
        with grpc.insecure_channel(target, options) as channel:
            predict(channel, 0.01)

    rest = functools.partial(over_rest, config.rest_api_port)
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(grpc.insecure_channel(target, options)) for _ in range(4)]
        on_kept = [lambda channel=channel: predict(channel, 0.01) for channel in kept[:2]]
        long = [lambda channel=channel: predict(channel, 2.0) for channel in kept[2:]]
        servers = [Server(config, shares_ports=True).start() for _ in range(2)]
        with asking(*on_kept, *long, on_a_new_connection, rest) as (counts, errors):
            for index in (0, 1):
                until(lambda: min(counts[:2]) > 5)
                time.sleep(1.0)  # the long ones are running
                servers[index].stop()
                servers[index] = Server(config, shares_ports=True).start()
            done = sum(counts)
            until(lambda: sum(counts) > done + 20)
        for server in servers:
            server.stop()
    # gRPC ends a call that arrives in the very moment in which it closes. A server that refused calls during
    # its drain would fail hundreds.
    assert len(errors) <= 3, errors
    assert all("CANCELLED" in str(error) or "UNAVAILABLE" in str(error) for error in errors)
    assert min(counts) > 0


def test_a_reload_of_one_server_of_several_is_refused(config, slow_base):
    with Server(config, shares_ports=True) as server, Client(server.target, "slow") as client:
        with pytest.raises(UnimplementedError, match="one server of several on this port"):
            client.reload([ModelConfig("slow", slow_base)])
        assert client.versions() == [1]


def test_a_server_that_shares_its_port_with_nobody_keeps_others_out(config):
    with Server(config), pytest.raises(ServerStartError, match="cannot listen on"):
        Server(config, shares_ports=True).start()
    with Server(config, shares_ports=True), pytest.raises(ServerStartError, match="cannot listen on"):
        Server(config).start()
