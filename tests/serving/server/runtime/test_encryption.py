"""The ports with a key and a certificate, and known clients alone."""

import certificates
import numpy as np
import pytest

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import TLS, Client
from keras_selfattn.serving.server import Server, ServerConfig

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
