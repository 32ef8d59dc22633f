"""The Open Inference Protocol over gRPC and REST: Predict's answers under its names, and its own refusals."""

import gzip
import json
import re
import urllib.error
import urllib.request
import zlib

import grpc
import numpy as np
import pytest
import serving_models as models
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from keras_selfattn import __version__
from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.wire import open_inference_pb2 as oip
from keras_selfattn.serving.wire import open_inference_tensors as tensors

JSON_LENGTH = "Inference-Header-Content-Length"
TRITONS = "is an extension of Triton's, which this server does not support"
HALF = {"name": "x", "datatype": "FP32", "shape": [2], "data": [2, 4]}
DATATYPES = {
    **{name: name.upper() for name in models.Types.NAMES},
    **{"string": "BYTES", "float16": "FP16", "bfloat16": "BF16", "float32": "FP32", "float64": "FP64"},
}
CARRIED = [name for name in models.Types.NAMES if "complex" not in name]


class Columns(tf.Module):
    """A row of a table."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="text"),
            tf.TensorSpec([None], tf.float64, name="n"),
            tf.TensorSpec([None], tf.int64, name="i"),
        ]
    )
    def serve(self, text, n, i):
        return {"y": n * tf.cast(i, tf.float64), "length": tf.strings.length(text)}


@pytest.fixture(scope="module")
def server(half_base, tf1_base, slow_base, tmp_path_factory):
    """A server of several models, of which `half` has two versions and labels for them."""
    folder = tmp_path_factory.mktemp("models")
    types, half, text, columns = (folder / name for name in ("types", "half", "text", "columns"))
    models.save(models.Types(), types)
    models.save(Columns(), columns)
    sentiment = models.Sentiment()
    models.save(sentiment, text, serving_default=sentiment.serve, echo=sentiment.echo)
    models.save(models.HalfPlusTwo(b=1.0), half, 1)
    module = models.HalfPlusTwo()
    models.save(module, half, 3, serving_default=module.serve, matmul=module.matmul)
    more = {
        "half": "model_version_policy { all {} } version_labels { key: 'stable' value: 1 }",
        "tf1": "",
        "slow": "",
        **dict.fromkeys(("types", "text", "columns"), ""),
    }
    bases = {
        **{"half": half, "tf1": tf1_base, "slow": slow_base, "types": types},
        **{"text": text, "columns": columns},
    }
    entries = [
        f"config {{ name: '{name}' base_path: '{base}' model_platform: 'tensorflow' {more[name]} }}"
        for name, base in bases.items()
    ]
    config = folder / "models.conf"
    config.write_text(f"model_config_list {{ {' '.join(entries)} }}")
    with Server(ServerConfig(model_config_file=config, port=0, rest_api_port=-1)) as server:
        yield server


@pytest.fixture(scope="module")
def call(server):
    """Calls a method with a message; gives the answer's."""
    with grpc.insecure_channel(server.target) as channel:

        def ask(method, request, **settings):
            answer = getattr(oip, type(request).__name__.replace("Request", "Response"))
            path = f"/inference.GRPCInferenceService/{method}"
            data = channel.unary_unary(path)(request.SerializeToString(), timeout=20, **settings)
            return answer.FromString(data)

        yield ask


@pytest.fixture(scope="module")
def infer(call):
    """Infers with arrays as raw bytes; gives the message."""

    def ask(model="half", outputs=(), version="", parameters=None, **arrays):
        request = request_of(model, outputs, version, parameters, **arrays)
        return call("ModelInfer", request)

    return ask


def request_of(model="half", outputs=(), version="", parameters=None, in_contents=False, **arrays):
    request = oip.ModelInferRequest(model_name=model, model_version=version, id="7")
    for name, value in (parameters or {}).items():
        kind = {str: "string_param", int: "int64_param", bool: "bool_param"}[type(value)]
        setattr(request.parameters[name], kind, value)
    for name in outputs:
        request.outputs.add(name=name)
    for name, array in arrays.items():
        sent = request.inputs.add(name=name, datatype=tensors.datatype_of_array(array), shape=array.shape)
        if in_contents:
            sent.contents.CopyFrom(tensors.to_contents(array))
        else:
            request.raw_input_contents.append(tensors.to_raw(array))
    return request


def arrays_of(response):
    if response.raw_output_contents:
        pairs = zip(response.outputs, response.raw_output_contents, strict=True)
        return {each.name: tensors.from_raw(each.datatype, each.shape, data) for each, data in pairs}
    return {
        each.name: tensors.from_contents(each.datatype, each.shape, each.contents)
        for each in response.outputs
    }


def refused(function, *args, **kwargs):
    with pytest.raises(grpc.RpcError) as raised:
        function(*args, **kwargs)
    return raised.value.code().name, raised.value.details()


