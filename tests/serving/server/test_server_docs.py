"""docs/server.md lists the server's flags, calls and metrics."""

import re
from pathlib import Path

import pytest
from tensorflow_serving.apis import model_service_pb2, prediction_service_pb2

from keras_selfattn.cli.serve import WITHOUT_EFFECT
from keras_selfattn.serving.server.config import SETTINGS
from keras_selfattn.serving.server.runtime.metrics import Metrics

DOCS = Path(__file__).parents[3] / "docs" / "server.md"

# Of tensorflow_serving/model_servers/main.cc, as of 2.20.
UPSTREAM_FLAGS = """
    port grpc_socket_path rest_api_port rest_api_num_threads rest_api_timeout_in_ms
    rest_api_enable_cors_support enable_batching allow_version_labels_for_unavailable_models
    batching_parameters_file model_config_file model_config_file_poll_wait_seconds model_name
    model_base_path num_load_threads num_unload_threads max_num_load_retries load_retry_interval_micros
    file_system_poll_wait_seconds flush_filesystem_caches tensorflow_session_parallelism
    tensorflow_session_config_file tensorflow_intra_op_parallelism tensorflow_inter_op_parallelism
    use_alts_credentials ssl_config_file platform_config_file per_process_gpu_memory_fraction
    saved_model_tags grpc_channel_arguments grpc_max_threads enable_model_warmup
    num_request_iterations_for_warmup version monitoring_config_file
    remove_unused_fields_from_bundle_metagraph prefer_tflite_model num_tflite_pools
    num_tflite_interpreters_per_pool enable_signature_method_name_check xla_cpu_compilation_enabled
    xla_gpu_compilation_enabled enable_profiler thread_pool_factory_config_file mixed_precision
    skip_initialize_tpu enable_grpc_healthcheck_service enable_serialization_as_tensor_content
    enable_per_model_batching_parameters
"""


def test_the_help_tells_the_flags_of_tensorflow_serving_from_the_others():
    others = {name for name, about in SETTINGS.items() if "not in TensorFlow Serving" in about.group}
    assert others == set(SETTINGS) - set(UPSTREAM_FLAGS.split())
    groups = list(dict.fromkeys(about.group for about in SETTINGS.values()))
    assert groups == sorted(groups, key=lambda group: "not in TensorFlow Serving" in group), (
        "theirs come first"
    )


@pytest.fixture(scope="module")
def rows():
    """The first and second cells of all tables."""
    found = re.findall(r"^\| (.*?) \| (\w+) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    return [(cell, verdict) for cell, verdict in found if verdict in ("same", "better", "not")]


def test_every_flag_of_both_servers_has_its_row(rows):
    named = [flag for cell, _ in rows for flag in re.findall(r"--(\w+)", cell)]
    assert sorted(named) == sorted({*UPSTREAM_FLAGS.split(), *SETTINGS, *WITHOUT_EFFECT, "structured_logs"})


def test_what_has_no_effect_is_said_not_to_be_there(rows):
    verdicts = {flag: verdict for cell, verdict in rows for flag in re.findall(r"--(\w+)", cell)}
    without = {flag for flag, verdict in verdicts.items() if verdict == "not"}
    # Health is always there, and the flag that turns it on has nothing to do.
    assert without == {*WITHOUT_EFFECT} - {"enable_grpc_healthcheck_service"}


def test_every_call_has_its_row(rows):
    services = (prediction_service_pb2, model_service_pb2)
    methods = [
        method.name
        for module in services
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ]
    cells = " ".join(cell for cell, _ in rows)
    assert [name for name in methods if not re.search(rf"\b{name}\b", cells)] == []


def test_every_metric_has_its_row(rows):
    names = re.findall(r"^# TYPE :tensorflow:serving:([\w:]+)", Metrics().text(), re.MULTILINE)
    verdicts = {name: verdict for cell, verdict in rows for name in re.findall(r"`([\w:]+)`", cell)}
    assert names
    assert [name for name in names if verdicts.get(name) not in ("same", "better")] == []
