"""The contract of every layer, tested in the same way for all of them, on every backend of Keras."""

import inspect

import keras
import numpy as np
import pytest
from backend import BACKEND, array, compiled, gradients, tensorflow_only
from half_precision import BOUND, check_gradients, randomise, rounded
from variants import (
    LENGTH,
    MADE,
    MAKE,
    USUAL,
    WIDTH,
    classifier,
    every_layer,
    every_layer_mostly_slow,
    inputs,
    masked_model,
    mostly_slow,
    takes,
)

from keras_selfattn import layers

RETURNS_WEIGHTS = [name for name, layer in MADE.items() if takes(layer, "return_weights")]


def test_every_public_layer_is_in_this_contract():
    made = set(map(type, MADE.values()))
    made.add(layers.SinusoidalPositionEncoding2D)  # of grids: test_positions_2d.py has its contract
    made.add(layers.MultiHeadCrossAttention)  # of two sequences: test_cross_attention.py has its contract
    public = {getattr(layers, name) for name in layers.__all__}
    assert made == {
        kind for kind in public if isinstance(kind, type) and issubclass(kind, keras.layers.Layer)
    }


@every_layer
def test_a_config_round_trip_keeps_every_argument(make):
    layer = make()
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    own = set(inspect.signature(type(layer)).parameters) - {"args", "kwargs", "settings"}
    assert own <= set(layer.get_config())
    assert all(hasattr(layer, name) for name in own)
    for other in (layer, again):
        other.build((None, None, WIDTH))
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(array(again(inputs())), array(layer(inputs())))


@every_layer
def test_a_saved_model_answers_the_same(make, tmp_path):
    model, ids = masked_model(make()), np.array([[1, 2, 3, 0], [4, 0, 0, 0]])
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(again(ids)), array(model(ids)))


@tensorflow_only
@every_layer_mostly_slow
def test_a_savedmodel_answers_the_same_without_its_layers(make, tmp_path):
    import tensorflow as tf

    model = masked_model(make())
    model.export(tmp_path / "saved", verbose=False)
    served = tf.saved_model.load(tmp_path / "saved")
    for ids in (
        np.array([[1, 2, 3, 0], [4, 0, 0, 0]], "int32"),
        np.zeros((1, 0), "int32"),
        np.ones((2, 60), "int32"),
    ):
        np.testing.assert_allclose(array(served.serve(ids)), array(model(ids)), rtol=1e-5, atol=1e-5)


@every_layer
def test_symbolic_and_eager_shapes_agree(make):
    layer = make()
    symbolic = layer(keras.Input((None, WIDTH)))
    assert symbolic.shape == layer.compute_output_shape((None, None, WIDTH))
    assert tuple(layer(inputs()).shape) == layer.compute_output_shape((5, LENGTH, WIDTH))


@tensorflow_only
@every_layer_mostly_slow
def test_graphs_of_unknown_batch_and_length_equal_eager(make):
    import tensorflow as tf

    layer = make()
    layer.build((None, None, WIDTH))
    traced = tf.function(lambda x: layer(x), input_signature=[tf.TensorSpec([None, None, WIDTH])])
    for length in (0, 1, 11, 61):
        x = inputs(length=length)
        np.testing.assert_allclose(traced(x).numpy(), array(layer(x)), rtol=1e-5, atol=1e-5)


@every_layer_mostly_slow
@pytest.mark.parametrize("length", [0, 1])
def test_empty_sequences_and_single_tokens_are_finite_and_so_are_their_gradients(make, length):
    layer, x = make(), inputs(length=length)
    found = layer(x)
    assert tuple(found.shape) == layer.compute_output_shape((5, length, WIDTH))
    assert np.isfinite(array(found)).all()
    assert all(np.isfinite(gradient).all() for gradient in gradients(layer, x))


@every_layer_mostly_slow
def test_compiled_as_a_whole_equals_eager(make):
    layer = make()
    layer.build((None, None, WIDTH))
    np.testing.assert_allclose(compiled(layer, inputs()), array(layer(inputs())), rtol=1e-4, atol=1e-5)


@every_layer_mostly_slow
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_outputs_are_finite_in_the_policys_dtype(make, policy):
    layer = make(dtype=policy)
    found = layer(inputs())
    assert keras.backend.standardize_dtype(found.dtype) == layer.compute_dtype
    assert np.isfinite(array(found)).all()
    exact = make()
    exact.build((None, None, WIDTH))
    exact.set_weights(layer.get_weights())
    np.testing.assert_allclose(array(found), array(exact(inputs())), atol=0.1)


@every_layer_mostly_slow
def test_large_inputs_in_float16_stay_finite_with_their_gradients(make):
    """Logits beyond 65,504 would be infinite, and their softmax NaN."""
    layer = make(dtype="float16")
    x = inputs(batch=2).astype("float16") * 1000
    assert np.isfinite(array(layer(x))).all()
    found = gradients(
        layer, x, loss=lambda outputs: keras.ops.mean(keras.ops.cast(outputs, "float32")) * 1e-3
    )
    assert all(np.isfinite(gradient).all() for gradient in found)


