"""The client's requests are the stock stubs' to the byte, and it reads the bytes of their answers.

The bytes in `stock_messages` were made with tensorflow-serving-api, see make.py there.
"""

import runpy
from pathlib import Path

import grpc
import numpy as np
import pytest

from keras_selfattn.serving.client import Label, ModelConfig, Signature, TensorSpec, VersionStatus
from keras_selfattn.serving.wire import messages_pb2 as pb

FOLDER = Path(__file__).parents[1] / "stock_messages"
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
            lambda client: client.predict({"text": ["good", "schön"]}, version=Label("stable")),
        ),
        (
            "reload_request",
            lambda client: client.reload([ModelConfig("film", "/models/film", [2, 3], {"stable": 2})]),
        ),
    ],
)
def test_a_request_has_the_stock_bytes(ask, name, call):
    _, sent = ask(call)
    kinds = {
        "predict_request": pb.PredictRequest,
        "predict_request_by_label": pb.PredictRequest,
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
