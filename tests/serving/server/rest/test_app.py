"""The REST API over HTTP: what TensorFlow Serving answers, and what it should have answered."""

import gzip
import http.client
import json
import re
import socket
import threading
import urllib.error
import urllib.request
import zlib
from pathlib import Path

import grpc
import numpy as np
import pytest
import serving_models as models
from ports import free_port
from serving_models import HalfPlusTwo, save
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from keras_selfattn.serving import errors, wire
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.rest.rest_server import Listener
from keras_selfattn.serving.server.runtime.listening import bind
from keras_selfattn.serving.wire import messages_pb2 as pb


@pytest.fixture(scope="module")
def server(tf1_base):
    with Server(ServerConfig("default", tf1_base, port=0, rest_api_port=-1)) as server:
        yield server


@pytest.fixture(scope="module")
def text_url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    module = models.Sentiment()
    save(module, folder, serving_default=module.serve, echo=module.echo)
    with Server(ServerConfig("text", folder, port=0, rest_api_port=-1)) as server:
        yield f"{server.rest_url}/v1/models/text:predict"


def ask(url, body=None, headers=None, method=None):
    """The status, the parsed body and the headers of an answer."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, response.read(), response.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


def answer(url, body=None, **kwargs):
    status, data, headers = ask(url, body, **kwargs)
    assert headers["Content-Type"] == "application/json"
    return status, json.loads(data)


def test_rows_columns_examples_and_labels_get_tensorflow_servings_answers(server):
    url = f"{server.rest_url}/v1/models/default"
    rows = [{"x": [2.0]}, {"x": [4.0]}]
    assert answer(f"{url}:predict", {"instances": rows}) == (200, {"predictions": [[3.0], [4.0]]})
    assert answer(f"{url}:predict", {"instances": [[2.0], [4.0]]}) == (200, {"predictions": [[3.0], [4.0]]})
    # No shape check stands in front of the graph.
    assert answer(f"{url}:predict", {"instances": [2.0, 3.0]}) == (200, {"predictions": [3.0, 3.5]})
    assert answer(f"{url}:predict", {"inputs": [[2.0]]}) == (200, {"outputs": [[3.0]]})
    assert answer(f"{url}/versions/123:predict", {"inputs": {"x": [[2.0]]}}) == (200, {"outputs": [[3.0]]})
    classify = {"signature_name": "classify_x_to_y", "examples": [{"x": 2.0}]}
    assert answer(f"{url}:classify", classify) == (200, {"results": [[["", 3.0]]]})
    classify["signature_name"] = "classify_with_labels"
    assert answer(f"{url}:classify", classify) == (200, {"results": [[["y", 3.0]]]})
    regress = {"signature_name": "regress_x_to_y", "context": {"x": 4.0}, "examples": [{}, {"x": [2.0]}]}
    assert answer(f"{url}:regress", regress) == (200, {"results": [4.0, 3.0]})


def test_texts_come_back_as_objects_of_all_outputs(text_url):
    status, found = answer(text_url, {"instances": ["good", "bad"]})
    assert status == 200
    assert found["predictions"][0] == {
        "label": "pos",
        "probabilities": [0.125, 0.75, 0.125],
        "score": 0.75,
    }
    status, found = answer(text_url, {"signature_name": "echo", "instances": [{"b64": "/wA="}]})
    assert found == {"predictions": [{"bytes": 2, "text": "\N{REPLACEMENT CHARACTER}\0"}]}


def test_no_header_names_the_software_that_serves(server):
    _, _, headers = ask(f"{server.rest_url}/v1/models/default")
    assert "server" not in headers


def test_the_status_is_told_in_protobufs_json(server):
    expected = {
        "model_version_status": [
            {"version": "123", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        ]
    }
    for path in ("", "/versions/123", "/labels/any"):
        assert answer(f"{server.rest_url}/v1/models/default{path}") == (200, expected)
    listed = {"models": [{"name": "default", **expected}]}
    assert answer(f"{server.rest_url}/v1/models") == (200, listed)
    assert answer(f"{server.rest_url}/v1/models/other") == (
        404,
        {"error": "Could not find any versions of model other"},
    )
    assert answer(f"{server.rest_url}/v1/models/default/versions/7") == (
        404,
        {"error": "Could not find version 7 of model default"},
    )


def test_the_metadata_is_told_in_protobufs_json(server):
    status, found = answer(f"{server.rest_url}/v1/models/default/metadata")
    assert status == 200
    assert found["model_spec"] == {"name": "default", "signature_name": "", "version": "123"}
    signatures = found["metadata"]["signature_def"]["signature_def"]
    assert signatures["regress_x_to_y"] == {
        "inputs": {
            "inputs": {
                "dtype": "DT_STRING",
                "tensor_shape": {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False},
                "name": "tf_example:0",
            }
        },
        "outputs": {
            "outputs": {
                "dtype": "DT_FLOAT",
                "tensor_shape": {
                    "dim": [{"size": "-1", "name": ""}, {"size": "1", "name": ""}],
                    "unknown_rank": False,
                },
                "name": "y:0",
            }
        },
        "method_name": "tensorflow/serving/regress",
        "defaults": {},
    }


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        (
            "/v1/models/other:predict",
            {"instances": [1]},
            404,
            "Servable not found for request: Latest(other)",
        ),
        (
            "/v1/models/default/versions/7:predict",
            {"instances": [1]},
            404,
            "Servable not found for request: Specific(default, 7)",
        ),
        (
            "/v1/models/default/labels/new:predict",
            {"instances": [1]},
            400,
            "Unrecognized servable version label: new",
        ),
        (
            "/v1/models/default:predict",
            {"signature_name": "none", "instances": [1]},
            400,
            'Serving signature name: "none" not found in signature def',
        ),
        (
            "/v1/models/default:classify",
            {"signature_name": "none", "examples": [{"x": 1.0}]},
            400,
            "No signature was found with the name: none",
        ),
        ("/v1/models/default:predict", b"", 400, "JSON Parse error: The document is empty"),
        ("/v1/models/default:predict", b"[", 400, None),
        ("/v1/models/default:predict", {}, 400, "Missing 'inputs' or 'instances' key"),
        ("/v1/models/default:train", {}, 400, "Malformed request: POST /v1/models/default:train"),
        ("/v1/foo", None, 400, "Malformed request: GET /v1/foo"),
        ("/v1/models/default:predict", None, 400, "Malformed request: GET /v1/models/default:predict"),
        ("/", None, 404, "there is nothing at /; the APIs begin with /v1/models and /v2/models"),
    ],
)
def test_what_cannot_be_answered_has_a_status_and_words(server, path, body, status, message):
    found, error = answer(f"{server.rest_url}{path}", body)
    assert (found, list(error)) == (status, ["error"])
    assert message in (None, error["error"])


def test_the_method_and_the_path_are_matched_as_upstream_does(server):
    url = f"{server.rest_url}/V1/MODELS/default:PREDICT"
    assert answer(url, {"inputs": [[2.0]]}) == (200, {"outputs": [[3.0]]})
    assert answer(f"{server.rest_url}/v1/models/def%61ult:predict?x=1", {"inputs": [[2.0]]})[0] == 200


def test_a_body_may_come_gzipped_and_not_as_a_bomb(tf1_base):
    config = ServerConfig("default", tf1_base, port=0, rest_api_port=-1, rest_api_max_body_bytes=10_000)
    zipped = {"Content-Encoding": "gzip"}
    with Server(config) as server:
        url = f"{server.rest_url}/v1/models/default:predict"
        body = json.dumps({"inputs": [[2.0]]}).encode()
        assert answer(url, gzip.compress(body), headers=zipped) == (200, {"outputs": [[3.0]]})
        assert answer(url, body, headers=zipped)[0] == 400
        assert answer(url, gzip.compress(body)[:-9], headers=zipped)[0] == 400
        bomb = gzip.compress(b" " * 10_000_000)
        assert len(bomb) < 10_000
        for data, headers in ((bomb, zipped), (b" " * 10_001, {})):
            status, found = answer(url, data, headers=headers)
            assert (status, found["error"]) == (
                413,
                "the body is larger than 10000 bytes, this server's limit",
            )


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("x-gzip", gzip.compress),
        ("GZip", gzip.compress),
        ("deflate", zlib.compress),
        ("identity", bytes),
        ("", bytes),
        (" gzip , identity", gzip.compress),
        ("gzip", lambda body: gzip.compress(body[:5]) + gzip.compress(body[5:])),
    ],
    ids=["x-gzip", "upper case", "deflate", "identity", "empty", "gzip and identity", "two members"],
)
def test_a_body_is_read_in_the_encoding_that_it_names(server, encoding, pack):
    url = f"{server.rest_url}/v1/models/default:predict"
    headers = {"Content-Encoding": encoding}
    assert answer(url, pack(b'{"inputs": [[2.0]]}'), headers=headers) == (200, {"outputs": [[3.0]]})


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, br", "gzip, gzip", "gzip\r\n deflate"])
def test_a_body_in_another_encoding_is_refused_by_name_before_it_is_read(server, encoding):
    head = "POST /v1/models/default:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nContent-Encoding: "
    head += encoding.replace("\r\n ", "\r\nContent-Encoding: ")
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=20) as connection:
        connection.sendall(f"{head}\r\nExpect: 100-continue\r\n\r\n".encode())
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert (response.status, response.headers["Accept-Encoding"]) == (415, "gzip, deflate")
        assert json.loads(response.read()) == {
            "error": "the Content-Encoding of a body must be one of gzip, deflate, or there must be none. "
            f"Received {encoding.replace(chr(13) + chr(10), ',')}"
        }


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b'{"inputs": [[2.0]]}') + b"more"),
        ("deflate", zlib.compress(b'{"inputs": [[2.0]]}') * 2),
        ("deflate", zlib.compress(b'{"inputs": [[2.0]]}', wbits=-15)),
        ("deflate", gzip.compress(b'{"inputs": [[2.0]]}')),
        ("gzip", gzip.compress(b'{"inputs": [[2.0]]}') * 2 + gzip.compress(b"")[:-1]),
        ("gzip", b""),
    ],
    ids=["gzip and more", "two of zlib", "no zlib", "gzip as deflate", "cut member", "nothing"],
)
def test_a_body_that_is_not_what_its_encoding_says_is_refused(server, encoding, body):
    url = f"{server.rest_url}/v1/models/default:predict"
    status, found = answer(url, body, headers={"Content-Encoding": encoding})
    assert status == 400
    assert found["error"].startswith("Failed to decompress the request's body: ")


@pytest.mark.parametrize("accepted", ["gzip, deflate, br, zstd", "gzip;q=1, *;q=0", "identity;q=0", ""])
def test_answers_are_plain_whatever_a_client_accepts(server, accepted):
    url = f"{server.rest_url}/v1/models/default:predict"
    status, data, headers = ask(url, {"inputs": [[2.0]]}, headers={"Accept-Encoding": accepted})
    assert (status, json.loads(data)) == (200, {"outputs": [[3.0]]})
    assert (headers["Content-Encoding"], headers["Content-Length"]) == (None, str(len(data)))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/default%3Apredict",
        "/v1/models/default%3apredict",
        "/v1/models/default%3A%70redict",
        "/v1/models/default/versions/123%3Apredict",
        "/%76%31/models/%64efault/versions/%31%323:predic%74",
    ],
)
def test_a_path_may_be_percent_encoded(server, path):
    assert answer(f"{server.rest_url}{path}", {"inputs": [[2.0]]}) == (200, {"outputs": [[3.0]]})


def test_encoded_slashes_and_colons_belong_to_names(server):
    no_model = "Servable not found for request: Latest({})"
    for path, name in (
        ("a%3Ab:predict", "a:b"),
        ("a%2Fversions%2F1%3Apredict", "a/versions/1"),
        ("a%3Apredict:predict", "a:predict"),
        ("a%253Apredict:predict", "a%3Apredict"),
    ):
        found = answer(f"{server.rest_url}/v1/models/{path}", {"inputs": [[2.0]]})
        assert found == (404, {"error": no_model.format(name)})
    assert answer(f"{server.rest_url}/v1/models/default%3Apredict") == (
        404,
        {"error": "Could not find any versions of model default:predict"},
    )
    assert answer(f"{server.rest_url}/v2/models/a%3Apredict/infer", {"inputs": []})[0] == 404
    assert answer(f"{server.rest_url}/%76%32/models/default/read%79") == (
        200,
        {"name": "default", "ready": True},
    )


def test_pages_of_other_origins_may_ask_only_where_allowed(tf1_base, server):
    url = "/v1/models/default:predict"
    origin = {"Origin": "http://example.org"}
    with Server(
        ServerConfig("default", tf1_base, port=0, rest_api_port=-1, rest_api_enable_cors_support=True)
    ) as open_server:
        for _, _, headers in (
            ask(open_server.rest_url + url, headers=origin, method="OPTIONS"),
            ask(open_server.rest_url + url, {"inputs": [[2.0]]}, headers=origin),
        ):
            assert headers["Access-Control-Allow-Origin"] == "*"
            assert headers["Access-Control-Allow-Methods"] == "POST, GET"
            assert headers["Access-Control-Allow-Headers"].split(", ")[0] == "Content-Type"
        assert ask(open_server.rest_url + url, method="OPTIONS")[0] == 400
    status, _, headers = ask(server.rest_url + url, headers=origin, method="OPTIONS")
    assert (status, headers["Access-Control-Allow-Origin"]) == (400, None)


def test_health_and_readiness_have_their_paths(tmp_path, until):
    save(HalfPlusTwo(), tmp_path)
    config = ServerConfig("m", tmp_path, port=0, rest_api_port=-1, file_system_poll_wait_seconds=0.05)
    with Server(config) as server:
        assert answer(f"{server.rest_url}/healthz") == (200, {"status": "alive"})
        assert answer(f"{server.rest_url}/readyz") == (200, {"status": "ready"})
        (tmp_path / "1").rename(tmp_path / "away")
        until(lambda: ask(f"{server.rest_url}/readyz")[0] == 503)
        assert ask(f"{server.rest_url}/healthz")[0] == 200


def samples(url):
    """The metrics' values by name and labels, and the types by name."""
    status, data, headers = ask(url)
    assert (status, headers["Content-Type"]) == (200, "text/plain")
    lines = data.decode().splitlines()
    types = dict(line.split()[2:] for line in lines if line.startswith("# TYPE"))
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in values.items()}, types


