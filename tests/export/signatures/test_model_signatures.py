"""Rows of very different lengths in one batch: the same answers, in bounded memory."""

import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn.export.signatures import model_signatures as lengths


def padded_shapes(rows, monkeypatch, padding):
    """Runs rows of given lengths; returns the shapes of the batches the model saw, and what it returned."""
    monkeypatch.setattr(lengths, "_PADDING", padding)
    seen = []

    def outputs(ids):
        seen.append(tuple(ids.shape))
        # Numbers that tell rows apart, and do not change with padding.
        return tf.stack([tf.reduce_sum(ids, 1), tf.reduce_max(tf.pad(ids, [[0, 0], [0, 1]]), 1)], 1)

    ids = tf.ragged.constant([[row + 1] * length for row, length in enumerate(rows)], tf.int32, 1)
    tf.config.run_functions_eagerly(True)
    try:
        found = lengths.by_length(ids, lambda x: tf.cast(outputs(x), tf.float32), 2, 0)
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
        ([], [(0, 0)]),
        ([4096, *[1] * 4000], [(1, 4096), (4000, 1)]),
    ],
)
def test_rows_go_with_those_of_at_least_half_their_length(rows, shapes, monkeypatch):
    assert padded_shapes(rows, monkeypatch, padding=0) == shapes


def test_a_little_padding_is_not_worth_a_loop(monkeypatch):
    assert padded_shapes([100, 1, 1, 1], monkeypatch, padding=2**14) == [(4, 100)]
    assert padded_shapes([4096, *[1] * 63], monkeypatch, padding=2**14) == [(1, 4096), (63, 1)]


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
