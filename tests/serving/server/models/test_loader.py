"""Loading and unloading of a version: tags, sessions, warmup, memory."""

import gc
import logging
import os
import sys
import threading
from contextlib import closing
from pathlib import Path

import grpc
import numpy as np
import pytest
import serving_models as models
import tensorflow as tf
from serving_models import HalfPlusTwo, save
from tensorflow_serving.apis import prediction_log_pb2

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.api.warmup import Warmup
from keras_selfattn.serving.server.models.loader import Loader
from keras_selfattn.serving.server.models.saved_model_servable import SavedModelServable, session_config
from keras_selfattn.serving.server.runtime.metrics import Metrics

CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"


@pytest.fixture
def tf1_base(tmp_path):
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # TensorFlow 1's functions are all deprecated
    models.save_tf1(tmp_path, 1)
    return tmp_path


def load_and_warm_up(path, metrics=None, **settings):
    config = ServerConfig("m", "m", **settings)
    loader = Loader(config, Warmup(config, metrics or Metrics()))
    with closing(loader.load("m", 1, path)) as servable:
        loader.warm_up(servable, path)


def write_warmup(version, *logs):
    folder = version / "assets.extra"
    folder.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(folder / "tf_serving_warmup_requests")) as writer:
        for log in logs:
            writer.write(log.SerializeToString())


def warmup_requests():
    """One of each kind, for the model of `save_tf1`."""
    predict, classify, regress, infer = (prediction_log_pb2.PredictionLog() for _ in range(4))
    request = predict.predict_log.request
    request.model_spec.name = "default"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32([[2]])))
    for request, signature in (
        (classify.classify_log.request, "classify_x_to_y"),
        (regress.regress_log.request, "regress_x_to_y"),
    ):
        request.model_spec.name = "default"
        request.model_spec.signature_name = signature
        example = request.input.example_list.examples.add()
        example.features.feature["x"].float_list.value.append(2.0)
    request = infer.multi_inference_log.request
    request.input.CopyFrom(classify.classify_log.request.input)
    for signature, method in (("classify_x_to_y", CLASSIFY), ("regress_x_to_y", REGRESS)):
        task = request.tasks.add(method_name=method)
        task.model_spec.name = "default"
        task.model_spec.signature_name = signature
    return predict, classify, regress, infer


@pytest.fixture
def runs(monkeypatch):
    """Record the fetches of servables, from now on."""
    fetched = []
    run = SavedModelServable.run

    def noted(self, feeds, fetches, timeout):
        fetched.append(list(fetches))
        return run(self, feeds, fetches, timeout)

    monkeypatch.setattr(SavedModelServable, "run", noted)
    return fetched


def test_warmup_requests_of_all_kinds_run_before_the_version_answers(tf1_base, runs):
    write_warmup(tf1_base / "1", *warmup_requests())
    with Server(ServerConfig("default", tf1_base, port=0)):
        assert runs == [["y:0"]] * 4


def test_warmup_requests_run_as_often_as_asked_or_not_at_all(tf1_base, runs):
    write_warmup(tf1_base / "1", *warmup_requests())
    for settings in ({"num_request_iterations_for_warmup": 3}, {"enable_model_warmup": False}):
        load_and_warm_up(tf1_base / "1", **settings)
        assert len(runs) == 12


def test_a_warmup_request_that_fails_keeps_the_version_from_serving(tf1_base):
    bad = prediction_log_pb2.PredictionLog()
    bad.predict_log.request.model_spec.name = "default"
    write_warmup(tf1_base / "1", bad)
    with pytest.raises(errors.ServerStartError, match="input size does not match signature"):
        Server(ServerConfig("default", tf1_base, port=0)).start()


def test_a_warmup_of_another_kind_or_of_too_many_requests_is_refused(tf1_base):
    session_run = prediction_log_pb2.PredictionLog()
    session_run.session_run_log.SetInParent()
    write_warmup(tf1_base / "1", session_run)
    with pytest.raises(errors.UnimplementedError, match="Unsupported log_type for warmup: session_run_log"):
        load_and_warm_up(tf1_base / "1")
    write_warmup(tf1_base / "1", *[warmup_requests()[0]] * 1001)
    with pytest.raises(errors.InvalidArgumentError, match=r"exceeds the maximum \(1000\)"):
        load_and_warm_up(tf1_base / "1")