@every_layer_mostly_slow
def test_rows_of_padding_only_are_zero_and_gradients_finite(make):
    layer = make()
    layer.build((None, None, WIDTH))
    x = inputs(batch=2)
    mask = np.array([[True] * 4 + [False] * 3, [False] * 7])
    call = {"mask": mask, "training": True}
    found = gradients(layer, x, **{name: value for name, value in call.items() if takes(layer, name)})
    assert all(np.isfinite(gradient).all() for gradient in found)
    assert np.abs(found[-1]).sum() > 0
    if takes(layer, "mask"):
        outputs = array(layer(x, mask=mask))
        assert (outputs[1] == 0).all()
        assert (outputs[0, 4:] == 0).all() or outputs.ndim == 2


@every_layer
def test_what_padding_holds_does_not_matter(make):
    layer = make()
    if not takes(layer, "mask"):
        pytest.skip("adds to each position by itself")
    layer.build((None, None, WIDTH))
    x, mask = inputs(batch=3), np.arange(LENGTH) < np.array([[4], [7], [1]])
    wanted = array(layer(x, mask=mask))
    noisy = np.where(mask[:, :, None], x, np.float32(np.nan))
    np.testing.assert_array_equal(array(layer(noisy, mask=mask)), wanted)
    alone = array(layer(x[:1, :4]))[0]
    np.testing.assert_allclose(wanted[0] if wanted.ndim == 2 else wanted[0, :4], alone, rtol=1e-5, atol=1e-5)


CAUSAL = [name for name, layer in MADE.items() if "causal" in layer.get_config()]


@pytest.mark.parametrize("name", mostly_slow(CAUSAL))
def test_made_causal_no_future_leaks_on_any_path(name):
    """Plain, with weights, and in training with dropout of the same seed."""
    config = {**MAKE[name]().get_config(), "causal": True}
    if isinstance(config.get("window"), tuple | list):
        config["window"] = (config["window"][0], 0)  # what a causal query may see
    kind = type(MAKE[name]())
    x, mask = inputs(batch=2, length=60), np.ones((2, 60), bool)
    changed = x.copy()
    changed[:, 40:] = 30.0
    for call in ({}, {"return_weights": True}, {"training": True}):
        before, after = (kind(**config), kind(**config))
        for layer in (before, after):
            layer.build((None, None, WIDTH))
        after.set_weights(before.get_weights())
        found = [layer(v, mask=mask, **call) for layer, v in ((before, x), (after, changed))]
        one, two = (array(f[0] if "return_weights" in call else f) for f in found)
        np.testing.assert_allclose(one[:, :40], two[:, :40], rtol=1e-5, atol=1e-6)
        assert not np.allclose(one[:, 40:], two[:, 40:], atol=1e-3)


@every_layer_mostly_slow
def test_training_runs_in_fit(make):
    model = classifier(make())
    model.compile("sgd", "sparse_categorical_crossentropy")
    random = np.random.default_rng(0)
    before = model.get_weights()[0]
    history = model.fit(random.integers(0, 9, (32, 7)), random.integers(0, 2, 32), verbose=0)
    assert np.isfinite(history.history["loss"][0])
    assert np.abs(model.get_weights()[0] - before).max() > 0


@every_layer_mostly_slow
@pytest.mark.parametrize(
    "shape", [(LENGTH, WIDTH), (WIDTH, WIDTH), (2, LENGTH, WIDTH + 1), (2, 3, LENGTH, WIDTH)]
)
def test_inputs_of_another_rank_or_width_are_refused_in_every_call(make, shape):
    layer = make()
    layer(inputs())
    with pytest.raises(ValueError, match=r"expected (ndim=3|axis -1 of input shape to have value 6)"):
        layer(np.ones(shape, "float32"))
    if len(shape) != 3:
        with pytest.raises(ValueError, match=r"\[batch, length, features\].* add the batch axis"):
            make()(np.ones(shape, "float32"))


@every_layer_mostly_slow
def test_a_subclassed_model_may_hold_it(make):
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.embedding = keras.layers.Embedding(9, WIDTH, mask_zero=True)
            self.layer = make()

        def call(self, ids, training=None):
            options = {"training": training} if takes(self.layer, "training") else {}
            return keras.ops.mean(self.layer(self.embedding(ids), **options), axis=-1)

    model, ids = Model(), np.array([[1, 2, 3, 0], [4, 0, 0, 0]])
    outputs = array(model(ids))
    functional = masked_model(make())
    functional.set_weights(model.get_weights())
    np.testing.assert_allclose(outputs, array(functional(ids)).mean(-1), rtol=1e-5, atol=1e-6)


@every_layer_mostly_slow
def test_the_same_seed_gives_the_same_weights_and_dropout(make):
    first, second = make(), make()
    if first.get_config().get("seed") is None:
        pytest.skip("draws nothing")
    options = {"training": True} if takes(first, "training") else {}
    one, two = array(first(inputs(), **options)), array(second(inputs(), **options))
    np.testing.assert_array_equal(one, two)


RATES = ("dropout", "attention_dropout", "feed_forward_dropout", "stochastic_depth")
DROPS = [(name, rate) for name, layer in MADE.items() for rate in RATES if rate in layer.get_config()]


