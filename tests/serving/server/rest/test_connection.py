"""Idle, slow and vanished clients lose their connections, and cannot keep others out."""

import asyncio
import http.client
import re
import socket
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf
from serving_models import Slow, save
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from keras_selfattn.serving.client import AsyncClient, Client
from keras_selfattn.serving.client.transport import connection_settings
from keras_selfattn.serving.client.transport.connection_settings import ConnectionSettings
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.rest import connection, rest_server
from keras_selfattn.serving.server.rest.rest_server import RestServer
from keras_selfattn.serving.server.runtime import listening

HALF = b"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\nContent-"
GET = b"GET /v1/models/half HTTP/1.1\r\nHost: x\r\n\r\n"
PREDICT = b"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture
def impatient(monkeypatch):
    """Deadlines of tenths of a second."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(connection, "STALLED_SECONDS", 0.3)
    monkeypatch.setattr(connection, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(connection, "_YIELD_SECONDS", 0.1)
    monkeypatch.setattr(rest_server, "_PAUSE_SECONDS", 0.01)


class Rest:
    """A REST port with an application of the test's.

    Args:
        most: connections that it may have.
        seconds: how long they live.
    """

    def __init__(self, app, monkeypatch, most=100, seconds=None):
        monkeypatch.setattr(
            "keras_selfattn.serving.server.rest.rest_server.connections_of_a_port", lambda: most
        )
        if seconds is not None:
            monkeypatch.setattr("keras_selfattn.serving.server.rest.rest_server.CONNECTION_SECONDS", seconds)
        config = ServerConfig("m", "models", rest_api_port=-1, workers=1 if seconds is None else 2)
        self._server = RestServer(app, config)
        self.rest_port = self._server.port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.do(self._server.start())

    def do(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    def leave(self):
        self.do(self._server.leave())

    def close(self):
        self.do(self._server.abort())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def serve_app(impatient, monkeypatch):
    started = []

    def serve(app, **settings):
        started.append(Rest(app, monkeypatch, **settings))
        return started[-1]

    yield serve
    for rest in started:
        rest.close()


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


class Held:
    """Answers when it is told to."""

    def __init__(self):
        self.running = 0
        self.release = threading.Event()

    async def __call__(self, scope, receive, send):
        self.running += 1
        while not self.release.is_set():
            await asyncio.sleep(0.01)
        await hello(scope, receive, send)


@pytest.fixture
def server(impatient, half_base):
    config = ServerConfig("half", half_base, port=0, rest_api_port=-1, rest_api_timeout_in_ms=500)
    with Server(config) as server:
        yield server


def connect(server):
    return socket.create_connection(("127.0.0.1", server.rest_port), timeout=20)


def rest_of(connected):
    """All bytes until the other end closes."""
    received = b""
    while chunk := connected.recv(2**16):
        received += chunk
    return received


def answer(connected):
    """The status line, the head and the body of one answer."""
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = connected.recv(2**16)
        assert chunk, f"hung up after {received!r}"
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head)[1])
    while len(body) < length:
        body += connected.recv(2**16)
    return head, body


def test_a_head_that_does_not_end_ends_its_connection(server):
    halves = [connect(server) for _ in range(20)]
    for half in halves:
        half.sendall(HALF)
    for half in halves:
        with half:
            assert rest_of(half).startswith(b"HTTP/1.1 408 ")


def test_a_head_that_crawls_has_no_longer(server, until):
    with connect(server) as crawling:
        crawling.sendall(HALF)

        def crawl():
            crawling.sendall(b"a")

        with pytest.raises(OSError, match="reset|[Bb]roken pipe|closed"):
            until(crawl, seconds=10)


def test_a_connection_that_says_nothing_is_closed_without_a_word(server):
    with connect(server) as silent:
        assert rest_of(silent) == b""


def test_half_a_second_request_ends_a_connection_that_was_good_before(server):
    with connect(server) as kept:
        kept.sendall(GET)
        assert answer(kept)[0].startswith(b"HTTP/1.1 200 ")
        kept.sendall(b"\r\n")
        kept.sendall(HALF)
        assert rest_of(kept).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nX: " + b"a" * 90_000,
        b"GET / HTTP/1.1\r\nX: " + b"a" * 90_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 20_000 + b"\r\n",
        b"GET /" + b"a" * 90_000,
        b"\r\n" * 45_000,
    ],
)
def test_a_head_that_is_too_large_is_refused(server, head):
    with connect(server) as connected:
        connected.sendall(head)
        assert rest_of(connected).startswith(b"HTTP/1.1 431 ")


def test_a_head_as_large_as_allowed_brings_its_body(server):
    body = b'{"instances": [2.0]}'
    # Counted are the path and, of each header, its name, its value and the four characters beside them.
    path, length = b"/v1/models/half:predict", b"%d" % len(body)
    rest = (
        connection.HEAD_BYTES
        - len(path)
        - len(b"Host: x\r\n")
        - len(b"Content-Length: \r\n" + length)
        - len(b"X: \r\n")
    )
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\nX: %s\r\n\r\n"
    with connect(server) as connected:
        connected.sendall(head % (path, length, b"a" * rest) + body)
        assert answer(connected)[0].startswith(b"HTTP/1.1 200 ")
    with connect(server) as connected:
        connected.sendall(head % (path, length, b"a" * (rest + 1)) + body)
        assert rest_of(connected).startswith(b"HTTP/1.1 431 ")


def test_what_follows_a_body_without_end_is_bounded_too(server):
    chunked = b"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    with connect(server) as connected:
        connected.sendall(chunked)
        with pytest.raises(OSError, match=r"reset|[Bb]roken pipe"):
            connected.sendall(b"X: %s\r\n" % (b"a" * 1000) * 100_000)


def test_a_body_that_crawls_ends_its_connection(server):
    with connect(server) as crawling:
        crawling.sendall(PREDICT % 1000 + b"{")
        received = rest_of(crawling)
    assert received.startswith(b"HTTP/1.1 408 ")
    assert b"\r\nconnection: close\r\n" in received


def test_the_rest_of_a_body_that_nobody_waits_for_has_its_time_too(server):
    with connect(server) as connected:
        connected.sendall(b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12")
        assert answer(connected)[0].startswith(b"HTTP/1.1 404 ")
        connected.sendall(b"3")
        assert rest_of(connected) == b"", "it ends; a second answer would be to nothing"


@pytest.mark.slow
def test_a_connection_whose_body_comes_after_the_answer_goes_on(server):
    with connect(server) as connected:
        for _ in range(3):
            connected.sendall(b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n12")
            assert answer(connected)[0].startswith(b"HTTP/1.1 404 ")
            connected.sendall(b"34")
        connected.sendall(GET)
        assert answer(connected)[0].startswith(b"HTTP/1.1 200 ")
        time.sleep(0.6)  # an idle connection has longer
        connected.sendall(GET)
        assert answer(connected)[0].startswith(b"HTTP/1.1 200 ")


def test_a_client_that_takes_nothing_of_its_answer_is_hung_up_on(serve_app, until):
    async def large(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(2**25)})

    rest = serve_app(large)
    with connect(rest) as deaf:
        deaf.sendall(GET)
        until(lambda: rest._server._connections._all)
        until(lambda: not rest._server._connections._all)
        assert len(rest_of(deaf)) < 2**25


@pytest.mark.slow
def test_a_client_that_takes_its_answer_slowly_gets_all_of_it(serve_app):
    async def large(scope, receive, send):
        headers = [(b"content-length", b"25000000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(25_000_000)})

    rest = serve_app(large)
    with connect(rest) as slow:
        slow.sendall(GET)
        received = 0
        while received < 25_000_000:
            chunk = slow.recv(2**19)
            assert chunk, "hung up"
            received += len(chunk)
            time.sleep(0.02)
    assert received > 25_000_000  # with the head


def test_who_asks_nothing_makes_room_for_who_asks(serve_app):
    rest = serve_app(hello, most=4)
    idle = [connect(rest) for _ in range(4)]
    for each in idle:  # which then have the time of an idle connection, and not that of a head
        each.sendall(GET)
        assert answer(each)[1] == b"hi"
    for _ in range(6):
        with connect(rest) as asking:
            asking.sendall(GET)
            assert answer(asking)[1] == b"hi"
    assert idle[0].recv(1) == b""
    for each in idle:
        each.close()


def test_connections_that_are_all_being_answered_are_not_disturbed_and_the_log_says_so_once(
    serve_app, caplog, until
):
    held = Held()
    rest = serve_app(held, most=4)
    asking = [connect(rest) for _ in range(4)]
    for each in asking:
        each.sendall(GET)
    until(lambda: held.running == 4)
    with connect(rest) as fifth:
        fifth.sendall(GET)
        until(lambda: caplog.records)
        time.sleep(0.3)
        assert held.running == 4
        held.release.set()
        for each in asking:
            assert answer(each)[1] == b"hi"
            each.close()
        assert answer(fifth)[1] == b"hi"
    (said,) = [record.getMessage() for record in caplog.records]
    assert re.match(r"REST has 4 connections, its share of the \d+ descriptors; new ones wait", said)


def test_connections_live_a_bounded_time_where_there_are_workers(serve_app):
    rest = serve_app(hello, seconds=0.3)
    with connect(rest) as old:
        old.sendall(GET)
        assert b"connection: close" not in answer(old)[0]
        time.sleep(0.4)
        old.sendall(GET)
        assert b"connection: close" in answer(old)[0]
        assert old.recv(1) == b""


def test_a_connection_that_is_answered_is_never_too_old(serve_app, until):
    held = Held()
    rest = serve_app(held, seconds=0.1)
    with connect(rest) as old:
        old.sendall(GET)
        until(lambda: held.running)
        time.sleep(0.5)
        held.release.set()
        assert answer(old)[1] == b"hi"


def test_those_who_had_connected_when_the_port_closes_are_answered(serve_app, until):
    held = Held()
    rest = serve_app(held)
    with connect(rest) as running, connect(rest) as kept:
        running.sendall(GET)
        until(lambda: held.running == 1)
        rest.leave()
        with pytest.raises(ConnectionRefusedError):
            connect(rest)
        kept.sendall(GET)
        held.release.set()
        for each in (running, kept):
            head, body = answer(each)
            assert b"connection: close" in head
            assert body == b"hi"


@pytest.mark.slow
def test_a_server_that_drains_accepts_nobody_and_answers_those_it_has(tmp_path, in_background, until):
    save(Slow(), tmp_path, 1)
    with Server(ServerConfig("slow", tmp_path, port=0, rest_api_port=-1)) as server:
        kept = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=20)
        kept.request("GET", "/readyz")
        assert kept.getresponse().read() == b'{"status": "ready"}'
        with connect(server) as running:
            body = b'{"inputs": {"seconds": 2}}'
            running.sendall(PREDICT.replace(b"half", b"slow") % len(body) + body)
            until(lambda: server.models._models["slow"].running == 1)
            stopping = in_background(server.stop, 30)
            until(lambda: not accepts(server.rest_port))
            assert not stopping.done()
            kept.request("GET", "/readyz")
            response = kept.getresponse()
            assert (response.status, response.headers["Connection"]) == (503, "close")
            assert b"shutting down" in response.read()
            head, _ = answer(running)
            assert head.startswith(b"HTTP/1.1 200 ")
        stopping.result(20)
        assert not accepts(server.rest_port)


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("said", [b"", b"PRI * HTTP/2.0\r\n"])
def test_a_grpc_connection_that_does_not_begin_is_closed(half_base, monkeypatch, said):
    monkeypatch.setattr(listening, "_HANDSHAKE_SECONDS", 1)
    with (
        Server(ServerConfig("half", half_base, port=0)) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=20) as connected,
    ):
        connected.sendall(said)
        rest_of(connected)


@pytest.mark.slow
def test_the_end_of_an_old_connection_costs_no_call(half_base, slow_base):
    young = "grpc.max_connection_age_ms=200"
    with (
        Server(ServerConfig("slow", slow_base, port=0, grpc_channel_arguments=young)) as server,
        Client(server.target, "slow", timeout=20) as client,
        grpc.insecure_channel(server.target) as channel,
    ):
        # A call that was not sent yet as its connection was told to end goes to the next one, unless
        # "grpc.enable_retries" is 0.
        call = channel.unary_unary("/tensorflow.serving.ModelService/GetModelStatus")
        assert client.predict({"seconds": np.float32(1)})["rounds"] > 0  # longer than its connection's age
        ends = time.monotonic() + 2
        while time.monotonic() < ends:
            assert client.predict({"seconds": np.float32(0)})["rounds"] >= 0
            assert call(b"\n\x06\n\x04slow", timeout=20)


PINGS = (("grpc.keepalive_time_ms", 1000), ("grpc.http2.max_pings_without_data", 0))
IDLE_PINGS = (*PINGS, ("grpc.keepalive_permit_without_calls", 1))


def slow_answer(channel, seconds):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "slow"
    request.inputs["seconds"].CopyFrom(tf.make_tensor_proto(np.float32(seconds)))
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    return stub.Predict(request, timeout=20).outputs["rounds"].int_val[0]


@pytest.mark.slow
def test_a_client_may_ping_each_second_with_a_call_and_without(slow_base, in_background, monkeypatch):
    """gRPC's own server says "Too many pings" to the fourth within five minutes, and the call fails."""
    monkeypatch.setattr(connection_settings, "_KEEPALIVE_MS", 1000)
    options = ConnectionSettings.options
    # After two pings, gRPC's clients wait for a minute, unless they are told not to.
    monkeypatch.setattr(ConnectionSettings, "options", lambda self: [*options(self), PINGS[1]])
    with (
        Server(ServerConfig("slow", slow_base, port=0)) as server,
        grpc.insecure_channel(server.target, PINGS) as calling,
        # Else channels with the same arguments share a connection.
        grpc.insecure_channel(server.target, [*IDLE_PINGS, ("grpc.use_local_subchannel_pool", 1)]) as idle,
        Client(server.target, "slow", timeout=20) as client,
        asyncio.Runner() as runner,
    ):
        assert slow_answer(idle, 0) >= 0
        states = []
        idle.subscribe(states.append)
        called = in_background(slow_answer, calling, 4.6)
        asked = in_background(client.predict, {"seconds": np.float32(4.6)})

        async def ask():
            async with AsyncClient(server.target, "slow", timeout=20) as client:
                return await client.predict({"seconds": np.float32(4.6)})

        assert runner.run(ask())["rounds"] > 0
        assert called.result(20) > 0
        assert asked.result(20)["rounds"] > 0
        assert states == [grpc.ChannelConnectivity.READY], "without calls, too, the connection stays"


@pytest.mark.slow
def test_an_operator_may_allow_fewer_pings(slow_base):
    fewer = "grpc.http2.min_ping_interval_without_data_ms=300000"
    with (
        Server(ServerConfig("slow", slow_base, port=0, grpc_channel_arguments=fewer)) as server,
        grpc.insecure_channel(server.target, PINGS) as channel,
        pytest.raises(grpc.RpcError, match="Too many pings"),
    ):
        # The ping that is one too many comes after some 4.6 s, and ends the call.
        slow_answer(channel, 12.0)


def test_grpc_connections_live_a_bounded_time_where_there_are_workers():
    def options(**settings):
        return dict(listening.server_options(ServerConfig("m", "models", **settings)))

    assert options(workers=2)["grpc.max_connection_age_ms"] == 60_000
    assert "grpc.max_connection_age_ms" not in options()
    mine = options(workers=2, grpc_channel_arguments="grpc.max_connection_age_ms=5")
    assert mine["grpc.max_connection_age_ms"] == 5
