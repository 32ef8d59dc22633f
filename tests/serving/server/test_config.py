"""Settings of the server: ranges, and those that need each other."""

import pytest

from keras_selfattn.serving import errors
from keras_selfattn.serving.errors import InvalidInputError
from keras_selfattn.serving.server import ServerConfig


@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_the_bound_is_a_positive_number_of_bytes(half_base, value):
    with pytest.raises(errors.InvalidInputError, match="max_request_tensor_bytes must be a positive integer"):
        ServerConfig("half", half_base, max_request_tensor_bytes=value)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *[("model_name", value) for value in ("", "a/b", "a b", "a:b", None)],
        *[("model_base_path", value) for value in ("", None, 3)],
        *[("host", value) for value in (3, None)],
        *[("port", value) for value in (-1, 65536, "8500", True, 1.5)],
        *[("file_system_poll_wait_seconds", value) for value in (-1, float("nan"), "1")],
        *[("shutdown_grace_seconds", value) for value in (-1, float("inf"), None)],
        *[("tensorflow_intra_op_parallelism", value) for value in (-1, 1.5)],
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(setting, value):
    with pytest.raises(errors.InvalidInputError) as caught:
        ServerConfig(**{"model_name": "m", "model_base_path": "models", setting: value})
    assert str(caught.value).startswith(f"{setting} must be ")
    assert repr(value) in str(caught.value)


def test_a_page_needs_a_rest_port():
    with pytest.raises(InvalidInputError, match="rest_api_port must be a port, .* with page"):
        ServerConfig("half", "models/half", page=True)


def test_rest_tls_needs_a_key(half_base):
    with pytest.raises(errors.InvalidInputError, match="ssl_config_file must have a key .* with rest_tls"):
        ServerConfig("half", half_base, rest_tls=True)
