"""Triton's own client, unchanged, is at home here: over gRPC and HTTP, blocking and asyncio.

Its descriptors and this project's live in one process. `.ci/run` installs it; elsewhere these tests are
skipped.
"""

import asyncio
import inspect

import ml_dtypes
import numpy as np
import pytest
import serving_models as models

from keras_selfattn.serving.server import Server, ServerConfig

grpc_client = pytest.importorskip("tritonclient.grpc")
grpc_aio = pytest.importorskip("tritonclient.grpc.aio")
http_client = pytest.importorskip("tritonclient.http")
http_aio = pytest.importorskip("tritonclient.http.aio")

from tritonclient.utils import InferenceServerException, np_to_triton_dtype  # noqa: E402 - it is there

CLIENTS = {"grpc": grpc_client, "grpc-aio": grpc_aio, "http": http_client, "http-aio": http_aio}
TYPES = {
    "bool": [True, False],
    **{name: [1, -2] for name in ("int8", "int16", "int32", "int64", "float16", "float32", "float64")},
    **{f"uint{bits}": [1, 2**bits - 1] for bits in (8, 16, 32, 64)},
}


@pytest.fixture(scope="module")
def server(half_base, tmp_path_factory):
    types = tmp_path_factory.mktemp("types")
    models.save(models.Types(), types)
    config = types / "models.conf"
    entries = [
        f"config {{ name: '{name}' base_path: '{base}' model_platform: 'tensorflow' }}"
        for name, base in (("half", half_base), ("types", types))
    ]
    config.write_text(f"model_config_list {{ {' '.join(entries)} }}")
    with Server(ServerConfig(model_config_file=config, port=0, rest_api_port=-1)) as server:
        yield server


@pytest.fixture(scope="module", params=CLIENTS)
def module(request):
    return CLIENTS[request.param]


@pytest.fixture(scope="module")
def ask(module, server):
    """Calls a method of a client; its asyncio methods behind the same form."""
    target = server.target if "grpc" in module.__name__ else server.rest_url.removeprefix("http://")
    with asyncio.Runner() as runner:

        async def made():
            return module.InferenceServerClient(target)

        client = runner.run(made())

        def call(method, *args, **kwargs):
            found = getattr(client, method)(*args, **kwargs)
            return runner.run(found) if inspect.isawaitable(found) else found

        yield call
        call("close")


def sent(module, name, array, datatype=None, **settings):
    found = module.InferInput(name, list(array.shape), datatype or np_to_triton_dtype(array.dtype))
    found.set_data_from_numpy(array, **settings)
    return found


def plain(answer):
    """An answer's fields: gRPC's are those of a message, HTTP's are keys."""
    if isinstance(answer, dict):
        return answer
    return {field.name: value for field, value in answer.ListFields()}


def test_server_and_models_are_live_ready_and_described(ask):
    assert ask("is_server_live")
    assert ask("is_server_ready")
    ready = [("half",), ("half", "3"), ("half", "2"), ("other",)]
    assert [ask("is_model_ready", *which) for which in ready] == [True, True, False, False]
    found = plain(ask("get_server_metadata"))
    assert (found["name"], list(found["extensions"])) == ("keras-selfattn", ["binary_tensor_data"])
    found = plain(ask("get_model_metadata", "half"))
    assert (found["name"], list(found["versions"])) == ("half", ["3"])
    (described,) = [plain(each) for each in found["inputs"]]
    assert (described["name"], described["datatype"], list(described["shape"])) == ("x", "FP32", [-1])


def test_the_repository_is_listed(ask):
    found = ask("get_model_repository_index")
    listed = found if isinstance(found, list) else [plain(each) for each in found.models]
    assert [(each["name"], each["version"], each["state"]) for each in listed] == [
        ("half", "3", "READY"),
        ("types", "1", "READY"),
    ]


