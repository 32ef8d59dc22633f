"""Warmup requests of a version: which are run, how often, counted, and what is wrong with a file."""

import logging
from contextlib import closing
from pathlib import Path

import grpc
import numpy as np
import pytest
import serving_models as models
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from keras_selfattn.serving import errors
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.api.warmup import Warmup
from keras_selfattn.serving.server.models.loader import Loader
from keras_selfattn.serving.server.models.saved_model_servable import SavedModelServable
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