def test_prometheus_reads_tensorflow_servings_names(tf1_base, tmp_path):
    config = tmp_path / "monitoring.conf"
    config.write_text("prometheus_config { enable: true path: '/metrics' }")
    with Server(
        ServerConfig("default", tf1_base, port=0, rest_api_port=-1, monitoring_config_file=config)
    ) as server:
        with grpc.insecure_channel(server.target) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            request = predict_pb2.PredictRequest()
            request.model_spec.name = "default"
            with pytest.raises(grpc.RpcError):
                stub.Predict(request, timeout=20)
            with Client(server.target) as client:
                for _ in range(3):
                    client.predict({"x": np.float32([[2]])})
        examples = {"signature_name": "regress_x_to_y", "examples": [{"x": 2.0}, {"x": 3.0}]}
        ask(f"{server.rest_url}/v1/models/default:regress", examples)
        ask(f"{server.rest_url}/v1/models/other:predict", {})
        values, types = samples(f"{server.rest_url}/metrics")
        assert ask(f"{server.rest_url}/monitoring/prometheus/metrics")[0] == 404
    prefix = ":tensorflow:serving:"
    assert values[prefix + 'request_count{model_name="default",status="OK"}'] == 4
    assert values[prefix + 'request_count{model_name="default",status="INVALID_ARGUMENT"}'] == 1
    assert values[prefix + 'request_count{model_name="",status="NOT_FOUND"}'] == 1
    latency = prefix + 'request_latency{}{{model_name="default",API="{}",entrypoint="{}"{}}}'
    assert values[latency.format("_count", "Predict", "GRPC", "")] == 4
    assert values[latency.format("_bucket", "Predict", "GRPC", ',le="+Inf"')] == 4
    assert values[latency.format("_bucket", "Predict", "GRPC", ',le="10"')] == 0
    assert values[latency.format("_sum", "Regress", "REST", "")] > 0
    runtime = prefix + 'runtime_latency_count{model_name="default",API="Predict",runtime="TF1"}'
    assert values[runtime] == 3
    assert values[prefix + 'request_example_count_total{model="default"}'] == 2
    assert values[prefix + 'request_example_counts_bucket{model="default",le="1"}'] == 0
    assert values[prefix + 'request_example_counts_bucket{model="default",le="2"}'] == 1
    assert types[prefix + "request_count"] == "counter"
    assert types[prefix + "request_latency"] == "histogram"


