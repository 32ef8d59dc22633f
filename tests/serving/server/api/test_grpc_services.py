"""The address of a caller over gRPC."""

import pytest

from keras_selfattn.serving.server.api.grpc_services import client_address


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:192.0.2.7:50812", "192.0.2.7"),
        ("ipv6:%5B::1%5D:50812", "::1"),
        ("ipv6:[2001:db8::7]:50812", "2001:db8::7"),
        ("unix:/run/serving.sock", "unix:/run/serving.sock"),
    ],
)
def test_the_address_of_a_grpc_caller_is_without_its_port(peer, address):
    assert client_address(peer) == address
