"""Malformed messages over gRPC: each is refused as the client's error, in words that name no path."""

import re

import grpc
import numpy as np
import pytest
from google.protobuf import text_format
from malformed import check_many, requests
from served import OWN_CONNECTION, infer_request, model_config, predict_request

from keras_selfattn.serving.wire import codec
from keras_selfattn.serving.wire import messages_pb2 as pb
from keras_selfattn.serving.wire import open_inference_pb2 as oip

CODE = grpc.StatusCode
# Of the client, or of what it asked for; RESOURCE_EXHAUSTED is what the channel here says of a long answer.
CLIENTS = {
    *(CODE.INVALID_ARGUMENT, CODE.NOT_FOUND, CODE.FAILED_PRECONDITION, CODE.UNIMPLEMENTED),
    *(CODE.OUT_OF_RANGE, CODE.RESOURCE_EXHAUSTED),
}
# gRPC's own code and words for what is no message, as TensorFlow Serving's binary answers.
NO_MESSAGE = (CODE.INTERNAL, "Unable to parse request")
CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"


def examples(*values):
    def example(value):
        packed = pb.FloatList(value=np.float32([value]).tobytes())
        return pb.Example(features=pb.Features(feature={"x": pb.Feature(float_list=packed)}))

    return pb.Input(example_list=pb.ExampleList(examples=list(map(example, values))))


def spec(name, signature="", **more):
    return pb.ModelSpec(name=name, signature_name=signature, **more)


def fields_request(array):
    """A Predict with typed fields instead of raw bytes."""
    inputs = {"x": codec.encode_fields(np.asarray(array))}
    return pb.PredictRequest(model_spec=spec("types", str(array.dtype)), inputs=inputs, output_filter=["y"])


ON_EXAMPLES = {
    "Classify": [
        pb.ClassificationRequest(model_spec=spec("tf1", signature), input=examples(1, 2))
        for signature in ("classify_x_to_y", "classify_with_labels", "classify_labels")
    ],
    "Regress": [
        pb.RegressionRequest(model_spec=spec("tf1", "regress_x_to_y"), input=examples(1, 2)),
        pb.RegressionRequest(
            model_spec=spec("tf1", "regress_x_to_y"),
            input=pb.Input(
                example_list_with_context=pb.ExampleListWithContext(
                    examples=examples(3).example_list.examples, context=examples(4).example_list.examples[0]
                )
            ),
        ),
    ],
    "MultiInference": [
        pb.MultiInferenceRequest(
            tasks=[
                pb.InferenceTask(model_spec=spec("tf1", "regress_x_to_y"), method_name=REGRESS),
                pb.InferenceTask(model_spec=spec("tf1", "classify_x_to_y"), method_name=CLASSIFY),
            ],
            input=examples(1, 2),
        )
    ],
}
SEEDS = {
    "PredictionService/Predict": [
        predict_request("half", x=np.float32([1, 2, 3])),
        predict_request(
            "half", "matmul", left=np.ones((2, 3), np.float32), right=np.ones((3, 2), np.float32)
        ),
        predict_request("types", "string", x=np.array(["a", "bc"])),
        *(
            fields_request(np.ones(3, dtype)).SerializeToString()
            for dtype in ("float16", "float32", "int8", "uint64", "complex64", "bool")
        ),
    ],
    **{
        f"PredictionService/{method}": [each.SerializeToString() for each in seeds]
        for method, seeds in ON_EXAMPLES.items()
    },
    "PredictionService/GetModelMetadata": [
        pb.GetModelMetadataRequest(model_spec=each, metadata_field=["signature_def"]).SerializeToString()
        for each in (spec("half"), spec("tf1", version_label="stable"))
    ],
    "/inference.GRPCInferenceService/ModelInfer": [
        infer_request("half", x=np.float32([1, 2, 3])),
        infer_request("types", "string", x=np.array([b"a", b"bc"], object)),
        *(infer_request("types", dtype, x=np.ones(3, dtype)) for dtype in ("float16", "int8", "bool")),
        *(
            infer_request("types", dtype, in_contents=True, x=np.ones(3, dtype))
            for dtype in ("float32", "uint64", "bool")
        ),
    ],
    "/inference.GRPCInferenceService/ModelMetadata": [
        oip.ModelMetadataRequest(name="half").SerializeToString(),
        oip.ModelMetadataRequest(name="types", version="1").SerializeToString(),
    ],
    "ModelService/GetModelStatus": [
        pb.GetModelStatusRequest(model_spec=each).SerializeToString()
        for each in (spec("half"), spec("types"))
    ],
}