def test_metrics_tell_versions_and_signatures_where_asked(tf1_base):
    config = ServerConfig(
        "default", tf1_base, port=0, rest_api_port=-1, metrics_by_version_and_signature=True
    )
    with Server(config) as server, Client(server.target) as client:
        client.predict({"x": np.float32([[2]])})
        url = f"{server.rest_url}/v1/models/default"
        ask(f"{url}:predict", {"signature_name": "serving_default", "instances": [[2.0]]})
        ask(f"{url}:predict", {"signature_name": "none", "instances": [[2.0]]})
        ask(f"{url}:regress", {"signature_name": "regress_x_to_y", "examples": [{"x": 2.0}]})
        x = {"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [2]}
        ask(f"{server.rest_url}/v2/models/default/infer", {"inputs": [x]})
        ask(url)
        values, _ = samples(f"{server.rest_url}/monitoring/prometheus/metrics")
    of_model = ':tensorflow:serving:{}{{model_name="default",{},version="{}",signature_name="{}"}}'.format
    default, regress, none = ("123", "serving_default"), ("123", "regress_x_to_y"), ("", "")
    assert values[of_model("request_count", 'status="OK"', *default)] == 3
    assert values[of_model("request_count", 'status="OK"', *regress)] == 1
    assert values[of_model("request_count", 'status="INVALID_ARGUMENT"', *none)] == 1
    assert values[of_model("request_count", 'status="OK"', *none)] == 1, "the states of versions"
    for api, entrypoint, which in (
        ("Predict", "GRPC", default),
        ("Predict", "REST", default),
        ("Regress", "REST", regress),
        ("ModelInfer", "REST", default),
    ):
        labels = f'API="{api}",entrypoint="{entrypoint}"'
        assert values[of_model("request_latency_count", labels, *which)] == 1
    assert values[of_model("runtime_latency_count", 'API="Predict",runtime="TF1"', *default)] == 2


def test_metrics_have_their_usual_path_unless_they_are_turned_off(tf1_base, server, tmp_path):
    assert ask(f"{server.rest_url}/monitoring/prometheus/metrics")[0] == 200
    config = tmp_path / "monitoring.conf"
    config.write_text("prometheus_config { enable: false }")
    with Server(
        ServerConfig("default", tf1_base, port=0, rest_api_port=-1, monitoring_config_file=config)
    ) as silent:
        assert ask(f"{silent.rest_url}/monitoring/prometheus/metrics")[0] == 404
    config.write_text("prometheus_config { enable: true path: 'metrics' }")
    with pytest.raises(errors.InvalidArgumentError, match="must begin with a slash. Received 'metrics'"):
        Server(ServerConfig("default", tf1_base, monitoring_config_file=config))


def test_a_request_that_takes_too_long_is_ended_in_the_graph(slow_base, until):
    config = ServerConfig("slow", slow_base, port=0, rest_api_port=-1, rest_api_timeout_in_ms=300)
    with Server(config) as server:
        url = f"{server.rest_url}/v1/models/slow:predict"
        assert answer(url, {"inputs": 0.0})[0] in (200, 504)  # the first run of a graph takes long by itself
        assert answer(url, {"inputs": 60.0}) == (504, {"error": "Timed out waiting for notification"})
        until(lambda: server.models._models["slow"].running == 0)


def test_a_body_that_does_not_come_is_not_waited_for(tf1_base):
    config = ServerConfig("default", tf1_base, port=0, rest_api_port=-1, rest_api_timeout_in_ms=200)
    with Server(config) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=20)
        connection.putrequest("POST", "/v1/models/default:predict")
        connection.putheader("Content-Length", "100")
        connection.endheaders(b"{")
        response = connection.getresponse()
        assert response.status == 408
        assert json.loads(response.read()) == {"error": "the body has not come within 0.2 s"}
        connection.close()


