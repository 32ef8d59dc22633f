"""Logs of requests: TensorFlow Serving's PredictionLog records, in files that appear whole."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from serving_models import Sentiment, save
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    predict_pb2,
    prediction_log_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)
from tensorflow_serving.config import model_server_config_pb2
from test_supervisor import Served

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.models.model_config import listed_models, read_model_config
from keras_selfattn.serving.server.runtime import log_writer, record_files
from keras_selfattn.serving.server.runtime.log_writer import Entry, LogWriter
from keras_selfattn.serving.server.runtime.metrics import Metrics
from keras_selfattn.serving.wire import messages_pb2 as pb
from keras_selfattn.serving.wire import open_inference_pb2 as oip

PAGE = Path(__file__).parents[4] / "docs" / "server.md"
NAME = re.compile(r"\w+-\d{8}T\d{6}\.\d{6}Z-\d+-\d+\.tfrecord")


def models_text(base, prefix=None, rate=1.0, name="half", kind="file"):
    log = (
        f"logging_config {{ log_collector_config {{ type: '{kind}' filename_prefix: '{prefix}' }} "
        f"sampling_config {{ sampling_rate: {rate} }} }}"
    )
    more = log if prefix else ""
    return f"config {{ name: '{name}' base_path: '{base}' model_platform: 'tensorflow' {more} }}"


def listed(*entries):
    return f"model_config_list {{ {' '.join(entries)} }}"


@pytest.fixture
def start(tmp_path):
    """Serves the models of a text; gives the server."""
    servers = []

    def serve(text, **settings):
        file = tmp_path / "models.conf"
        file.write_text(text)
        settings = {"port": 0, "rest_api_port": -1, **settings}
        servers.append(Server(ServerConfig(model_config_file=file, **settings)).start())
        return servers[-1]

    yield serve
    for server in servers:
        server.stop()


@pytest.fixture
def logs(tmp_path):
    return tmp_path / "logs"


def published(folder):
    return (
        sorted(path for path in folder.iterdir() if not path.name.startswith(".")) if folder.exists() else []
    )


def records(folder):
    """All records of a folder's files, by the stock reader and the stock message."""
    data = tf.data.TFRecordDataset([str(path) for path in published(folder)])
    return [prediction_log_pb2.PredictionLog.FromString(record.numpy()) for record in data]


def predict_request(*values, model="half", **spec):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    for name, value in spec.items():
        setattr(request.model_spec, name, value)
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32(values)))
    return request


def example(value):
    return tf.train.Example(
        features=tf.train.Features(
            feature={"x": tf.train.Feature(float_list=tf.train.FloatList(value=[value]))}
        )
    )


def post(url, body):
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=20) as answer:
        return json.loads(answer.read())


def log_counts(server):
    with urllib.request.urlopen(f"{server.rest_url}/monitoring/prometheus/metrics", timeout=20) as answer:
        text = answer.read().decode()
    found = re.findall(r'request_log_count\{model_name="(\w+)",status_code="(\w+)"\} (\d+)', text)
    return {(model, status): int(count) for model, status, count in found}


def predict(server, *values):
    with Client(server.target, "half") as client:
        return client.predict({"x": np.float32(values)})["y"].tolist()


def test_a_predict_over_grpc_is_logged_with_its_answer_and_the_version_that_answered(
    half_base, start, logs, until
):
    server = start(listed(models_text(half_base, logs / "half")))
    request = predict_request(2.0, 4.0, signature_name="serving_default")
    with grpc.insecure_channel(server.target) as channel:
        response = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request, timeout=20)
    until(lambda: log_counts(server) == {("half", "OK"): 1})
    server.stop()
    (log,) = records(logs)
    assert log.predict_log.request == request
    assert log.predict_log.response == response
    assert response.model_spec.version.value == 3
    assert log.log_metadata.model_spec == response.model_spec
    assert log.log_metadata.sampling_config.sampling_rate == 1.0
    assert list(log.log_metadata.saved_model_tags) == ["serve"]
    assert abs(log.log_metadata.timestamp_secs - time.time()) < 60
    (path,) = logs.iterdir()
    assert NAME.fullmatch(path.name)


