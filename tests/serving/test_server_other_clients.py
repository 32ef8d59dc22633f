"""Programs that know nothing of this project get the protocol's answers: Node.js, and curl for REST."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

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