@pytest.mark.slow
def test_a_client_that_goes_away_takes_its_waiting_request_with_it(slow_base, in_background, until):
    config = ServerConfig("slow", slow_base, port=0, rest_api_port=-1, grpc_max_threads=1)
    with Server(config) as server, Client(server.target, "slow") as client:
        model = server.models._models["slow"]
        client.predict({"seconds": np.float32(0)})
        running = in_background(client.predict, {"seconds": np.float32(2)})
        until(lambda: model.running == 1)
        body = json.dumps({"inputs": 60.0}).encode()
        with socket.create_connection(("127.0.0.1", server.rest_port), timeout=20) as leaving:
            head = f"POST /v1/models/slow:predict HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n"
            leaving.sendall(head.encode() + body)
            until(lambda: model.running == 2)
        until(lambda: model.running == 1)
        assert running.result()["rounds"] > 0


def test_a_rest_port_in_use_is_an_error(tf1_base, server):
    taken = f"cannot listen on 127.0.0.1:{server.rest_port}: Address already in use.*another rest_api_port"
    with pytest.raises(errors.ServerStartError, match=taken):
        Server(ServerConfig("default", tf1_base, port=0, rest_api_port=server.rest_port)).start()


def test_a_rest_port_that_cannot_be_listened_on_is_an_error_and_grpcs_is_closed(tf1_base, monkeypatch):
    def start(listener):
        raise OSError("no more of them")

    port = free_port()
    with monkeypatch.context() as patched:
        patched.setattr(Listener, "start", start)
        with pytest.raises(errors.ServerStartError, match="cannot listen for REST on port .*: no more"):
            Server(ServerConfig("default", tf1_base, port=port, rest_api_port=-1)).start()
    with Server(ServerConfig("default", tf1_base, port=port)) as server, Client(server.target) as client:
        client.wait_until_ready(timeout=20)


