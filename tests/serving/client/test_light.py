"""The client's promise: it imports neither TensorFlow nor Keras, and the server no Keras."""

import subprocess
import sys

import pytest

HEAVY = ("tensorflow", "keras", "tensorflow_serving", "ml_dtypes", "importlib.metadata", "packaging")


def heavy_modules_after(statement):
    code = f"{statement}\nimport sys\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return result.stdout.split()


@pytest.mark.parametrize(
    "module",
    ["keras_selfattn.serving.client", "keras_selfattn.serving.wire.codec", "keras_selfattn.serving.errors"],
)
def test_the_client_imports_nothing_heavy(module):
    assert heavy_modules_after(f"import {module}") == []


def test_a_whole_call_imports_nothing_heavy(half_server):
    call = f"Client({half_server.target!r}, 'half').predict([1.0])"
    assert heavy_modules_after(f"from keras_selfattn.serving.client import Client; {call}") == []


@pytest.mark.process
def test_this_check_can_fail():
    assert {"tensorflow", "tensorflow_serving"} <= set(
        heavy_modules_after("import tensorflow_serving.apis.predict_pb2")
    )


@pytest.mark.process
def test_the_server_works_without_keras(half_base, spawn_server):
    before = "import sys; sys.modules['keras'] = None"
    _, target = spawn_server(half_base, before=before)
    from keras_selfattn.serving.client import Client

    with Client(target) as client:
        assert client.predict([1.0, 2.0])["y"].tolist() == [2.5, 3.0]


@pytest.mark.process
def test_the_server_imports_no_layers_or_models():
    ours = "[name for name in sys.modules if name.startswith('keras_selfattn.')]"
    code = f"import sys, keras_selfattn.serving.server.server; print(*{ours})"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    names = result.stdout.split()
    assert "keras_selfattn.serving.server.models.saved_model_servable" in names
    others = {name for name in names if not name.startswith("keras_selfattn.serving")}
    files = {"files"} | {
        f"files.{name}"
        for name in ("atomic", "object_stores", "store_calls", "version_files", "version_listing")
    }
    assert others <= {f"keras_selfattn.{name}" for name in {"errors", "extras", *files}}


def test_an_explanation_is_drawn_with_two_modules():
    code = (
        "import sys, numpy as np; from keras_selfattn.serving.client import Explanation\n"
        "assert 'good' in Explanation(['good'], np.ones((1, 1, 1, 1), 'f4'))._repr_html_()\n"
        "room = 'keras_selfattn.drawing.'\n"
        "print(*sorted(name.removeprefix(room) for name in sys.modules if name.startswith(room)))"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.split() == ["markup", "notebook"]