def test_calls_on_examples_over_grpc_are_logged_as_their_own_messages(tf1_base, start, logs):
    server = start(listed(models_text(tf1_base, logs / "tf1", name="tf1")))
    classify, regress = classification_pb2.ClassificationRequest(), regression_pb2.RegressionRequest()
    multi = inference_pb2.MultiInferenceRequest()
    for request, signature in ((classify, "classify_x_to_y"), (regress, "regress_x_to_y")):
        request.model_spec.name, request.model_spec.signature_name = "tf1", signature
        request.input.example_list.examples.append(example(2.0))
        task = multi.tasks.add(model_spec=request.model_spec)
        task.method_name = f"tensorflow/serving/{signature.partition('_')[0]}"
    multi.input.CopyFrom(classify.input)
    with grpc.insecure_channel(server.target) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        answers = [
            stub.Classify(classify, timeout=20),
            stub.Regress(regress, timeout=20),
            stub.MultiInference(multi, timeout=20),
        ]
    server.stop()
    found = [(log.WhichOneof("log_type"), getattr(log, log.WhichOneof("log_type"))) for log in records(logs)]
    assert [kind for kind, _ in found] == ["classify_log", "regress_log", "multi_inference_log"]
    assert [log.request for _, log in found] == [classify, regress, multi]
    assert [log.response for _, log in found] == answers


def test_rest_is_logged_as_the_messages_of_the_same_calls(tf1_base, half_base, start, logs):
    server = start(
        listed(
            models_text(half_base, logs / "half"),
            models_text(tf1_base, logs / "half", name="tf1"),
        )
    )
    url = f"{server.rest_url}/v1/models"
    assert post(f"{url}/half/versions/3:predict", {"instances": [2.0, 4.0]}) == {"predictions": [3.0, 4.0]}
    body = {"signature_name": "classify_x_to_y", "examples": [{"x": 2.0}]}
    post(f"{url}/tf1:classify", body)
    post(f"{url}/tf1:regress", {**body, "signature_name": "regress_x_to_y"})
    server.stop()
    predicted, classified, regressed = records(logs)
    asked, answered = predicted.predict_log.request, predicted.predict_log.response
    assert (asked.model_spec.version.value, asked.model_spec.signature_name) == (3, "serving_default")
    assert tf.make_ndarray(asked.inputs["x"]).tolist() == [2.0, 4.0]
    assert tf.make_ndarray(answered.outputs["y"]).tolist() == [3.0, 4.0]
    assert answered.model_spec == predicted.log_metadata.model_spec
    assert classified.classify_log.request.input.example_list.examples == [example(2.0)]
    assert classified.classify_log.response.result.classifications[0].classes[0].score == 3.0
    assert regressed.regress_log.request.model_spec.signature_name == "regress_x_to_y"
    assert regressed.regress_log.response.result.regressions[0].value == 3.0


def test_the_open_inference_protocol_is_logged_as_predict(half_base, start, logs):
    server = start(listed(models_text(half_base, logs / "half")))
    request = oip.ModelInferRequest(
        model_name="half", parameters={"signature_name": {"string_param": "matmul"}}
    )
    for name, shape in (("left", [1, 3]), ("right", [3, 1])):
        each = request.inputs.add(name=name, datatype="FP32", shape=shape)
        each.contents.fp32_contents = np.float32([1, 2, 3]).tobytes()
    request.outputs.add(name="product")
    with grpc.insecure_channel(server.target) as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        infer(request.SerializeToString(), timeout=20)
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [2]}]}
    post(f"{server.rest_url}/v2/models/half/infer", body)
    server.stop()
    over_grpc, over_rest = (log.predict_log for log in records(logs))
    assert over_grpc.request.model_spec.signature_name == "matmul"
    assert tf.make_ndarray(over_grpc.request.inputs["right"]).tolist() == [[1.0], [2.0], [3.0]]
    assert list(over_grpc.request.output_filter) == list(over_grpc.response.outputs) == ["product"]
    assert tf.make_ndarray(over_grpc.response.outputs["product"]).tolist() == [[14.0]]
    assert tf.make_ndarray(over_rest.request.inputs["x"]).tolist() == [2.0]
    assert list(over_rest.request.output_filter) == []
    assert tf.make_ndarray(over_rest.response.outputs["y"]).tolist() == [3.0]


