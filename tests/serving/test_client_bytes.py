"""The client's requests are the stock stubs' to the byte, and it reads the bytes of their answers.

The bytes in `stock_messages` were made with tensorflow-serving-api, see make.py there.
"""

import runpy
from pathlib import Path

import grpc
import numpy as np
import pytest

from keras_selfattn.serving.client import ModelConfig, Signature, TensorSpec, VersionStatus
from keras_selfattn.serving.wire import messages_pb2 as pb

FOLDER = Path(__file__).parent / "stock_messages"
EXAMPLE = {"text": "good", "n": -7, "f": [0.5, 2.0]}
X = np.float32([[1.5, -2.0, 0.25]])


def stored(name):
    return (FOLDER / f"{name}.bin").read_bytes()


@pytest.fixture
def ask(raw_server, connect):
    """Makes a call that is answered with stored bytes; gives its result and the bytes it sent."""

    def make(call, answer=None, without="GetModelMetadata"):
        sent = []
        data = b"" if answer is None else stored(answer)
        target = raw_server(lambda request, context: (sent.append(request), data)[-1], without=without)
        return call(connect(target, "film")), sent[-1]

    return make


def test_the_stored_bytes_are_what_the_installed_stubs_make():
    made = runpy.run_path(str(FOLDER / "make.py"))["MESSAGES"]
    assert {make.__name__ for make in made} == {file.stem for file in FOLDER.glob("*.bin")}
    for make in made:
        assert make().SerializeToString(deterministic=True) == stored(make.__name__)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("predict_request", lambda client: client.predict({"x": X}, outputs=["y"], version=3)),
        (
            "predict_request_by_label",
            lambda client: client.predict({"text": ["good", "schön"]}, label="stable"),
        ),
        ("classification_request", lambda client: client.tf_classify([EXAMPLE], "classify")),
        ("regression_request", lambda client: client.tf_regress([EXAMPLE], "regress")),
        (
            "multi_inference_request",
            lambda client: client.multi_inference([EXAMPLE], {"classify": "classify", "regress": "regress"}),
        ),
        (
            "reload_request",
            lambda client: client.reload([ModelConfig("film", "/models/film", [2, 3], {"stable": 2})]),
        ),
    ],
)
def test_a_request_has_the_stock_bytes(ask, name, call):
    answers = {"classification": "classification_response", "regression": "regression_response"}
    answers |= {"multi_inference": "multi_inference_response"}
    answer = next((answers[start] for start in answers if name.startswith(start)), None)
    _, sent = ask(call, answer)
    kinds = {
        "predict_request": pb.PredictRequest,
        "predict_request_by_label": pb.PredictRequest,
        "classification_request": pb.ClassificationRequest,
        "regression_request": pb.RegressionRequest,
        "multi_inference_request": pb.MultiInferenceRequest,
        "reload_request": pb.ReloadConfigRequest,
    }
    # The order of a map's entries is free: both are put in one order.
    assert kinds[name].FromString(sent).SerializeToString(deterministic=True) == stored(name)


def test_an_answer_of_every_kind_of_field_is_read(ask):
    answer, _ = ask(lambda client: client.predict({"x": X}), "predict_response")
    assert answer.version == 3
    expected = {
        "float": np.float32([1.5, -2]),
        "double": np.float64([0.1, 2]),
        "int": np.int32([7, -8]),
        "int8": np.int8([7, -8]),
        "long": np.int64([2**40, -1]),
        "bool": np.bool_([True, False]),
        "half": np.float16([1, -2]),
        "complex": np.complex64([1 + 2j, 3 - 4j]),
        "string": np.array(["good", "schön"], object),
        "repeated": np.float32([0.5, 0.5]),
        "zeros": np.int64([0, 0]),
        "content": np.uint16([1, 65535]),
    }
    assert set(answer) == set(expected)
    for name, array in expected.items():
        assert answer[name].dtype == array.dtype, name
        np.testing.assert_array_equal(answer[name], array)


def test_metadata_is_read(ask):
    metadata, _ = ask(lambda client: client.metadata(), "metadata_response", without="?")
    assert (metadata.model, metadata.version) == ("film", 3)
    assert metadata.signatures == {
        "serving_default": Signature(
            {"scale": TensorSpec("float32", ()), "x": TensorSpec("float32", (None, 3))},
            {"y": TensorSpec("float32", None)},
            frozenset({"scale"}),
            "tensorflow/serving/predict",
        )
    }


def test_status_is_read(ask):
    statuses, _ = ask(lambda client: client.status(), "status_response")
    ended = VersionStatus(3, "END", grpc.StatusCode.NOT_FOUND, "gone")
    assert statuses == [VersionStatus(4, "LOADING"), ended]


def test_the_answers_for_examples_are_read(ask):
    classes, _ = ask(lambda client: client.tf_classify([EXAMPLE], "s"), "classification_response")
    assert classes == [[("neg", 0.25), ("pös", 0.75)]]
    numbers, _ = ask(lambda client: client.tf_regress([EXAMPLE], "s"), "regression_response")
    assert numbers.tolist() == [2.5]
    tasks = {"classify": "classify", "regress": "regress"}
    both, _ = ask(lambda client: client.multi_inference([EXAMPLE], tasks), "multi_inference_response")
    assert both["classify"] == classes
    assert both["regress"].tolist() == [2.5]