def test_connections_are_kept_for_the_next_request(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=20)
    sockets = set()
    for _ in range(5):
        connection.request("GET", "/v1/models/default")
        assert connection.getresponse().read()
        sockets.add(connection.sock.getsockname())
    connection.close()
    assert len(sockets) == 1


def test_garbage_instead_of_http_leaves_the_server_answering(server):
    for garbage in (
        b"\x00" * 1000,
        b"GET",
        b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"\xff\xfe\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.rest_port), timeout=20) as connection:
            connection.sendall(garbage)
            threading.Event().wait(0.05)
    assert ask(f"{server.rest_url}/healthz")[0] == 200


@pytest.mark.slow
def test_stopping_lets_a_slow_reader_have_its_whole_answer(tmp_path, in_background):
    module = models.Types()
    save(module, tmp_path)
    server = Server(ServerConfig("types", tmp_path, port=0, rest_api_port=-1)).start()
    body = json.dumps({"inputs": [0.5] * 2_000_000}).encode()
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=60) as reader:
        head = f"POST /v1/models/types:predict HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n"
        reader.sendall(head.encode() + body)
        received = reader.recv(1000)
        size = int(re.search(rb"(?i)content-length: (\d+)", received).group(1))
        stopping = in_background(server.stop, 30)
        threading.Event().wait(1.5)
        while chunk := reader.recv(2**20):
            received += chunk
    stopping.result(40)
    assert len(received.partition(b"\r\n\r\n")[2]) == size > 8_000_000


