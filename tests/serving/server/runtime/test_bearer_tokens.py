"""Who may ask: tokens over gRPC and REST, and REST behind TLS."""

import asyncio
import contextlib
import http.client
import json
import logging
import os
import re
import socket
import ssl
import time

import certificates
import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from test_app import ask
from test_encryption import ssl_config

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import TLS, Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.rest import connection as rest_connection
from keras_selfattn.serving.server.rest import rest_server
from keras_selfattn.serving.server.runtime import bearer_tokens
from keras_selfattn.serving.server.runtime.bearer_tokens import BearerTokens
from keras_selfattn.serving.wire import open_inference_pb2 as oip

GOOD, OTHER = "mF_9.B5f-4.1JqM", "second+/token=="
BODY = {"instances": [2.0]}
POST = "POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\n"


def bears(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokens") / "tokens"
    path.write_text(f"{GOOD}\n\n  {OTHER}  \n")
    return path


@pytest.fixture(scope="module")
def server(half_base, tokens):
    with Server(ServerConfig("half", half_base, port=0, rest_api_port=-1, auth_token_file=tokens)) as server:
        yield server


@pytest.fixture
def channel(server):
    with grpc.insecure_channel(server.target) as channel:
        yield channel


def predicted(server, headers):
    with Client(server.target, "half", metadata=headers) as client:
        return client.predict({"x": np.float32([2])})["y"].tolist()


@pytest.mark.parametrize("token", [GOOD, OTHER])
def test_who_bears_a_token_is_answered(server, token):
    assert predicted(server, {"authorization": f"Bearer {token}"}) == [3.0]
    url = f"{server.rest_url}/v1/models/half:predict"
    for header in (bears(token), {"authorization": f"bearer  {token} "}):
        assert ask(url, BODY, headers=header)[:2] == (200, b'{"predictions":[3.0]}')


NO_TOKEN = "this server needs a token: send authorization: Bearer TOKEN"
UNKNOWN = "the authorization header bears no token that this server knows"
WRONG = [
    *(f"Bearer {token}" for token in ("", GOOD[:-1], GOOD + "x", GOOD.lower(), f"{GOOD} {OTHER}", "é")),
    *(GOOD, f"Basic {GOOD}", "Bearer", "", " "),
]


@pytest.mark.parametrize("authorization", [None, *WRONG])
def test_others_are_refused(server, authorization):
    words = NO_TOKEN if authorization is None else UNKNOWN
    headers = {} if authorization is None else {"Authorization": authorization}
    for path in (
        *("/v1/models/half:predict", "/v1/models/half", "/v2/models/half/infer", "/nothing"),
        "/monitoring/prometheus/metrics",
    ):
        body = BODY if "predict" in path or "infer" in path else None
        connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=20)
        sent = {name: value.encode("latin-1") for name, value in headers.items()}
        with contextlib.closing(connection):
            connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, sent)
            response = connection.getresponse()
            assert (response.status, json.load(response)) == (401, {"error": words})
            assert response.headers["WWW-Authenticate"] == "Bearer"
    if authorization is not None and not authorization.isascii():
        return  # which gRPC does not send
    metadata = {} if authorization is None else {"authorization": authorization}
    with pytest.raises(errors.UnauthenticatedError) as raised:
        predicted(server, metadata)
    assert raised.value.details == words


def test_every_grpc_service_needs_one(server, channel):
    for method in (
        "/tensorflow.serving.ModelService/GetModelStatus",
        "/tensorflow.serving.PredictionService/GetModelMetadata",
        "/inference.GRPCInferenceService/ModelInfer",
        "/inference.GRPCInferenceService/RepositoryIndex",
        "/tensorflow.ProfilerService/Profile",
        "/nothing/Nothing",
    ):
        with pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary(method)(b"", timeout=20)
        assert (raised.value.code(), raised.value.details()) == (grpc.StatusCode.UNAUTHENTICATED, NO_TOKEN)
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    with pytest.raises(grpc.RpcError) as raised:
        list(stub.ServerReflectionInfo(asked, timeout=20))
    assert raised.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_the_health_is_for_all(server, channel):
    serving = health_pb2.HealthCheckResponse.SERVING
    assert (
        health_pb2_grpc.HealthStub(channel)
        .Check(health_pb2.HealthCheckRequest(service="half"), timeout=20)
        .status
        == serving
    )
    path = "/inference.GRPCInferenceService/ServerReady"
    assert oip.ServerReadyResponse.FromString(channel.unary_unary(path)(b"", timeout=20)).ready
    for path in ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"):
        assert ask(server.rest_url + path)[0] == 200


