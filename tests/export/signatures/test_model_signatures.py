"""Rows of very different lengths in one batch: the same answers, in bounded memory."""

import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn.export import export_saved_model, written_graph
from keras_selfattn.export.signatures import model_signatures as lengths


def padded_shapes(rows, monkeypatch, padding, *, may_repeat=False):
    """Checks the outputs for rows of given lengths; returns the shapes of the batches that the model saw."""
    monkeypatch.setattr(lengths, "_PADDING", padding)
    seen = []

    def outputs(ids):
        seen.append(tuple(ids.shape))
        # Numbers that tell rows apart, and do not change with padding.
        return tf.stack([tf.reduce_sum(ids, 1), tf.reduce_max(tf.pad(ids, [[0, 0], [0, 1]]), 1)], 1)

    ids = tf.ragged.constant([[row + 1] * length for row, length in enumerate(rows)], tf.int32, 1)
    tf.config.run_functions_eagerly(True)
    try:
        found = lengths.by_length(ids, lambda x: tf.cast(outputs(x), tf.float32), 2, 0, may_repeat=may_repeat)
    finally:
        tf.config.run_functions_eagerly(False)
    wanted = [[(row + 1) * length, row + 1 if length else 0] for row, length in enumerate(rows)]
    np.testing.assert_array_equal(found, np.array(wanted, "float32").reshape(-1, 2))
    return seen


@pytest.mark.parametrize(
    ("rows", "shapes"),
    [
        ([3, 100, 2, 0, 4, 51, 1], [(2, 100), (3, 4), (1, 1), (1, 0)]),
        ([1, 1, 1, 1, 1, 1, 1, 1, 1, 9], [(1, 9), (9, 1)]),
        ([5, 5, 5], [(3, 5)]),
        ([2, 3, 4], [(3, 4)]),
        ([0, 0], [(2, 0)]),
        ([], []),
        ([4096, *[1] * 4000], [(1, 4096), (4000, 1)]),
    ],
)
def test_rows_go_with_those_of_at_least_half_their_length(rows, shapes, monkeypatch):
    assert padded_shapes(rows, monkeypatch, padding=0) == shapes
    of_small = padded_shapes(rows, monkeypatch, padding=0, may_repeat=True)
    assert of_small == (shapes if rows else [(0, 0)])


def test_a_little_padding_is_not_worth_a_loop(monkeypatch):
    assert padded_shapes([100, 1, 1, 1], monkeypatch, padding=2**14) == [(4, 100)]
    assert padded_shapes([4096, *[1] * 63], monkeypatch, padding=2**14) == [(1, 4096), (63, 1)]


def test_rows_of_one_group_keep_their_places(monkeypatch):
    for may_repeat in (True, False):
        assert padded_shapes([2, 7, 0, 3], monkeypatch, padding=2**14, may_repeat=may_repeat) == [(4, 7)]


@pytest.mark.slow
def test_the_saved_graph_groups_rows_and_answers_as_it_does_row_by_row(signatures, model):
    texts = ["good film", "bad " * 3000, "", "a " * 40, *["film"] * 60]
    together = signatures["serving_default"](text=tf.constant(texts))["probabilities"].numpy()
    alone = np.concatenate(
        [signatures["serving_default"](text=tf.constant([text]))["probabilities"] for text in texts[:5]]
    )
    np.testing.assert_allclose(together[:5], alone, rtol=2e-5, atol=1e-7)
    # Of equal rows the last bits may differ, by how threads share the batch.
    np.testing.assert_allclose(together[5:], np.broadcast_to(together[5], (59, 3)), rtol=1e-6)


def calls_of_the_model(folder):
    """Return how often the graph of `serving_default` calls the traced model."""
    library = written_graph.read_saved_model(folder / "saved_model.pb").meta_graphs[0].graph_def.library
    (answer,) = (each for each in library.function if "__answer_" in each.signature.name)
    names, found = {each.signature.name: each for each in library.function}, []
    waiting = [answer]
    while waiting:
        for node in waiting.pop().node_def:
            called = [node.op, *(attribute.func.name for attribute in node.attr.values())]
            found += called
            waiting += [names[name] for name in called if name in names]
    return sum("__outputs_" in name for name in found)


@pytest.mark.slow
def test_a_large_model_is_once_in_the_graph_and_answers_as_a_small_one(
    signatures, model, version, tmp_path, monkeypatch
):
    monkeypatch.setattr(lengths, "_MOST_REPEATED", 0)
    large = export_saved_model(model, tmp_path / "large")
    assert (calls_of_the_model(large), calls_of_the_model(version)) == (1, 2)
    answers = tf.saved_model.load(str(large)).signatures["serving_default"]
    for texts in ([], [""], ["good film"], ["good film", "bad " * 3000, "", "a " * 40, *["film"] * 60]):
        rows = tf.constant(texts, tf.string)
        found, wanted = (each(text=rows) for each in (answers, signatures["serving_default"]))
        np.testing.assert_allclose(found["probabilities"], wanted["probabilities"], rtol=2e-5, atol=1e-7)
        assert found["label"].numpy().tolist() == wanted["label"].numpy().tolist()
