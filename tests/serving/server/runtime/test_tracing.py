"""OpenTelemetry's spans of the server: requests, their waits and runs, and the batches that they ran in."""

import asyncio
import contextvars
import http.client
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry import trace
from opentelemetry.instrumentation.grpc import GrpcAioInstrumentorServer, GrpcInstrumentorClient
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, SamplingResult
from opentelemetry.trace import SpanKind, StatusCode
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)
from test_bearer_tokens import bears

from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.rest.rest_server import TracedApp
from keras_selfattn.serving.server.runtime import tracing
from keras_selfattn.serving.server.runtime.tracing import Tracing

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
UNSAMPLED = f"00-{TRACE}-{PARENT}-00"
PREDICT = "tensorflow.serving.PredictionService/Predict"


@pytest.fixture
def spans(all_spans, until):
    """Waits for spans of a server, and gives them by name; a name may have several."""
    all_spans.clear()

    def ended(count):
        def found():
            return [
                each for each in all_spans.get_finished_spans() if "server" in each.instrumentation_scope.name
            ]

        until(lambda: len(found()) >= count)
        by_name = {}
        for each in found():
            by_name.setdefault(each.name, []).append(each)
        assert sum(map(len, by_name.values())) == count, list(by_name)
        return by_name

    ended.all = all_spans.get_finished_spans
    return ended


@pytest.fixture(scope="module")
def server(half_base, all_spans):
    config = ServerConfig("half", half_base, port=0, rest_api_port=-1, enable_tracing=True)
    with Server(config) as server:
        yield server


@pytest.fixture
def stub(server):
    with grpc.insecure_channel(server.target) as channel:
        yield prediction_service_pb2_grpc.PredictionServiceStub(channel)


def predict_request(*values, model="half", signature=""):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model, signature
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32(values)))
    return request


def post(url, body, headers=None):
    request = urllib.request.Request(url, json.dumps(body).encode(), headers or {})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_request_of_our_client_has_the_clients_span_as_parent(server, spans):
    instrumentor = GrpcInstrumentorClient()
    instrumentor.instrument()
    try:
        with Client(server.target, "half") as client:
            client.predict([2.0, 4.0])
    finally:
        instrumentor.uninstrument()
    found = spans(4)  # metadata, and Predict with its wait and its run
    (request,), (wait,), (run,) = found[PREDICT], found["wait"], found["run"]
    (asked,) = [each for each in spans.all() if each.kind == SpanKind.CLIENT and "Predict" in each.name[-8:]]
    assert request.parent.span_id == asked.context.span_id
    assert request.parent.is_remote
    assert request.kind == SpanKind.SERVER
    assert dict(request.attributes) == {
        "rpc.system": "grpc",
        "rpc.service": "tensorflow.serving.PredictionService",
        "rpc.method": "Predict",
        "rpc.grpc.status_code": 0,
        "serving.model.name": "half",
        "serving.model.version": 3,
        "serving.signature": "serving_default",
        "serving.rows": 2,
    }
    assert request.status.status_code == StatusCode.UNSET
    for child in (wait, run):
        assert child.parent.span_id == request.context.span_id
        assert child.context.trace_id == asked.context.trace_id
    assert request.start_time <= wait.start_time <= wait.end_time == run.start_time
    assert run.start_time < run.end_time <= request.end_time


def test_a_stock_stub_names_its_span_in_the_metadata(stub, spans):
    stub.Predict(
        predict_request(2.0), metadata=[("traceparent", TRACEPARENT), ("tracestate", "a=b")], timeout=20
    )
    (request,) = spans(3)[PREDICT]
    assert (f"{request.context.trace_id:032x}", f"{request.parent.span_id:016x}") == (TRACE, PARENT)
    assert request.context.trace_state.get("a") == "b"


def test_a_request_without_a_trace_begins_one(stub, spans):
    stub.Predict(predict_request(2.0), timeout=20)
    (request,) = spans(3)[PREDICT]
    assert request.parent is None


