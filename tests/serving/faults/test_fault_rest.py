"""Malformed requests over REST: each is refused as the client's error, in JSON that names no path."""

import gzip
import http.client
import json
from urllib.parse import quote

import pytest
from hypothesis import strategies as st
from malformed import check_many, documents, infer_documents, requests
from served import SECONDS
from test_fault_messages import assert_names_no_path

SEEDS = {
    "/v1/models/half:predict": [
        b'{"instances": [1.5, 2, -3e4]}',
        b'{"signature_name": "serving_default", "inputs": {"x": [1, 2]}}',
        b'{"signature_name": "matmul", "inputs": {"left": [[1, 2, 3]], "right": [[1], [2], [3]]}}',
    ],
    "/v1/models/types:predict": [
        b'{"signature_name": "string", "instances": [{"b64": "aGVsbG8="}, "w\xc3\xb6rd", "\\ud83d\\ude00"]}',
        b'{"signature_name": "int64", "inputs": [[1, -2], [9223372036854775807, 4]]}',
        b'{"signature_name": "bool", "inputs": [true, false]}',
    ],
    "/v1/models/tf1:classify": [
        b'{"signature_name": "classify_x_to_y", "examples": [{"x": [1.5]}, {"x": 2.5}]}',
        b'{"signature_name": "classify_with_labels", "context": {"x": 1.5}, "examples": [{}]}',
    ],
    "/v2/models/half/infer": [
        b'{"id": "7", "inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1.5, -3e4]}]}',
        b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 1], "data": [[1], [2]]}], "outputs": '
        b'[{"name": "y", "parameters": {"binary_data": false}}]}',
    ],
    "/v2/models/types/infer": [
        b'{"parameters": {"signature_name": "string"}, '
        b'"inputs": [{"name": "x", "datatype": "BYTES", "shape": [1], "data": ["w\xc3\xb6rd"]}]}',
    ],
    "/v1/models/tf1:regress": [
        b'{"signature_name": "regress_x_to_y", "examples": [{"x": [1.5]}, {"x": 2.5}]}',
    ],
}
NOT_IMPLEMENTED = 501  # types that JSON does not carry, as in TensorFlow Serving


@pytest.fixture
def connection(server):
    """One for all requests: it must never be lost."""
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=SECONDS)
    yield connection
    connection.close()


def assert_clients_error_or_answer(server, status, data):
    found = json.loads(data)
    assert status == 200 or 400 <= status < 500 or status == NOT_IMPLEMENTED, (status, found)
    if status != 200:
        assert isinstance(found["error"], str)
        assert_names_no_path(found["error"], server)


@pytest.mark.shortened
@pytest.mark.parametrize("path", SEEDS)
def test_malformed_bodies_are_the_clients_error(server, connection, whole, path):
    for seed in SEEDS[path]:
        assert server.post(path, seed, connection)[0] == 200

    def check(body, as_gzip):
        headers = {"Content-Encoding": "gzip"} if as_gzip else {}
        assert_clients_error_or_answer(server, *server.post(path, body, connection, headers))

    check_many(400, whole, check, body=requests(SEEDS[path]), as_gzip=st.sampled_from([False] * 9 + [True]))


@pytest.mark.shortened
@pytest.mark.parametrize("path", SEEDS)
def test_json_of_any_shape_is_the_clients_error(server, connection, whole, path):
    def check(body):
        assert_clients_error_or_answer(server, *server.post(path, body, connection))

    check_many(500, whole, check, body=documents())


@pytest.mark.shortened
def test_malformed_tensors_are_the_clients_error(server, connection, whole):
    def check(body, cut):
        headers = {"Inference-Header-Content-Length": str(max(0, len(body) - cut))}
        answer = server.post("/v2/models/types/infer", body, connection, headers)
        if answer[1][:1] == b"{":  # else it is an answer in binary
            assert_clients_error_or_answer(server, *answer)

    check_many(500, whole, check, body=infer_documents(), cut=st.integers(0, 9))


@pytest.mark.shortened
def test_malformed_gzip_is_the_clients_error(server, connection, whole):
    path = "/v1/models/half:predict"
    seeds = [gzip.compress(seed, mtime=0) for seed in SEEDS[path]]

    def check(body):
        answer = server.post(path, body, connection, {"Content-Encoding": "gzip"})
        assert_clients_error_or_answer(server, *answer)

    check_many(300, whole, check, body=requests(seeds))


@pytest.mark.shortened
def test_malformed_paths_are_the_clients_error(server, connection, whole):
    words = st.sampled_from(
        [
            "v1",
            "models",
            "half",
            "tf1",
            "versions",
            "labels",
            "metadata",
            "..",
            "3",
            "9" * 400,
            ":predict",
            "",
        ]
    )
    parts = st.lists(words | st.binary(max_size=6).map(quote), max_size=7)

    def check(parts, method):
        path = "/v1/models/" + "/".join(parts)
        status, data = server.post(path, b"{}", connection, method=method)
        assert_clients_error_or_answer(server, status, data)

    check_many(
        400, whole, check, parts=parts, method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH"])
    )
