"""Relative positions against loops in NumPy, and what makes them relative."""

import keras
import numpy as np
import pytest
import reference
from backend import array
from samples import HEAD_DIM, HEADS, WIDTH, built, close, expected, inputs, randomised

from keras_selfattn import layers
from keras_selfattn.layers.positions.relative import alibi_slopes

STRATEGIES = {
    "rotary": layers.RotaryPositions(50.0),
    "alibi": layers.LinearBias(),
    "t5": layers.BucketedBias(8, 10),
    "shaw": layers.RelativePositions(3),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [1, 3, 4, 6])
def test_alibi_lowers_logits_by_slope_times_distance(heads, causal):
    layer = randomised(layers.MultiHeadSelfAttention(heads, 5, position=layers.LinearBias(), causal=causal))
    slopes = alibi_slopes(heads)
    x = inputs()
    outputs, weights = layer(x, return_weights=True)
    wanted = reference.self_attention(
        x,
        layer.get_weights(),
        heads,
        5**-0.5,
        lambda b, h, t, s: s <= t or not causal,
        bias=lambda h, t, s, query: -slopes[h] * abs(t - s),
    )
    close(outputs, wanted[0])
    close(weights, wanted[1])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "far"), [(8, 5), (4, 3), (6, 9)])
def test_t5_adds_the_learned_number_of_the_bucket(buckets, far, causal):
    layer, x = built(position=layers.BucketedBias(buckets, far), causal=causal), inputs(length=13)
    table = layer.get_weights()[4]
    assert table.shape == (buckets, HEADS)
    wanted = expected(
        layer,
        x,
        lambda b, h, t, s: s <= t or not causal,
        bias=lambda h, t, s, query: table[reference.bucket(s - t, buckets, far, causal), h],
    )
    outputs, weights = layer(x, return_weights=True)
    close(outputs, wanted[0])
    close(weights, wanted[1])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "far"), [(32, 128), (8, 5), (4, 3), (10, 160), (64, 1000)])
def test_buckets_equal_integer_arithmetic_at_every_distance(buckets, far, causal):
    strategy = layers.BucketedBias(buckets, far)
    for distance in range(-far - 3, far + 4):
        assert strategy.bucket(distance, causal) == reference.bucket(distance, buckets, far, causal), distance


def test_shaws_vectors_are_added_to_keys_and_values():
    layer, x = built(position=layers.RelativePositions(2)), inputs()
    keys, values = layer.get_weights()[4:]
    assert keys.shape == values.shape == (5, HEAD_DIM)

    def at(table, t, s):
        return table[min(max(s - t, -2), 2) + 2]

    outputs, weights = layer(x, return_weights=True)
    wanted = expected(
        layer,
        x,
        bias=lambda h, t, s, query: query @ at(keys, t, s),
        extra=lambda t, s: at(values, t, s),
    )
    close(outputs, wanted[0])
    close(weights, wanted[1])


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_logits_depend_on_distance_only(strategy):
    """A sequence that repeats itself gives the same weights wherever it starts, by query and key distance."""
    layer = built(position=strategy, window=4)
    x = np.tile(inputs(length=5), (1, 6, 1))
    weights = array(layer(x, return_weights=True)[1])
    for shift in (5, 10, 15):
        np.testing.assert_allclose(
            weights[:, :, 5:10, 0:14],
            weights[:, :, 5 + shift : 10 + shift, shift : 14 + shift],
            rtol=2e-4,
            atol=1e-6,
        )


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_positions_matter(strategy):
    """Without a strategy permuted tokens give permuted outputs; with one they do not."""
    layer, x = built(position=strategy), inputs()
    order = np.array([3, 1, 0, 2, 6, 5, 4])
    assert np.abs(array(layer(x[:, order])) - array(layer(x))[:, order]).max() > 1e-3


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_under_causal_no_future_leaks(strategy):
    layer, x = built(position=strategy, causal=True), inputs()
    changed = x.copy()
    changed[:, 4:] = 1e3
    np.testing.assert_array_equal(array(layer(x))[:, :4], array(layer(changed))[:, :4])


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_left_padding_changes_nothing(strategy):
    layer, x = built(position=strategy), inputs()
    padded = np.concatenate([np.full_like(x, np.nan), x], axis=1)
    mask = np.arange(14)[None].repeat(2, 0) >= 7
    np.testing.assert_allclose(array(layer(padded, mask=mask))[:, 7:], array(layer(x)), rtol=1e-4, atol=1e-5)