def test_a_request_whose_caller_does_not_sample_has_no_spans(stub, server, spans):
    """Nor does it add to those of the request before it on the same connection."""
    connection = http.client.HTTPConnection(server.rest_url.removeprefix("http://"), timeout=20)
    for sent in (TRACEPARENT, UNSAMPLED, UNSAMPLED):
        stub.Predict(predict_request(2.0), metadata=[("traceparent", sent)], timeout=20)
        body = json.dumps({"instances": [2.0]})
        connection.request("POST", "/v1/models/half:predict", body, {"traceparent": sent})
        assert connection.getresponse().read() == b'{"predictions":[3.0]}'
    connection.close()
    stub.Predict(predict_request(2.0), timeout=20)
    spans(9)


def test_a_header_of_rest_names_the_callers_span(server, spans):
    url = f"{server.rest_url}/v1/models/half/versions/3:predict"
    assert post(url, {"instances": [2.0, 4.0, 6.0]}, {"traceparent": TRACEPARENT}) == 200
    found = spans(3)
    (request,) = found["POST /v1/models/{model}/versions/{version}:predict"]
    assert (f"{request.context.trace_id:032x}", f"{request.parent.span_id:016x}") == (TRACE, PARENT)
    assert request.kind == SpanKind.SERVER
    assert dict(request.attributes) == {
        "http.request.method": "POST",
        "http.route": "/v1/models/{model}/versions/{version}:predict",
        "url.scheme": "http",
        "url.path": "/v1/models/half/versions/3:predict",
        "http.response.status_code": 200,
        "serving.model.name": "half",
        "serving.model.version": 3,
        "serving.signature": "serving_default",
        "serving.rows": 3,
    }
    assert {found[name][0].parent.span_id for name in ("wait", "run")} == {request.context.span_id}


@pytest.mark.parametrize("path", ["half%3Apredict", "%68alf:predict"])
def test_a_percent_encoded_path_has_the_route_of_its_plain_form(server, spans, path):
    assert post(f"{server.rest_url}/v1/models/{path}", {"instances": [2.0]}) == 200
    assert set(spans(3)) == {"POST /v1/models/{model}:predict", "wait", "run"}


def test_a_name_with_a_slash_is_one_name(server, spans):
    assert post(f"{server.rest_url}/v1/models/a%2Fb:predict", {"instances": [2.0]}) == 404
    assert set(spans(1)) == {"POST /v1/models/{model}:predict"}


def test_the_open_inference_protocol_is_traced_on_both_ports(server, spans):
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [2]}]}
    assert post(f"{server.rest_url}/v2/models/half/infer", body) == 200
    with grpc.insecure_channel(server.target) as channel:
        channel.unary_unary("/inference.GRPCInferenceService/ServerReady")(b"", timeout=20)
    assert set(spans(4)) == {
        *("POST /v2/models/{model}/infer", "wait", "run", "inference.GRPCInferenceService/ServerReady")
    }


def test_a_path_in_a_span_is_bounded(server, spans):
    assert post(f"{server.rest_url}/v1/models/{'x' * 5000}:predict", {}) == 404
    (request,) = spans(1)["POST /v1/models/{model}:predict"]
    assert len(request.attributes["url.path"]) == 1024


def test_a_pipelined_request_that_is_not_sampled_adds_nothing_to_the_one_before(server, spans):
    body = json.dumps({"instances": [2.0]})
    head = f"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    both = "".join(f"{head}traceparent: {sent}\r\n\r\n{body}" for sent in (TRACEPARENT, UNSAMPLED))
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=20) as connection:
        connection.sendall(both.encode())
        answers = b""
        while answers.count(b"predictions") < 2:
            answers += connection.recv(4096)
    spans(3)


# gRPC refuses requests at random from 8 KiB of metadata on (its soft limit).
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("traceparent", TRACEPARENT.replace("-01", "-01" + " " * 7000)),
        ("tracestate", "a=" + "b" * 7000),
        ("tracestate", "not a state,a=b,a=b"),
        ("baggage", "x" * 7000),
    ],
)
def test_headers_of_strangers_are_not_logged(stub, spans, caplog, name, value):
    caplog.set_level(logging.WARNING)
    sent = {"traceparent": TRACEPARENT, name: value}
    stub.Predict(predict_request(2.0), metadata=[*sent.items()], timeout=20)
    (request,) = spans(3)[PREDICT]
    assert (request.parent is None) == (name == "traceparent")
    assert caplog.text == ""


class Broken:
    """A sampler and a span processor of a program that raise."""

    def __init__(self, at):
        self._at = at

    def __getattr__(self, name):
        def do(*_, **__):
            if name == self._at:
                raise OSError("broken")
            return SamplingResult(Decision.RECORD_AND_SAMPLE)

        return do


