"""Requests for some outputs share the graph of requests for all, if the others cost almost nothing."""

from contextlib import closing

import numpy as np
import pytest
import serving_models as models
import tensorflow as tf

from keras_selfattn.serving.server import ServerConfig
from keras_selfattn.serving.server.models import saved_model_servable
from keras_selfattn.serving.server.models.free_outputs import FreeOutputs
from keras_selfattn.serving.server.models.loader import Loader
from keras_selfattn.serving.wire import messages_pb2 as pb

OUTPUTS = ("label", "probabilities", "score")
SUBSETS = [["label"], ["score"], ["score", "label"], ["label", "score"], ["probabilities"], OUTPUTS]


class Heads(tf.Module):
    """Two heads on one trunk, each with an output that costs next to nothing beside it."""

    def __init__(self):
        super().__init__()
        self.trunk = tf.Variable(tf.ones([3, 5]))
        self.second = tf.Variable(tf.ones([5, 2]))

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def serve(self, x):
        hidden = tf.matmul(x, self.trunk)
        again = self._expensive(hidden)
        return {
            "hidden": hidden,
            "largest": tf.reduce_max(hidden, axis=-1),
            "again": again,
            "again_sum": tf.reduce_sum(again, axis=-1),
        }

    @tf.function
    def _expensive(self, hidden):
        return tf.matmul(hidden, self.second)


@pytest.fixture
def fetched(monkeypatch):
    """The sets of tensors that sessions were asked for: TensorFlow prepares a graph for each."""
    seen = []
    run = saved_model_servable._session_run

    def spied(session, options, feeds, fetches, *rest):
        seen.append(len(fetches))
        return run(session, options, feeds, fetches, *rest)

    monkeypatch.setattr(saved_model_servable, "_session_run", spied)
    return seen


def loaded(module, base, **signatures):
    models.save(module, base, **signatures)
    card = base / "1" / "assets.extra" / "model_card.json"
    card.parent.mkdir(exist_ok=True)
    card.write_text("{}")
    return closing(Loader(ServerConfig("m", "m")).load("m", 1, base / "1"))


def asked(version, value, names):
    signature = version.signatures["serving_default"]
    (fed,) = signature.inputs.values()
    arrays = version.run({fed.name: value}, [signature.outputs[name].name for name in names], 10.0)
    return dict(zip(names, arrays, strict=True))


@pytest.mark.parametrize(
    ("names", "count"),
    [
        (["hidden"], 2),  # the largest of it comes along, the second product does not
        (["largest"], 2),
        (["again"], 4),  # needs the first
        (["hidden", "again_sum"], 4),
    ],
)
def test_work_that_nobody_asked_for_is_not_done(tmp_path, fetched, names, count):
    with loaded(Heads(), tmp_path) as version:
        found = asked(version, np.ones((2, 3), np.float32), names)
    expected = {
        "hidden": [[3.0] * 5] * 2,
        "largest": [3.0] * 2,
        "again": [[15.0] * 2] * 2,
        "again_sum": [30.0] * 2,
    }
    assert {name: array.tolist() for name, array in found.items()} == {name: expected[name] for name in names}
    assert fetched == [count]


def test_of_two_outputs_the_one_that_costs_nothing_comes_along():
    graph = tf.compat.v1.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 3], name="x")
        hidden = tf.matmul(x, tf.ones([3, 5]), name="hidden")
        tf.reduce_max(hidden, axis=-1, name="largest")
    signature = pb.SignatureDef()
    signature.inputs["x"].name = "x:0"
    for name in ("hidden", "largest"):
        signature.outputs[name].name = f"{name}:0"
    for name in ("hidden:0", "largest:0"):
        assert FreeOutputs(graph.as_graph_def(), signature).widened([name]) == ("hidden:0", "largest:0")


def test_of_models_that_others_exported_only_what_is_asked_for_is_fetched(tmp_path, fetched):
    models.save(Heads(), tmp_path)
    with closing(Loader(ServerConfig("m", "m")).load("m", 1, tmp_path / "1")) as version:
        asked(version, np.ones((2, 3), np.float32), ["hidden"])
    assert fetched == [1]


def test_what_is_fed_is_never_fetched_along(tmp_path):
    """TensorFlow refuses to fetch what it is fed."""

    graph = tf.compat.v1.Graph()
    with graph.as_default():
        number = tf.compat.v1.placeholder(tf.float32, [], name="number")
        tf.add(number, 1.0, name="more")
    signature = pb.SignatureDef()
    signature.inputs["number"].name = "number:0"
    signature.outputs["more"].name = "more:0"
    signature.outputs["number"].name = "number:0"
    assert FreeOutputs(graph.as_graph_def(), signature).widened(["more:0"]) == ("more:0",)


def test_in_a_graph_with_loops_of_its_own_nothing_is_fetched_along(tmp_path):
    from tensorflow.compat import v1

    graph = v1.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        v1.disable_control_flow_v2()
        start = v1.placeholder(tf.float32, [], name="start")
        end = v1.while_loop(lambda i: i < 10.0, lambda i: i + 1.0, [start])
        signature = v1.saved_model.predict_signature_def({"start": start}, {"end": end, "twice": 2.0 * end})
        builder = v1.saved_model.Builder(str(tmp_path / "1"))
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()
        v1.enable_control_flow_v2()
    with v1.Session(graph=v1.Graph()) as session:
        loaded_graph = v1.saved_model.load(session, ["serve"], str(tmp_path / "1"))
    signature = pb.SignatureDef.FromString(loaded_graph.signature_def["serving_default"].SerializeToString())
    twice = signature.outputs["twice"].name
    assert FreeOutputs(loaded_graph.graph_def, signature).widened([twice]) == (twice,)


@pytest.mark.process
def test_the_outputs_of_an_exported_classifier_are_answered_by_one_graph(tmp_path, fetched, unchecked):
    from keras_selfattn.export import export_saved_model
    from keras_selfattn.models import TextClassifier, TextConfig

    small = TextConfig(width=8, num_layers=1, num_heads=1, ngram_buckets=64)
    model = TextClassifier(small, vocabulary=["good", "bad"], labels=["+", "-"])
    path = export_saved_model(model, tmp_path)
    with closing(Loader(ServerConfig("m", "m")).load("m", 1, path)) as version:
        texts = np.array([b"good", b"bad"], object)
        whole = asked(version, texts, OUTPUTS)
        for names in SUBSETS:
            some = asked(version, texts, names)
            assert [some[name].tolist() for name in names] == [whole[name].tolist() for name in names]
    assert whole["probabilities"].shape == (2, 2)
    assert set(fetched) == {3}
