"""Heads of classes: weights of classes and smoothed losses by NumPy, and what is refused."""

import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.heads.class_heads import (
    ClassHead,
    SmoothedBinaryCrossentropy,
    SmoothedCrossentropy,
)


def test_class_weights_go_by_name_by_place_or_balanced():
    head = ClassHead(["a", "b", "c"])
    targets = ["a"] * 6 + ["b"] * 2
    assert head.class_weights({"b": 3}, targets) == {0: 1.0, 1: 3.0, 2: 1.0}
    assert head.class_weights({2: 0.5}, targets) == {0: 1.0, 1: 1.0, 2: 0.5}
    balanced = head.class_weights("balanced", targets)
    assert balanced[0] * 6 == balanced[1] * 2 == 4
    with pytest.raises(ConfigError, match="\"balanced\". Received 'even'"):
        head.class_weights("even", targets)
    with pytest.raises(ConfigError, match="names no label or class: 'd'. They are a, b, c"):
        head.class_weights({"d": 1.0}, targets)


def test_a_negative_label_of_a_row_is_refused():
    """Only that of a position can be padding."""
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="-1"):
        SmoothedCrossentropy()(np.array([-1]), np.array([[0.2, 0.8]], "float32"))


def test_smoothed_losses_by_numpy():
    random = np.random.default_rng(0)
    probabilities = random.dirichlet(np.ones(3), size=5).astype("float32")
    true = random.integers(0, 3, 5)
    smoothed = 0.8 * np.eye(3)[true] + 0.2 / 3
    wanted = -(smoothed * np.log(probabilities)).sum(-1).mean()
    assert float(SmoothedCrossentropy(0.2)(true, probabilities)) == pytest.approx(wanted, rel=1e-5)
    exact = -np.log(probabilities[np.arange(5), true]).mean()
    assert float(SmoothedCrossentropy()(true, probabilities)) == pytest.approx(exact, rel=1e-5)
    borne = random.integers(0, 2, (5, 3)).astype("float32")
    doubted = 0.8 * borne + 0.1
    both = doubted * np.log(probabilities) + (1 - doubted) * np.log(1 - probabilities)
    assert float(SmoothedBinaryCrossentropy(0.2)(borne, probabilities)) == pytest.approx(
        -both.mean(), rel=1e-4
    )


def test_class_weights_that_are_none_are_refused():
    for asked in ({7: 2.0}, {"+": float("nan")}, {"+": "x"}, np.array([1.0, 2.0]), {"new": 1.0}):
        with pytest.raises(ConfigError, match="`class_weight`"):
            ClassHead(["+", "-"]).class_weights(asked, ["+", "-"])


pytestmark = pytest.mark.usefixtures("eager_steps")


@pytest.mark.parametrize(
    ("labels", "given", "said"),
    [
        (
            ["1", "2", "3"],
            dict.fromkeys(range(4), 1.0),
            "mixes labels and indices: 0 is no label, and 3 no index",
        ),
        (["a", "b", "c"], dict.fromkeys(range(4), 1.0), "no label or class: 3. They are a, b, c"),
        (["a", "b"], {-1: 1.0}, "no label or class: -1"),
        (["+", "-"], {"0": 1.0}, "no label or class: '0'"),
        (["1", "2"], {1.0: 1.0}, "no label or class: 1.0"),
        (["0", "1"], {True: 1.0}, "no label or class: True"),
        (["a", "b"], {None: 1.0}, "no label or class: None"),
        (["1", "2"], {"2": 1.0, 1: 1.0, 2: 3.0}, "two values for the label '2': of '2' and of 2"),
        (["a", "b"], {"a": 1.0, 0: 3.0}, "two values for the label 'a': of 'a' and of 0"),
    ],
)
def test_keys_that_are_no_class_or_one_twice_are_refused(labels, given, said):
    with pytest.raises(ConfigError, match=said):
        ClassHead(labels).class_weights(given, [])