def assert_names_no_path(words, server):
    hidden = [*map(str, server.models.values()), str(server.folder), "site-packages", "Traceback"]
    assert not [each for each in hidden if each in words]


@pytest.mark.shortened
@pytest.mark.parametrize("method", SEEDS)
def test_malformed_messages_are_the_clients_error(server, whole, method):
    with grpc.insecure_channel(server.target, OWN_CONNECTION) as channel:
        for seed in SEEDS[method]:
            assert server.call(seed, method, channel)[0] in (CODE.OK, CODE.INVALID_ARGUMENT)

        def check(data):
            code, words = server.call(data, method, channel)
            if code is not CODE.OK:
                assert code in CLIENTS or (code, words) == NO_MESSAGE, (code, words)
                assert_names_no_path(words, server)

        check_many(900, whole, check, data=requests(SEEDS[method]))


@pytest.fixture(scope="module")
def reloaded(serve, bases):
    """A server whose list of models is for everybody to break."""
    return serve(
        {name: bases[name] for name in ("half", "tf1")}, "--file_system_poll_wait_seconds=0.1"
    ).wait()


def reload_request(models, more=""):
    config = text_format.Parse(model_config(models), pb.ModelServerConfig())
    for each in config.model_config_list.config:
        text_format.Parse(more, each)
    return pb.ReloadConfigRequest(config=config).SerializeToString()


RELOAD = "ModelService/HandleReloadConfigRequest"


@pytest.mark.shortened
def test_malformed_lists_of_models_are_refused_or_served_as_far_as_they_go(reloaded, whole, tmp_path):
    good = reload_request(reloaded.models)
    label = 'version_labels { key: "stable" value: 3 }'
    policy = "model_version_policy { specific { versions: 3 versions: 123 } }"
    elsewhere = {"half": "/nowhere/half", "tf1": "/nowhere/tf1"}
    seeds = [good, reload_request(elsewhere), reload_request(elsewhere, label + policy)]
    may_be = {*CLIENTS, CODE.DEADLINE_EXCEEDED}

    def check(data):
        code, words = reloaded.call(data, RELOAD, timeout=1)
        if code is not CODE.OK:
            late = code is CODE.UNKNOWN and "did not become available" in words
            assert late or code in may_be or (code, words) == NO_MESSAGE, (code, words)
            assert_names_no_path(words, reloaded)

    check_many(500, whole, check, data=requests(seeds))
    assert reloaded.call(good, RELOAD)[0] is CODE.OK
    reloaded.assert_answers()
    assert reloaded.unexpected() == []


@pytest.mark.parametrize("path", ["/a\0b", "/" + "x" * 500, "/" + "x/" * 5000, "/proc/self/mem", "/dev/full"])
def test_a_base_path_that_no_file_system_has_is_told_and_not_logged_for_ever(reloaded, path):
    code, words = reloaded.call(reload_request({"half": path}), RELOAD, timeout=5)
    assert code is CODE.UNKNOWN
    assert re.search(
        r"^1 model\(s\) did not .* (cannot be listed|is a file, not a folder|does not exist)", words
    )
    assert reloaded.call(reload_request(reloaded.models), RELOAD)[0] is CODE.OK
    reloaded.assert_answers()
    assert reloaded.unexpected() == []