@pytest.mark.parametrize("name", TYPES)
def test_numbers_of_every_type_come_back(ask, module, name):
    array = np.array([TYPES[name]] * 2, name)
    answer = ask("infer", "types", [sent(module, "x", array)], parameters={"signature_name": name})
    found = answer.as_numpy("y")
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_bfloat16_comes_back(ask, module):
    array = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    answer = ask(
        "infer", "types", [sent(module, "x", array, "BF16")], parameters={"signature_name": "bfloat16"}
    )
    assert answer.get_output("y") is not None
    np.testing.assert_array_equal(answer.as_numpy("y"), array)


def test_texts_and_bytes_come_back(ask, module):
    array = np.array([["wörd".encode(), b"\xff\x00"], [b"", b"x" * 1000]], object)
    answer = ask("infer", "types", [sent(module, "x", array)], parameters={"signature_name": "string"})
    assert answer.as_numpy("y").tolist() == array.tolist()


def test_an_answer_has_the_request_id_and_the_outputs_asked_for(ask, module):
    left, right = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)
    answer = ask(
        "infer",
        "half",
        [sent(module, "left", left), sent(module, "right", right)],
        model_version="3",
        outputs=[module.InferRequestedOutput("product")],
        request_id="seven",
        parameters={"signature_name": "matmul"},
    )
    found = plain(answer.get_response())
    assert (found["id"], found["model_name"], found["model_version"]) == ("seven", "half", "3")
    assert [plain(each)["name"] for each in found["outputs"]] == ["product"]
    np.testing.assert_array_equal(answer.as_numpy("product"), np.full((2, 2), 3.0))


@pytest.mark.parametrize("module", ["http", "http-aio"], indirect=True)
@pytest.mark.parametrize("binary_in", [False, True])
@pytest.mark.parametrize("binary_out", [False, True])
def test_over_http_either_side_may_be_json(ask, module, binary_in, binary_out):
    x = sent(module, "x", np.float32([0.1, 4]), binary_data=binary_in)
    outputs = [module.InferRequestedOutput("y", binary_data=binary_out)]
    found = ask("infer", "half", [x], outputs=outputs).as_numpy("y")
    np.testing.assert_array_equal(found, np.float32(0.5) * np.float32([0.1, 4]) + np.float32(2))


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_requests_may_be_compressed(ask, module, algorithm):
    name = "compression_algorithm" if "grpc" in module.__name__ else "request_compression_algorithm"
    x = sent(module, "x", np.zeros(1000, np.float32))
    assert ask("infer", "half", [x], **{name: algorithm}).as_numpy("y").tolist() == [2.0] * 1000


def test_errors_have_their_codes_and_words(ask, module):
    x = sent(module, "x", np.float32([1]))
    is_grpc = "grpc" in module.__name__

    def refused(*args, **kwargs):
        with pytest.raises(InferenceServerException) as raised:
            ask(*args, **kwargs)
        return raised.value.status(), raised.value.message()

    assert refused("infer", "other", [x]) == (
        "StatusCode.NOT_FOUND" if is_grpc else "404",
        "Servable not found for request: Latest(other)",
    )
    assert refused("infer", "half", [x], parameters={"signature_name": "none"}) == (
        "StatusCode.FAILED_PRECONDITION" if is_grpc else "400",
        'Serving signature key "none" not found.',
    )
    code, words = refused("infer", "half", [x], sequence_id=5, sequence_start=True)
    assert (code, "models with state" in words) == ("StatusCode.UNIMPLEMENTED" if is_grpc else "501", True)
    x.set_shared_memory("region", 4)
    code, words = refused("infer", "half", [x])
    assert (code, "shared_memory_region" in words) == ("StatusCode.UNIMPLEMENTED" if is_grpc else "501", True)


@pytest.mark.parametrize("method", ["get_inference_statistics", "get_log_settings", "load_model"])
def test_calls_of_tritons_own_are_refused_by_name(ask, method):
    with pytest.raises(InferenceServerException, match="is not part of the Open Inference Protocol"):
        ask(method, *(["half"] if method == "load_model" else []))