def test_the_sampling_rate_is_the_share_that_is_logged_and_failures_are_not(half_base, start, logs):
    texts = [
        models_text(half_base, logs / "none", rate=0.0, name="none"),
        models_text(half_base, logs / "some", rate=0.3, name="some"),
        models_text(half_base, name="off"),
        models_text(half_base, logs / "all", name="all", kind=""),
    ]
    server = start(listed(*texts))
    with grpc.insecure_channel(server.target) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        for _ in range(200):
            stub.Predict(predict_request(2.0, model="some"), timeout=20)
        for name in ("none", "all", "off"):
            stub.Predict(predict_request(2.0, model=name), timeout=20)
        for wrong in (
            predict_request(2.0, model="all", signature_name="no"),
            predict_request(2.0, model="x"),
        ):
            with pytest.raises(grpc.RpcError):
                stub.Predict(wrong, timeout=20)
    server.stop()
    names = [log.log_metadata.model_spec.name for log in records(logs)]
    assert names.count("all") == 1
    assert 30 <= names.count("some") <= 90
    assert {*names} == {"all", "some"}


def test_requests_of_many_callers_are_each_logged_once(half_base, start, logs, in_background):
    server = start(listed(models_text(half_base, logs / "half")))

    def ask(caller):
        with Client(server.target, "half") as client:
            for number in range(25):
                client.predict({"x": np.float32([caller, number])})

    for asked in [in_background(ask, caller) for caller in range(16)]:
        asked.result(60)
    server.stop()
    rows = [tuple(tf.make_ndarray(log.predict_log.request.inputs["x"]).tolist()) for log in records(logs)]
    assert sorted(rows) == [(caller, number) for caller in range(16) for number in range(25)]
    for log in records(logs):
        asked = tf.make_ndarray(log.predict_log.request.inputs["x"])
        assert tf.make_ndarray(log.predict_log.response.outputs["y"]).tolist() == (asked / 2 + 2).tolist()


def test_a_log_is_the_warmup_of_a_later_version(half_base, tf1_base, start, logs, tmp_path, caplog):
    server = start(listed(models_text(half_base, logs / "half")))
    predict(server, 2.0)
    post(f"{server.rest_url}/v1/models/half:predict", {"instances": [2.0]})
    server.stop()
    base = tmp_path / "later"
    shutil.copytree(half_base / "3", base / "4")
    (base / "4" / "assets.extra").mkdir()
    (path,) = published(logs)
    shutil.copy(path, base / "4" / "assets.extra" / "tf_serving_warmup_requests")
    caplog.set_level("INFO", logger="keras_selfattn.serving")
    server = start(listed(models_text(base)))
    assert predict(server, 2.0) == [3.0]
    assert "version 4 of model half: running 2 warmup requests" in caplog.text


def servable_of(server):
    with server.models.lease(pb.ModelSpec(name="half")) as servable:
        return servable


def test_a_reload_turns_a_log_on_moves_it_and_turns_it_off(half_base, start, logs, until):
    server = start(listed(models_text(half_base)))
    servable = servable_of(server)
    predict(server, 1.0)
    for rows, text in ((2.0, models_text(half_base, logs / "a")), (3.0, models_text(half_base, logs / "b"))):
        with Client(server.target) as client:
            client.reload(listed(text))
        predict(server, rows)
    with Client(server.target) as client:
        client.reload(listed(models_text(half_base)))
    predict(server, 4.0)
    until(lambda: len(published(logs)) == 2)  # both are whole without a stop
    assert servable_of(server) is servable  # no model was loaded again
    assert [path.name[0] for path in published(logs)] == ["a", "b"]
    values = [tf.make_ndarray(log.predict_log.request.inputs["x"]).tolist() for log in records(logs)]
    assert values == [[2.0], [3.0]]


def test_a_changed_file_of_models_turns_a_log_on(half_base, start, logs, tmp_path, until):
    server = start(listed(models_text(half_base)), model_config_file_poll_wait_seconds=0.05)
    (tmp_path / "models.conf").write_text(listed(models_text(half_base, logs / "half")))

    def logged():
        predict(server, 2.0)
        return ("half", "OK") in log_counts(server)

    until(logged)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "bigquery"}, "type in the logging_config of model half must be \"file\".*'bigquery'"),
        ({"rate": 1.5}, "sampling_rate in the logging_config of model half must be.*1.5"),
        ({"rate": -0.1}, "sampling_rate.*-0.1"),
        ({"rate": "nan"}, "sampling_rate.*nan"),
        (
            {"prefix": "logs/half"},
            "filename_prefix in the logging_config of model half.*absolute.*'logs/half'",
        ),
        ({"prefix": "/logs/half/"}, "filename_prefix.*a file's name, such as /logs/half.*'/logs/half/'"),
        ({"prefix": "/logs/."}, "filename_prefix.*a file's name.*'/logs/.'"),
        ({"prefix": "/logs/.."}, "filename_prefix.*a file's name.*'/logs/..'"),
        ({"prefix": "/proc/none/half"}, "filename_prefix.*where this process can write.*'/proc/none/half'"),
        ({"prefix": "/tmp/" + 250 * "x"}, "filename_prefix.*where this process can write.*too long"),
    ],
)
def test_a_log_that_cannot_be_is_an_error_when_the_config_is_read(half_base, tmp_path, settings, words):
    text = listed(models_text(half_base, **{"prefix": tmp_path / "half", **settings}))
    (tmp_path / "models.conf").write_text(text)
    with pytest.raises(errors.InvalidArgumentError, match=words):
        listed_models(read_model_config(tmp_path / "models.conf"))