def test_the_time_of_a_warmup_is_counted_by_folder_and_by_how_it_ended(tf1_base):
    metrics = Metrics()
    latency = ':tensorflow:serving:model_warmup_latency{}{{model_path="{}",status="{}"{}}} {}'
    load_and_warm_up(tf1_base / "1", metrics)
    assert "model_path" not in metrics.text()  # nothing to run
    write_warmup(tf1_base / "1", *warmup_requests())
    load_and_warm_up(tf1_base / "1", metrics)
    session_run = prediction_log_pb2.PredictionLog()
    session_run.session_run_log.SetInParent()
    write_warmup(tf1_base / "1", session_run)
    with pytest.raises(errors.UnimplementedError):
        load_and_warm_up(tf1_base / "1", metrics)
    lines = metrics.text().splitlines()
    for status in ("OK", "UNIMPLEMENTED"):
        assert latency.format("_count", tf1_base / "1", status, "", 1) in lines
        assert latency.format("_bucket", tf1_base / "1", status, ',le="+Inf"', 1) in lines
        assert latency.format("_bucket", tf1_base / "1", status, ',le="10"', 0) in lines


def test_only_the_last_warmups_are_remembered():
    metrics = Metrics()
    for version in range(300):
        metrics.warmed_up(Path(f"/m/{version}"), grpc.StatusCode.OK, 1.0)
    text = metrics.text()
    assert text.count("model_warmup_latency_count") == 100
    assert "/m/299" in text
    assert "/m/199" not in text


def test_a_broken_file_of_warmup_requests_keeps_the_version_from_serving(tf1_base):
    write_warmup(tf1_base / "1", *warmup_requests())
    file = tf1_base / "1" / "assets.extra" / "tf_serving_warmup_requests"
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(errors.ServerStartError, match="does not load"):
        Server(ServerConfig("default", tf1_base, port=0)).start()


def test_tags_choose_the_graph(tf1_base):
    with pytest.raises(errors.ServerStartError, match="MetaGraphDef associated with tags"):
        Server(ServerConfig("default", tf1_base, port=0, saved_model_tags="serve,gpu")).start()


@pytest.mark.parametrize(
    ("settings", "threads"),
    [
        ({}, (1, 0)),
        ({"tensorflow_intra_op_parallelism": 3, "tensorflow_inter_op_parallelism": 5}, (3, 5)),
        ({"tensorflow_session_parallelism": 7}, (7, 7)),
    ],
)
def test_the_session_gets_the_threads_it_is_told(half_base, settings, threads):
    with closing(
        Loader(ServerConfig("half", half_base, **settings)).load("half", 3, half_base / "3")
    ) as servable:
        config = servable._session._config
    assert (config.intra_op_parallelism_threads, config.inter_op_parallelism_threads) == threads


def test_the_session_gets_what_its_file_says(half_base, tmp_path):
    file = tmp_path / "session.conf"
    file.write_text("allow_soft_placement: true intra_op_parallelism_threads: 2")
    settings = {"tensorflow_session_config_file": file, "per_process_gpu_memory_fraction": 0.25}
    with closing(
        Loader(ServerConfig("half", half_base, **settings)).load("half", 3, half_base / "3")
    ) as servable:
        config = servable._session._config
    assert config.allow_soft_placement
    assert config.intra_op_parallelism_threads == 2
    assert config.gpu_options.per_process_gpu_memory_fraction == 0.25
    file.write_text("nothing: 1")
    with pytest.raises(errors.InvalidArgumentError, match="Invalid protobuf file"):
        Loader(ServerConfig("half", half_base, tensorflow_session_config_file=file))


@pytest.mark.parametrize(
    ("text", "passes", "without_tfg"),
    [
        ("", "ONE", True),
        ("graph_options { rewrite_options { constant_folding: OFF } }", "ONE", True),
        ("graph_options { rewrite_options { meta_optimizer_iterations: TWO } }", "TWO", False),
    ],
)
def test_graphs_are_prepared_in_one_pass_unless_the_file_decides(tmp_path, text, passes, without_tfg):
    file = tmp_path / "session.conf"
    file.write_text(text)
    found = session_config(ServerConfig("m", tmp_path, tensorflow_session_config_file=file))
    rewriting = found.graph_options.rewrite_options
    assert rewriting.NumIterationsType.Name(rewriting.meta_optimizer_iterations) == passes
    assert rewriting.disable_tfg_optimizer == without_tfg


