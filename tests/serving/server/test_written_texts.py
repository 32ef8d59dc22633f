"""A model that writes texts, asked by every protocol: texts, flags, candidates and their scores come back."""

import json
import sys
import urllib.request

import grpc
import numpy as np
import pytest
import serving_models as models
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from keras_selfattn.serving.server import Server, ServerConfig

ASKED = ["abc", "wörd 😀 and more", ""]
TEXTS = ["cba", "erom dna", ""]
ENDED = [True, False, True]
CANDIDATES = [[text, text.upper(), text + "?"] for text in TEXTS]
SCORES = [[-0.25, -0.5, -0.75]] * 3
DATATYPES = {
    "text": ("BYTES", [3]),
    "score": ("FP32", [3]),
    "ended": ("BOOL", [3]),
    "candidates": ("BYTES", [3, 3]),
    "candidate_scores": ("FP32", [3, 3]),
}
COLUMNS = {
    "text": TEXTS,
    "score": [-0.25] * 3,
    "ended": ENDED,
    "candidates": CANDIDATES,
    "candidate_scores": SCORES,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    base = tmp_path_factory.mktemp("backwards")
    models.save(models.Backwards(), base)
    with Server(ServerConfig("backwards", base, port=0, rest_api_port=-1)) as server:
        yield server


def posted(server, path, body):
    request = urllib.request.Request(f"{server.rest_url}{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=20) as response:
        return json.load(response)


def plain(array):
    """Lists of an array; bytes are texts, which tritonclient has as str where they came as JSON."""
    if array.dtype == object:
        texts = [item.decode() if isinstance(item, bytes) else item for item in array.reshape(-1).tolist()]
        return np.array(texts, object).reshape(array.shape).tolist()
    return array.tolist()


def test_the_stock_stub_of_tensorflow_serving_reads_it(server):
    with grpc.insecure_channel(server.target) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "backwards"
        request.inputs["text"].CopyFrom(tf.make_tensor_proto(ASKED))
        outputs = stub.Predict(request, timeout=20).outputs
    assert outputs["ended"].dtype == tf.bool.as_datatype_enum
    assert {name: plain(tf.make_ndarray(proto)) for name, proto in outputs.items()} == COLUMNS


def test_rest_answers_rows(server):
    found = posted(server, "/v1/models/backwards:predict", {"instances": ASKED})["predictions"]
    assert found == [{name: column[row] for name, column in COLUMNS.items()} for row in range(3)]


def test_rest_answers_columns(server):
    assert posted(server, "/v1/models/backwards:predict", {"inputs": ASKED}) == {"outputs": COLUMNS}


def test_the_open_inference_protocol_answers_tensors(server):
    tensor = {"name": "text", "datatype": "BYTES", "shape": [3], "data": ASKED}
    found = posted(server, "/v2/models/backwards/infer", {"inputs": [tensor]})["outputs"]
    assert {each["name"]: (each["datatype"], each["shape"]) for each in found} == DATATYPES
    flat = {each["name"]: each["data"] for each in found}
    assert flat == {name: np.array(column, object).reshape(-1).tolist() for name, column in COLUMNS.items()}


@pytest.mark.parametrize(("kind", "binary"), [("grpc", True), ("http", True), ("http", False)])
def test_tritons_client_reads_it(server, kind, binary):
    pytest.importorskip(f"tritonclient.{kind}")
    client = sys.modules[f"tritonclient.{kind}"]
    asked = client.InferInput("text", [3], "BYTES")
    array = np.array([text.encode() for text in ASKED], object)
    form = {"binary_data": binary} if kind == "http" else {}
    asked.set_data_from_numpy(array, **form)
    wanted = [client.InferRequestedOutput(name, **form) for name in COLUMNS]
    target = server.target if kind == "grpc" else server.rest_url.removeprefix("http://")
    with client.InferenceServerClient(target) as connected:
        answer = connected.infer("backwards", [asked], outputs=wanted)
    found = {name: answer.as_numpy(name) for name in COLUMNS}
    assert found["ended"].dtype == bool
    assert {name: plain(array) for name, array in found.items()} == COLUMNS