def test_the_folder_of_a_log_must_be_a_folder(half_base, tmp_path, start, logs):
    server = start(listed(models_text(half_base)))
    logs.write_text("a file")
    with Client(server.target) as client, pytest.raises(errors.InvalidArgumentError, match="filename_prefix"):
        client.reload(listed(models_text(half_base, logs / "half")))
    assert predict(server, 2.0) == [3.0]


def test_the_stock_message_of_the_config_is_read(half_base, logs):
    text = listed(models_text(half_base, logs / "half", rate=0.25))
    stock = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    settings = listed_models(pb.ModelServerConfig.FromString(stock.SerializeToString()))["half"].logging
    assert settings is not None
    assert (settings.prefix, settings.sampling_rate) == (str(logs / "half"), 0.25)


def test_a_disk_that_fails_drops_and_counts_while_requests_are_answered(
    half_base, start, logs, monkeypatch, caplog, until
):
    monkeypatch.setattr(log_writer, "_FAILED_SECONDS", 0.0)
    server = start(listed(models_text(half_base, logs / "half")))
    predict(server, 1.0)
    until(lambda: log_counts(server) == {("half", "OK"): 1})
    shutil.rmtree(logs)
    logs.write_text("a file")
    for count in (1, 2):
        assert predict(server, 2.0) == [3.0]
        until(lambda count=count: log_counts(server).get(("half", "UNAVAILABLE")) == count)
    logs.unlink()
    predict(server, 3.0)
    until(lambda: log_counts(server)["half", "OK"] == 2)
    server.stop()
    assert [tf.make_ndarray(log.predict_log.request.inputs["x"]).item() for log in records(logs)] == [3.0]
    assert caplog.text.count("requests are not logged") == 1


def test_an_entry_of_a_batch_holds_its_own_rows_alone(
    half_base, start, logs, tmp_path, monkeypatch, in_background
):
    entries = []
    monkeypatch.setattr(LogWriter, "put", lambda _, entry: entries.append(entry))
    file = tmp_path / "batching"
    file.write_text("max_batch_size { value: 2 } batch_timeout_micros { value: 2000000 }")
    server = start(
        listed(models_text(half_base, logs / "half")), enable_batching=True, batching_parameters_file=file
    )
    url = f"{server.rest_url}/v1/models/half:predict"
    asked = [in_background(post, url, {"instances": [value]}) for value in (2.0, 4.0)]
    assert [each.result(20)["predictions"] for each in asked] == [[3.0], [4.0]]
    for entry in entries:
        _, _, messages = entry.record.args
        (values,) = messages.args[-1].values()
        assert (values.shape, values.base) == ((1,), None)
    assert len(entries) == 2


@pytest.fixture
def writer():
    metrics = Metrics()
    writer = LogWriter(metrics)
    writer.counts = lambda: {
        status: int(count)
        for status, count in re.findall(r'request_log_count.*status_code="(\w+)"} (\d+)', metrics.text())
    }
    yield writer
    writer.close()


def read(path):
    return [record.numpy() for record in tf.data.TFRecordDataset(str(path))]


def entry(prefix, record, size=None):
    return Entry(str(prefix), "half", len(record) if size is None else size, lambda: record)


