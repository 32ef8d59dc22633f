"""Settings every test shares."""

import gc
import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from store_fixtures import bucket, put, store, store_server  # noqa: F401

# For `benchmarks`, which no install has. Behind it, so that what is installed is what is tested.
sys.path.append(str(Path(__file__).parents[1]))

# Tests ask no hub but their own; `huggingface_hub` reads this when it is imported.
os.environ["HF_HUB_OFFLINE"] = "1"

# TensorFlow's own notes at import are no warnings of ours.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def pytest_addoption(parser):
    parser.addoption(
        "--packed",
        action="store_true",
        help="layers on TensorFlow pack their tokens however few, and attend in blocks of a few scores",
    )
    parser.addoption(
        "--kills", type=int, default=4, help="how often an export is killed, each time at another moment"
    )
    parser.addoption(
        "--whole",
        action="store_true",
        help="tests marked shortened run as long as they are meant to: pytest -m shortened --whole",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Search no garbage in what the imports leave: a million objects, at each search of the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # A search of the graphs that tests trace takes long, and finds little: each module ends with one.
        gc.set_threshold(20_000, 50, 5)
        gc.enable()


@pytest.fixture(scope="session")
def whole(request):
    """True if a test marked shortened runs whole; without --whole it runs shortened."""
    return request.config.getoption("--whole")


@pytest.fixture(scope="module")
def eager_steps():
    """Run the steps of models without tracing them: faster, if a test of their surroundings needs few."""
    import keras

    with pytest.MonkeyPatch.context() as patch:
        # `compile` sets it, and a command compiles by itself.
        patch.setattr(keras.Model, "run_eagerly", property(lambda _: True, lambda _, value: None))
        yield


@pytest.fixture(scope="module", autouse=True)
def _quick_collections():
    """Search no garbage in what modules before left: models and graphs that live as long as the process."""
    gc.collect()  # or what is garbage now would stay for ever
    gc.freeze()


def _seed():
    # Keras draws its seeds from Python's generator. `keras.utils.set_random_seed` makes TensorFlow forget
    # its kernels: the tests of layers would take 40 % longer.
    random.seed(0)
    np.random.seed(0)


@pytest.fixture(scope="module", autouse=True)
def _seeded_module():
    """Fixtures of a module draw the same, whatever tests ran before."""
    _seed()


@pytest.fixture(autouse=True)
def _seeded():
    """So does each test: none passes or fails by luck."""
    _seed()


@pytest.fixture
def idle_steps(monkeypatch):
    """Steps learn nothing, for tests of what they are given: a step of Adam is most of the time."""
    import keras

    monkeypatch.setattr(keras.Model, "train_step", lambda self, data: {"loss": 0.0})


@pytest.fixture
def unchecked(monkeypatch):
    """Exports are not tried in a fresh process, which takes ten seconds; other tests see it work."""
    from keras_selfattn.export import saved_model

    monkeypatch.setattr(saved_model, "try_saved_model", lambda *_: {"load_seconds": 0.0, "request_ms": 0.0})


@pytest.fixture(autouse=True)
def _packed(request, monkeypatch):
    if request.config.getoption("--packed"):
        from keras_selfattn.layers import attention_paths
        from keras_selfattn.layers.tensorflow import block_walk

        monkeypatch.setattr(attention_paths, "_FEW_TOKENS", -1)
        for name, number in {"_SCORES": 80, "_WASTED_SCORES": 30, "_LEAST_QUERIES": 2, "_STRETCH": 4}.items():
            monkeypatch.setattr(block_walk, name, number)
