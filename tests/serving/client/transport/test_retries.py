"""No call fails that another try could save, and none is sent twice that may not be."""

import contextlib
import json
import logging
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import numpy as np
import proxy
import pytest
import stock_serving
from stock_serving import StockServing

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.client.transport import addresses, connection_settings
from keras_selfattn.serving.client.transport.connection_settings import ConnectionSettings

X = np.float32([[1, 2]])


def failing(times, code=grpc.StatusCode.UNAVAILABLE, rpc="Predict"):
    """A hook that aborts the first `times` calls of an RPC."""
    left = [times]

    def fail(name, request, context):
        if name == rpc and left[0] > 0:
            left[0] -= 1
            context.abort(code, "busy")

    return fail


@pytest.mark.parametrize("elements", [2, 1_000_000])  # gRPC's own limit for retries is 256 KiB
def test_what_is_unavailable_is_tried_again_however_large(stock_server, connect, elements):
    serving = StockServing({"serving_default": stock_serving.doubled(shape=(None, None))}, before=failing(2))
    x = np.ones((1, elements), np.float32)
    assert connect(stock_server(serving)).predict(x)["y"].sum() == 2 * elements
    assert len(serving.received("Predict")) == 3


def test_every_part_of_a_batch_is_tried_again(stock_server, connect):
    serving = StockServing(before=failing(3))
    client = connect(stock_server(serving), max_batch_size=1)
    assert client.predict(np.repeat(X, 6, 0))["y"].tolist() == [[2, 4]] * 6
    assert len(list(client.predict_iter([[1, 2]] * 3))) == 3


@pytest.mark.slow
def test_retries_end(stock_server, connect):
    serving = StockServing(before=failing(100))
    with pytest.raises(errors.UnavailableError, match="busy"):
        connect(stock_server(serving), timeout=30).predict(X)
    assert len(serving.received("Predict")) == 5


def test_the_deadline_bounds_the_retries_too(stock_server, connect):
    serving = StockServing(before=failing(100))
    client = connect(stock_server(serving))
    client.metadata()
    started = time.monotonic()
    with pytest.raises((errors.DeadlineExceededError, errors.UnavailableError)):
        client.predict(X, timeout=0.2)
    assert time.monotonic() - started < 1
    assert len(serving.received("Predict")) < 5


UNSAFE = [code for code in grpc.StatusCode if code not in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE)]


@pytest.mark.parametrize("code", UNSAFE)
def test_other_codes_are_not_tried_again(stock_server, code):
    serving = StockServing(before=failing(1, code))
    with Client(stock_server(serving)) as client, pytest.raises(errors.ERROR_OF_CODE[code]):
        client.predict(X)
    assert len(serving.received("Predict")) == 1


def test_a_reload_is_never_sent_twice(stock_server, connect):
    serving = StockServing(before=failing(1, rpc="HandleReloadConfigRequest"))
    with pytest.raises(errors.UnavailableError):
        connect(stock_server(serving)).reload([])
    assert len(serving.received("HandleReloadConfigRequest")) == 1


def test_an_answer_that_breaks_off_is_asked_for_again(connect):
    serving = StockServing({"serving_default": stock_serving.doubled(shape=(None, None))})
    server, port = serving.serve()
    between = proxy.Proxy(port, cut_after=2_000_000)
    x = np.ones((1, 1_000_000), np.float32)
    client = connect(between.target, timeout=30)
    assert client.predict(x)["y"].sum() == 2_000_000
    assert len(serving.received("Predict")) == 2
    between.close()
    server.stop(None).wait()


@pytest.mark.slow
def test_a_connection_that_falls_silent_is_noticed_and_replaced(connect, monkeypatch):
    monkeypatch.setattr(connection_settings, "_KEEPALIVE_MS", 1000)
    monkeypatch.setattr(connection_settings, "_KEEPALIVE_TIMEOUT_MS", 1000)
    server, port = StockServing().serve()
    between = proxy.Proxy(port)
    client = connect(between.target)
    client.predict(X)
    between.silent.add(0)
    assert client.predict(X, timeout=30)["y"].tolist() == [[2, 4]]
    assert between.connections == 2
    between.close()
    server.stop(None).wait()


@pytest.mark.slow
def test_a_long_call_does_not_ping_more_than_a_stock_server_allows(connect, stock_server, monkeypatch):
    """Else the fourth ping ends its connection ("Too many pings"), and each retry's."""
    options = ConnectionSettings.options
    more = ("grpc.http2.max_pings_without_data", 0)  # without gRPC's pause of a minute after two pings
    monkeypatch.setattr(ConnectionSettings, "options", lambda self: [*options(self), more])
    monkeypatch.setattr(connection_settings, "_KEEPALIVE_MS", 1000)
    monkeypatch.setattr(connection_settings, "LONG_CALL_SECONDS", 10)
    serving = StockServing(before=lambda rpc, *_: time.sleep(4.6) if rpc == "Predict" else None)
    client = connect(stock_server(serving), timeout=20)
    assert client.predict(X)["y"].tolist() == [[2, 4]]
    assert len(serving.received("Predict")) == 1