def test_files_are_whole_at_all_times_and_end_at_their_size(writer, logs, monkeypatch, until):
    monkeypatch.setattr(log_writer, "_FILE_BYTES", 10_000)
    monkeypatch.setattr(log_writer, "_PAUSE_SECONDS", 0.001)
    writer.keep({str(logs / "half")})
    written = [os.urandom(1000) for _ in range(95)]
    for number, record in enumerate(written):
        writer.put(entry(logs / "half", record))
        if number % 5 == 0:
            for path in published(logs):
                assert len(read(path)) == 10
    until(lambda: len(published(logs)) == 9)
    assert len([path for path in logs.iterdir() if path.name.startswith(".")]) == 1
    writer.close()
    paths = sorted(logs.iterdir(), key=lambda path: int(path.stem.rpartition("-")[2]))
    assert [record for path in paths for record in read(path)] == written


def test_a_file_appears_at_its_age(writer, logs, monkeypatch, until):
    monkeypatch.setattr(log_writer, "_FILE_SECONDS", 0.2)
    writer.keep({str(logs / "half")})
    for count in (1, 2):
        writer.put(entry(logs / "half", b"a record"))
        until(lambda count=count: len(published(logs)) == count)
    assert [read(path) for path in published(logs)] == [[b"a record"]] * 2


def test_entries_that_find_too_many_waiting_are_dropped_and_counted(writer, logs, monkeypatch, until):
    monkeypatch.setattr(log_writer, "_WAITING_BYTES", 1000)
    monkeypatch.setattr(log_writer, "_ENTRY_BYTES", 0)
    writer.keep({str(logs / "half")})
    writer.put(entry(logs / "half", b"written", 900))
    until(lambda: writer.counts() == {"OK": 1})
    with writer._changed:  # the thread waits meanwhile
        for size in (600, 300, 200, 100):
            writer.put(entry(logs / "half", b"%d" % size, size))
    writer.close()
    (path,) = logs.iterdir()
    assert read(path) == [b"written", b"600", b"300", b"100"]
    assert writer.counts() == {"OK": 4, "RESOURCE_EXHAUSTED": 1}


def test_small_entries_count_with_what_they_take_in_memory(writer, logs):
    with writer._changed:
        for _ in range(20_000):
            writer.put(entry(logs / "half", b"tiny"))
    writer.close()
    assert writer.counts() == {
        "OK": 2**26 // (2**12 + 4),
        "RESOURCE_EXHAUSTED": 20_000 - 2**26 // (2**12 + 4),
    }


def test_one_entry_may_be_larger_than_all_that_may_wait(writer, logs):
    writer.put(entry(logs / "half", b"large", 2**40))
    writer.close()
    assert writer.counts() == {"OK": 1}


def test_a_record_that_cannot_be_made_is_counted_and_the_next_is_written(writer, logs, caplog):
    writer.put(Entry(str(logs / "half"), "half", 1, lambda: 1 / 0))
    writer.put(entry(logs / "half", b"a record"))
    writer.close()
    assert writer.counts() == {"INTERNAL": 1, "OK": 1}
    assert "a request to model half cannot be logged" in caplog.text


def test_a_prefix_that_fails_stops_no_other(writer, logs, tmp_path, caplog):
    (tmp_path / "bad").write_text("a file")
    with writer._changed:  # all are written together
        for _ in range(3):
            writer.put(entry(tmp_path / "bad" / "half", b"lost"))
            writer.put(entry(logs / "half", b"a record"))
    writer.close()
    assert writer.counts() == {"OK": 3, "UNAVAILABLE": 3}
    assert caplog.text.count("requests are not logged") == 1


def test_a_hung_disk_holds_up_the_end_once(writer, logs, monkeypatch):
    monkeypatch.setattr(log_writer, "_CLOSING_SECONDS", 1.0)
    released = threading.Event()
    writer.put(Entry(str(logs / "half"), "half", 1, lambda: released.wait(20) and b"a record"))
    began = time.monotonic()
    for _ in range(3):
        writer.close()
    assert 1.0 <= time.monotonic() - began < 2.9  # three waits would take three
    released.set()
    writer._thread.join(20)
    assert writer.counts() == {"OK": 1}


class FullDisk:
    """A writer of records with room for two of them."""

    def __init__(self, writer):
        self._writer = writer
        self._room = 2

    def write(self, record):
        self._room -= 1
        if self._room < 0:
            self._writer.write(record[:3])
            raise OSError("No space left on device")
        self._writer.write(record)

    def __getattr__(self, name):
        return getattr(self._writer, name)


