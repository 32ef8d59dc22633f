"""Encryption, credentials and metadata: sent where they should be, shown nowhere."""

import asyncio
import logging
import time

import certificates
import grpc
import numpy as np
import pytest
from stock_serving import StockServing

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import TLS, AsyncClient, Client

X = np.float32([[1, 2]])
SECRET = "s3cret-t0ken"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def tls_server(files):
    """Starts a stock server with TLS, that asks for a client's certificate or not; gives it and its port."""
    started = []

    def start(serving, mutual=False):
        pair = ((files / "server.key").read_bytes(), (files / "server.pem").read_bytes())
        ca = (files / "ca.pem").read_bytes()
        credentials = grpc.ssl_server_credentials([pair], ca if mutual else None, mutual)
        server, port = serving.serve(credentials=credentials)
        started.append(server)
        return f"localhost:{port}"

    yield start
    for server in started:
        server.stop(None).wait()


@pytest.mark.slow
def test_tls_with_an_authority_of_ones_own(files, tls_server, connect):
    target = tls_server(StockServing())
    for ca in (files / "ca.pem", str(files / "ca.pem"), (files / "ca.pem").read_bytes()):
        assert connect(target, tls=TLS(ca=ca)).predict(X)["y"].tolist() == [[2, 4]]
    # An authority that the public ones do not know.
    with pytest.raises(errors.UnavailableError, match="And does it speak TLS"):
        connect(target, tls=TLS()).predict(X)
    with pytest.raises(errors.UnavailableError):
        connect(target).predict(X)


@pytest.mark.slow
def test_mutual_tls_needs_the_clients_certificate(files, tls_server, connect):
    target = tls_server(StockServing(), mutual=True)
    ours = TLS(ca=files / "ca.pem", certificate=files / "client.pem", key=files / "client.key")
    assert connect(target, tls=ours).predict(X)["y"].tolist() == [[2, 4]]
    with pytest.raises(errors.UnavailableError):
        connect(target, tls=TLS(ca=files / "ca.pem")).predict(X)


@pytest.mark.process
def test_the_name_in_the_certificate_counts(files, tls_server, connect):
    port = tls_server(StockServing()).rpartition(":")[2]
    target = f"127.0.0.1:{port}"
    with pytest.raises(errors.UnavailableError):
        connect(target, tls=TLS(ca=files / "ca.pem")).predict(X)
    named = TLS(ca=files / "ca.pem", server_name="served.test")
    assert connect(target, tls=named).predict(X)["y"].tolist() == [[2, 4]]


def test_several_servers_behind_one_name(files, tls_server, connect, until):
    targets = [tls_server(StockServing(version=number)) for number in (1, 2)]
    ca = files / "ca.pem"
    for tls in (TLS(ca=ca), TLS(ca=ca, server_name="served.test")):
        client = connect(targets, tls=tls)
        client.wait_until_ready(20)
        until(lambda client=client: {client.predict(X).version for _ in range(60)} == {1, 2})


def test_credentials_of_grpc_itself_are_taken(files, tls_server, connect):
    channel = grpc.ssl_channel_credentials((files / "ca.pem").read_bytes())
    assert connect(tls_server(StockServing()), tls=channel).predict(X)["y"].tolist() == [[2, 4]]


def test_call_credentials_go_with_every_call(files, tls_server, connect):
    serving = StockServing()
    token = grpc.access_token_call_credentials(SECRET)
    client = connect(tls_server(serving), tls=TLS(ca=files / "ca.pem"), credentials=token)
    client.predict(X)
    assert [call["authorization"] for call in serving.metadata_of_calls] == [f"Bearer {SECRET}"] * 2


def test_metadata_goes_with_every_call_fresh_from_its_function(stock_server, connect):
    serving = StockServing()
    target = stock_server(serving)
    connect(target, metadata={"X-Api-Key": SECRET, "trace-bin": b"\x00\xff"}).predict(X)
    assert [call["x-api-key"] for call in serving.metadata_of_calls] == [SECRET] * 2
    assert serving.metadata_of_calls[0]["trace-bin"] == b"\x00\xff"
    connect(target, metadata=[("a", "1")]).status()
    tokens = iter(["first", "second", "third"])
    client = connect(target, metadata=lambda: {"authorization": next(tokens)}, max_batch_size=1)
    client.predict([[1, 2], [3, 4]])
    found = [call.get("authorization") for call in serving.metadata_of_calls[3:]]
    assert sorted(found) == ["first", "second", "third"]


@pytest.mark.parametrize("kind", [OSError, TimeoutError, ValueError])
def test_the_error_of_a_function_for_metadata_is_not_swallowed(stock_server, connect, kind):
    def no_token():
        raise kind("the token server is down")

    client = connect(stock_server(StockServing()), metadata=no_token, max_batch_size=1)
    for rows in (X, np.repeat(X, 3, axis=0)):  # alone, and begun beside others
        with pytest.raises(kind, match="the token server is down") as raised:
            client.predict(rows)
        assert type(raised.value) is kind


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": 1},
        {"a b": "c"},
        {"a": "ü"},
        {"a": "b\n"},
        {"a-bin": "text"},
        {"a": b"bytes"},
        [("a",)],
        "ab",
        {1: "a"},
    ],
)
def test_metadata_that_no_header_holds_is_refused_without_its_value(metadata):
    with pytest.raises(errors.InvalidInputError, match="metadata"):
        Client("localhost:1", metadata=metadata)