@pytest.mark.parametrize(
    ("name", "rate"),
    [pytest.param(*each, marks=() if each[0] in USUAL else pytest.mark.slow) for each in DROPS],
)
def test_a_rate_may_be_zero_or_one_and_nothing_beyond(name, rate):
    config = MAKE[name]().get_config()
    kind = type(MAKE[name]())
    for wrong in (1.01, -0.1, "half", True):
        with pytest.raises(ValueError, match=r"must be a number in \[0, 1\]"):
            kind(**{**config, rate: wrong})
    everything = kind.from_config({**config, rate: 1.0})
    assert np.isfinite(array(everything(inputs(), training=True))).all()
    nothing = kind.from_config({**config, **{other: 0.0 for other in RATES if other in config}})
    # Not to the last bit: GELU has a form of its own in training.
    in_training = array(nothing(inputs(), training=True))
    np.testing.assert_allclose(in_training, array(nothing(inputs())), rtol=0, atol=1e-6)
    assert not [variable for variable in nothing.variables if "seed" in variable.path]


@every_layer
def test_projections_that_are_drawn_together_start_different_from_each_other(make):
    layer = make()
    layer.build((None, None, WIDTH))
    for weight in layer.weights:
        if weight.path.endswith("query_key_value_kernel"):
            columns = array(weight).T
            assert len(np.unique(columns.round(4), axis=0)) == len(columns)


@pytest.mark.parametrize("name", RETURNS_WEIGHTS)
def test_returned_weights_leave_the_output_alone_and_sum_to_one_or_are_zero(name):
    layer = MAKE[name]()
    x, mask = inputs(batch=2), np.array([[True] * 4 + [False] * 3, [False] * 7])
    outputs, weights = layer(x, mask=mask, return_weights=True)
    np.testing.assert_allclose(array(outputs), array(layer(x, mask=mask)), rtol=1e-4, atol=1e-5)
    for tensor in weights if isinstance(weights, list) else [weights]:
        found = array(tensor)
        assert found.shape[0] == 2
        assert found.shape[-1] == LENGTH
        sums = found[0].sum(-1)
        np.testing.assert_allclose(sums[sums > 0], 1, rtol=1e-5)
        assert (sums[..., :4] > 0).all()  # of real queries, or of hops
        assert (found[0][..., 4:] == 0).all()
        assert (found[1] == 0).all()


@pytest.mark.parametrize("name", RETURNS_WEIGHTS)
def test_returned_weights_have_a_symbolic_shape_and_work_in_a_functional_model(name):
    layer = MAKE[name]()
    symbolic, lens = keras.Input((None, WIDTH)), keras.Input((), dtype="int32")
    outputs, weights = layer(symbolic, valid_lens=lens, return_weights=True)
    model = keras.Model([symbolic, lens], [outputs, weights])
    found = model([inputs(), np.array([1, 1, 1, 1, 1])])
    assert tuple(found[0].shape) == layer.compute_output_shape((5, LENGTH, WIDTH))
    pairs = zip(*((w if isinstance(w, list) else [w]) for w in (weights, found[1])), strict=True)
    for spec, values in pairs:
        assert len(spec.shape) == len(values.shape)
        assert all(size in (None, got) for size, got in zip(spec.shape, values.shape, strict=True))
        assert (array(values)[..., 1:] == 0).all()


@pytest.mark.slow
def test_the_first_model_of_a_keras_user_trains():
    inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(20, 16, mask_zero=True)(inputs)
    x = layers.SinusoidalPositionEncoding(dropout=0.1)(x)
    x = layers.MultiHeadSelfAttention(num_heads=8, dropout=0.1)(x)
    x = layers.AveragePooling()(x)
    model = keras.Model(inputs, keras.layers.Dense(2, activation="softmax")(x))
    keras.utils.set_random_seed(0)
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    ids = np.random.default_rng(0).integers(1, 20, (256, 6))
    history = model.fit(ids, (ids > 10).sum(1) > 2, epochs=8, verbose=0).history
    assert history["accuracy"][-1] > 0.9


def test_the_backend_is_the_one_that_was_asked_for():
    import os

    assert os.environ.get("KERAS_BACKEND", "tensorflow") == BACKEND


@tensorflow_only
@every_layer_mostly_slow
@pytest.mark.parametrize("policy", BOUND)
def test_gradients_under_mixed_policies_are_those_of_float32(make, policy):
    """Of thousands of tokens, whose sum in half precision stops growing."""
    exact, half = make(), make(dtype=policy)
    for layer in (exact, half):
        layer.build((None, None, WIDTH))
    randomise(exact, half)
    x = rounded(np.random.default_rng(0).normal(size=(64, 64, WIDTH)) + 0.3)

    def run(layer):
        found = gradients(
            layer, x, lambda y: keras.ops.sum(keras.ops.square(keras.ops.cast(y, "float32") + 0.5)) / 64
        )
        paths = [weight.path.partition("/")[2] for weight in layer.trainable_variables]
        return dict(zip(paths, found[:-1], strict=True))

    check_gradients(policy, run(half), run(exact))