@pytest.mark.parametrize("at", ["should_sample", "on_start", "on_end"])
def test_an_opentelemetry_that_fails_fails_no_request_and_is_logged_once(
    half_base, tmp_path, monkeypatch, caplog, in_background, at
):
    provider = TracerProvider(sampler=Broken(at))
    provider.add_span_processor(Broken(at))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    tracing._log_failure.cache_clear()
    file = tmp_path / "batching"
    file.write_text(BATCHES.replace("8", "2"))
    settings = {"enable_batching": True, "batching_parameters_file": file, "enable_tracing": True}
    with Server(ServerConfig("half", half_base, port=0, rest_api_port=-1, **settings)) as server:
        url = f"{server.rest_url}/v1/models/half:predict"
        asked = [in_background(post, url, {"instances": [2.0]}) for _ in range(2)]
        assert [each.result(20) for each in asked] == [200, 200]
        with Client(server.target, "half") as client:
            assert client.predict({"x": np.float32([2.0, 2.0])})["y"].tolist() == [3.0, 3.0]
    assert caplog.text.count("OpenTelemetry failed with OSError") == 1


def test_health_reflection_and_metrics_are_not_traced(server, spans, stub):
    with grpc.insecure_channel(server.target) as channel:
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=20)
        status = get_model_status_pb2.GetModelStatusRequest()
        status.model_spec.name = "half"
        model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(status, timeout=20)
        with pytest.raises(grpc.RpcError):
            channel.unary_unary("/tensorflow.serving.PredictionService/None")(b"", timeout=20)
    for path in ("/readyz", "/monitoring/prometheus/metrics"):
        urllib.request.urlopen(f"{server.rest_url}{path}", timeout=20).close()
    assert set(spans(1)) == {"tensorflow.serving.ModelService/GetModelStatus"}


def failure(span):
    (event,) = span.events
    return event.attributes["exception.type"], event.attributes["exception.message"]


def test_an_error_of_the_caller_is_told_and_leaves_the_status_unset(stub, server, spans):
    with pytest.raises(grpc.RpcError) as caught:
        stub.Predict(predict_request(2.0, signature="no"), timeout=20)
    assert post(f"{server.rest_url}/v1/models/half:predict", {"instances": "x"}) == 400
    found = spans(2)
    (over_grpc,) = found[PREDICT]
    assert failure(over_grpc) == ("FAILED_PRECONDITION", caught.value.details())
    assert over_grpc.attributes["rpc.grpc.status_code"] == grpc.StatusCode.FAILED_PRECONDITION.value[0]
    (over_rest,) = found["POST /v1/models/{model}:predict"]
    assert failure(over_rest)[0] == "400"
    assert failure(over_rest)[1]
    assert over_rest.attributes["http.response.status_code"] == 400
    assert {each.status.status_code for each in (over_grpc, over_rest)} == {StatusCode.UNSET}


def test_a_graph_that_fails_makes_its_run_an_error(stub, spans):
    request = predict_request()
    # Of a type that the graph does not take: shapes are refused before it runs.
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.zeros(2, np.int64)))
    with pytest.raises(grpc.RpcError):
        stub.Predict(request, timeout=20)
    (run,) = spans(3)["run"]
    assert run.status.status_code == StatusCode.ERROR
    assert run.status.description
    assert run.attributes["error.type"].endswith("Error")


def test_an_error_of_the_server_is_the_status(server, spans):
    with grpc.insecure_channel(server.target) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary(f"/{PREDICT}")(b"no message", timeout=20)
    (request,) = spans(1)[PREDICT]
    assert failure(request) == ("INTERNAL", "Unable to parse request")
    assert request.status.status_code == StatusCode.ERROR
    assert request.status.description == "Unable to parse request"
    assert request.attributes["error.type"] == "INTERNAL"