@pytest.mark.slow
def test_a_server_that_restarts_is_found_again(connect):
    server, port = StockServing(version=1).serve()
    client = connect(f"127.0.0.1:{port}")
    assert client.predict(X).version == 1
    server.stop(None).wait()
    with pytest.raises(errors.UnavailableError):
        client.predict(X)
    server, _ = StockServing(version=2).serve(port)
    assert client.predict(X).version == 2
    server.stop(None).wait()


@pytest.mark.slow
def test_a_call_waits_for_a_server_that_restarts_where_it_is_told_to(connect, in_background):
    server, port = StockServing(version=1).serve()
    client = connect(f"127.0.0.1:{port}", wait_for_ready=True, timeout=30)
    assert client.predict(X).version == 1
    server.stop(None).wait()
    waiting = in_background(client.predict, X)
    threading.Event().wait(2.5)  # longer than the retries last
    assert not waiting.done()
    server, _ = StockServing(version=2).serve(port)
    assert waiting.result(30).version == 2
    server.stop(None).wait()


@contextlib.contextmanager
def stock_processes(count):
    """Stock servers with the health service in processes of their own; gives (process, target) of each."""
    script = Path(stock_serving.__file__)
    started = []
    for number in range(count):
        command = [sys.executable, str(script), str(number + 1)]
        started.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        )
    try:
        yield [(process, f"127.0.0.1:{process.stdout.readline().strip()}") for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()


@pytest.mark.process
def test_one_of_three_servers_dies_under_load_and_no_call_fails(connect, in_background):
    with stock_processes(3) as servers:
        client = connect([target for _, target in servers], timeout=30)
        client.wait_until_ready(30)
        stop, answered = threading.Event(), []

        def ask():
            while not stop.is_set():
                answered.append(client.predict(X).version)

        asking = [in_background(ask) for _ in range(8)]
        wait_for(lambda: set(answered) == {1, 2, 3})
        servers[1][0].send_signal(signal.SIGKILL)
        servers[1][0].wait()
        before = len(answered)
        wait_for(lambda: len(answered) > before + 500)
        stop.set()
        for each in asking:
            each.result(30)
        assert set(answered[-200:]) == {1, 3}


@pytest.mark.process
def test_a_server_that_drains_is_left_for_the_others(half_base, spawn_server, in_background):
    servers = [spawn_server(half_base, "shutdown_grace_seconds=5") for _ in range(2)]
    with Client([target for _, target in servers], timeout=30) as client:
        client.wait_until_ready(30)
        stop, count = threading.Event(), []

        def ask():
            while not stop.is_set():
                count.append(client.predict([1.0])["y"].item())

        asking = [in_background(ask) for _ in range(4)]
        wait_for(lambda: len(count) > 50)
        servers[0][0].send_signal(signal.SIGTERM)
        assert servers[0][0].wait(30) == 0
        before = len(count)
        wait_for(lambda: len(count) > before + 100)
        stop.set()
        for each in asking:
            each.result(30)
        assert set(count) == {2.5}


def test_a_server_that_is_not_healthy_gets_no_calls(connect):
    from concurrent import futures

    from grpc_health.v1 import health, health_pb2, health_pb2_grpc
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    servings, servers, targets = [], [], []
    for serving_status in ("SERVING", "NOT_SERVING"):
        serving, server = StockServing(), grpc.server(futures.ThreadPoolExecutor(8))
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(serving, server)
        status = health.HealthServicer()
        status.set("", getattr(health_pb2.HealthCheckResponse, serving_status))
        health_pb2_grpc.add_HealthServicer_to_server(status, server)
        targets.append(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
        server.start()
        servings.append(serving)
        servers.append(server)
    client = connect(targets)
    for _ in range(20):
        client.predict(X)
    assert [len(serving.received("Predict")) for serving in servings] == [20, 0]
    for server in servers:
        server.stop(None).wait()


def test_calls_are_spread_over_all_servers(connect):
    running = [StockServing(version=number).serve() for number in (1, 2, 3)]
    client = connect([f"localhost:{port}" for _, port in running])
    wait_for(lambda: {client.predict(X).version for _ in range(30)} == {1, 2, 3})
    for server, _ in running:
        server.stop(None).wait()


def wait_for(condition, seconds=40):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        threading.Event().wait(0.02)


def test_a_host_that_nobody_knows_is_named(connect):
    client = connect(["no-such-host.invalid:1", "nor-this.invalid:1"], insecure=True)
    with pytest.raises(errors.UnavailableError, match=r"'no-such-host.invalid' is not known"):
        client.predict(X)
    with pytest.raises(errors.UnavailableError, match="no-such-host.invalid"):
        connect("no-such-host.invalid:1", insecure=True).predict(X)


def test_a_host_that_nobody_knows_is_left_out_as_one_that_is_down(connect, caplog):
    server, port = StockServing().serve()
    client = connect(["no-such-host.invalid:1", f"localhost:{port}"], insecure=True)
    assert client.predict(X)["y"].tolist() == [[2, 4]]
    assert "left out: the name 'no-such-host.invalid' is not known" in caplog.text
    server.stop(None).wait()


@pytest.mark.slow
def test_servers_that_move_are_looked_up_again(connect, monkeypatch):
    monkeypatch.setattr(addresses, "_LOOK_AGAIN_SECONDS", 0.0)
    (old, old_port), (new, new_port) = StockServing(version=1).serve(), StockServing(version=2).serve()
    where = [old_port]
    found = lambda host, port, **_: [(socket.AF_INET, 0, 0, "", ("127.0.0.1", where[0]))]  # noqa: E731
    monkeypatch.setattr(socket, "getaddrinfo", found)
    client = connect(["one.test:1", "two.test:1"], insecure=True)
    assert client.predict(X).version == 1
    old.stop(None).wait()
    where[0] = new_port
    with pytest.raises(errors.UnavailableError):
        client.predict(X)
    assert client.predict(X).version == 2
    new.stop(None).wait()


def test_a_lookup_that_takes_long_ends_at_the_deadline(connect, monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: release.wait(60) and [])
    client = connect(["one.test:1", "two.test:1"], insecure=True)
    started = time.monotonic()
    try:
        with pytest.raises(errors.DeadlineExceededError, match="not found in time"):
            client.predict(X, timeout=0.3)
        assert time.monotonic() - started < 5
    finally:
        release.set()


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (8500, '"host:port"'),
        ([], "an empty list"),
        (["a:1", "unix:/s"], "must all be host:port"),
        (["a:1", "b"], '"host:port"'),
    ],
)
def test_lists_that_are_no_targets_are_refused(targets, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        Client(targets, insecure=True)


def test_a_unix_socket_is_a_target(connect, tmp_path):
    from concurrent import futures

    from tensorflow_serving.apis import prediction_service_pb2_grpc

    server = grpc.server(futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(StockServing(), server)
    target = f"unix:{tmp_path}/socket"
    server.add_insecure_port(target)
    server.start()
    assert connect(target).predict(X)["y"].tolist() == [[2, 4]]
    server.stop(None).wait()


def test_the_service_config_is_what_grpc_calls_for():
    several, alone = connection_settings.service_config(True), connection_settings.service_config(False)
    assert several["healthCheckConfig"] == {"serviceName": ""}
    assert "healthCheckConfig" not in alone
    json.dumps(several)
    retry = alone["methodConfig"][0]["retryPolicy"]
    assert retry["maxAttempts"] <= 5  # gRPC's own limit
    assert retry["retryableStatusCodes"] == ["UNAVAILABLE"]
    assert 0 < alone["retryThrottling"]["maxTokens"] <= 1000


def test_no_proxy_is_asked_for_this_machine(monkeypatch, connect):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("grpc_proxy", "http://127.0.0.1:1")
    server, port = StockServing().serve()
    assert connect(f"127.0.0.1:{port}").predict(X)["y"].tolist() == [[2, 4]]
    server.stop(None).wait()


def test_each_call_is_a_line_of_the_debug_log(stock_server, connect, caplog):
    caplog.set_level(logging.DEBUG, "keras_selfattn.serving.client")
    target = stock_server(StockServing(before=failing(1, grpc.StatusCode.INTERNAL)))
    client = connect(target, "film")
    with pytest.raises(errors.InternalError):
        client.predict(X)
    client.predict(X)
    lines = [record.getMessage() for record in caplog.records]
    for name, code in (("GetModelMetadata", "OK"), ("Predict", "INTERNAL"), ("Predict", "OK")):
        assert any(line.startswith(f"{name} of film at {target}: {code} in ") for line in lines)


def test_servers_of_different_versions_are_not_asked_for_metadata_at_every_turn(connect):
    servings = [StockServing(version=number) for number in (1, 2)]
    running = [serving.serve() for serving in servings]
    client = connect([f"127.0.0.1:{port}" for _, port in running])
    wait_for(lambda: {client.predict(X).version for _ in range(30)} == {1, 2})
    assert sum(len(serving.received("GetModelMetadata")) for serving in servings) <= 2
    for server, _ in running:
        server.stop(None).wait()