def test_a_version_that_fails_is_tried_again_a_few_times(tmp_path, until, monkeypatch):
    save(HalfPlusTwo(), tmp_path, 1)
    away = save(HalfPlusTwo(), tmp_path / "away", 2)
    settings = {"file_system_poll_wait_seconds": 0.02, "load_retry_interval_micros": 1000}
    config = ServerConfig("m", tmp_path, port=0, **settings)
    load, tries = Loader.load, []

    def fails_three_times(self, model, version, path):
        tries.append(version)
        if len(tries) < 4:
            raise errors.UnavailableError("the file system is away")
        return load(self, model, version, path)

    with Server(config) as server, Client(server.target, "m") as client:
        monkeypatch.setattr(Loader, "load", fails_three_times)
        away.rename(tmp_path / "2")
        until(lambda: server.models.available() == {"m": [2]})
        assert tries == [2, 2, 2, 2]
        assert client.status()[0].available


def test_a_version_that_goes_on_failing_is_left_alone_until_it_changes(tmp_path, until, monkeypatch):
    save(HalfPlusTwo(), tmp_path, 1)
    away = save(HalfPlusTwo(), tmp_path / "away", 2)
    settings = {"file_system_poll_wait_seconds": 0.02, "load_retry_interval_micros": 1000}
    config = ServerConfig("m", tmp_path, port=0, max_num_load_retries=2, **settings)
    load, tries = Loader.load, []

    def fails(self, model, version, path):
        tries.append(version)
        raise errors.UnavailableError("the file system is away")

    with Server(config) as server:
        monkeypatch.setattr(Loader, "load", fails)
        away.rename(tmp_path / "2")
        until(lambda: len(tries) == 3)
        threading.Event().wait(0.3)
        assert tries == [2, 2, 2]
        monkeypatch.setattr(Loader, "load", load)
        (tmp_path / "2" / "changed").write_text("")
        until(lambda: server.models.available() == {"m": [2]})


@pytest.mark.parametrize(("threads", "at_once"), [(0, 1), (3, 3)])
def test_as_many_versions_are_freed_at_the_same_time_as_there_are_threads(
    tmp_path, until, monkeypatch, threads, at_once
):
    for version in (1, 2, 3, 4):
        save(HalfPlusTwo(), tmp_path, version)
    models = tmp_path / "models.conf"
    listed = "model_version_policy { all {} }"
    models.write_text(
        f'model_config_list {{ config {{ name: "m" base_path: "{tmp_path}" model_platform: "tensorflow" '
        f"{listed} }} }}"
    )
    settings = {"file_system_poll_wait_seconds": 0.02, "num_unload_threads": threads}
    closing_now, may_close = [], threading.Event()
    close = SavedModelServable.close

    def held(self):
        closing_now.append(self.version)
        assert may_close.wait(30)
        close(self)

    with Server(ServerConfig("m", port=0, model_config_file=models, **settings)) as server:
        assert sorted(server.models.available()["m"]) == [1, 2, 3, 4]
        monkeypatch.setattr(SavedModelServable, "close", held)
        for version in (1, 2, 3):
            (tmp_path / str(version)).rename(tmp_path / f"away-{version}")
        until(lambda: len(closing_now) == at_once)
        until(lambda: server.models.available() == {"m": [4]})
        assert len(closing_now) == at_once
        may_close.set()
        until(lambda: len(closing_now) == 3)


class Large(tf.Module):
    """A model of 16 MB."""

    def __init__(self):
        super().__init__()
        self.weights = tf.Variable(tf.random.uniform([4_000_000]))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def serve(self, x):
        return {"y": x + self.weights[0]}


def anonymous_megabytes():
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_versions_that_come_and_go_leave_memory_threads_and_descriptors_as_they_were(tmp_path, until):
    folder = tmp_path / "model"
    path = save(Large(), folder, 1)
    config = ServerConfig("m", folder, port=0, file_system_poll_wait_seconds=0.02)

    def used():
        gc.collect()
        return anonymous_megabytes(), len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    with Server(config) as server, Client(server.target, "m") as client:
        for version in range(2, 32):
            path = path.rename(folder / str(version))
            until(lambda version=version: server.models.available() == {"m": [version]})
            client.predict({"x": np.float32([1])})
            if version == 11:
                before = used()
        after = used()
    # Of 20 versions of 16 MB each; a file or two more or less are the polls, of folders, at work.
    assert (np.subtract(after, before) < (16, 5, 5)).all(), (before, after)