def test_a_wait_ends_when_the_run_begins_or_the_deadline_passes(slow_base, spans, in_background):
    """The model runs one request at a time, and of two that wait one has a deadline that passes."""
    settings = {"grpc_max_threads": 1, "rest_api_timeout_in_ms": 700, "enable_tracing": True}
    with (
        Server(ServerConfig("slow", slow_base, port=0, rest_api_port=-1, **settings)) as server,
        grpc.insecure_channel(server.target) as channel,
    ):
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        asked = []
        for took in (1.5, 0.0):
            request = predict_pb2.PredictRequest()
            request.model_spec.name = "slow"
            request.inputs["seconds"].CopyFrom(tf.make_tensor_proto(np.float32(took)))
            asked.append(in_background(stub.Predict, request, timeout=20))
            time.sleep(0.3)
        assert post(f"{server.rest_url}/v1/models/slow:predict", {"inputs": {"seconds": 0.0}}) == 504
        for each in asked:
            each.result(20)
        found = spans(8)
    first, second = sorted(found[PREDICT], key=lambda span: span.start_time)
    (expired,) = found["POST /v1/models/{model}:predict"]
    waits = {wait.parent.span_id: wait for wait in found["wait"]}
    runs = {run.parent.span_id: run for run in found["run"]}
    assert runs.keys() == {first.context.span_id, second.context.span_id}
    assert seconds(waits[first.context.span_id]) < 0.3
    assert seconds(runs[first.context.span_id]) > 1.4
    assert seconds(waits[second.context.span_id]) > 1.0
    assert seconds(waits[expired.context.span_id]) > 0.5
    assert failure(expired)[0] == "504"
    for each in (expired, waits[expired.context.span_id]):
        assert each.status.status_code == StatusCode.ERROR


def seconds(span):
    return (span.end_time - span.start_time) / 1e9


BATCHES = "max_batch_size { value: 8 } batch_timeout_micros { value: 2000000 } num_batch_threads { value: 1 }"


@pytest.mark.slow
def test_a_batch_is_one_span_that_its_requests_are_linked_with(half_base, tmp_path, spans, in_background):
    file = tmp_path / "batching"
    file.write_text(f"{BATCHES} allowed_batch_sizes: 8")
    config = ServerConfig(
        "half", half_base, port=0, enable_batching=True, batching_parameters_file=file, enable_tracing=True
    )
    with Server(config) as server, grpc.insecure_channel(server.target) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        unsampled = [("traceparent", UNSAMPLED)]
        asked = [
            in_background(stub.Predict, predict_request(1.0, 2.0, 3.0), timeout=20),
            in_background(stub.Predict, predict_request(4.0, 5.0, 6.0), timeout=20),
            in_background(stub.Predict, predict_request(7.0), timeout=20, metadata=unsampled),
        ]
        for each in asked:
            each.result(20)
        found = spans(7)
    (batch,) = found["batch"]
    assert dict(batch.attributes) == {
        "serving.model.name": "half",
        "serving.model.version": 3,
        "serving.batch.rows": 7,
        "serving.batch.size": 8,
    }
    requests = {each.context.span_id for each in found[PREDICT]}
    assert len(requests) == 2
    assert {link.context.span_id for link in batch.links} == requests
    assert batch.parent.span_id in requests
    for run in found["run"]:
        assert [link.context.span_id for link in run.links] == [batch.context.span_id]
        assert run.parent.span_id in requests
        assert run.start_time <= batch.start_time < batch.end_time <= run.end_time


# Beside OpenTelemetry's instrumentation


@pytest.fixture
def instrumented():
    """Servers that are made now have the interceptor of OpenTelemetry's instrumentation."""
    instrumentor = GrpcAioInstrumentorServer()
    instrumentor.instrument()
    yield
    instrumentor.uninstrument()


def of_servers(spans):
    return [each for each in spans.all() if each.kind == SpanKind.SERVER]


