"""The examples in the docstrings give what they say."""

import doctest
import importlib

import pytest

MODULES = [
    "errors",
    "wire.codec",
    "wire.dtypes",
    "wire.message_bytes",
    "server.config",
    "server.runtime.listening",
]
MODULES += [f"server.rest.{name}" for name in ("json_in", "json_out", "tensorflow_serving_rest", "errors")]
MODULES += [
    "server.rest.routes",
    "server.runtime.row_padding",
    "server.runtime.search_cost",
    "server.models.saved_model_servable",
    "server.models.version_policy",
    "server.batching.batch_queue",
]
MODULES += [
    f"client.{name}" for name in ("answers", "function_transport", "inputs", "management", "model_metadata")
]
MODULES += [f"client.transport.{name}" for name in ("addresses", "base", "retries")]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name):
    module = importlib.import_module(f"keras_selfattn.serving.{name}")
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0
