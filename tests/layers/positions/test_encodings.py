"""Position encodings against the formula in high precision, and their contract."""

import math
from functools import partial

import keras
import numpy as np
import pytest
import reference
from backend import array, examples, tensorflow_only
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_selfattn.layers import LearnedPositionEncoding, SinusoidalPositionEncoding
from keras_selfattn.layers.positions.angles import sinusoids


def table(length, width, **settings):
    return array(SinusoidalPositionEncoding(**settings)(np.zeros((1, length, width), "float32")))[0]


@pytest.mark.parametrize("width", [1, 2, 7, 32])
def test_every_cell_is_the_papers_formula(width):
    wanted = [[reference.sinusoid(t, d, width) for d in range(width)] for t in range(61)]
    np.testing.assert_allclose(table(61, width), wanted, atol=1e-6)


def test_the_base_is_the_ratio_of_wavelengths():
    wanted = [[reference.sinusoid(t, d, 6, base=100.0) for d in range(6)] for t in range(11)]
    np.testing.assert_allclose(table(11, 6, base=100.0), wanted, atol=1e-6)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "bfloat16"])
def test_narrow_policies_round_once_at_the_end(policy):
    layer = SinusoidalPositionEncoding(dtype=policy)
    found = layer(np.zeros((1, 4096, 8)))
    exact = keras.ops.cast(keras.ops.convert_to_tensor(table(4096, 8)), layer.compute_dtype)
    np.testing.assert_array_equal(
        array(keras.ops.cast(found[0], "float32")), array(keras.ops.cast(exact, "float32"))
    )


def test_adds_to_the_input_and_works_without_knowing_the_length():
    symbolic = keras.Input((None, 6))
    model = keras.Model(symbolic, SinusoidalPositionEncoding()(symbolic))
    for length in (0, 1, 5, 300):
        x = np.full((2, length, 6), 10.0, "float32")
        found = array(model(x))
        np.testing.assert_allclose(found - x, np.broadcast_to(table(length, 6), x.shape), atol=2e-6)


@pytest.mark.parametrize("layer", [SinusoidalPositionEncoding(), LearnedPositionEncoding(9)])
def test_the_mask_is_kept(layer):
    embedded = keras.layers.Embedding(5, 4, mask_zero=True)(np.array([[1, 2, 0]]))
    encoded = layer(embedded)
    np.testing.assert_array_equal(array(encoded._keras_mask), [[True, True, False]])
    later = layer(embedded, offset=keras.ops.convert_to_tensor(1))
    np.testing.assert_array_equal(array(later._keras_mask), [[True, True, False]])


@pytest.mark.parametrize("make", [SinusoidalPositionEncoding, lambda **s: LearnedPositionEncoding(50, **s)])
def test_dropout_acts_in_training_only_and_follows_its_seed(make):
    x = np.ones((40, 50, 10), "float32")
    first, second = make(dropout=0.25, seed=3), make(dropout=0.25, seed=3)
    kept = array(first(x, training=True)) != 0
    np.testing.assert_array_equal(kept, array(second(x, training=True)) != 0)
    assert abs(kept.mean() - 0.75) < 5 * (0.75 * 0.25 / kept.size) ** 0.5
    plain = array(first(x))
    trained = array(make(dropout=0.25, seed=3)(x, training=True))
    np.testing.assert_allclose(trained[kept], plain[kept] / 0.75, rtol=1e-5)
    np.testing.assert_array_equal(plain, array(first(x, training=False)))


def test_a_learned_encoding_adds_its_rows():
    layer = LearnedPositionEncoding(7)
    x = np.ones((2, 5, 3), "float32")
    found = array(layer(x))
    np.testing.assert_allclose(found[1] - 1, layer.get_weights()[0][:5], atol=1e-6)


def test_past_max_length_a_learned_encoding_says_both_numbers():
    with pytest.raises(ValueError, match="Received length 8, max_length=7"):
        LearnedPositionEncoding(7)(np.ones((1, 8, 3), "float32"))


