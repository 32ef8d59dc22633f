"""Graphs for other runtimes give what the layers give, in operations that those runtimes have."""

import keras
import numpy as np
import pytest
from backend import array, tensorflow_only
from variants import MAKE, WIDTH

from keras_selfattn import layers

pytestmark = tensorflow_only
# Found in graphs of the fast paths; no converter translates them.
FOREIGN = ("While", "TensorList", "Bitwise", "Shift", "Erfc", "FusedBatchNorm", "If", "PartitionedCall")
IDS = np.random.default_rng(0).integers(1, 50, (3, 60)).astype("int32")
IDS[:2, -7:] = 0


def model_of(make):
    ids = keras.Input((None,), dtype="int32")
    model = keras.Model(ids, make()(keras.layers.Embedding(50, WIDTH, mask_zero=True)(ids)))
    model(IDS[:1, :2])  # Keras exports what has been called
    return model


def graph_of(model):
    import tensorflow as tf

    function = tf.function(model, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    return function.get_concrete_function()


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKE)
def test_a_portable_graph_holds_no_foreign_operation_and_gives_the_same(name):
    model = model_of(MAKE[name])
    with layers.portable():
        graph = graph_of(model)
    definition = graph.graph.as_graph_def()
    nodes = [*definition.node, *(node for each in definition.library.function for node in each.node_def)]
    assert not [node.op for node in nodes if any(foreign in node.op for foreign in FOREIGN)]
    ids = keras.ops.convert_to_tensor(IDS)
    np.testing.assert_allclose(array(graph(ids)), array(model(ids)), rtol=1e-4, atol=1e-5)


def test_outside_the_block_the_fast_path_is_traced():
    model = model_of(MAKE["encoder"])
    with layers.portable():
        pass
    functions = graph_of(model).graph.as_graph_def().library.function
    assert any("While" in node.op for each in functions for node in each.node_def)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the converter, and of the interpreter's name
@pytest.mark.parametrize("name", ["rotary encoder", "max"])
def test_a_file_for_lite_rt_takes_any_batch_and_length(tmp_path, name):
    import tensorflow as tf

    model = model_of(MAKE[name])
    model.export(tmp_path / "m.tflite", format="litert", verbose=False)
    for ids in (IDS, IDS[:1, :5]):
        interpreter = tf.lite.Interpreter(str(tmp_path / "m.tflite"))
        place = interpreter.get_input_details()[0]["index"]
        interpreter.resize_tensor_input(place, ids.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(place, ids)
        interpreter.invoke()
        found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        np.testing.assert_allclose(found, array(model(ids)), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["encoder of differing windows", "causal linear", "max"])
def test_a_file_for_onnx_runtime_takes_any_batch_and_length(tmp_path, name):
    pytest.importorskip("tf2onnx")
    runtime = pytest.importorskip("onnxruntime")
    model = model_of(MAKE[name])
    model.export(str(tmp_path / "m.onnx"), format="onnx", verbose=False)
    session = runtime.InferenceSession(tmp_path / "m.onnx")
    for ids in (IDS, IDS[:1, :5]):
        (found,) = session.run(None, {session.get_inputs()[0].name: ids})
        np.testing.assert_allclose(found, array(model(ids)), rtol=1e-4, atol=1e-5)
