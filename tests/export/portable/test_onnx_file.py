"""Layers and activations in files for other runtimes: the same answers, for sizes of 0 and 1 too."""

import keras
import numpy as np
import pytest
from many_onnx import cases_of, every_layer, requests_of_ids

from keras_selfattn import layers
from keras_selfattn.export.portable.litert_file import litert_file
from keras_selfattn.export.portable.onnx_file import onnx_file
from keras_selfattn.export.signatures.model_signatures import MOST_ASKED
from keras_selfattn.layers.feed_forward import gelu_tanh

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
# Of those that Keras knows by name, "glu" and "threshold" are no functions of one number.
ACTIVATIONS = [
    name
    for name in dir(keras.activations)
    if not name.startswith("_") and name not in ("deserialize", "get", "serialize", "glu", "threshold")
]
# Each of these failed: for no rows, for no positions, or for any.
ONCE_WRONG = ("grouped attention", "shaw", "additive", "multiplicative", "causal linear", "attention pooling")


def answers_of_onnx(content, requests):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return [dict(zip(names, session.run(names, request), strict=True)) for request in requests]


def answers_of_litert(content, requests):
    import tensorflow as tf

    run = tf.lite.Interpreter(model_content=content).get_signature_runner()
    return [run(**request) for request in requests]


def assert_equal(cases, answers):
    for case, answer in zip(cases, answers, strict=True):
        assert set(answer) == set(case.outputs)
        for name, wanted in case.outputs.items():
            assert answer[name].shape == wanted.shape, name
            np.testing.assert_allclose(answer[name], wanted, rtol=1e-4, atol=1e-5, err_msg=name)


def test_layers_in_an_onnx_file_take_batches_and_lengths_of_0_and_1():
    pytest.importorskip("tf2onnx")
    contract, cases = cases_of(every_layer(ONCE_WRONG), requests_of_ids())
    content, operations = onnx_file(contract.signatures[MOST_ASKED], {}, by_position=False)
    assert "Einsum" not in operations, "it ends the process if there are no numbers"
    assert_equal(cases, answers_of_onnx(content, [case.request for case in cases]))


def test_no_reduction_of_an_onnx_file_counts_its_axes_from_the_last():
    """ONNX Runtime before 1.32 ignores such an axis if there are no numbers."""
    pytest.importorskip("tf2onnx")
    onnx = pytest.importorskip("onnx")
    x = keras.Input((None, 3), name="x")
    outputs = [getattr(keras.ops, name)(x, axis=-1) for name in ("sum", "max", "min", "mean")]
    contract, _ = cases_of(keras.Model(x, outputs), [])
    content, _ = onnx_file(contract.signatures[MOST_ASKED], {}, by_position=False)
    graph = onnx.load_from_string(content).graph
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    axes = [constants[node.input[1]].tolist() for node in graph.node if node.op_type.startswith("Reduce")]
    assert axes == [[2]] * 4


@pytest.mark.parametrize("form", ["onnx", "litert"])
def test_every_activation_that_keras_knows_gives_the_same(form):
    if form == "onnx":
        pytest.importorskip("tf2onnx")
    x = keras.Input((None, 6), name="x")
    outputs = {name: keras.layers.Dense(4, activation=name)(x) for name in ACTIVATIONS}
    blocks = {"block": "gelu", "gated": "silu", "approximate": gelu_tanh}
    for place, (name, activation) in enumerate(blocks.items()):
        block = layers.EncoderBlock(2, 8, activation=activation, gated=name == "gated", seed=place)
        outputs[name] = block(x)
    request = {"x": 3 * np.random.default_rng(0).normal(size=(3, 5, 6)).astype("float32")}
    contract, cases = cases_of(keras.Model(x, outputs), [request])
    signature = contract.signatures[MOST_ASKED]
    if form == "onnx":
        content, _ = onnx_file(signature, {}, by_position=False)
        assert_equal(cases, answers_of_onnx(content, [request]))
    else:
        assert_equal(cases, answers_of_litert(litert_file(signature)[0], [request]))