@pytest.mark.slow
def test_a_reader_that_does_not_read_is_cut_off_when_the_grace_is_over(tmp_path, in_background):
    save(models.Types(), tmp_path)
    server = Server(ServerConfig("types", tmp_path, port=0, rest_api_port=-1)).start()
    body = json.dumps({"inputs": [0.5] * 2_000_000}).encode()
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=60) as reader:
        head = f"POST /v1/models/types:predict HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n"
        reader.sendall(head.encode() + body)
        assert reader.recv(1000)
        in_background(server.stop, 1).result(40)
        received = b"".join(iter(lambda: reader_or_nothing(reader), b""))
    assert len(received) < 8_000_000


def reader_or_nothing(reader):
    try:
        return reader.recv(2**20)
    except ConnectionError:
        return b""


def test_a_version_of_thousands_of_digits_is_a_bad_request(server):
    status, found = answer(f"{server.rest_url}/v1/models/default/versions/{'9' * 5000}")
    assert status == 400
    assert found["error"].startswith("Failed to convert version: 999")


def test_answers_are_not_held_back_until_they_fill_a_packet():
    with bind("127.0.0.1", 0, "rest_api_port") as listening:
        assert listening.proto == socket.IPPROTO_TCP  # what asyncio looks at


@pytest.fixture
def passed_files(half_base):
    """Starts a server in threads that note the files of the project that a call passes."""
    folder, passed, noting = str(Path(wire.__file__).parents[1]), set(), [False]

    def note(frame, event, _argument):
        path = frame.f_code.co_filename
        if noting[0] and event == "call" and path.startswith((f"{folder}/server", f"{folder}/wire")):
            passed.add(path.removeprefix(f"{folder}/"))

    def of(call, **settings):
        threading.setprofile(note)
        try:
            with Server(ServerConfig("half", half_base, port=0, rest_api_port=-1, **settings)) as server:
                asks = call(server)
                asks()
                passed.clear()
                noting[0] = True
                asks()
                noting[0] = False
        finally:
            threading.setprofile(None)
        return passed

    return of


