"""`pad_variable_length_inputs`: answers of this project's exports in a batch are those of each row alone."""

import re

import keras
import numpy as np
import pytest

from keras_selfattn import models
from keras_selfattn.export import export_saved_model, saved_model
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.batching.batch_arrays import kind_of, merged, padding_for
from keras_selfattn.serving.server.runtime.batching_parameters import BatchingParameters
from keras_selfattn.serving.server.runtime.row_padding import row_padding
from keras_selfattn.serving.wire import messages_pb2 as pb

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2}
NAN = float("nan")
MEASURED = {"load_seconds": 0.0, "request_ms": 0.0}


def series():
    random = np.random.default_rng(1)
    return [(100 + 9 * random.normal(size=(n, 2))).astype("float32") for n in [11, 2, 7, 3, 11, 1] * 4]


def series_classifier():
    made = models.SeriesClassifier({**SMALL, "kernels": 30, "max_positions": 4})
    made.adapt(series(), ["a", "b", "ü"] * 8)
    return made


def series_regressor():
    made = models.SeriesRegressor({**SMALL, "max_positions": 4})
    made.adapt(series(), np.arange(24.0) * 1000)
    return made


def text_classifier():
    words = ["good", "bad", "film", "a"]
    return models.TextClassifier(models.TextConfig(**SMALL), vocabulary=words, labels=["+", "-", "ü"])


def token_classifier():
    made = models.TokenClassifier(models.TokenConfig(**SMALL, hash_buckets=64))
    rows = [["Ada", "wrote", "it"], ["she", "saw", "Berlin"], ["yes"]] * 4
    made.adapt(rows, [["N", "V", "P"], ["P", "V", "N"], ["N"]] * 4)
    return made


