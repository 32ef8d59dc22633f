"""Targets and time limits that a client takes."""

import pytest

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client


@pytest.mark.parametrize(
    "target", ["localhost", "http://a:1", "a:b", "a:0", "a:65536", "", "a b:1", "::1:80", None]
)
def test_a_target_that_is_no_host_and_port_is_refused(target):
    with pytest.raises(errors.InvalidInputError, match="host:port"):
        Client(target)


@pytest.mark.parametrize(
    "target", ["localhost:8500", "10.0.0.1:1", "[::1]:8500", "my-host.example:65535", "unix:/tmp/a.sock"]
)
def test_a_host_and_port_or_a_socket_is_accepted(target):
    with Client(target, insecure=True) as client:
        assert target in repr(client)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), None, "1", True])
def test_a_timeout_that_is_no_limit_is_refused(timeout):
    with pytest.raises(errors.InvalidInputError, match=r"timeout must be .*number of seconds"):
        Client("localhost:1", timeout=timeout)
    with Client("localhost:1") as client:
        with pytest.raises(errors.InvalidInputError, match="timeout"):
            client.wait_until_ready(timeout)
        if timeout is not None:
            for call in (
                lambda: client.predict([1.0], timeout=timeout),
                lambda: client.status(timeout=timeout),
            ):
                with pytest.raises(errors.InvalidInputError, match="timeout"):
                    call()