def test_a_page_may_ask_whether_it_may_send_a_token(half_base, tokens):
    config = ServerConfig(
        "half", half_base, port=0, rest_api_port=-1, auth_token_file=tokens, rest_api_enable_cors_support=True
    )
    with Server(config) as server:
        status, _, headers = ask(server.rest_url + "/v2", headers={"Origin": "http://page"}, method="OPTIONS")
    assert (status, "Authorization" in headers["Access-Control-Allow-Headers"]) == (200, True)


@pytest.fixture
def often(monkeypatch):
    """The file is looked at for each check."""
    monkeypatch.setattr(bearer_tokens, "_LOOK_SECONDS", 0.0)


def allows(tokens, token):
    try:
        tokens.check([f"Bearer {token}"])
    except errors.UnauthenticatedError:
        return False
    return True


def test_a_changed_file_is_read_again_without_a_restart(tmp_path, often):
    path = tmp_path / "tokens"
    path.write_text("old")
    tokens = BearerTokens(path)
    assert (allows(tokens, "old"), allows(tokens, "new")) == (True, False)
    path.write_text("old\nnew\n")
    assert not allows(tokens, "new"), "it may be half written"
    assert (allows(tokens, "old"), allows(tokens, "new")) == (True, True)
    other = tmp_path / "other"
    other.write_text("new\n")
    other.rename(path)  # as an orchestrator does
    allows(tokens, "new")
    assert (allows(tokens, "old"), allows(tokens, "new")) == (False, True)
    found = path.stat()
    path.write_text("ned\n")
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))  # as `rsync -t` does
    allows(tokens, "new")
    assert (allows(tokens, "ned"), allows(tokens, "new")) == (True, False)


@pytest.mark.parametrize("wrong", [None, "", "two words\n", "é"])
def test_a_file_that_cannot_be_read_any_more_keeps_its_tokens_and_is_logged_once(
    tmp_path, often, caplog, wrong
):
    path = tmp_path / "tokens"
    path.write_text("token")
    tokens = BearerTokens(path)
    path.unlink()
    if wrong is not None:
        path.write_text(wrong)
    with caplog.at_level(logging.ERROR):
        assert [allows(tokens, "token") for _ in range(5)] == [True] * 5
    (record,) = caplog.records
    assert "auth_token_file" in record.message
    assert record.message.endswith("the tokens before stay")
    path.write_text("another")
    allows(tokens, "token")
    assert (allows(tokens, "token"), allows(tokens, "another")) == (False, True)


def test_a_pipe_in_the_place_of_the_file_is_never_read(tmp_path, often):
    path = tmp_path / "tokens"
    os.mkfifo(path)
    with pytest.raises(errors.ServerStartError, match="is not a regular file"):
        BearerTokens(path)
    path.unlink()
    path.write_text("token")
    tokens = BearerTokens(path)
    path.unlink()
    os.mkfifo(path)
    assert [allows(tokens, "token") for _ in range(3)] == [True] * 3