VALUES = {"values": [row[None] for row in (series()[0], series()[1], series()[3])]}
VALUES["values"][2][0, 1, 0] = NAN  # a missing value, within a row that is padded
TOKENS = {"tokens": [[["it", "is", "Ada", "Berlin", "☃"]], [["yes"]], [["saw", "", "it"]]]}
# Each signature, and its requests of unequal lengths.
ASKED = {
    series_classifier: ("serving_default", VALUES),
    series_regressor: ("serving_default", VALUES),
    text_classifier: ("tokens", TOKENS),
    token_classifier: ("serving_default", TOKENS),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Serves a model in batches of three requests, which wait for each other; gives the server."""
    servers = {}

    def start(make):
        if make not in servers:
            keras.utils.set_random_seed(0)
            model = make()
            random = np.random.default_rng(0)
            model.core.set_weights([w + random.normal(size=w.shape) * 0.3 for w in model.core.get_weights()])
            folder = tmp_path_factory.mktemp("padded")
            with pytest.MonkeyPatch.context() as patched:
                # The try in a fresh process takes ten seconds; other tests see it work.
                patched.setattr(saved_model, "try_saved_model", lambda *_: MEASURED)
                export_saved_model(model, folder / "m")
            file = folder / "batching.conf"
            file.write_text(
                "pad_variable_length_inputs: true max_batch_size { value: 3 } "
                "batch_timeout_micros { value: 1000000 }"
            )
            batching = {"enable_batching": True, "batching_parameters_file": file}
            config = ServerConfig("m", folder / "m", port=0, enable_model_warmup=False, **batching)
            servers[make] = Server(config).start()
        return servers[make]

    yield start
    for server in servers.values():
        server.stop(grace=0)


def alone(server, request, signature):
    """The answer of the graph, without any batching."""
    with server.models.lease(pb.ModelSpec(name="m")) as servable:
        tensors = servable.signatures[signature]
        fed = {
            tensors.inputs[name].name: np.array(rows, "O" if name == "tokens" else None)
            for name, rows in request.items()
        }
        fetched = {name: info.name for name, info in tensors.outputs.items()}
        arrays = servable.run(fed, [*fetched.values()], None)
        return {name: decoded(array) for name, array in zip(fetched, arrays, strict=True)}


def decoded(array):
    return np.vectorize(bytes.decode, otypes=["O"])(array) if array.dtype.kind == "O" else array


def runs(server):
    """The number of runs of a server so far."""
    return int(float(re.search(r"wrapped_run_count\{\} (.*)", server._metrics.text())[1]))


def together(server, requests, signature, in_background):
    """The answers to requests that are sent at the same time."""
    with Client(server.target, "m", timeout=60) as client:
        asked = [in_background(client.predict, each, signature) for each in requests]
        return [each.result(60) for each in asked]


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].shape == array.shape, name
        if array.dtype.kind == "f":
            np.testing.assert_allclose(found[name], array, atol=1e-5, rtol=1e-5)
        else:
            assert found[name].tolist() == array.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("make", ASKED)
def test_an_answer_in_a_padded_batch_is_that_of_the_row_alone(make, served, in_background):
    signature, asked = ASKED[make]
    ((name, rows),) = asked.items()
    requests = [{name: row} for row in rows]
    server = served(make)
    for found, request in zip(together(server, requests, signature, in_background), requests, strict=True):
        assert_same(found, alone(server, request, signature))
    assert runs(server) == 1, "they were one batch"


@pytest.mark.slow
def test_outputs_that_grow_in_their_own_ways_stay_in_batches_of_one_shape(served, in_background):
    rows = [{"values": VALUES["values"][place]} for place in (0, 1, 2)]
    server = served(series_classifier)
    before = runs(server)
    for answer, asked in zip(together(server, rows, "explain", in_background), rows, strict=True):
        assert answer["frames"].max() == asked["values"].shape[1]
    assert runs(server) == before + 3


PAD = BatchingParameters(pad=True)


def tensor(name, *shape):
    info = pb.TensorInfo(name=f"{name}:0")
    for size in shape:
        info.tensor_shape.dim.add(size=size)
    return info


class Version:
    """A version with two padded inputs, one of another kind, and outputs of each kind."""

    SIGNATURE = pb.SignatureDef(
        inputs={
            "frames": tensor("frames", -1, -1, 2),
            "words": tensor("words", -1, -1),
            "image": tensor("image", -1, -1),
        },
        outputs={
            "row": tensor("row", -1, 3),
            "each": tensor("each", -1, -1, 4),
            "way": tensor("way", -1, 2, -1),
        },
    )

    def __init__(self, card=None):
        inputs = {"frames": {"padding": "NaN"}, "words": {"padding": ""}, "image": {}}
        card = {"signatures": {"ask": {"inputs": inputs}}} if card is None else card
        self.row_tensors = frozenset(["frames:0", "words:0", "image:0", "row:0"])
        self.padding = row_padding(card, {"ask": self.SIGNATURE})


def feeds(length, width=2, image=5):
    return {
        "frames:0": np.full((2, length, width), 7, np.float32),
        "words:0": np.full((2, length), b"w", object),
        "image:0": np.full((2, image), 9, np.float32),
    }


def test_several_inputs_are_padded_at_once_each_with_its_own_padding():
    padding = padding_for(Version(), ["row:0", "each:0"], PAD)
    short, long, none = feeds(1), feeds(3), feeds(0)
    assert kind_of(short, padding) == kind_of(long, padding) == kind_of(none, padding)
    batch = merged([short, long, none], PAD, padding)
    np.testing.assert_array_equal(batch["frames:0"][:2, 0], 7)
    assert np.isnan(batch["frames:0"][:2, 1:]).all()
    assert np.isnan(batch["frames:0"][4:]).all()
    assert batch["words:0"].tolist() == [[b"w", b"", b""]] * 2 + [[b"w"] * 3] * 2 + [[b""] * 3] * 2
    assert (batch["image:0"] == 9).all()


def test_each_caller_gets_an_answer_of_its_own_length():
    padding = padding_for(Version(), ["row:0", "each:0"], PAD)
    answer = {"row:0": np.ones((2, 3)), "each:0": np.ones((2, 5, 4))}
    assert [array.shape for array in padding.cut(feeds(3), answer)] == [(2, 3), (2, 3, 4)]
    shorter = {"each:0": np.ones((2, 2, 4))}  # of a model that reads the first two positions only
    assert padding.cut(feeds(3), shorter)[0].shape == (2, 2, 4)


@pytest.mark.parametrize("other", [feeds(1, width=3), feeds(1, image=6)])
def test_rows_that_padding_would_make_right_or_wrong_stay_apart(other):
    padding = padding_for(Version(), ["row:0"], PAD)
    assert kind_of(feeds(3), padding) != kind_of(other, padding)


@pytest.mark.parametrize("name", ["frames:0", "words:0"])
def test_rows_of_a_type_that_cannot_hold_the_padding_stay_apart(name):
    """The graph refuses them by their type, and each alone."""
    padding = padding_for(Version(), ["row:0"], PAD)
    short, long = ({**feeds(length), name: np.zeros((2, length, 2), np.int32)} for length in (1, 3))
    assert kind_of(short, padding) != kind_of(long, padding)


@pytest.mark.parametrize(
    "card",
    [
        {},
        {"signatures": {"ask": {"inputs": {"frames": {"dtype": "float32"}}}}},
        {"signatures": {"ask": {"inputs": {"frames": {"padding": "0"}}}}},
        {"signatures": {"ask": {"inputs": {"frames": "NaN", "words": 3}}}},
        {"signatures": [1]},
    ],
)
def test_a_card_that_names_no_padding_keeps_rows_of_unequal_lengths_apart(card):
    padding = padding_for(Version(card), ["row:0"], PAD)
    assert kind_of(feeds(1), padding) != kind_of(feeds(3), padding)


def test_a_model_without_a_card_is_padded_as_by_tensorflow_serving():
    foreign = Version()
    foreign.padding = None
    padding = padding_for(foreign, ["row:0"], PAD)
    batch = merged([feeds(1), feeds(3, width=3)], PAD, padding)
    assert (batch["frames:0"] == 7).all()
    assert batch["words:0"].tolist() == [[b"w"] * 3] * 4
    assert kind_of(feeds(0), padding) != kind_of(feeds(1), padding), "nothing has no first element"