@pytest.mark.usefixtures("instrumented")
def test_an_instrumented_call_has_one_span_with_what_both_tell(half_base, spans, until):
    config = ServerConfig("half", half_base, port=0, rest_api_port=-1, enable_tracing=True)
    with Server(config) as server, grpc.insecure_channel(server.target) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        stub.Predict(predict_request(2.0), metadata=[("traceparent", TRACEPARENT)], timeout=20)
        stub.Predict(predict_request(2.0, 4.0), timeout=20)
        stub.Predict(predict_request(2.0), metadata=[("traceparent", UNSAMPLED)], timeout=20)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Predict(predict_request(2.0, signature="no"), timeout=20)
        until(lambda: len(of_servers(spans)) >= 3)
        assert post(f"{server.rest_url}/v1/models/half:predict", {"instances": [2.0]}) == 200
        found = spans(7)  # the waits and runs of two calls, and REST's own three
    assert {name: len(each) for name, each in found.items()} == {
        "wait": 3,
        "run": 3,
        "POST /v1/models/{model}:predict": 1,
    }
    named, new, failed, _ = of_servers(spans)
    assert f"{named.parent.span_id:016x}" == PARENT
    assert new.parent is None
    assert [each.attributes["serving.rows"] for each in (named, new)] == [1, 2]
    assert new.attributes["rpc.method"] == "Predict"
    for request in (named, new):
        for name in ("wait", "run"):
            assert request.context.span_id in [each.parent.span_id for each in found[name]]
    assert failed.attributes["rpc.grpc.status_code"] == grpc.StatusCode.FAILED_PRECONDITION.value[0]
    events = [each.attributes["exception.message"] for each in failed.events]
    assert caught.value.details() in events
    assert failed.status.status_code == StatusCode.UNSET


@pytest.mark.usefixtures("instrumented")
def test_an_instrumented_call_has_one_span_without_traces_of_our_own(half_base, spans, until):
    with (
        Server(ServerConfig("half", half_base, port=0)) as server,
        grpc.insecure_channel(server.target) as channel,
    ):
        prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(predict_request(2.0), timeout=20)
        until(lambda: spans.all())
    assert [each.name for each in spans.all()] == [f"/{PREDICT}"]


async def answer_400(scope, receive, send):
    await send({"type": "http.response.start", "status": 400, "headers": []})
    await send({"type": "http.response.body", "body": b'{"error": "no such thing"}'})


def test_a_request_inside_the_span_of_a_middleware_has_no_other(spans, caplog):
    """The middleware does what OpenTelemetry's for ASGI does: the answer ends its span."""

    async def answered():
        scope = {"method": "POST", "path": "/v1/models/half%3Apredict", "scheme": "http", "headers": []}
        use = trace.get_tracer("middleware").start_as_current_span
        with use("POST", kind=SpanKind.SERVER, end_on_exit=False) as span:

            async def send(message):
                if message["type"] == "http.response.body":
                    span.end()

            await TracedApp(answer_400, Tracing("1.0"))(scope, None, send)

    asyncio.run(answered())
    (request,) = spans.all()
    assert request.name == "POST"
    assert request.attributes["http.route"] == "/v1/models/{model}:predict"
    assert request.attributes["http.response.status_code"] == 400
    assert failure(request) == ("400", "no such thing")
    assert caplog.text == "", "nothing is told to a span that has ended"


def test_the_span_in_which_a_server_starts_is_not_that_of_its_requests(half_base, spans, monkeypatch):
    """OpenTelemetry's instrumentation of threads hands the starting thread's span on."""
    run, start = threading.Thread.run, threading.Thread.start

    def start_with_context(thread):
        context = contextvars.copy_context()
        thread.run = lambda: context.run(run, thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_with_context)
    config = ServerConfig("half", half_base, port=0, rest_api_port=-1, enable_tracing=True)
    with trace.get_tracer("program").start_as_current_span("main"):
        server = Server(config).start()
    monkeypatch.undo()
    with grpc.insecure_channel(server.target) as channel:
        prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(predict_request(2.0), timeout=20)
    assert post(f"{server.rest_url}/v1/models/half:predict", {"instances": [2.0]}) == 200
    server.stop()
    found = spans(6)
    for name in (PREDICT, "POST /v1/models/{model}:predict"):
        assert found[name][0].parent is None


@pytest.mark.process
def test_under_the_command_that_instruments_a_call_has_one_span_of_the_server(half_base):
    program = START.format(before="", base=str(half_base))
    command = shutil.which("opentelemetry-instrument", path=Path(sys.executable).parent)
    assert command is not None, "it comes with opentelemetry-instrumentation-grpc"
    done = in_a_process(
        program, command, OTEL_TRACES_EXPORTER="console", OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=""
    )
    calls = done.stdout.count('"kind": "SpanKind.SERVER"')
    assert (calls, done.stdout.count('"kind": "SpanKind.CLIENT"')) == (2, 2), done.stderr  # metadata, Predict
    assert done.stdout.count('"serving.rows": 1') == 1