def _rest_predict(server):
    url = f"{server.rest_url}/v1/models/half:predict"
    return lambda: urllib.request.urlopen(url, b'{"instances": [1, 2]}', timeout=20).read()


def _grpc_predict(server):
    x = pb.TensorProto(dtype=pb.DT_FLOAT, float_val=np.float32([1]).tobytes())
    x.tensor_shape.dim.add(size=1)
    data = pb.PredictRequest(model_spec=pb.ModelSpec(name="half"), inputs={"x": x}).SerializeToString()

    def ask():
        with grpc.insecure_channel(server.target) as channel:
            channel.unary_unary("/tensorflow.serving.PredictionService/Predict")(data, timeout=20)

    return ask


@pytest.mark.parametrize(
    ("call", "first", "settings", "most"),
    [
        (_rest_predict, "server/rest/rest_server.py", {}, 20),
        (_rest_predict, "server/rest/rest_server.py", {"enable_batching": True}, 24),
        (_grpc_predict, "server/api/grpc_services.py", {}, 18),
    ],
    ids=["REST", "REST, batched", "gRPC"],
)
def test_a_predict_passes_few_files(passed_files, call, first, settings, most):
    passed = passed_files(call, **settings)
    kernel = {"server/api/inference_api.py", "server/models/saved_model_servable.py"}
    assert {first, *kernel} <= passed
    assert len(passed) <= most, sorted(passed)
