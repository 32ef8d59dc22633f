"""`keras-selfattn serve`, started as `tensorflow_model_server` is: its flags, its words, its end."""

import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from ports import free_port
from serving_models import HalfPlusTwo, save
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from keras_selfattn.cli.main import main
from keras_selfattn.serving.client import Client

COMMAND = [sys.executable, "-c", "from keras_selfattn.cli.main import main; main()", "serve"]


@pytest.fixture
def serve():
    """Starts the command; gives the process."""
    processes = []

    def start(*flags):
        process = subprocess.Popen(
            [*COMMAND, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def wait_for(target, model="default"):
    with Client(target, model) as client:
        client.wait_until_ready(60)


def predicted(target, model="default"):
    """The stock stub's answer for x = 2."""
    with grpc.insecure_channel(target) as channel:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = model
        request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32([[2]])))
        response = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request, timeout=20)
    return tf.make_ndarray(response.outputs["y"]).tolist()


@pytest.mark.process
def test_the_flags_of_tensorflow_serving_start_what_they_start_there(tf1_base, serve, tmp_path):
    batching = tmp_path / "batching.conf"
    batching.write_text("max_batch_size { value: 128 } batch_timeout_micros { value: 0 }")
    monitoring = tmp_path / "monitoring.conf"
    monitoring.write_text("prometheus_config { enable: true, path: '/monitoring/prometheus/metrics' }")
    port, rest_port, path = free_port(), free_port(), tmp_path / "server.sock"
    process = serve(
        f"--port={port}",
        f"--rest_api_port={rest_port}",
        "--rest_api_timeout_in_ms=5000",
        f"--grpc_socket_path={path}",
        "--model_name=default",
        f"--model_base_path={tf1_base}",
        f"--monitoring_config_file={monitoring}",
        "--enable_batching",
        f"--batching_parameters_file={batching}",
        "--grpc_channel_arguments=grpc.max_connection_age_ms=2000,grpc.lb_policy_name=grpclb",
        "--enable_model_warmup=false",
        "--flush_filesystem_caches=true",
    )
    wait_for(f"localhost:{port}")
    assert predicted(f"localhost:{port}") == predicted(f"unix:{path}") == [[3.0]]
    with urllib.request.urlopen(f"http://localhost:{rest_port}/v1/models/default", timeout=20) as response:
        assert json.load(response)["model_version_status"][0]["state"] == "AVAILABLE"
    with urllib.request.urlopen(
        f"http://localhost:{rest_port}/monitoring/prometheus/metrics", timeout=20
    ) as response:
        assert b"# TYPE :tensorflow:serving:request_count counter" in response.read()
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert f"Serving 'default' at 127.0.0.1:{port} (gRPC)" in output
    assert "--host=0.0.0.0 opens it to all, as TensorFlow Serving is" in " ".join(output.split())
    assert "query default 'some text' --target" in output
    assert "--flush_filesystem_caches has no effect here: " in errors


@pytest.mark.process
def test_what_is_proposed_to_ask_is_of_the_newest_versions_kind(serve, tmp_path):
    for version, features in ((1, 1), (2, 3)):
        path = save(HalfPlusTwo(), tmp_path, version)
        (path / "assets.extra").mkdir()
        inputs = {"values": {"dtype": "float32", "shape": [None, None, features]}}
        card = {"format": 1, "signatures": {"serving_default": {"inputs": inputs}}}
        (path / "assets.extra" / "model_card.json").write_text(json.dumps(card))
    port = free_port()
    process = serve(f"--port={port}", f"--model_base_path={tmp_path}")
    wait_for(f"localhost:{port}")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert "query default '[[0.5, 0.5, 0.5], [1.5, 1.5, 1.5]]' --target" in output


@pytest.mark.process
def test_a_file_of_models_is_served_and_logs_may_be_json(tf1_base, serve, tmp_path):
    save(HalfPlusTwo(b=10.0), tmp_path / "ten", 5)
    file = tmp_path / "models.conf"
    entries = [
        f"config {{ name: '{name}' base_path: '{path}' model_platform: 'tensorflow' }}"
        for name, path in (("two", tf1_base), ("ten", tmp_path / "ten"))
    ]
    file.write_text(f"model_config_list {{ {' '.join(entries)} }}")
    port = free_port()
    process = serve(f"--port={port}", f"--model_config_file={file}", "--structured_logs")
    wait_for(f"localhost:{port}", "ten")
    assert predicted(f"localhost:{port}", "two") == [[3.0]]
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert re.search(r"Serving 'two' at 127\.0\.0\.1:\d+ \(gRPC\), versions: 123\.", output)
    logged = [json.loads(line) for line in errors.splitlines()]
    messages = [record["message"] for record in logged]
    assert "version 5 of model ten is available" in messages
    assert {record["level"] for record in logged} <= {"INFO", "WARNING"}