def test_a_full_disk_costs_the_records_that_do_not_fit(writer, logs, monkeypatch, until):
    make = record_files._record_writer
    monkeypatch.setattr(record_files, "_record_writer", lambda path: FullDisk(make(path)))
    writer.keep({str(logs / "half")})
    writer.put(entry(logs / "half", b"one"))
    until(lambda: writer.counts() == {"OK": 1})
    with writer._changed:  # both are written together
        for record in (b"two", b"three"):
            writer.put(entry(logs / "half", record))
    until(lambda: writer.counts() == {"OK": 1, "UNAVAILABLE": 2})
    (path,) = logs.iterdir()
    assert read(path) == [b"one"]


KILLED = """
import os, signal, sys
from keras_selfattn.serving.server.runtime.record_files import RecordFile
file = RecordFile(sys.argv[1])
for number in range(3):
    file.write(b"record %d" % number)
    file.flush()
with open(file._draft, "ab") as draft:
    draft.write((100).to_bytes(8, "little") + b"half of the next")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.process
def test_the_next_start_publishes_the_whole_records_of_a_killed_process(writer, logs, until):
    subprocess.run([sys.executable, "-c", KILLED, str(logs / "half")], check=False, timeout=120)
    assert published(logs) == []
    (draft,) = logs.iterdir()
    assert draft.name.startswith(".half-")
    live = record_files.RecordFile(str(logs / "half"))  # of a process that lives
    live.write(b"live")
    live.flush()
    writer.keep({str(logs / "half")})
    until(lambda: len(published(logs)) == 1)
    assert read(published(logs)[0]) == [b"record 0", b"record 1", b"record 2"]
    live.publish()
    assert len(published(logs)) == 2


@pytest.mark.process
def test_each_worker_writes_files_of_its_own(half_base, logs, tmp_path):
    file = tmp_path / "models.conf"
    file.write_text(listed(models_text(half_base, logs / "half")))
    served = Served(f"--model_config_file={file}")
    try:
        with Client(served.target, "half", connections=40) as client:
            for _ in range(40):
                client.predict([2.0])
        assert served.end(signal.SIGTERM) == 0
    finally:
        served.close()
    assert len(records(logs)) == 40
    assert len({path.stem.split("-")[-2] for path in published(logs)}) == 2
    assert len(list(logs.iterdir())) == 2


def page_code():
    section = PAGE.read_text(encoding="utf-8").split("## Request logs")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def test_the_python_of_the_page_makes_a_warmup_file_of_a_log(writer, half_base, tmp_path, logs, monkeypatch):
    for name in [*["reviews", "other"] * 1001, "reviews"]:
        log = prediction_log_pb2.PredictionLog()
        log.log_metadata.model_spec.name = name
        log.predict_log.request.CopyFrom(predict_request(2.0, model=name))
        writer.put(entry(logs / "reviews", log.SerializeToString()))
    writer.close()
    code, _ = page_code()
    version = tmp_path / "base" / "4"
    shutil.copytree(half_base / "3", version)
    (version / "assets.extra").mkdir()
    monkeypatch.chdir(version / "assets.extra")
    exec(compile(code.replace("/logs/", f"{logs}/"), "server.md", "exec"), {})
    records = [
        prediction_log_pb2.PredictionLog.FromString(each) for each in read("tf_serving_warmup_requests")
    ]
    assert [each.log_metadata.model_spec.name for each in records] == ["reviews"] * 1000
    with Server(ServerConfig("reviews", tmp_path / "base", port=0)) as server:
        assert server.available() == {"reviews": [4]}


def test_the_python_of_the_page_makes_rows_of_a_log(tmp_path, start, logs, monkeypatch):
    module = Sentiment()
    save(module, tmp_path / "reviews", serving_default=module.serve)
    server = start(listed(models_text(tmp_path / "reviews", logs / "reviews", name="reviews")))
    with Client(server.target, "reviews") as client:
        client.predict(["good", "bad"])
    server.stop()
    _, code = page_code()
    monkeypatch.chdir(tmp_path)
    exec(compile(code.replace("/logs/", f"{logs}/"), "server.md", "exec"), {})
    assert (tmp_path / "reviews.csv").read_text() == "text,label\ngood,pos\nbad,neg\n"


def test_the_config_of_the_page_is_read(tmp_path):
    section = PAGE.read_text(encoding="utf-8").split("## Request logs")[1]
    text = section.split("```")[1].replace("/logs/", f"{tmp_path}/")
    settings = listed_models(text_format.Parse(text, pb.ModelServerConfig()))["reviews"].logging
    assert settings is not None
    assert settings.sampling_rate == 0.1
