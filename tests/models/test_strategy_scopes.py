"""Models made within a `tf.distribute` scope: the first rows are learned there, or an error says so."""

from contextlib import nullcontext

import pytest
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.errors import ConfigError

ROWS, LABELS = ["good film", "bad film"] * 4, ["a", "b"] * 4


@pytest.fixture(scope="module")
def strategy():
    return tf.distribute.MirroredStrategy(["CPU:0"])


def made(*, outside=()):
    """A function that makes and compiles a model, each within the scope of a strategy or outside it."""

    def make(strategy):
        def scope(step):
            return nullcontext() if step in outside else strategy.scope()

        with scope("make"):
            model = models.TextClassifier({"width": 8, "num_layers": 1, "num_heads": 2})
        with scope("compile"):
            model.compile()
        return model

    return make


@pytest.mark.parametrize("call", ["fit", "adapt"])
def test_the_first_rows_outside_the_scope_are_refused_with_the_call_that_helps(strategy, call):
    model = made()(strategy)
    with pytest.raises(
        ConfigError, match=r"made within the scope of a MirroredStrategy.* here, outside it. Call "
    ):
        getattr(model, call)(ROWS, LABELS)
    with strategy.scope():
        model.adapt(ROWS, LABELS)  # as the error says
    assert model.labels == ["a", "b"]


@pytest.mark.parametrize(
    ("outside", "received"),
    [
        (("compile",), "compiled under a _DefaultDistributionStrategy, .* here under a MirroredStrategy"),
        (
            ("make", "compile"),
            "compiled under a _DefaultDistributionStrategy, .* here under a MirroredStrategy",
        ),
    ],
)
def test_an_optimizer_of_another_scope_is_refused(strategy, outside, received):
    model = made(outside=outside)(strategy)
    with strategy.scope(), pytest.raises(ConfigError, match=received):
        model.adapt(ROWS, LABELS)


@pytest.mark.slow
def test_a_model_that_learned_its_rows_within_the_scope_trains_outside(strategy):
    model = made()(strategy)
    with strategy.scope():
        model.adapt(ROWS, LABELS)
    before = model.get_weights()
    model.fit(ROWS, LABELS, epochs=1, verbose=0)
    assert any((one != other).any() for one, other in zip(before, model.get_weights(), strict=True))