@pytest.mark.process
def test_a_file_of_models_that_does_not_parse_ends_as_tensorflow_serving_does(serve, tmp_path):
    file = tmp_path / "models.conf"
    file.write_text("model_config_list: { config: { name: 'a' base: 'b' } }")
    output, errors = serve(f"--model_config_file={file}").communicate(timeout=120)
    assert output == f"Failed to start server. Error: INVALID_ARGUMENT: Invalid protobuf file: '{file}'\n"
    last = errors.splitlines()[-1]
    assert f"Invalid protobuf file: '{file}'" in last
    assert "Error parsing text-format tensorflow.serving.ModelServerConfig: 1:42: " in last


@pytest.mark.process
def test_a_model_that_does_not_load_ends_the_command_with_255(serve, tmp_path):
    (save(HalfPlusTwo(), tmp_path, 1) / "saved_model.pb").write_bytes(b"\xff" * 100)
    process = serve("--port=0", f"--model_base_path={tmp_path}")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 255
    assert errors.splitlines()[-1].startswith(
        "Failed to start server. Error: FAILED_PRECONDITION: nothing to serve: model 'default': version 1 "
        f"in {tmp_path} does not load: "
    )
    assert "Traceback" not in errors


@pytest.mark.process
def test_a_folder_without_versions_is_waited_for_and_ctrl_c_ends_the_wait(serve, tmp_path, tf1_base):
    port = free_port()
    process = serve(f"--port={port}", f"--model_base_path={tmp_path}", "--file_system_poll_wait_seconds=0.05")
    line = process.stderr.readline()
    assert f"nothing to serve yet: model 'default': {tmp_path} has no version" in line
    shutil.copytree(tf1_base / "123", tmp_path / "tmp")
    (tmp_path / "tmp").rename(tmp_path / "7")
    wait_for(f"localhost:{port}")
    assert predicted(f"localhost:{port}") == [[3.0]]
    empty = tmp_path / "empty"
    empty.mkdir()
    waiting = serve("--port=0", f"--model_base_path={empty}")
    assert "has no version" in waiting.stderr.readline()
    waiting.send_signal(signal.SIGINT)
    assert "stopping before anything is served" in waiting.communicate(timeout=60)[1]
    assert waiting.returncode == 0


def invoke(*flags):
    return CliRunner().invoke(main, ["serve", *flags])


def test_an_unknown_flag_is_an_error_that_names_the_nearest():
    done = invoke("--model_nme=x")
    assert done.exit_code == 2
    assert "No such option '--model_nme'" in done.output.replace("option: ", "option '").replace("=x", "'")
    assert "--model_name" in done.output


def test_flags_of_one_word_take_a_value_after_an_equals_sign():
    for flags in (("--prefer_tflite_model=maybe",), ("--port=many",)):
        done = invoke(*flags)
        assert done.exit_code == 2
        assert "Invalid value" in done.output


def test_the_version_takes_two_lines():
    done = invoke("--version")
    assert done.exit_code == 0
    assert re.fullmatch(r"keras-selfattn ModelServer: \S+\nTensorFlow Library: 2\.\S+\n", done.output)


def test_the_help_has_every_flag_in_its_group():
    from keras_selfattn.cli.serve import WITHOUT_EFFECT
    from keras_selfattn.serving.server.config import SETTINGS

    done = invoke("--help")
    for name in (*SETTINGS, *WITHOUT_EFFECT):
        assert re.search(rf"^  --{name}\b", done.output, re.MULTILINE)
    for group in {about.group for about in SETTINGS.values()} | {"Accepted, without effect here"}:
        assert f"\n{group}:\n" in done.output


def test_settings_that_contradict_each_other_are_refused():
    done = subprocess.run([*COMMAND, "--port=0"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "model_base_path must be the folder that holds the model's versions" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the full disk is Linux's")
def test_output_that_a_full_disk_refuses_is_given_up(monkeypatch):
    from keras_selfattn.cli.serve import _give_up_unwritten

    with Path("/dev/full").open("w") as full:
        full.write("x")
        monkeypatch.setattr("sys.stdout", full)
        _give_up_unwritten()
        full.flush()


@pytest.mark.process
def test_tokens_are_told_of_where_one_begins(tf1_base, serve, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("secret")
    process = serve(
        "--model_name=default",
        f"--model_base_path={tf1_base}",
        *("--port=0", "--host=0.0.0.0", f"--auth_token_file={tokens}"),
    )
    told = ""
    while "query" not in told and (line := process.stdout.readline()):
        told += line
    assert "Tokens can be read on the way: encrypt them" in told
    assert "--header 'authorization: Bearer TOKEN'" in told
    assert "secret" not in told
