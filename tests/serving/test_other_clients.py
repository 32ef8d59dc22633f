"""Programs that know nothing of this project get the protocol's answers: Node.js, curl, OpenVINO's client."""

import json
import shutil
import subprocess
from pathlib import Path

import grpc
import pytest
from serving_models import HalfPlusTwo, save
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2

from keras_selfattn.serving.server import Server, ServerConfig

NODE = Path(__file__).parent / "node"


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """A folder with the program and what npm installs for it."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("needs node and npm")
    folder = tmp_path_factory.mktemp("node")
    for file in NODE.iterdir():
        shutil.copy(file, folder)
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install: {done.stderr[-200:]}")
    return folder


@pytest.mark.process
def test_node_gets_answers_and_errors_of_the_protocol(half_server, node):
    done = subprocess.run(
        ["node", "ask.js", half_server.target],
        cwd=node,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    predicted, missing, refused, status = map(json.loads, done.stdout.splitlines())
    assert predicted["model_spec"] == {
        "name": "half",
        "signature_name": "serving_default",
        "version": {"value": 3},
    }
    output = predicted["outputs"]["y"]
    assert (output["dtype"], output["float_val"]) == (1, [2.5, 3, 4.5])
    assert missing == {"code": "NOT_FOUND", "details": "Servable not found for request: Latest(other)"}
    assert refused == {
        "code": "INVALID_ARGUMENT",
        "details": "Expects arg[0] to be float but string is provided",
    }
    assert status["model_version_status"] == [{"version": 3, "state": 30}]


def curl(*arguments):
    """The status and the parsed body."""
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    command = ["curl", "--silent", "--max-time", "20", "--write-out", "\n%{http_code}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(body)


def test_curl_gets_answers_and_errors_of_the_protocol(half_base, tmp_path):
    with Server(ServerConfig("half", half_base, port=0, rest_api_port=-1)) as server:
        url = f"{server.rest_url}/v1/models/half"
        assert curl("-d", '{"instances": [1.0, 2.0, 5.0]}', f"{url}:predict") == (
            200,
            {"predictions": [2.5, 3.0, 4.5]},
        )
        large = tmp_path / "large.json"
        large.write_text(json.dumps({"inputs": [1.0] * 100_000}))
        status, found = curl("-d", f"@{large}", f"{url}:predict")  # curl waits for 100 Continue first
        assert (status, found["outputs"]) == (200, [2.5] * 100_000)
        assert curl(url)[1]["model_version_status"][0]["version"] == "3"
        assert curl("-d", "{}", f"{url}:predict")[0] == 400
        assert curl(f"{server.rest_url}/v1/models/other") == (
            404,
            {"error": "Could not find any versions of model other"},
        )


# The requests of ovmsclient 2023.1, OpenVINO's client, for `predict({"x": np.float32([2])}, "half")`,
# `get_model_status("half")` and `get_model_metadata("half")`: it always sends a version, by default 0.
OVMS = {
    "PredictionService/Predict": b"\n\x08\n\x04half\x12\x00\x12\x13\n\x01x\x12\x0e\x08\x01\x12\x04\x12\x02"
    b'\x08\x01"\x04\x00\x00\x00@',
    "ModelService/GetModelStatus": b"\n\x08\n\x04half\x12\x00",
    "PredictionService/GetModelMetadata": b"\n\x08\n\x04half\x12\x00\x12\rsignature_def",
}
OVMS_ANSWERS = {
    "PredictionService/Predict": predict_pb2.PredictResponse,
    "ModelService/GetModelStatus": get_model_status_pb2.GetModelStatusResponse,
    "PredictionService/GetModelMetadata": get_model_metadata_pb2.GetModelMetadataResponse,
}


def ask_as_openvino(server):
    """The answers to ovmsclient's requests."""
    found = []
    with grpc.insecure_channel(server.target) as channel:
        for call, request in OVMS.items():
            ask = channel.unary_unary(f"/tensorflow.serving.{call}")
            found.append(OVMS_ANSWERS[call].FromString(ask(request, timeout=20)))
    return found


def test_version_0_of_openvinos_client_is_the_newest(tmp_path):
    for version in (1, 2):
        save(HalfPlusTwo(b=float(version)), tmp_path, version)
    with Server(ServerConfig("half", tmp_path, port=0, rest_api_port=-1)) as server:
        predicted, status, metadata = ask_as_openvino(server)
        assert (predicted.model_spec.version.value, predicted.outputs["y"].float_val) == (2, [3.0])
        assert [each.version for each in status.model_version_status] == [2]
        assert metadata.model_spec.version.value == 2
        url = f"{server.rest_url}/v1/models/half/versions/0"
        assert curl("-d", '{"instances": [2.0]}', f"{url}:predict") == (200, {"predictions": [3.0]})
        assert curl(url)[1]["model_version_status"][0]["version"] == "2"
        assert curl(f"{url}/metadata")[1]["model_spec"]["version"] == "2"
        assert (
            curl("-d", '{"instances": [2.0]}', f"{server.rest_url}/v1/models/half/versions/7:predict")[0]
            == 404
        )


def test_version_0_is_itself_where_there_is_one(tmp_path):
    save(HalfPlusTwo(b=5.0), tmp_path, 0)
    with Server(ServerConfig("half", tmp_path, port=0)) as server:
        assert ask_as_openvino(server)[0].outputs["y"].float_val == [6.0]
    save(HalfPlusTwo(), tmp_path, 1)
    with Server(ServerConfig("half", tmp_path, port=0)) as server:  # serves the latest only
        with pytest.raises(grpc.RpcError) as caught:
            ask_as_openvino(server)
        assert caught.value.details() == "Servable not found for request: Specific(half, 0)"


def test_version_0_of_an_unknown_model_is_not_found(half_base):
    with Server(ServerConfig("other", half_base, port=0)) as server:
        with pytest.raises(grpc.RpcError) as caught:
            ask_as_openvino(server)
        assert caught.value.details() == "Servable not found for request: Specific(half, 0)"