@tensorflow_only
def test_past_max_length_inside_a_graph_of_unknown_length_is_an_error_too():
    import tensorflow as tf

    symbolic = keras.Input((None, 3))
    model = keras.Model(symbolic, LearnedPositionEncoding(7)(symbolic))
    traced = tf.function(lambda x: model(x), input_signature=[tf.TensorSpec([None, None, 3])])
    assert traced(tf.zeros([1, 7, 3])).shape == (1, 7, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="8"):
        traced(tf.zeros([1, 8, 3]))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            partial(SinusoidalPositionEncoding, base=1.0),
            "`base` must be a finite number greater than 1. Received 1.0",
        ),
        (partial(SinusoidalPositionEncoding, dropout=2), "Received 2"),
        (partial(LearnedPositionEncoding, 0), "`max_length` must be a positive integer. Received 0"),
        (lambda: SinusoidalPositionEncoding()(np.zeros((2, 3), "float32")), "\\[batch, length, features\\]"),
    ],
)
def test_bad_arguments_are_named_with_their_value(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_an_offset_shifts_the_positions():
    layer, x = SinusoidalPositionEncoding(), np.zeros((2, 5, 6), "float32")
    for offset in (7, keras.ops.convert_to_tensor(7), np.int64(7)):
        np.testing.assert_allclose(array(layer(x, offset=offset))[1], table(12, 6)[7:], atol=1e-6)


def test_explicit_positions_of_left_padding_and_packed_sequences():
    layer, x = SinusoidalPositionEncoding(), np.zeros((2, 5, 6), "float32")
    positions = np.array([[-2, -1, 0, 1, 2], [0, 1, 2, 0, 1]])
    found = array(layer(x, positions=positions))
    wanted = [[[reference.sinusoid(p, d, 6) for d in range(6)] for p in row] for row in positions.tolist()]
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    np.testing.assert_allclose(array(layer(x, positions=positions[1]))[0], wanted[1], atol=1e-6)


def test_positions_may_be_a_symbolic_input():
    symbolic, positions = keras.Input((None, 6)), keras.Input((None,), dtype="int32")
    model = keras.Model([symbolic, positions], SinusoidalPositionEncoding()(symbolic, positions=positions))
    found = array(model([np.zeros((1, 3, 6), "float32"), np.array([[4, 0, 2]])]))
    np.testing.assert_allclose(found[0], table(5, 6)[[4, 0, 2]], atol=1e-6)


@settings(max_examples=examples(50), deadline=None)
@given(
    offset=st.integers(-100_000, 100_000),
    position=st.integers(0, 100_000),
    base=st.sampled_from([50.0, 10000.0]),
)
def test_the_relative_projection_turns_one_encoding_into_another(offset, position, base):
    layer = SinusoidalPositionEncoding(base=base)
    layer.build((None, None, 12))
    matrix = layer.relative_projection(offset)
    assert matrix.dtype == np.float64
    assert matrix.shape == (12, 12)
    here, there = (
        array(sinusoids(keras.ops.convert_to_tensor([p], dtype="int32"), 12, base))[0]
        for p in (position, position + offset)
    )
    np.testing.assert_allclose(matrix @ here.astype("float64"), there, atol=5e-6)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(12), atol=1e-12)


def test_the_two_by_two_block_is_the_books():
    """Dive into Deep Learning, 11.6: [[cos, sin], [-sin, cos]] of offset times frequency."""
    layer = SinusoidalPositionEncoding()
    layer.build((None, None, 4))
    matrix = layer.relative_projection(3)
    np.testing.assert_allclose(
        matrix[2:, 2:], [[math.cos(0.03), math.sin(0.03)], [-math.sin(0.03), math.cos(0.03)]]
    )
    assert (matrix[:2, 2:] == 0).all()
    assert (matrix[2:, :2] == 0).all()


def test_a_learned_encoding_that_clips_repeats_its_last_row():
    layer = LearnedPositionEncoding(3, beyond="clip")
    found = array(layer(np.zeros((1, 5, 2), "float32")))[0]
    rows = layer.get_weights()[0]
    np.testing.assert_allclose(found, rows[[0, 1, 2, 2, 2]], atol=1e-7)