def test_who_bears_no_token_has_no_span(half_base, tmp_path, spans):
    tokens = tmp_path / "tokens"
    tokens.write_text("token")
    config = ServerConfig("half", half_base, port=0, auth_token_file=tokens, enable_tracing=True)
    with Server(config) as server, grpc.insecure_channel(server.target) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        for _ in range(2):
            with pytest.raises(grpc.RpcError):
                stub.Predict(predict_request(2.0), timeout=20)
            bearer = bears("token")["Authorization"]
            stub.Predict(predict_request(2.0), timeout=20, metadata=[("authorization", bearer)])
        spans(6)


def test_without_a_propagator_no_header_decides_on_a_trace(monkeypatch, all_spans):
    sent = [("traceparent", UNSAMPLED)]
    assert Tracing("1.0").request("Predict", {}, sent) is None
    monkeypatch.setenv("OTEL_PROPAGATORS", "none")
    trace = Tracing("1.0").request("Predict", {}, sent)
    assert trace is not None
    assert trace.span.parent is None


def test_a_request_that_the_sampler_drops_has_no_trace(monkeypatch):
    provider = TracerProvider(sampler=ALWAYS_OFF)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    assert Tracing("1.0").request("Predict", {}, [("traceparent", UNSAMPLED)]) is None


def test_a_collector_that_does_not_answer_does_not_hold_up_the_end(monkeypatch):
    class Hanging:
        def force_flush(self):
            released.wait(20)

    released = threading.Event()
    monkeypatch.setattr(tracing, "_FLUSH_SECONDS", 0.1)
    traces = Tracing("1.0")
    traces._own = Hanging()
    began = time.monotonic()
    traces.flush()
    assert 0.1 <= time.monotonic() - began < 5
    released.set()


@pytest.mark.process
def test_without_tracing_opentelemetry_is_not_imported():
    program = (
        "import sys\nimport keras_selfattn.serving.server.server, keras_selfattn.cli.serve\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def in_a_process(program, *before, **environment):
    """Runs a program, in which nothing has set up OpenTelemetry, by the command `before`, if there is one."""
    settings = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment}
    command = [*before, sys.executable, "-c", program]
    return subprocess.run(command, env=settings, capture_output=True, text=True, check=False, timeout=120)


START = """
import sys
{before}
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.errors import ServerStartError
from keras_selfattn.serving.server import Server, ServerConfig
try:
    with Server(ServerConfig("half", {base!r}, port=0, enable_tracing=True)) as server:
        with Client(server.target, "half") as client:
            client.predict([2.0])
except ServerStartError as error:
    print(error)
"""


@pytest.mark.process
def test_each_server_of_a_process_exports_its_last_spans(half_base):
    program = START.format(before="", base=str(half_base))
    again = f"{program}\n{program[program.index('try:') :]}\nimport os\nos._exit(0)"
    done = in_a_process(again, OTEL_TRACES_EXPORTER="console", OTEL_BSP_SCHEDULE_DELAY="60000")
    assert done.stdout.count(f'"name": "{PREDICT}"') == 2, done.stderr


@pytest.mark.process
def test_a_missing_opentelemetry_is_one_sentence(half_base):
    done = in_a_process(START.format(before="sys.modules['opentelemetry'] = None", base=str(half_base)))
    assert done.stdout == "enable_tracing needs OpenTelemetry: pip install 'keras-selfattn[tracing]'\n", (
        done.stderr
    )


@pytest.mark.process
def test_the_environment_sets_the_sdk_up_where_the_program_has_not(half_base):
    environment = {"OTEL_TRACES_EXPORTER": "console", "OTEL_RESOURCE_ATTRIBUTES": "deployment=test"}
    done = in_a_process(START.format(before="", base=str(half_base)), **environment)
    assert f'"name": "{PREDICT}"' in done.stdout, done.stderr
    assert '"service.name": "keras-selfattn"' in done.stdout
    assert '"deployment": "test"' in done.stdout


@pytest.mark.process
def test_the_environment_names_the_service_and_the_sampler(half_base):
    environment = {"OTEL_TRACES_EXPORTER": "console", "OTEL_SERVICE_NAME": "reviews"}
    done = in_a_process(START.format(before="", base=str(half_base)), **environment)
    assert '"service.name": "reviews"' in done.stdout, done.stderr
    done = in_a_process(
        START.format(before="", base=str(half_base)), OTEL_TRACES_SAMPLER="always_off", **environment
    )
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