def test_a_function_for_metadata_takes_time_from_the_call(stock_server, connect):
    client = connect(stock_server(StockServing()), metadata=lambda: time.sleep(0.4) or {})
    with pytest.raises(errors.DeadlineExceededError):
        client.predict(X, timeout=0.5)


def test_a_coroutine_function_for_metadata_is_awaited(stock_server):
    serving = StockServing()
    target = stock_server(serving)

    async def token():
        await asyncio.sleep(0)
        return {"authorization": SECRET}

    async def slow():
        await asyncio.sleep(60)

    async def ask():
        async with AsyncClient(target, metadata=token) as client:
            await client.predict(X)
        async with AsyncClient(target, metadata=slow) as client:
            with pytest.raises(errors.DeadlineExceededError, match="not found in time"):
                await client.predict(X, timeout=0.2)

    asyncio.run(ask())
    assert [call["authorization"] for call in serving.metadata_of_calls] == [SECRET] * 2
    with (
        Client(target, metadata=token) as client,
        pytest.raises(errors.InvalidInputError, match="needs AsyncClient"),
    ):
        client.predict(X)


def test_no_secret_shows_in_a_repr_a_log_or_an_error(files, tls_server, connect, caplog):
    caplog.set_level(logging.DEBUG)

    def fail(rpc, request, context):
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "not you")

    tls = TLS(files / "ca.pem", files / "client.pem", files / "client.key")
    token = grpc.access_token_call_credentials(SECRET)
    settings = {"tls": tls, "credentials": token, "metadata": {"x-api-key": SECRET}}
    client = connect(tls_server(StockServing(before=fail)), **settings)
    with pytest.raises(errors.PermissionDeniedError) as caught:
        client.predict(X)
    with pytest.raises(errors.InvalidInputError) as refused:
        Client("localhost:1", metadata={"key": SECRET + "\n"})
    shown = [repr(client), repr(tls), str(tls), repr(caught.value), repr(caught.value.__cause__), caplog.text]
    for text in [*shown, str(refused.value), repr(vars(caught.value))]:
        assert SECRET not in text
        assert "PRIVATE KEY" not in text


@pytest.mark.parametrize(
    "target", ["10.0.0.1:1", "models.example:8500", ["localhost:1", "10.0.0.1:1"], "0.0.0.0:1"]
)
def test_clear_text_leaves_this_machine_only_when_asked_for(connect, target):
    with pytest.raises(errors.InvalidInputError, match=r"pass tls=TLS\(...\).* or insecure=True"):
        connect(target)
    connect(target, insecure=True)
    connect(target, tls=TLS(server_name="models.example"))


@pytest.mark.parametrize(
    "target", ["localhost:1", "127.0.0.1:1", "127.1.2.3:1", "[::1]:1", "unix:/tmp/socket"]
)
def test_this_machine_may_be_asked_in_clear_text(connect, target):
    connect(target)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tls": TLS(), "insecure": True}, "give tls= or insecure=True, not both"),
        ({"tls": True}, r"tls must be a TLS\(...\)"),
        ({"credentials": grpc.access_token_call_credentials("t")}, "pass tls= too"),
        ({"credentials": "token", "tls": TLS()}, "credentials must be grpc.CallCredentials"),
        ({"interceptors": None}, "interceptors must be a list of gRPC's client interceptors"),
        ({"interceptors": [object()]}, "interceptors must be a list of gRPC's client interceptors"),
        ({"metadata": 5}, "metadata must be a dict"),
        ({"model": "\ud800"}, "model must be a model's name"),
        ({"timeout": 1e10}, "of a year at most"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        Client("localhost:1", **settings)


def test_several_hosts_with_tls_need_one_name():
    with pytest.raises(errors.InvalidInputError, match=r"TLS\(server_name=...\)"):
        Client(["a.example:1", "b.example:1"], tls=TLS())


def test_pem_may_be_given_as_text(files, tls_server, connect):
    target = tls_server(StockServing(), mutual=True)
    texts = [(files / name).read_text() for name in ("ca.pem", "client.pem", "client.key")]
    assert connect(target, tls=TLS(*texts)).predict(X)["y"].tolist() == [[2, 4]]


@pytest.mark.parametrize("value", [b"", b"garbage", 5, "x" * 5000, SECRET * 100])
def test_what_is_no_pem_is_refused_without_its_content(value, tmp_path):
    with pytest.raises(errors.InvalidInputError, match="TLS key") as caught:
        TLS(certificate=b"-----BEGIN CERTIFICATE-----", key=value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    (tmp_path / "empty.pem").write_bytes(b"")
    with pytest.raises(errors.InvalidInputError, match="TLS ca must be PEM"):
        TLS(ca=tmp_path / "empty.pem")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(errors.InvalidInputError, match="TLS ca cannot be read.*nowhere.pem"):
        TLS(ca=tmp_path / "nowhere.pem")
    with pytest.raises(errors.InvalidInputError, match="certificate and key together"):
        TLS(certificate=b"x")
