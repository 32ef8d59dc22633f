"""Cross-entropy in few passes: equal to Keras' formula in value and gradient, also where float32 ends."""

import keras
import numpy as np
import pytest

from keras_selfattn.layers.tensorflow.many_logits import first_highest, smoothed_crossentropy

if keras.backend.backend() != "tensorflow":
    pytest.skip("operations of TensorFlow", allow_module_level=True)

import tensorflow as tf

TOKENS, SIZE = 5, 300


def rows():
    random = np.random.default_rng(0)
    logits = 4 * random.normal(size=(TOKENS, SIZE)).astype(np.float32)
    logits[:, :3] = -1e9  # impossible
    logits[1] -= 300
    logits[2, 7] = 200  # all others have a probability of 0 in float32
    return np.array([3, 299, 8, 7, 100], np.int32), logits


def share():
    return np.where(np.arange(SIZE) < 3, 0, 1 / (SIZE - 3)).astype(np.float32)


def reference(labels, logits, smoothing):
    """Return the loss `[N]` and its gradient in float64, from the definition."""
    wide = logits.astype(np.float64)
    logs = wide - wide.max(1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(1, keepdims=True))
    wanted = (1 - smoothing) * np.eye(SIZE)[labels] + smoothing * share()
    return -np.where(wanted > 0, wanted * logs, 0).sum(1), np.exp(logs) - wanted


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("compiled", [None, False, True], ids=["eager", "graph", "XLA"])
def test_loss_and_gradient_are_those_of_the_definition(smoothing, compiled):
    labels, logits = rows()
    upstream = np.array([1, 2, 0.5, 0, -1], np.float32)

    def run(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            found = smoothed_crossentropy(tf.constant(labels), logits, smoothing, share())
        return found, tape.gradient(found, logits, output_gradients=tf.constant(upstream))

    if compiled is not None:
        run = tf.function(run, jit_compile=compiled)
    found, gradient = run(tf.constant(logits))
    wanted, slope = reference(labels, logits, smoothing)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_allclose(gradient, slope * upstream[:, None], atol=1e-5)


def test_logits_that_are_nan_have_a_loss_that_is():
    labels, logits = rows()
    logits[0, 5] = np.nan
    found = smoothed_crossentropy(labels, tf.constant(logits), 0.1, share())
    assert np.isnan(found).tolist() == [True, False, False, False, False]


def test_no_tokens_have_no_loss():
    found = smoothed_crossentropy(np.zeros(0, np.int32), tf.zeros([0, SIZE]), 0.1, share())
    assert found.shape == (0,)


def test_of_equal_logits_the_first_is_the_highest():
    logits = tf.constant([[[0.0, 2, 2], [1, 0, 1]]])
    assert first_highest(logits).numpy().tolist() == [[1, 0]]