def test_several_tokens_in_a_request_are_refused(server):
    sent = [("authorization", f"Bearer {token}") for token in ("x", GOOD)]
    for both in (sent, sent[::-1]):
        with grpc.insecure_channel(server.target) as channel, pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary("/tensorflow.serving.PredictionService/Predict")(
                b"", timeout=20, metadata=both
            )
        assert raised.value.code() == grpc.StatusCode.UNAUTHENTICATED
        connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=20)
        with contextlib.closing(connection):
            connection.putrequest("GET", "/v1/models/half")
            for name, value in both:
                connection.putheader(name, value)
            connection.endheaders()
            assert connection.getresponse().status == 401


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read: "),
        ("", "It has 0 lines with text; 0 of them are not valid tokens"),
        ("good\nnot good\n", "It has 2 lines with text; 1 of them are not valid tokens"),
    ],
)
def test_a_file_without_tokens_ends_the_start_and_shows_none(half_base, tmp_path, text, words):
    path = tmp_path / "tokens"
    if text is not None:
        path.write_text(text)
    with pytest.raises(errors.ServerStartError, match=words) as raised:
        Server(ServerConfig("half", half_base, port=0, auth_token_file=path))
    assert "not good" not in str(raised.value)


# TLS


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("certificates"))


def encrypted(half_base, config, **more):
    settings = {"host": "127.0.0.1", "port": 0, "rest_api_port": -1, "rest_tls": True, **more}
    return Server(ServerConfig("half", half_base, ssl_config_file=config, **settings))


def open_files():
    """Yield the targets of this process's open descriptors, on Linux."""
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        with contextlib.suppress(OSError):  # it is closed by now
            yield os.readlink(f"/proc/self/fd/{name}")


def get(server, path, context):
    connection = http.client.HTTPSConnection("localhost", server.rest_port, timeout=20, context=context)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


@pytest.mark.slow
def test_rest_is_encrypted_with_the_keys_of_grpc(half_base, files, tmp_path, tokens):
    config = ssl_config(files, tmp_path / "ssl.conf")
    trusting = ssl.create_default_context(cafile=str(files / "ca.pem"))
    with encrypted(half_base, config, auth_token_file=tokens, page=True) as server:
        assert server.rest_url == f"https://127.0.0.1:{server.rest_port}"
        assert get(server, "/readyz", trusting) == 200
        assert get(server, "/v1/models/half", trusting) == 401
        assert [get(server, path, trusting) for path in ("/", "/page/models")] == [200, 401]
        with pytest.raises(ssl.SSLError):
            get(server, "/readyz", ssl.create_default_context())
        plain = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=20)
        plain.request("GET", "/readyz")
        with contextlib.closing(plain), pytest.raises((http.client.HTTPException, ConnectionError)):
            plain.getresponse()
        headers = {"authorization": f"Bearer {GOOD}"}
        target = f"localhost:{server.port}"
        with Client(target, "half", tls=TLS(ca=files / "ca.pem"), metadata=headers) as client:
            assert client.predict({"x": np.float32([2])})["y"].tolist() == [3.0]
    assert [each for each in open_files() if "memfd:key" in each] == [], "the key's file is closed"


@pytest.mark.slow
def test_rest_asks_clients_for_certificates_as_grpc_does(half_base, files, tmp_path):
    config = ssl_config(files, tmp_path / "ssl.conf", custom_ca="ca.pem")
    stranger = ssl.create_default_context(cafile=str(files / "ca.pem"))
    known = ssl.create_default_context(cafile=str(files / "ca.pem"))
    known.load_cert_chain(files / "client.pem", files / "client.key")
    with encrypted(half_base, config) as server:
        assert get(server, "/readyz", known) == 200
        with pytest.raises((ssl.SSLError, ConnectionError)):
            get(server, "/readyz", stranger)


@pytest.mark.slow
def test_bytes_that_are_no_tls_and_silence_end_their_connection_alone(
    half_base, files, tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr(rest_server, "HEAD_SECONDS", 1.0)
    config = ssl_config(files, tmp_path / "ssl.conf")
    trusting = ssl.create_default_context(cafile=str(files / "ca.pem"))
    with caplog.at_level(logging.WARNING), encrypted(half_base, config) as server:
        silent = socket.create_connection(("127.0.0.1", server.rest_port))
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(100), os.urandom(500)):
            with socket.create_connection(("127.0.0.1", server.rest_port), timeout=20) as connection:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                with contextlib.suppress(OSError):
                    while connection.recv(2**16):
                        pass
        assert get(server, "/readyz", trusting) == 200
        silent.settimeout(20)
        with contextlib.suppress(ConnectionError):
            assert silent.recv(1) == b""
        silent.close()
    assert not caplog.records


