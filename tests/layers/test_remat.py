"""Layers made within `keras.RematScope` train as those outside: same outputs, gradients, losses, dropout."""

import keras
import numpy as np
import pytest
from backend import BACKEND, array, gradients
from variants import MAKE, WIDTH, every_layer_mostly_slow, inputs, mostly_slow, takes

from keras_selfattn import layers

SCOPES = {
    "full": {"mode": "full"},
    "larger": {"mode": "larger_than", "output_size_threshold": 4},
    "too large": {"mode": "larger_than", "output_size_threshold": 10**6},
    "named": {"mode": "list_of_layers", "layer_names": ["own"]},
    "activations": {"mode": "activations"},
}


def within(scope, make, **settings):
    with keras.RematScope(**SCOPES[scope]):
        return make(name="own", **settings)


def run(layer, **options):
    """Outputs and gradients of two training steps, which draw dropout anew."""
    call = {"training": True} if takes(layer, "training") else {}
    found = []
    for _ in range(2):
        found += gradients(layer, inputs(), penalised=True, **call, **options)
        found.append(array(layer(inputs(), **call)))
    return found


def check(made, plain):
    for layer in (made, plain):
        layer.build((None, None, WIDTH))
    made.set_weights(plain.get_weights())
    for one, other in zip(run(made), run(plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@every_layer_mostly_slow
def test_full_changes_nothing_but_the_memory(make):
    check(within("full", make), make(name="own"))


@pytest.mark.parametrize("scope", [name for name in SCOPES if name != "full"])
@pytest.mark.parametrize(
    "name", mostly_slow(["attention", "block", "encoder", "attention pooling", "sinusoids"])
)
def test_other_scopes_change_nothing_but_the_memory(name, scope):
    check(within(scope, MAKE[name]), MAKE[name](name="own"))


@pytest.mark.parametrize("name", ["attention", "additive", "sinusoids", "block"])
def test_without_dropout(name):
    kind = type(MAKE[name]())
    sizes = {} if name == "sinusoids" else {"num_heads": 3}
    check(within("full", kind, **sizes, seed=1), kind(name="own", **sizes, seed=1))


@pytest.mark.parametrize(
    "kind", [layers.MultiHeadSelfAttention, layers.LinearSelfAttention, layers.EncoderBlock]
)
def test_penalties_are_counted_once(kind):
    settings = {"num_heads": 3, "activity_regularizer": "l2", "seed": 1}
    check(within("full", kind, **settings), kind(name="own", **settings))


@pytest.mark.skipif(BACKEND == "jax", reason="JAX traces what it computes twice once")
@pytest.mark.parametrize(
    ("scope", "name", "times"),
    [
        ("full", "attention", 2),
        ("larger", "attention", 2),
        ("named", "attention", 2),
        ("too large", "attention", 1),
        ("full", "block", 2),
        ("larger", "block", 2),
        ("named", "block", 2),
        ("too large", "block", 1),
        ("named", "encoder", 4),  # two blocks
        ("full", "encoder", 4),
    ],
)
def test_what_the_scope_chooses_is_computed_twice_and_nothing_else(scope, name, times, monkeypatch):
    layer = within(scope, MAKE[name])
    layer.build((None, None, WIDTH))
    scores, kind = [], layers.MultiHeadSelfAttention
    plain = kind.call_tokens
    monkeypatch.setattr(kind, "call_tokens", lambda *args: scores.append(1) or plain(*args))
    gradients(layer, inputs(), training=True)
    assert len(scores) == times


def test_weights_are_returned_within_a_scope():
    layer, plain = within("full", MAKE["attention"]), MAKE["attention"](name="own")
    for each in (layer, plain):
        each.build((None, None, WIDTH))
    layer.set_weights(plain.get_weights())
    for one, other in zip(
        layer(inputs(), return_weights=True), plain(inputs(), return_weights=True), strict=True
    ):
        np.testing.assert_allclose(array(one), array(other), atol=1e-6)
