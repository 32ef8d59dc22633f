"""AdamW of trainings: the steps of Keras' own, in a graph of a fraction of its operations."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.fused_adamw import FusedAdamW

WEIGHTS = {"kernel": (3, 5), "bias": (5,), "gamma": ()}


def schedule():
    return keras.optimizers.schedules.CosineDecay(0.01, 4, alpha=0.1, warmup_target=0.1, warmup_steps=2)


def moved(optimizer, gradients, excluded=(), compiled=True):
    """Return the weights after steps of these gradients."""
    random = np.random.default_rng(0)
    variables = [
        keras.Variable(random.normal(size=shape), dtype="float32", name=name)
        for name, shape in WEIGHTS.items()
    ]
    optimizer.exclude_from_weight_decay(var_names=list(excluded))
    optimizer.build(variables)

    def step(given):
        optimizer.apply_gradients(zip(given, variables, strict=True))

    step = tf.function(step) if compiled else step
    for each in gradients:
        step([tf.constant(value, tf.float32) for value in each])
    return [np.array(each) for each in variables]


def gradients_of_steps(count=6):
    random = np.random.default_rng(1)
    return [[random.normal(size=shape) for shape in WEIGHTS.values()] for _ in range(count)]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"weight_decay": 0.3, "global_clipnorm": 1.5},
        {"weight_decay": 0.0, "clipnorm": 0.5, "beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-3},
        {"weight_decay": 0.3, "clipvalue": 0.2, "use_ema": True, "ema_momentum": 0.5},
        {"weight_decay": 0.3, "gradient_accumulation_steps": 2, "loss_scale_factor": 2.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("compiled", [True, False])
def test_weights_move_as_with_kerass_adamw(settings, compiled):
    found, wanted = (
        moved(kind(schedule(), **settings), gradients_of_steps(), excluded=["bias"], compiled=compiled)
        for kind in (FusedAdamW, keras.optimizers.AdamW)
    )
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_rows_of_a_table_that_occur_twice_count_once_with_the_sum_of_their_gradients():
    table = keras.Variable(np.ones((4, 2)), dtype="float32", name="table")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table.value, [1, 1, 2]) * [[1.0], [2.0], [-3.0]])
    gradient = tape.gradient(loss, table.value)
    assert isinstance(gradient, tf.IndexedSlices)
    optimizer = FusedAdamW(0.1, weight_decay=0.5)
    optimizer.apply_gradients([(gradient, table)])
    # The first step of Adam has the length of the rate; rows without a gradient decay, too.
    kept = 1 - 0.1 * 0.5
    np.testing.assert_allclose(
        np.array(table), [[kept] * 2, [kept - 0.1] * 2, [kept + 0.1] * 2, [kept] * 2], rtol=1e-5
    )


def operations(optimizer, count):
    variables = [
        keras.Variable(np.ones(3), dtype="float32", name=f"weight_{number}") for number in range(count)
    ]
    optimizer.build(variables)

    def step(given):
        optimizer.apply_gradients([(given, each) for each in variables])

    graph = tf.function(step).get_concrete_function(tf.TensorSpec((3,))).graph
    functions = graph.as_graph_def().library.function
    return len(graph.get_operations()) + sum(len(each.node_def) for each in functions)


def test_a_weight_adds_few_operations_and_none_of_the_schedule():
    ours, theirs = (
        operations(kind(schedule()), 12) - operations(kind(schedule()), 2)
        for kind in (FusedAdamW, keras.optimizers.AdamW)
    )
    assert ours <= 10 * 24
    assert 3 * ours < theirs


def test_it_is_saved_as_its_own_kind_and_refuses_amsgrad():
    optimizer = FusedAdamW(schedule(), weight_decay=0.25, global_clipnorm=1.0)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is FusedAdamW
    assert again.get_config() == optimizer.get_config()
    with pytest.raises(ConfigError, match="`amsgrad` is not for FusedAdamW"):
        FusedAdamW(amsgrad=True)
