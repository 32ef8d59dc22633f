"""The layers around an encoder that reads pairs in both orders."""

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.models.core.both_orders import BothOrders, MeanOfOrders, in_one_order

IDS = np.arange(40).reshape(5, 2, 4)  # [B, T, 4]


def test_all_pairs_are_read_in_one_order_and_then_in_the_other():
    found = np.asarray(BothOrders()(IDS))
    np.testing.assert_array_equal(found, np.concatenate([IDS[..., :2], IDS[..., 2:]]))
    vectors = np.random.default_rng(0).normal(size=(10, 3)).astype("float32")
    mean = np.asarray(MeanOfOrders()(vectors))
    np.testing.assert_allclose(mean, (vectors[:5] + vectors[5:]) / 2, rtol=1e-6)
    assert np.asarray(MeanOfOrders()(vectors[:0])).shape == (0, 3)


def test_training_reads_one_order_of_each_pair_that_is_drawn_anew():
    keras.utils.set_random_seed(0)
    layer = BothOrders()
    counts = np.zeros(5)
    for _ in range(200):
        found = np.asarray(layer(IDS, training=True))
        second = (found == IDS[..., 2:]).all(axis=(1, 2))
        assert ((found == IDS[..., :2]).all(axis=(1, 2)) ^ second).all()
        counts += second
    # Of 200 fair draws; 5 deviations are 35.
    assert (np.abs(counts - 100) < 36).all()
    vectors = np.ones((5, 3), "float32")
    np.testing.assert_array_equal(np.asarray(MeanOfOrders()(vectors, training=True)), vectors)


def test_a_pair_and_its_reverse_are_put_into_one_order():
    first = tf.constant(["a", "", "☃", "same", "b"])
    second = tf.constant(["b", "x", "a", "same", "a"])
    found = [each.numpy().tolist() for each in in_one_order(first, second)]
    assert found == [each.numpy().tolist() for each in in_one_order(second, first)]
    rows = zip(first.numpy(), second.numpy(), *found, strict=True)
    assert all({one, other} == {left, right} for one, other, left, right in rows)
