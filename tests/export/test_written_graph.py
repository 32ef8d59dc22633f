"""The graph has stock operations of old and new TensorFlow, and none that trains or draws random numbers."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn.errors import ExportError
from keras_selfattn.export import export_saved_model, kernels, written_graph
from keras_selfattn.export.signatures.model_signatures import PREDICT, REGRESS, Signature

OLDEST = kernels.read(Path(written_graph.__file__).with_name("tensorflow-2.16.txt").read_text())


def save(folder, function, **options):
    module = tf.Module()
    module.function = function
    tf.saved_model.save(module, str(folder), signatures=function, **options)
    return folder


@pytest.mark.slow
def test_the_graph_is_the_one_looked_at_and_holds_no_random_number_and_no_gradient(version):
    counts = written_graph.count_operations(written_graph.read_saved_model(version / "saved_model.pb"))
    # Of two layers each for few tokens, of both at once for many, of the head; of two layers for `explain`.
    assert counts["Softmax"] == 2 + 1 + 1 + 2 + 1
    parts = ("Random", "Dropout", "Grad", "PyFunc", "ResourceApply")
    # StopGradient is the identity where nothing is trained; the moments of a normalisation hold one.
    assert [op for op in counts if any(part in op for part in parts) and op != "StopGradient"] == []
    assert set(counts) <= set(OLDEST)


@pytest.mark.slow
def test_a_short_text_runs_few_operations(version):
    """Each takes a microsecond or more, which is what the time of a short text consists of."""
    v1: Any = tf.compat.v1
    with v1.Session(graph=tf.Graph()) as session:
        (signature,) = (
            each
            for name, each in v1.saved_model.load(session, ["serve"], str(version)).signature_def.items()
            if name == "serving_default"
        )
        options, ran = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), v1.RunMetadata()
        fetches = [info.name for info in signature.outputs.values()]
        feeds = {signature.inputs["text"].name: ["surprisingly good"]}
        session.run(fetches, feeds, options=options, run_metadata=ran)
    assert sum(len(device.node_stats) for device in ran.step_stats.dev_stats) < 620


@pytest.mark.process
def test_the_calls_that_the_signatures_are_for_are_named(version):
    definitions = written_graph.read_saved_model(version / "saved_model.pb").meta_graphs[0].signature_def
    assert {name: definition.method_name.rpartition("/")[2] for name, definition in definitions.items()} == {
        "serving_default": "predict",
        "classify": "classify",
        "tokens": "predict",
        "explain": "predict",
        "__saved_model_init_op": "",
    }


def test_two_names_of_one_function_are_one_call_in_the_graph(tmp_path):
    spec = tf.TensorSpec([None], tf.float32, name="x")
    twice = tf.function(lambda x: {"y": 2 * x}, input_signature=[spec])
    signatures = {
        "twice": Signature(twice, [], defaults={"x": np.array([1], "float32")}),
        "double": Signature(twice, [], REGRESS),
        "triple": Signature(tf.function(lambda x: {"y": 3 * x}, input_signature=[spec]), []),
    }
    tf.saved_model.save(
        tf.Module(), str(tmp_path), signatures={name: each.concrete for name, each in signatures.items()}
    )
    written_graph.finish(tmp_path, signatures)
    written = written_graph.read_saved_model(tmp_path / "saved_model.pb").meta_graphs[0].signature_def
    tensors = {
        name: (each.inputs["x"].name, each.outputs["y"].name) for name, each in written.items() if each.inputs
    }
    assert tensors["twice"] == tensors["double"]
    assert set(tensors["twice"]).isdisjoint(tensors["triple"])
    assert {name: list(written[name].defaults) for name in signatures} == {
        "twice": ["x"],
        "double": [],
        "triple": [],
    }
    assert [written[name].method_name for name in signatures] == [PREDICT, REGRESS, PREDICT]
    loaded = tf.saved_model.load(str(tmp_path)).signatures
    assert [float(loaded[name](x=tf.constant([4.0]))["y"][0]) for name in signatures] == [8, 8, 12]


@pytest.mark.parametrize(
    ("draw", "operation"),
    [
        (tf.random.normal, "RandomStandardNormal"),
        (tf.random.truncated_normal, "TruncatedNormal"),
        (lambda shape: tf.random.stateless_normal(shape, [1, 2]), "StatelessRandom"),
        (lambda shape: tf.random.get_global_generator().uniform(shape), "Stateful|Rng"),
    ],
)
def test_a_graph_that_draws_is_refused(tmp_path, unchecked, draw, operation):
    class Noise(keras.layers.Layer):
        def call(self, inputs):
            return inputs + draw(tf.shape(inputs))

    model = keras.Sequential([keras.Input((3,), name="x"), Noise()])
    with pytest.raises(
        ExportError, match=rf"holds the operation .*({operation}).* draws random|not saved along"
    ):
        export_saved_model(model, tmp_path / "base")
    assert list((tmp_path / "base").iterdir()) == []


def test_a_graph_that_leaves_tensorflow_is_refused(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def python(x):
        return {"y": tf.numpy_function(lambda value: value, [x], tf.float32)}

    with pytest.raises(ExportError, match=r"holds the operation \w*PyFunc"):
        written_graph.finish(save(tmp_path, python), {})


def test_a_graph_with_gradients_is_refused(tmp_path):
    variable = tf.Variable(2.0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.relu(x * variable))
        return {"y": tape.gradient(loss, variable)}

    module = tf.Module()
    module.variable = variable
    tf.saved_model.save(module, str(tmp_path), signatures=step)
    with pytest.raises(ExportError, match="holds the operation ReluGrad"):
        written_graph.finish(tmp_path, {})


def test_custom_gradients_are_looked_into(tmp_path):
    """TensorFlow saves them by default, as functions that no answer needs: dropout is found in those, too."""

    @tf.custom_gradient
    def dropped(x):
        return x * 2, lambda upstream: upstream * tf.random.uniform(tf.shape(x))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def double(x):
        return {"y": dropped(x)}

    for custom, outcome in ((True, "RandomUniform"), (False, None)):
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=custom)
        folder = save(tmp_path / str(custom), double, options=options)
        if outcome:
            with pytest.raises(ExportError, match=outcome):
                written_graph.finish(folder, {})
        else:
            assert "Mul" in written_graph.finish(folder, {})


@pytest.mark.process
def test_equal_inputs_give_equal_bytes_in_processes_of_their_own(tmp_path):
    program = (
        "import sys, keras\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from keras_selfattn.export import export_saved_model, saved_model\n"
        "from film_model import make_model\n"
        "saved_model.try_saved_model = lambda *_: {}\n"
        "export_saved_model(make_model(), sys.argv[2])\n"
    )
    found = []
    for name in "ab":
        command = [sys.executable, "-c", program, str(Path(__file__).parent), str(tmp_path / name)]
        subprocess.run(command, check=True, capture_output=True, timeout=240)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        found.append({path.relative_to(tmp_path / name).as_posix(): path.read_bytes() for path in files})
    first, second = found
    assert len(first) == 6, list(first)
    assert first.keys() == second.keys()
    # The card says when it was written.
    assert [name for name in first if first[name] != second[name] and "card" not in name] == []