@pytest.mark.slow
def test_a_head_that_is_too_large_is_refused_over_tls_too(half_base, files, tmp_path):
    config = ssl_config(files, tmp_path / "ssl.conf")
    trusting = ssl.create_default_context(cafile=str(files / "ca.pem"))
    with encrypted(half_base, config) as server:
        connection = http.client.HTTPSConnection("localhost", server.rest_port, timeout=20, context=trusting)
        with contextlib.closing(connection):
            connection.request("GET", "/readyz", headers={"X": "x" * 2**17})
            assert connection.getresponse().status == 431


@pytest.fixture
def by_tls(half_base, files, tmp_path):
    """A server over TLS, and a function that makes a trusting connection."""
    config = ssl_config(files, tmp_path / "ssl.conf")
    trusting = ssl.create_default_context(cafile=str(files / "ca.pem"))
    server = encrypted(half_base, config).start()

    def connect():
        plain = socket.create_connection(("127.0.0.1", server.rest_port), timeout=20)
        return trusting.wrap_socket(plain, server_hostname="localhost")

    yield server, connect
    server.stop(grace=0)


@pytest.mark.slow
def test_idle_and_silent_clients_do_not_hold_a_stop(by_tls, in_background):
    server, connect = by_tls
    with connect() as idle, socket.create_connection(("127.0.0.1", server.rest_port)):
        idle.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert idle.recv(2**16).startswith(b"HTTP/1.1 200")
        in_background(server.stop).result(timeout=10)  # of 30 seconds of grace


@pytest.mark.slow
def test_a_client_that_takes_its_answer_slowly_gets_all_of_it(by_tls, monkeypatch):
    _, connect = by_tls
    monkeypatch.setattr(asyncio.constants, "SSL_SHUTDOWN_TIMEOUT", 1.0)
    body = json.dumps({"instances": [1.5] * 2_000_000}).encode()
    head = f"{POST}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    with connect() as client:
        client.sendall(head.encode() + body)
        received = client.recv(2**10)
        wanted = int(re.search(rb"content-length: (\d+)", received)[1])
        time.sleep(3)  # the server has closed its side
        while chunk := client.recv(2**16):
            received += chunk
    assert len(received.partition(b"\r\n\r\n")[2]) == wanted > 10**6


@pytest.mark.slow
def test_a_client_that_takes_nothing_of_its_answer_is_ended(by_tls, monkeypatch):
    _, connect = by_tls
    monkeypatch.setattr(rest_connection, "STALLED_SECONDS", 1.0)
    monkeypatch.setattr(rest_connection, "_LOOK_SECONDS", 0.2)
    body = json.dumps({"instances": [1.5] * 2_000_000}).encode()
    head = f"{POST}Content-Length: {len(body)}\r\n\r\n"
    with connect() as client:
        client.sendall(head.encode() + body)
        received = client.recv(2**10)
        wanted = int(re.search(rb"content-length: (\d+)", received)[1])
        time.sleep(4)
        with contextlib.suppress(OSError):
            while chunk := client.recv(2**16):
                received += chunk
    assert len(received) < wanted, "the server had ended it"


@pytest.mark.slow
def test_silent_clients_make_room_for_those_who_ask(half_base, files, tmp_path, monkeypatch):
    config = ssl_config(files, tmp_path / "ssl.conf")
    trusting = ssl.create_default_context(cafile=str(files / "ca.pem"))
    monkeypatch.setattr(rest_server, "connections_of_a_port", lambda: 5)
    monkeypatch.setattr(rest_server, "HEAD_SECONDS", 60.0)
    with encrypted(half_base, config) as server, contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.rest_port)))
        assert get(server, "/readyz", trusting) == 200