@pytest.mark.parametrize("beyond", ["raise", "clip"])
def test_an_offset_takes_the_vectors_from_there_on(beyond):
    layer, x = LearnedPositionEncoding(7, beyond=beyond), np.zeros((2, 3, 2), "float32")
    symbolic, start = keras.Input((3, 2)), keras.Input((), batch_size=1, dtype="int32")
    layer(keras.ops.convert_to_tensor(x), keras.ops.convert_to_tensor(4))  # built with both
    rows = layer.get_weights()[0]
    for offset in (4, keras.ops.convert_to_tensor(4), np.int64(4), np.array(4)):
        np.testing.assert_array_equal(array(layer(x, offset=offset))[1], rows[4:])
    np.testing.assert_array_equal(array(layer(x))[1], rows[:3])
    model = keras.Model([symbolic, start], layer(symbolic, offset=start[0]))
    np.testing.assert_array_equal(array(model([x[:1], np.array([2])]))[0], rows[2:5])
    if beyond == "clip":
        np.testing.assert_array_equal(array(layer(x, offset=5))[0], rows[[5, 6, 6]])
        np.testing.assert_array_equal(array(layer(x, offset=900))[0], rows[[6, 6, 6]])


@tensorflow_only
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("beyond", ["raise", "clip"])
def test_an_offset_that_a_graph_learns_when_it_runs_gives_nan_where_there_is_no_vector(beyond, jit_compile):
    import tensorflow as tf

    layer, x = LearnedPositionEncoding(7, beyond=beyond), tf.zeros([1, 3, 2])
    layer(x)
    rows, none = layer.get_weights()[0], np.full(2, np.nan, "float32")
    after = rows[6] if beyond == "clip" else none
    run = tf.function(lambda offset: layer(x, offset=offset), jit_compile=jit_compile)
    wanted = {4: rows[4:], 5: [rows[5], rows[6], after], 99: [after] * 3, -1: [none, rows[0], rows[1]]}
    for offset, of_offset in wanted.items():
        np.testing.assert_array_equal(array(run(tf.constant(offset)))[0], of_offset)


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (-1, "`offset` must be 0 or more: other positions have no vector. Received -1"),
        (5, "Received length 3 from offset 5 on, max_length=7; cut the input"),
        (1.0, "`offset` must be an integer. Received 1.0"),
        (np.array([1, 2]), "`offset` must be an integer"),
    ],
)
def test_an_offset_without_a_vector_is_named(offset, said):
    layer = LearnedPositionEncoding(7)
    with pytest.raises(ValueError, match=said):
        layer(np.zeros((2, 3, 2), "float32"), offset=offset)
    with pytest.raises(ValueError, match=said):
        layer(keras.Input((3, 2)), offset=offset)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"offset": 1.5}, "`offset` must be an integer. Received 1.5"),
        ({"offset": np.array([1, 2])}, "`offset` must be an integer"),
        ({"positions": np.zeros(5)}, "`positions` must hold integers. Received dtype float"),
        (
            {"positions": np.zeros(4, int)},
            r"`positions` must have shape \[length\] or \[batch, length\], here \(5,\)",
        ),
        (
            {"positions": np.zeros((1, 5), int)},
            r"`positions` must have shape .* here \(2, 5\). Received shape \(1, 5\)",
        ),
        (
            {"positions": np.zeros(5, int), "offset": 2},
            "`offset` or `positions`, not both. Received offset=2",
        ),
    ],
)
def test_bad_positions_are_named_with_what_was_received(call, said):
    with pytest.raises(ValueError, match=said):
        SinusoidalPositionEncoding()(np.zeros((2, 5, 6), "float32"), **call)


def test_a_projection_needs_a_built_layer_of_even_width():
    layer = SinusoidalPositionEncoding()
    with pytest.raises(ValueError, match="call the layer, or `build` it, first"):
        layer.relative_projection(1)
    layer.build((None, None, 7))
    with pytest.raises(ValueError, match="even width, of whole pairs. Received width 7"):
        layer.relative_projection(1)
    layer = SinusoidalPositionEncoding()
    layer.build((None, None, 6))
    with pytest.raises(ValueError, match="`offset` must be an integer. Received 1.5"):
        layer.relative_projection(1.5)
    with pytest.raises(ValueError, match="`beyond` must be one of 'raise', 'clip'. Received 'wrap'"):
        LearnedPositionEncoding(3, beyond="wrap")


def test_a_functional_model_refuses_bad_positions_and_lengths_when_it_is_built():
    with pytest.raises(ValueError, match="`positions` must hold integers"):
        SinusoidalPositionEncoding()(keras.Input((5, 4)), positions=keras.Input((5,)))
    with pytest.raises(ValueError, match="Received length 5, max_length=3"):
        LearnedPositionEncoding(3)(keras.Input((5, 4)))
    assert LearnedPositionEncoding(3)(keras.Input((None, 4))).shape == (None, None, 4)
