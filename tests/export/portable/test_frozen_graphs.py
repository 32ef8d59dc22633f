"""Frozen graphs in operations that converters know."""

import numpy as np
import tensorflow as tf

from keras_selfattn.export.portable.frozen_graphs import with_expanded_axes


def test_a_slice_that_adds_an_axis_is_one_that_converters_know():
    @tf.function(input_signature=[tf.TensorSpec([None, None])])
    def graph(x):
        return x[..., None], x[:, None], x[None, 1:], x[:, 0]

    found = with_expanded_axes(graph.get_concrete_function().graph.as_graph_def())
    assert sorted(node.op for node in found.node if node.op in ("ExpandDims", "StridedSlice")) == [
        *["ExpandDims"] * 2,
        *["StridedSlice"] * 2,
    ]
    x = np.arange(6, dtype="float32").reshape(2, 3)
    names = [node.name for node in found.node if node.op in ("ExpandDims", "StridedSlice")]
    with tf.Graph().as_default() as again, tf.compat.v1.Session(graph=again) as session:
        tf.graph_util.import_graph_def(found, name="")
        answers = session.run([f"{name}:0" for name in names], {"x:0": x})
    for answer, wanted in zip(answers, (x[..., None], x[:, None], x[None, 1:], x[:, 0]), strict=True):
        np.testing.assert_array_equal(answer, wanted)