def test_one_strategy_serves_many_layers_and_carries_no_weights():
    strategy = layers.RelativePositions(2)
    first, second = built(position=strategy), built(position=strategy)
    first._learned["relative_keys"].assign(np.ones((5, HEAD_DIM)))
    assert not np.allclose(array(second._learned["relative_keys"]), 1)
    assert strategy.get_config() == {"max_distance": 2}


def test_what_a_strategy_learns_starts_differently_from_everything_else_and_by_seed():
    layers_of_seed = [
        layers.MultiHeadSelfAttention(2, position=layers.RelativePositions(4), seed=s) for s in (1, 1, 2)
    ]
    for layer in layers_of_seed:
        layer.build((None, None, WIDTH + 1))
    keys, values = layers_of_seed[0].get_weights()[4:]
    assert not np.allclose(keys, values)
    np.testing.assert_array_equal(keys, layers_of_seed[1].get_weights()[4])
    assert not np.allclose(keys, layers_of_seed[2].get_weights()[4])


def test_a_strategy_of_the_users_own_survives_saving(tmp_path):
    @keras.saving.register_keras_serializable(package="tests")
    class Recency(layers.PositionStrategy):
        def __init__(self, rate):
            self.rate = rate

        def weights(self, num_heads, head_dim):
            return {"strength": ((num_heads,), lambda seed: "ones")}

        def logits(self, learned, query, distance, *, causal):
            away = keras.ops.cast(keras.ops.absolute(distance), "float32")
            return -self.rate * learned["strength"][:, None, None] * away

        def get_config(self):
            return {"rate": self.rate}

    symbolic = keras.Input((None, WIDTH))
    model = keras.Model(symbolic, layers.Encoder(1, HEADS, head_dim=5, position=Recency(0.5))(symbolic))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(again(inputs())), array(model(inputs())))
    assert len(again.weights) == len(model.weights)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("rotary", layers.RotaryPositions),
        ("alibi", layers.LinearBias),
        ("t5", layers.BucketedBias),
        ("shaw", layers.RelativePositions),
    ],
)
def test_a_name_is_the_strategy_with_its_defaults(name, kind):
    x = inputs(width=12)
    for make in (layers.MultiHeadSelfAttention, lambda heads, **s: layers.Encoder(2, heads, **s)):
        by_name, by_object = make(2, position=name, seed=1), make(2, position=kind(), seed=1)
        np.testing.assert_array_equal(array(by_name(x)), array(by_object(x)))
        again = type(by_name).from_config(by_name.get_config())
        assert type(again.position) is type(by_name.position) is kind
    encoder = layers.Encoder(1, 2, block_settings=[{"position": name}])
    assert type(layers.Encoder.from_config(encoder.get_config()).blocks[0].position) is kind
    with pytest.raises(ValueError, match="`position` must be .*'rotary', 'alibi', 't5', 'shaw'.*'nothing'"):
        layers.MultiHeadSelfAttention(2, position="nothing")


def test_a_strategy_that_would_load_without_its_arguments_is_refused():
    class Forgetful(layers.PositionStrategy):
        def __init__(self, rate=1.0):
            self.rate = rate

    with pytest.raises(ValueError, match="Forgetful takes arguments and must override `get_config`"):
        layers.MultiHeadSelfAttention(2, position=Forgetful(3.0))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: layers.RotaryPositions(1.0), "`base` must be a finite number greater than 1. Received 1.0"),
        (lambda: layers.BucketedBias(7), "`num_buckets` must be even and at least 4. Received 7"),
        (lambda: layers.BucketedBias(2), "`num_buckets` must be even and at least 4. Received 2"),
        (
            lambda: layers.BucketedBias(32, 16),
            "`max_distance` must be greater .*max_distance=16, num_buckets=32",
        ),
        (lambda: layers.RelativePositions(0), "`max_distance` must be a positive integer. Received 0"),
    ],
)
def test_bad_arguments_are_named_with_their_value(make, said):
    with pytest.raises(ValueError, match=said):
        make()
