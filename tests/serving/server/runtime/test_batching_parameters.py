"""Parameters of batching: defaults, bounds, and a version's own file."""

import pytest

from keras_selfattn.serving import errors
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.runtime.batching_parameters import BatchingParameters, batching_parameters


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_batch_size { value: 0 }", "max_batch_size must be positive"),
        ("allowed_batch_sizes: 4 allowed_batch_sizes: 2", "allowed_batch_sizes must be positive and ascend"),
        ("max_batch_size { value: 8 } allowed_batch_sizes: 4", "must match max_batch_size; last entry was 4"),
        ("size: 3", "Invalid protobuf file"),
    ],
)
def test_parameters_that_make_no_sense_are_refused_at_the_start(tmp_path, text, message):
    file = tmp_path / "batching.conf"
    file.write_text(text)
    with pytest.raises(errors.InvalidArgumentError, match=message):
        Server(ServerConfig("m", tmp_path, enable_batching=True, batching_parameters_file=file))
    with pytest.raises(errors.ServerStartError, match="without setting --enable_batching to true"):
        Server(ServerConfig("m", tmp_path, batching_parameters_file=file))


def test_the_defaults_of_a_file_are_tensorflow_servings(tmp_path):
    found = batching_parameters(ServerConfig("m", tmp_path, enable_batching=True))
    assert (found.max_batch_size, found.timeout_seconds, found.max_enqueued_batches) == (1000, 0.0, 10)
    assert (found.padded_size(7), found.pad, found.split) == (7, False, False)
    assert BatchingParameters(allowed_batch_sizes=(2, 8)).padded_size(3) == 8