def ask(server, path, body=None, headers=None, method=None):
    """The status, body and headers of an answer over REST."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    url = f"{server.rest_url}{path}"
    request = urllib.request.Request(url, data=data, headers=headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, response.read(), response.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


def answer(server, path, body=None, **settings):
    status, data, _ = ask(server, path, body, **settings)
    return status, json.loads(data)


def test_an_answer_names_model_version_and_request(infer):
    response = infer(x=np.float32([2, 4]))
    assert (response.model_name, response.model_version, response.id) == ("half", "3", "7")
    (output,) = response.outputs
    assert (output.name, output.datatype, list(output.shape)) == ("y", "FP32", [2])
    assert response.raw_output_contents == [np.float32([3, 4]).tobytes()]


@pytest.mark.parametrize("name", CARRIED)
@pytest.mark.parametrize("transport", ["raw", "contents", "JSON", "binary"])
def test_values_of_every_type_come_back_as_predict_gives_them(server, call, name, transport):
    values = ["a", "wörd", ""] if name == "string" else [1, 0, 1]
    with Client(server.target, "types") as client:
        wanted = client.predict({"x": values}, signature=name)["y"]
    array = np.array([each.encode() for each in values], object) if name == "string" else wanted
    datatype, parameters = DATATYPES[name], {"signature_name": name}
    if transport in ("raw", "contents"):
        in_contents = transport == "contents" and tensors.has_contents(datatype)
        request = request_of("types", [], "", parameters, in_contents=in_contents, x=array)
        response = call("ModelInfer", request)
        assert bool(response.raw_output_contents) is not in_contents
        found = arrays_of(response)["y"]
    else:
        data = values if name != "bool" else [bool(value) for value in values]
        x, binary = {"name": "x", "datatype": datatype, "shape": [3]}, b""
        if transport == "binary":
            binary = tensors.to_raw(array)
            x["parameters"] = {"binary_data_size": len(binary)}
            parameters["binary_data_output"] = True
        else:
            x["data"] = data
        header = json.dumps({"inputs": [x], "parameters": parameters}).encode()
        headers = {JSON_LENGTH: str(len(header))} if binary else {}
        status, body, answered = ask(server, "/v2/models/types/infer", header + binary, headers)
        assert status == 200, body
        found = rest_array(body, answered)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def rest_array(body, headers):
    """The array of the one output of an answer over REST."""
    end = int(headers.get(JSON_LENGTH) or len(body))
    (output,) = json.loads(body[:end])["outputs"]
    if "data" in output:
        assert headers["Content-Type"] == "application/json"
        data = [each.encode() for each in output["data"]] if output["datatype"] == "BYTES" else output["data"]
        return np.array(data, tensors.dtype_of(output["datatype"])).reshape(output["shape"])
    assert headers["Content-Type"] == "application/octet-stream"
    assert output["parameters"] == {"binary_data_size": len(body) - end}
    return tensors.from_raw(output["datatype"], output["shape"], body[end:])


def test_a_parameter_names_the_signature_and_outputs_are_chosen_by_name(infer):
    left, right = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    asked = {"signature_name": "matmul"}
    assert list(arrays_of(infer(left=left, right=right, parameters=asked))) == ["left", "product"]
    found = arrays_of(infer(left=left, right=right, parameters=asked, outputs=["product"]))
    assert list(found) == ["product"]
    np.testing.assert_array_equal(found["product"], np.full((2, 4), 3.0))


@pytest.mark.parametrize(("version", "answers"), [("", "3"), ("3", "3"), ("1", "1"), ("stable", "1")])
def test_versions_are_numbers_or_labels(server, infer, call, version, answers):
    response = infer(version=version, x=np.float32([2]))
    assert response.model_version == answers
    assert arrays_of(response)["y"].tolist() == [{"3": 3.0, "1": 2.0}[answers]]
    assert call("ModelReady", oip.ModelReadyRequest(name="half", version=version)).ready
    path = "/v2/models/half" + (f"/versions/{version}" if version else "")
    status, found = answer(server, f"{path}/infer", {"inputs": [HALF], "id": "seven"})
    assert (status, found) == (
        200,
        {
            "model_name": "half",
            "model_version": answers,
            "id": "seven",
            "outputs": [
                {
                    "name": "y",
                    "datatype": "FP32",
                    "shape": [2],
                    "data": {"3": [3.0, 4.0], "1": [2.0, 3.0]}[answers],
                }
            ],
        },
    )
    assert answer(server, f"{path}/ready") == (200, {"name": "half", "ready": True})


def test_a_server_tells_what_it_is(server, call):
    assert call("ServerLive", oip.ServerLiveRequest()).live
    assert call("ServerReady", oip.ServerReadyRequest()).ready
    found = call("ServerMetadata", oip.ServerMetadataRequest())
    assert (found.name, found.version, found.extensions) == (
        "keras-selfattn",
        __version__,
        ["binary_tensor_data"],
    )
    assert answer(server, "/v2") == (
        200,
        {"name": "keras-selfattn", "version": __version__, "extensions": ["binary_tensor_data"]},
    )
    for state in ("live", "ready"):
        assert answer(server, f"/v2/health/{state}") == (200, {state: True})
        assert ask(server, f"/v2/health/{state}", method="HEAD")[0] == 200


def test_a_model_tells_its_versions_signatures_inputs_and_outputs(server, call):
    found = call("ModelMetadata", oip.ModelMetadataRequest(name="half"))
    assert (found.name, found.versions, found.platform) == ("half", ["1", "3"], "tensorflow_savedmodel")
    assert dict(found.properties) == {"signatures": "matmul,serving_default"}
    described = [(each.name, each.datatype, list(each.shape)) for each in (*found.inputs, *found.outputs)]
    assert described == [("x", "FP32", [-1]), ("y", "FP32", [-1])]
    status, over_rest = answer(server, "/v2/models/half/versions/3")
    assert (status, over_rest["inputs"]) == (200, [{"name": "x", "datatype": "FP32", "shape": [-1]}])
    assert over_rest["properties"] == dict(found.properties)
    assert over_rest["versions"] == ["1", "3"]


def test_what_is_not_there_is_not_ready(server, call):
    for name, version in (("other", ""), ("half", "2"), ("half", "canary"), ("", "")):
        assert not call("ModelReady", oip.ModelReadyRequest(name=name, version=version)).ready
    assert answer(server, "/v2/models/other/ready") == (400, {"error": "model other is not ready"})
    assert answer(server, "/v2/models/half/versions/2/ready")[0] == 400


X = {"x": np.float32([2])}
REFUSED = {
    "no such model": ({"model": "other", **X}, "NOT_FOUND", r"Servable not found for request: Latest\(other"),
    "no such version": ({"version": "2", **X}, "NOT_FOUND", r"Servable not found .* Specific\(half, 2\)"),
    "no such label": ({"version": "new", **X}, "INVALID_ARGUMENT", "Unrecognized .* version label: new"),
    "a version beyond 63 bits": ({"version": "9" * 30, **X}, "INVALID_ARGUMENT", "version must be at most"),
    "no such signature": (
        {"parameters": {"signature_name": "new"}, **X},
        "FAILED_PRECONDITION",
        'Serving signature key "new" not found',
    ),
    "a signature that is a number": (
        {"parameters": {"signature_name": 1}, **X},
        "INVALID_ARGUMENT",
        "the parameter signature_name must be a string. Received 1",
    ),
    "no such input": (
        {"z": np.float32([2])},
        "INVALID_ARGUMENT",
        r"Inputs expected to be in the request {z}",
    ),
    "no input": ({}, "INVALID_ARGUMENT", "input size does not match signature"),
    "no such output": ({"outputs": ["z"], **X}, "INVALID_ARGUMENT", "output tensor alias not found"),
    "an output twice": ({"outputs": ["y", "y"], **X}, "INVALID_ARGUMENT", "duplicate output tensor alias"),
    "another datatype": ({"x": np.int64([2])}, "INVALID_ARGUMENT", "float but int64 is provided"),
    "a sequence": (
        {"parameters": {"sequence_id": 5}, **X},
        "UNIMPLEMENTED",
        "parameter sequence_id is for models with state",
    ),
    "a negative timeout": (
        {"parameters": {"timeout": -1}, **X},
        "INVALID_ARGUMENT",
        "timeout must be microseconds, a whole number from 0. Received -1",
    ),
    "complex numbers": (
        {"model": "types", "parameters": {"signature_name": "complex64"}, **X},
        "INVALID_ARGUMENT",
        "to be complex64 but float is provided",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_answered_is_refused(infer, case):
    asked, code, words = REFUSED[case]
    found = refused(infer, **asked)
    assert found[0] == code, found

    assert re.search(words, found[1]), found


def changed(**changes):
    """A request with raw inputs `left` and `right`, after a change."""
    request = request_of(left=np.ones((2, 3), np.float32), right=np.ones((3, 2), np.float32))
    request.parameters["signature_name"].string_param = "matmul"
    for change in changes.values():
        change(request)
    return request


def test_a_message_that_contradicts_itself_is_refused(call):
    cases = {
        "raw_input_contents must have one entry for each of 2 inputs. Received 1": lambda r: (
            r.raw_input_contents.pop()
        ),
        "input left: with raw_input_contents no input may have contents": lambda r: r.inputs[
            0
        ].contents.int_contents.append(1),
        "input left is given twice": lambda r: setattr(r.inputs[1], "name", "left"),
        "input right: FP32 of shape [3, 3] takes 36 bytes. Received 24": lambda r: r.inputs[
            1
        ].shape.__setitem__(1, 3),
        "input left: the datatype must be one of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, "
        "UINT64, FP16, BF16, FP32, FP64, BYTES. Received 'FP8'": lambda r: setattr(
            r.inputs[0], "datatype", "FP8"
        ),
        f"left: the parameter shared_memory_region {TRITONS}": (
            lambda r: setattr(r.inputs[0].parameters["shared_memory_region"], "string_param", "a")
        ),
        f"product: the parameter classification {TRITONS}": (
            lambda r: setattr(r.outputs.add(name="product").parameters["classification"], "int64_param", 3)
        ),
    }
    for words, change in cases.items():
        code, found = refused(call, "ModelInfer", changed(change=change))
        assert found == words
        assert code == ("UNIMPLEMENTED" if "Triton" in words else "INVALID_ARGUMENT")


def test_bytes_that_are_no_message_are_refused(server):
    with grpc.insecure_channel(server.target) as channel:
        for method in ("ModelInfer", "ModelReady", "ModelMetadata"):
            ask = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
            assert refused(ask, b"\xff\xff", timeout=20) == ("INTERNAL", "Unable to parse request")


@pytest.mark.parametrize(
    "name",
    [
        "ModelStreamInfer",
        "RepositoryModelLoad",
        "SystemSharedMemoryStatus",
        "TraceSetting",
    ],
)
def test_calls_that_triton_adds_are_unimplemented_by_name(server, name):
    with grpc.insecure_channel(server.target) as channel:
        path = f"/inference.GRPCInferenceService/{name}"
        words = f"{name} is not part of the Open Inference Protocol; this server does not support it"
        assert refused(channel.unary_unary(path), b"", timeout=20) == ("UNIMPLEMENTED", words)
        streamed = channel.stream_stream(path)
        assert refused(lambda: list(streamed(iter([b""]), timeout=20))) == ("UNIMPLEMENTED", words)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", f"/v2/{each}") for each in ("systemsharedmemory/status", "models/stats", "trace/setting")),
        *(
            ("POST", f"/v2/{each}")
            for each in ("repository/models/half/load", "models/half/generate", "logging")
        ),
        ("GET", "/v2/models/half/config"),
        ("GET", "/v2/models/half/versions/3/stats"),
    ],
)
def test_paths_that_triton_adds_are_unimplemented_by_name(server, method, path):
    body = b"{}" if method == "POST" else None
    status, found = answer(server, path, body)
    words = f"{path} is not part of the Open Inference Protocol; this server does not support it"
    assert (status, found) == (501, {"error": words})


def test_a_path_or_method_that_is_not_there_is_refused(server):
    assert answer(server, "/v2/nothing") == (
        404,
        {
            "error": "there is nothing at /v2/nothing; the Open Inference Protocol has /v2, /v2/health/live, "
            "/v2/health/ready, /v2/models, /v2/models/MODEL[/versions/VERSION] and, after it, /ready and "
            "/infer"
        },
    )
    assert answer(server, "/v2/models/half/infer") == (
        400,
        {"error": "Malformed request: GET /v2/models/half/infer"},
    )
    assert answer(server, "/v2/models/half", b"{}")[0] == 400
    status, found = answer(server, "/nothing")
    assert (status, found["error"]) == (
        404,
        "there is nothing at /nothing; the APIs begin with /v1/models and /v2/models",
    )


def test_lists_may_be_nested_as_their_shape(server):
    x = {"name": "x", "datatype": "FP32", "shape": [2, 1, 2], "data": [[[2, 3]], [[4, 5]]]}
    _, found = answer(server, "/v2/models/types/infer", {"inputs": [x]})
    assert (found["outputs"][0]["shape"], found["outputs"][0]["data"]) == ([2, 1, 2], [2.0, 3.0, 4.0, 5.0])


FLOATING = {"FP16": "float16", "BF16": "bfloat16", "FP32": "float32", "FP64": "float64"}


@pytest.mark.parametrize("datatype", FLOATING)
@pytest.mark.parametrize("data", ["[1.5, null, -2]", "[[1.5], [NaN], [-2]]", "[1.5, -NaN, -2]"])
def test_null_and_nan_among_floating_numbers_are_nan_and_answered_as_null(server, datatype, data):
    shape = "[3, 1]" if "[[" in data else "[3]"
    body = (
        f'{{"parameters": {{"signature_name": "{FLOATING[datatype]}"}}, "inputs": [{{"name": "x", '
        f'"datatype": "{datatype}", "shape": {shape}, "data": {data}}}]}}'
    )
    status, body, _ = ask(server, "/v2/models/types/infer", body.encode())
    assert status == 200, body
    (output,) = json.loads(body, parse_constant=pytest.fail)["outputs"]
    assert output["data"] == [1.5, None, -2.0]


def test_all_values_are_written_beside_nan(server):
    values = np.float32([*range(100), np.nan, 0.1])
    x = {"name": "x", "datatype": "FP32", "shape": [102], "data": [*values[:-2].tolist(), None, 0.1]}
    _, found = answer(server, "/v2/models/types/infer", {"inputs": [x]})
    assert found["outputs"][0]["data"] == [*range(100), None, 0.1]


@pytest.mark.parametrize(
    ("datatype", "data"),
    [("INT64", [1, None]), ("UINT8", [1, None]), ("BOOL", [True, None]), ("BYTES", ["a", None])],
)
def test_null_among_values_of_other_types_is_refused_with_its_place(server, datatype, data):
    x = {"name": "x", "datatype": datatype, "shape": [2], "data": data}
    assert answer(server, "/v2/models/types/infer", {"inputs": [x]}) == (
        400,
        {
            "error": "input x: value 1 is null, which stands for NaN: FP16, BF16, FP32 and FP64 have it, and "
            f"{datatype} does not. Send a value in its place"
        },
    )


def test_infinities_are_read_and_answered_in_binary_only(server):
    x = {**HALF, "shape": [3], "data": "[NaN, Infinity, -Infinity]"}
    parameters = {"binary_data_output": True}
    plain = json.dumps({"inputs": [x]}).replace('"[', "[").replace(']"', "]")
    asked = json.dumps({"inputs": [x], "parameters": parameters}).replace('"[', "[").replace(']"', "]")
    status, body, headers = ask(server, "/v2/models/half/infer", asked.encode())
    assert status == 200
    np.testing.assert_array_equal(rest_array(body, headers), np.float32([np.nan, np.inf, -np.inf]))
    assert answer(server, "/v2/models/half/infer", plain.encode()) == (
        400,
        {
            "error": "output y has inf at value 1, which JSON cannot carry; ask for it with the parameter "
            "binary_data"
        },
    )


# Bodies that clients wrote, with the answers that these can read. MLServer's were written by the codecs of
# MLServer 1.7.1 (NumpyCodec, StringCodec; PandasCodec of a frame with pandas 2.3.3), KServe's by the SDK's
# InferenceRESTClient of KServe 0.21.0.
CLIENTS = {
    "NumpyCodec": (
        "half",
        '{"inputs":[{"name":"x","shape":[3,1],"datatype":"FP32","parameters":{"content_type":"np"},'
        '"data":[2.0,null,4.0]}]}',
        {"y": ([3], [3.0, None, 4.0])},
    ),
    "StringCodec": (
        "text",
        '{"inputs":[{"name":"text","shape":[2,1],"datatype":"BYTES","parameters":{"content_type":"str"},'
        '"data":["good","bad"]}]}',
        {
            "label": ([2], ["pos", "neg"]),
            "probabilities": ([2, 3], [0.125, 0.75, 0.125, 0.75, 0.125, 0.125]),
            "score": ([2], [0.75, 0.75]),
        },
    ),
    "PandasCodec": (
        "columns",
        '{"parameters":{"content_type":"pd"},"inputs":[{"name":"text","shape":[2,1],"datatype":"BYTES",'
        '"parameters":{"content_type":"str"},"data":["good","bad"]},{"name":"n","shape":[2,1],'
        '"datatype":"FP64","data":[1.5,null]},{"name":"i","shape":[2,1],"datatype":"INT64","data":[1,2]}]}',
        {"length": ([2], [4, 3]), "y": ([2], [1.5, None])},
    ),
    "Base64Codec": (
        "text",
        '{"parameters":{"signature_name":"echo"},"inputs":[{"name":"text","shape":[2,1],"datatype":"BYTES",'
        '"parameters":{"content_type":"base64"},"data":["Z29vZA==","w6Q="]}]}',
        {"bytes": ([2, 1], [4, 2]), "text": ([2, 1], ["good", "ä"])},
    ),
    "InferenceRESTClient": (
        "half",
        '{"id":"1","model_name":"half","inputs":[{"name":"x","shape":[3],"datatype":"FP32",'
        '"data":[2.0,null,4.0]}]}',
        {"y": ([3], [3.0, None, 4.0])},
    ),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_what_kserves_and_mlservers_clients_write_is_answered(server, client):
    model, body, outputs = CLIENTS[client]
    status, found = answer(server, f"/v2/models/{model}/infer", body.encode())
    assert status == 200, found
    assert {each["name"]: (each["shape"], each["data"]) for each in found["outputs"]} == outputs


def test_base64_is_read_where_a_parameter_names_it_and_refused_where_it_is_none(server, call):
    request = request_of("text", [], "", {"signature_name": "echo"}, text=np.array([b"w6Q="], object))
    request.inputs[0].parameters["content_type"].string_param = "base64"
    assert arrays_of(call("ModelInfer", request))["text"].tolist() == ["ä".encode()]
    text = {"name": "text", "datatype": "BYTES", "shape": [2], "data": ["w6Q=", "good!"]}
    body = {"inputs": [{**text, "parameters": {"content_type": "base64"}}]}
    words = "input text: value 1 is not base64, which its parameter content_type says"
    status, found = answer(server, "/v2/models/text/infer", body)
    assert (status, found["error"].startswith(words)) == (400, True)


def test_models_are_listed_as_kserve_lists_them(server):
    names = ["columns", "half", "slow", "text", "tf1", "types"]
    for path in ("/v2/models", "/v2/models/"):
        assert answer(server, path) == (200, {"models": names})


def entry(name, version, state="READY", reason=""):
    return {"name": name, "version": version, "state": state, "reason": reason}


def test_the_repository_is_listed_as_triton_and_mlserver_list_it(server, call):
    listed = [
        *(entry("columns", "1"), entry("half", "3"), entry("half", "1"), entry("slow", "1")),
        *(entry("text", "1"), entry("tf1", "123"), entry("types", "1")),
    ]
    for body in (b"{}", b"", {"ready": True}, {"ready": False}):
        assert answer(server, "/v2/repository/index", body, method="POST") == (200, listed)
    found = call("RepositoryIndex", oip.RepositoryIndexRequest(ready=True))
    assert [entry(each.name, each.version, each.state, each.reason) for each in found.models] == listed
    words = "request: 'ready' must be true or false. Received 1"
    assert answer(server, "/v2/repository/index", {"ready": 1}) == (400, {"error": words})


def test_a_version_that_does_not_load_is_listed_with_its_reason(tmp_path, until):
    models.save(models.HalfPlusTwo(), tmp_path, 1)
    broken = models.save(models.HalfPlusTwo(), tmp_path, 2)
    (broken / "saved_model.pb").write_bytes(b"no graph")
    config = ServerConfig("half", tmp_path, port=0, rest_api_port=-1, max_num_load_retries=0)
    with Server(config) as server:

        def listed(body):
            return answer(server, "/v2/repository/index", body)[1]

        until(lambda: len(listed({})) == 2)
        until(lambda: listed({})[0]["state"] == "UNAVAILABLE")
        failed, works = listed({})
        assert (failed["version"], works) == ("2", entry("half", "1"))
        assert failed["reason"]
        assert listed({"ready": True}) == [entry("half", "1")]


WITHOUT = "Send it there, or send the Open Inference Protocol's 'inputs' here"


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v2/models/half", {"instances": [1.0]}, "POST /v1/models/half:predict. " + WITHOUT),
        ("/v2/models/half/versions/3", {"instances": [1.0]}, "POST /v1/models/half/versions/3:predict. "),
        (
            "/v2/models/half/versions/stable",
            {"inputs": {"x": [1.0]}},
            "/v1/models/half/labels/stable:predict",
        ),
        ("/v2/models/half", {"inputs": [1.0]}, "POST /v1/models/half:predict. " + WITHOUT),
        ("/v2/models/tf1", {"examples": [{"x": 1}]}, "/v1/models/tf1:classify or /v1/models/tf1:regress. "),
    ],
)
def test_a_body_of_tensorflow_servings_api_is_told_its_path(server, path, body, words):
    status, found = answer(server, f"{path}/infer", body)
    assert (status, words in found["error"]) == (400, True), found


@pytest.mark.parametrize("method", ["predict", "classify", "regress"])
@pytest.mark.parametrize("version", ["", "/versions/3"])
def test_a_body_of_the_open_inference_protocol_is_told_its_path(server, method, version):
    status, found = answer(server, f"/v1/models/half{version}:{method}", {"inputs": [HALF]})
    assert (status, found) == (
        400,
        {
            "error": "the body is a request of the Open Inference Protocol: 'inputs' is a list of tensors "
            "with name and datatype. Send it to POST /v2/models/half/infer, or send "
            + ("'instances' or columns here" if method == "predict" else "'examples' here")
        },
    )


def test_a_key_of_another_protocol_beside_inputs_changes_nothing(server):
    status, found = answer(server, "/v2/models/half/infer", {"inputs": [HALF], "instances": [9]})
    assert (status, found["outputs"][0]["data"]) == (200, [3.0, 4.0])


def test_bytes_that_are_not_utf_8_are_answered_in_binary_only(server):
    data = tensors.to_raw(np.array([b"\xff"], object))
    x = {
        "name": "x",
        "datatype": "BYTES",
        "shape": [1],
        "parameters": {"binary_data_size": len(data)},
    }
    doc = {"parameters": {"signature_name": "string"}, "inputs": [x], "outputs": [{"name": "y"}]}

    def asked(binary):
        doc["outputs"][0]["parameters"] = {"binary_data": binary}
        header = json.dumps(doc).encode()
        return ask(server, "/v2/models/types/infer", header + data, {JSON_LENGTH: str(len(header))})

    status, body, headers = asked(True)
    assert (status, rest_array(body, headers).tolist()) == (200, [b"\xff"])
    status, body, _ = asked(False)
    assert (status, json.loads(body)["error"]) == (
        400,
        "output y has bytes that are not UTF-8, which JSON cannot carry; ask for it with the parameter "
        "binary_data",
    )


def test_some_outputs_come_in_binary_and_others_in_json(server):
    inputs = [
        {"name": name, "datatype": "FP32", "shape": shape, "data": [1] * 3}
        for name, shape in (("left", [1, 3]), ("right", [3, 1]))
    ]
    outputs = [{"name": "product", "parameters": {"binary_data": False}}, {"name": "left"}]
    parameters = {"signature_name": "matmul", "binary_data_output": True}
    doc = {"inputs": inputs, "outputs": outputs, "parameters": parameters}
    status, body, headers = ask(server, "/v2/models/half/infer", doc)
    end = int(headers[JSON_LENGTH])
    product, left = json.loads(body[:end])["outputs"]
    assert (status, product["data"], left["parameters"]) == (200, [3.0], {"binary_data_size": 12})
    assert np.frombuffer(body[end:], np.float32).tolist() == [1, 1, 1]


BAD = {
    "a shape of no values that no array has": (
        {"inputs": [{**HALF, "shape": [0, 2**62], "data": []}]},
        "larger than an array can be",
    ),
    "lists that are not as the shape": (
        {"inputs": [{**HALF, "shape": [2, 2], "data": [[1, 2, 3], [4]]}]},
        r"'data' must be flat, or nested as the shape \[2, 2\]",
    ),
    "lists beside values": (
        {"inputs": [{**HALF, "shape": [2], "data": [[1], 2]}]},
        "does not fit FP32: a list of 1",
    ),
    "a timeout of 400 digits": (
        {"parameters": {"timeout": 10**400}, "inputs": [HALF]},
        "timeout must be microseconds, a whole number from 0. Received 1000",
    ),
    "a signature that is not Unicode": (
        b'{"parameters": {"signature_name": "\\ud800"}, "inputs": []}',
        "request: 'signature_name' must be UTF-8",
    ),
    "an output that is not Unicode": (
        b'{"outputs": [{"name": "\xff"}], "inputs": []}',
        "output: 'name' must be UTF-8",
    ),
    "very many inputs": ({"inputs": [HALF] * 1001}, "inputs must be at most 1000. Received 1001"),
    "no JSON": (b"{", "JSON Parse error"),
    "a list": (b"[]", "the body must be a JSON object. Received a list of 0"),
    "inputs as an object": ({"inputs": {}}, "request: 'inputs' must be a list. Received an object"),
    "an input that is a number": ({"inputs": [1]}, "'inputs' must be a list of objects. Received 1"),
    "no name": ({"inputs": [{"shape": [1]}]}, "input: 'name' is missing"),
    "no datatype": ({"inputs": [{"name": "x", "shape": [], "data": []}]}, "input x: 'datatype' is missing"),
    "no data": ({"inputs": [{**HALF, "data": None}]}, "input x must have either 'data' or the parameter"),
    "neither data nor binary": (
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}]},
        "input x must have either 'data' or the parameter binary_data_size",
    ),
    "a shape of words": (
        {"inputs": [{**HALF, "shape": ["2"]}]},
        "'shape' must be whole numbers. Received \"2\"",
    ),
    "a negative shape": ({"inputs": [{**HALF, "shape": [-1]}]}, r"shape must be known. Received \(-1,\)"),
    "a shape of another size": (
        {"inputs": [{**HALF, "shape": [3]}]},
        "must have 3 values, as its shape. Received 2",
    ),
    "a gigantic shape": ({"inputs": [{**HALF, "shape": [2**62]}]}, "larger than an array can be"),
    "a word among numbers": ({"inputs": [{**HALF, "data": [1, "2"]}]}, 'does not fit FP32: "2"'),
    "a bool among numbers": ({"inputs": [{**HALF, "data": [1, True]}]}, "does not fit FP32: true"),
    "a fraction among integers": (
        {"inputs": [{**HALF, "datatype": "INT8", "data": [1, 2.5]}]},
        "does not fit INT8: 2.5",
    ),
    "an integer out of range": (
        {"inputs": [{**HALF, "datatype": "INT8", "data": [1, 300]}]},
        "out of the range of INT8: 300",
    ),
    "an unknown datatype": ({"inputs": [{**HALF, "datatype": "F32"}]}, "datatype must be one of .* 'F32'"),
    "an input twice": ({"inputs": [HALF, HALF]}, "input x is given twice"),
    "an output twice": ({"inputs": [HALF], "outputs": [{"name": "y"}] * 2}, "output y is given twice"),
    "an id that is a number": ({"id": 1, "inputs": [HALF]}, "request: 'id' must be a string. Received 1"),
    "binary data that do not come": (
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}}]},
        "binary_data_size add up to 4 bytes. Received 0 after the JSON object",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_body_that_does_not_fit_is_refused(server, case):
    body, words = BAD[case]
    status, found = answer(server, "/v2/models/half/infer", body)
    assert status == 400

    assert re.search(words, found["error"]), found


@pytest.mark.parametrize("length", ["-1", "x", "9" * 50, "1000000", ""])
def test_a_length_of_json_that_cannot_be_is_refused(server, length):
    status, found = answer(server, "/v2/models/half/infer", {"inputs": [HALF]}, headers={JSON_LENGTH: length})
    assert status == 400
    assert "Inference-Header-Content-Length must be the bytes of the JSON object" in found["error"]


def test_a_timeout_ends_the_wait(server, infer):
    seconds = np.float32(20)
    found = refused(infer, model="slow", parameters={"timeout": 100_000}, seconds=seconds)
    assert found[0] == "DEADLINE_EXCEEDED"
    x = {"name": "seconds", "datatype": "FP32", "shape": [], "data": [20]}
    status, _ = answer(server, "/v2/models/slow/infer", {"inputs": [x], "parameters": {"timeout": 100_000}})
    assert status == 504


def test_requests_are_counted_as_all_others(server, infer):
    infer(x=np.float32([1]))
    answer(server, "/v2/models/half/infer", {"inputs": [HALF]})
    _, text, _ = ask(server, "/monitoring/prometheus/metrics")
    for entrypoint in ("GRPC", "REST"):
        labels = f'{{model_name="half",API="ModelInfer",entrypoint="{entrypoint}"}}'
        assert f":tensorflow:serving:request_latency_count{labels}".encode() in text


def test_reflection_tells_the_service_under_the_protocols_name(server):
    with grpc.insecure_channel(server.target) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = reflection_pb2.ServerReflectionRequest(
            file_containing_symbol="inference.GRPCInferenceService"
        )
        (reply,) = stub.ServerReflectionInfo(iter([asked]), timeout=20)
    (file,) = reply.file_descriptor_response.file_descriptor_proto
    assert b"\x12\x09inference" in file
    assert b"keras_selfattn.open_inference" not in file
    found = descriptor_pb2.FileDescriptorProto.FromString(file)
    (contents,) = [each for each in found.message_type if each.name == "InferTensorContents"]
    fields = {each.name: (each.type, each.label) for each in contents.field}
    kinds = descriptor_pb2.FieldDescriptorProto
    assert fields["fp32_contents"] == (kinds.TYPE_FLOAT, kinds.LABEL_REPEATED)
    assert fields["fp64_contents"] == (kinds.TYPE_DOUBLE, kinds.LABEL_REPEATED)


# Requests for the list of services, and for the file of a service, as the reflection of yagrc 1.1.3 asks v1.
LIST_SERVICES = b"\x3a\x00"
FILE_OF_V1 = b"\x22\x23grpc.reflection.v1.ServerReflection"


def test_newer_tools_find_reflection_and_its_messages_in_v1(server):
    with grpc.insecure_channel(server.target) as channel:
        ask = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        listed, described = map(
            reflection_pb2.ServerReflectionResponse.FromString,
            ask(iter([LIST_SERVICES, FILE_OF_V1]), timeout=20),
        )
        names = {each.name for each in listed.list_services_response.service}
        reflections = {f"grpc.reflection.{version}.ServerReflection" for version in ("v1", "v1alpha")}
        assert names == {
            *reflections,
            *("grpc.health.v1.Health", "inference.GRPCInferenceService"),
            *(f"tensorflow.serving.{name}Service" for name in ("Model", "Prediction")),
        }
        # A client that knows nothing but the answer can ask for each service.
        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(described.file_descriptor_response.file_descriptor_proto[0])
        method = pool.FindMethodByName("grpc.reflection.v1.ServerReflection.ServerReflectionInfo")
        request, response = (
            message_factory.GetMessageClass(each) for each in (method.input_type, method.output_type)
        )
        asked = [request(file_containing_symbol=name).SerializeToString() for name in sorted(names)]
        for reply in map(response.FromString, ask(iter(asked), timeout=20)):
            assert reply.WhichOneof("message_response") == "file_descriptor_response", reply


@pytest.mark.parametrize(
    "service",
    [
        *("", "inference.GRPCInferenceService", "tensorflow.serving.PredictionService", "PredictionService"),
        *("tensorflow.serving.ModelService", "ModelService", "grpc.health.v1.Health", "half"),
        *("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"),
    ],
)
def test_the_health_of_each_service_is_told(server, service):
    with grpc.insecure_channel(server.target) as channel:
        asked = health_pb2.HealthCheckRequest(service=service)
        found = health_pb2_grpc.HealthStub(channel).Check(asked, timeout=20)
    assert found.status == health_pb2.HealthCheckResponse.SERVING


def test_a_request_beyond_the_limit_of_memory_is_refused(half_base):
    config = ServerConfig(
        "half",
        half_base,
        port=0,
        rest_api_port=-1,
        max_request_tensor_bytes=10_000,
        max_concurrent_requests=9,
    )
    with Server(config) as server, grpc.insecure_channel(server.target) as channel:
        request = request_of(x=np.array([b""] * 1000, object))
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        code, words = refused(call, request.SerializeToString(), timeout=20)
        assert (code, "max_request_tensor_bytes" in words) == ("INVALID_ARGUMENT", True)
        data = request.raw_input_contents[0]
        x = {"name": "x", "datatype": "BYTES", "shape": [1000], "parameters": {"binary_data_size": 4000}}
        header = json.dumps({"inputs": [x]}).encode()
        status, found = answer(
            server, "/v2/models/half/infer", header + data, headers={JSON_LENGTH: str(len(header))}
        )
        assert (status, "max_request_tensor_bytes" in found["error"]) == (400, True)


def test_a_server_that_stops_refuses_and_answers_what_runs(slow_base, in_background, until):
    server = Server(ServerConfig("slow", slow_base, port=0, rest_api_port=-1)).start()
    with grpc.insecure_channel(server.target) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        request = request_of("slow", seconds=np.float32(2)).SerializeToString()
        running = in_background(call, request, timeout=20)
        until(lambda: server.models._models["slow"].running == 1)
        stopping = in_background(server.stop)
        answered = oip.ModelInferResponse.FromString(running.result())
        assert arrays_of(answered)["rounds"] > 0
        stopping.result()


def test_a_refused_request_names_its_model(slow_base, in_background, until):
    config = ServerConfig("slow", slow_base, port=0, rest_api_port=-1, max_concurrent_requests=1)
    with Server(config) as server, grpc.insecure_channel(server.target) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        request = request_of("slow", seconds=np.float32(2)).SerializeToString()
        running = in_background(call, request, timeout=20)
        until(lambda: server.models._models["slow"].running == 1)
        assert refused(call, request, timeout=20)[0] == errors.ResourceExhaustedError.code.name
        running.result()
        _, text, _ = ask(server, "/monitoring/prometheus/metrics")
    assert b':tensorflow:serving:request_count{model_name="slow",status="RESOURCE_EXHAUSTED"} 1' in text


def test_bodies_may_be_compressed(server):
    body = json.dumps({"inputs": [HALF]}).encode()
    for encoding, compress in (
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("Deflate", zlib.compress),
    ):
        headers = {"Content-Encoding": encoding}
        status, found = answer(server, "/v2/models/half/infer", compress(body), headers=headers)
        assert (status, found["outputs"][0]["data"]) == (200, [3.0, 4.0])
    for wrong in (body, zlib.compress(body)[:-5]):
        headers = {"Content-Encoding": "deflate"}
        status, found = answer(server, "/v2/models/half/infer", wrong, headers=headers)
        assert (status, found["error"].startswith("Failed to decompress the request's body")) == (400, True)


def test_null_is_as_if_it_were_not_there(server):
    x = {**HALF, "parameters": None}
    doc = {"id": None, "parameters": {"timeout": None}, "outputs": None, "inputs": [x]}
    status, found = answer(server, "/v2/models/half/infer", doc)
    assert (status, found["outputs"][0]["data"], "id" in found) == (200, [3.0, 4.0], False)


def test_more_tensors_than_a_model_can_have_are_refused_before_each_is_parsed(server):
    # Inputs, outputs, raw contents; and inputs after fields and a group that no request has.
    cases = (
        b"\x2a\x00" * 4001,
        b"\x32\x00" * 4001,
        b"\x3a\x00" * 4001,
        b"\xf8\x07\x00\x0b\x0c" * 9 + b"\x2a\x00" * 4001,
    )
    with grpc.insecure_channel(server.target) as channel:
        ask = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for data in cases:
            found = refused(ask, b"\x0a\x04half" + data, timeout=20)
            words = "a request must have at most 4000 fields, such as inputs. Received more"
            assert found == ("INVALID_ARGUMENT", words)


def test_a_raw_binary_request_is_refused_by_name(server):
    status, found = answer(server, "/v2/models/half/infer", bytes(8), headers={JSON_LENGTH: "0"})
    assert (status, "a raw binary request is an extension of Triton's" in found["error"]) == (501, True)


def test_an_error_repeats_little_of_what_was_sent(server):
    x = {**HALF, "name": "x" * 10**6}
    status, body, _ = ask(server, "/v2/models/half/infer", {"inputs": [x]})
    assert (status, len(body) < 5000) == (400, True)


def test_a_model_may_be_called_as_a_call_of_tritons(half_base):
    with Server(ServerConfig("stats", half_base, port=0, rest_api_port=-1)) as server:
        assert answer(server, "/v2/models/stats/infer", {"inputs": [HALF]})[0] == 200
        assert answer(server, "/v2/models/stats/ready") == (200, {"name": "stats", "ready": True})


def test_pages_of_other_origins_may_send_and_read_binary_tensors(half_base):
    config = ServerConfig("half", half_base, port=0, rest_api_port=-1, rest_api_enable_cors_support=True)
    with Server(config) as server:
        _, _, headers = ask(server, "/v2", headers={"Origin": "http://page"}, method="OPTIONS")
    assert JSON_LENGTH in headers["Access-Control-Allow-Headers"]
    assert headers["Access-Control-Expose-Headers"] == JSON_LENGTH
