"""The ports share the descriptors, and leave some."""

from keras_selfattn.serving.server import ServerConfig
from keras_selfattn.serving.server.runtime import descriptors, listening


def test_the_ports_share_the_descriptors_and_leave_some(monkeypatch):
    monkeypatch.setattr(descriptors, "limit", lambda: 256)
    both = ServerConfig("m", "models", grpc_socket_path="server.sock")
    assert descriptors.connections_of_a_port() == 96
    assert dict(listening.server_options(both))["grpc.max_allowed_incoming_connections"] == 48
