"""A call that fails behind a proxy names the proxy and the variable that it comes from."""

import socket
import threading

import pytest

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.client.transport.addresses import Targets, proxy_advice

# Of a network for documentation, which nobody answers in.
FAR = "192.0.2.1:8500"
X = {"x": [1.0]}


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    for name in ("grpc_proxy", "https_proxy", "http_proxy", "no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def refusing():
    """A proxy that answers 403 to whatever it is asked; gives its port and the first lines of requests."""
    asked = []
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # closed
                return
            with connection:
                asked.append(connection.recv(4096).split(b"\r\n")[0].decode())
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    yield listener.getsockname()[1], asked
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10)


@pytest.fixture
def closed():
    """The port of a proxy that does not run."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def failure(target, timeout=5.0):
    """The message of a call to another machine that fails."""
    with (
        Client(target, insecure=True, timeout=timeout) as client,
        pytest.raises(errors.ServingError) as caught,
    ):
        client.predict(X)
    return str(caught.value)


@pytest.mark.parametrize("variable", ["http_proxy", "https_proxy", "grpc_proxy"])
def test_a_proxy_that_does_not_run_is_named(variable, closed, monkeypatch):
    monkeypatch.setenv(variable, f"http://127.0.0.1:{closed}")
    message = failure(FAR)
    assert message.startswith("UNAVAILABLE from 192.0.2.1:8500")
    assert f"The connection goes through the proxy 127.0.0.1:{closed} of {variable}: " in message
    assert "With 192.0.2.1 in no_proxy, gRPC connects directly. Is a server running" in message


def test_a_proxy_that_refuses_is_named_without_its_password(refusing, monkeypatch):
    port, asked = refusing
    monkeypatch.setenv("http_proxy", f"http://user:secret@127.0.0.1:{port}")
    message = failure(FAR)
    assert "HTTP proxy returned response code 403" in message
    assert f"through the proxy 127.0.0.1:{port} of http_proxy" in message
    assert "secret" not in message
    assert asked[0] == f"CONNECT {FAR} HTTP/1.1"


def test_no_proxy_goes_past_the_proxy_and_the_message_does_not_name_it(refusing, monkeypatch):
    port, asked = refusing
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("no_proxy", "10.0.0.0/8, 192.0.2.0/24")
    assert "proxy" not in failure(FAR, timeout=0.5)
    assert asked == []


def test_several_servers_are_reached_without_the_proxy(refusing, monkeypatch):
    port, asked = refusing
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
    assert "proxy" not in failure([FAR, "192.0.2.2:8500"], timeout=0.5)
    assert asked == [], "it would be asked for a host [192.0.2.1:8500,192.0.2.2:8500]"


@pytest.mark.parametrize("listed", ["model.example", "x,EXAMPLE", " .example", "x, example"])
def test_an_exception_is_a_host_or_a_domain(listed):
    assert advice("model.example:8500", no_proxy=listed) == ""


# gRPC 1.85 was seen to ask the proxy for each of these.
@pytest.mark.parametrize("listed", ["", "*", "*.example", "l.example", "model.example:8500", "192.0.2.0/24"])
def test_anything_else_is_no_exception(listed):
    assert "through the proxy proxy:3128 of http_proxy" in advice("model.example:8500", no_proxy=listed)


@pytest.mark.parametrize(
    ("host", "listed"),
    [("192.0.2.1", "192.0.2.9/24"), ("[2001:db8::1]", "2001:db8::/32"), ("[2001:db8::1]", "2001:db8::1")],
)
def test_an_exception_is_an_address_or_a_network(host, listed):
    assert advice(f"{host}:8500", no_proxy=listed) == ""
    assert advice(f"{host}:8500", no_proxy="198.51.100.0/24") != ""


@pytest.mark.parametrize(
    "value", ["https://proxy:3128", "proxy:3128", "http://", "http://[proxy", "http://proxy:x"]
)
def test_a_value_that_grpc_cannot_use_is_named_but_not_shown(value):
    found = advice("model.example:8500", http_proxy=value)
    assert found == (
        "gRPC ignores http_proxy, which is no http://host:port, and connects to model.example directly."
    )


def test_the_first_variable_that_is_set_counts_even_if_it_is_empty():
    assert "other:1 of grpc_proxy" in advice("model.example:8500", grpc_proxy="http://other:1")
    assert advice("model.example:8500", grpc_proxy="") == ""
    assert advice("model.example:8500", no_grpc_proxy="", no_proxy="model.example") != ""


def test_this_machine_needs_no_proxy():
    assert advice("127.0.0.1:8500") == advice("unix:/run/model.sock") == ""


def advice(target, **variables):
    return proxy_advice(Targets.of(target), {"http_proxy": "http://proxy:3128", **variables})
