"""A transport of the user's own has the methods of the base."""

import pytest

from keras_selfattn.serving.client import (
    Transport,
)


def test_a_transport_without_send_is_no_transport():
    with pytest.raises(TypeError, match="send"):
        type("Nothing", (Transport,), {})()
