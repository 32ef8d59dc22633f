"""Initializers, regularizers and constraints of projections, against those of Keras' own layers."""

import keras
import numpy as np
import pytest
from backend import BACKEND, array, gradients, tensorflow_only
from samples import BATCH, HEAD_DIM, HEADS, LENGTH, WIDTH, close, inputs, randomised
from variants import MADE, MAKE
from variants import WIDTH as NARROW

from keras_selfattn import layers
from keras_selfattn.layers import attention_paths
from keras_selfattn.layers.weights.settings import WEIGHT_SETTINGS

PROJECTING = [name for name, layer in MADE.items() if hasattr(layer, "weight_settings")]
WITH_BIASES = [name for name in PROJECTING if name != "attention pooling"]
MASK = np.arange(LENGTH) < np.array([[4], [LENGTH]])


@keras.saving.register_keras_serializable(package="tests")
class Halved(keras.constraints.Constraint):
    """Leaves a trace of how often, and on which shapes, it was applied."""

    def __call__(self, w):
        return w / w.shape[-1]


def attention(**settings):
    layer = layers.MultiHeadSelfAttention(HEADS, HEAD_DIM, **settings)
    layer.build((None, None, WIDTH))
    return layer


def keras_attention(**settings):
    layer = keras.layers.MultiHeadAttention(HEADS, HEAD_DIM, **settings)
    layer.build((None, None, WIDTH), (None, None, WIDTH))
    return layer


def as_ours(theirs):
    """The weights of Keras' attention in our order and shapes."""
    query, query_bias, key, key_bias, value, value_bias, output, output_bias = theirs.get_weights()
    kernel = np.concatenate([part.reshape(WIDTH, -1) for part in (query, key, value)], axis=1)
    bias = np.concatenate([part.reshape(-1) for part in (query_bias, key_bias, value_bias)])
    return [kernel, bias, output.reshape(-1, WIDTH), output_bias]


def parts(layer):
    """Query, key, value and output kernels of attention."""
    kernel, _, output, _ = layer.get_weights()
    return [*np.split(kernel, 3, axis=1), output]


@pytest.mark.parametrize("initializer", ["glorot_uniform", "he_normal", "ones", "orthogonal"])
def test_each_projection_starts_with_the_spread_of_a_projection_alone(initializer):
    layer = layers.MultiHeadSelfAttention(4, 64, kernel_initializer=initializer, seed=3)
    layer.build((None, None, 32))
    keras.utils.set_random_seed(5)
    alone = keras.initializers.get(initializer)
    for kernel in parts(layer):
        wanted = array(alone(kernel.shape))
        np.testing.assert_allclose(kernel.std(), wanted.std(), rtol=0.1)
        np.testing.assert_allclose(kernel.mean(), wanted.mean(), atol=0.03)
        np.testing.assert_allclose(np.abs(kernel).max(), np.abs(wanted).max(), rtol=0.3)


def test_a_seeded_initializer_gives_the_first_projection_the_values_of_keras_and_the_others_their_own():
    """Keras' own attention gives query and key the same kernel."""
    initializer = keras.initializers.GlorotUniform(seed=7)
    ours, theirs = (make(kernel_initializer=initializer) for make in (attention, keras_attention))
    query, key, value, output = parts(ours)
    np.testing.assert_array_equal(query, as_ours(theirs)[0][:, : HEADS * HEAD_DIM])
    dense = keras.layers.Dense(HEADS * HEAD_DIM, kernel_initializer=initializer)
    dense.build((None, WIDTH))
    np.testing.assert_array_equal(query, array(dense.kernel))
    for one, other in ((query, key), (query, value), (key, value), (query, output.T)):
        assert np.abs(one - other).max() > 0.1
    again = parts(attention(kernel_initializer=keras.initializers.GlorotUniform(seed=7), seed=99))
    for one, other in zip((query, key, value, output), again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("own_seed", [None, 7])
def test_no_two_kernels_of_an_encoder_get_the_same_values_and_the_seed_decides_them(own_seed):
    def built():
        of_biases = None if own_seed is None else own_seed + 1
        initializers = {
            "kernel_initializer": keras.initializers.HeNormal(own_seed),
            "bias_initializer": keras.initializers.HeNormal(of_biases),
        }
        made = layers.Encoder(3, 2, 6, gated=True, seed=5, **initializers)
        made.build((None, None, 6))  # all kernels have 6 rows and 6 columns
        return made

    first, second = built(), built()
    drawn = []
    for weight, same in zip(first.weights, second.weights, strict=True):
        np.testing.assert_array_equal(array(weight), array(same))
        whole = array(weight)
        if whole.ndim == 2:
            drawn += np.split(whole, whole.shape[1] // 6, axis=1)
        elif "norm" not in weight.path:
            drawn += np.split(whole, len(whole) // 6)
    assert len(drawn) == 3 * 14
    assert len({tuple(values.reshape(-1)[:6].round(5)) for values in drawn}) == len(drawn)


@pytest.mark.parametrize(
    "form",
    [
        lambda c: c,
        keras.initializers.serialize,
        lambda c: lambda *a, **k: c(*a, **k),
        lambda c: lambda shape, dtype: np.full(shape, c.value),
    ],
)
def test_an_object_its_config_and_a_function_all_initialise(form):
    layer = attention(
        kernel_initializer=form(keras.initializers.Constant(0.25)),
        bias_initializer=form(keras.initializers.Constant(2.0)),
    )
    for weight, value in zip(layer.get_weights(), (0.25, 2.0, 0.25, 2.0), strict=True):
        assert (weight == value).all()


def test_every_projection_of_every_layer_takes_the_initializers():
    for name in PROJECTING:
        config = MAKE[name]().get_config() | {"kernel_initializer": keras.initializers.Constant(0.5)}
        if name in WITH_BIASES:
            config["bias_initializer"] = "ones"
        layer = type(MAKE[name]()).from_config(config)
        layer.build((None, None, NARROW))
        started = [w for w in layer.weights if w.path.endswith(("kernel", "bias", "score_vector"))]
        assert started
        for weight in started:
            if "relative_bias" not in weight.path:
                value = 1.0 if weight.path.endswith("bias") else 0.5
                assert (array(weight) == value).all(), (name, weight.path)


SETTINGS = {
    "kernel_regularizer": keras.regularizers.L1L2(0.01, 0.02),
    "bias_regularizer": "l2",
    "activity_regularizer": keras.regularizers.L1(0.03),
}


def total(layer):
    return sum(float(array(loss)) for loss in layer.losses)


@pytest.mark.parametrize("names", [[name] for name in SETTINGS] + [list(SETTINGS)], ids=" ".join)
def test_the_penalties_are_those_of_keras_attention(names):
    settings = {name: SETTINGS[name] for name in names}
    theirs, ours = keras_attention(**settings), attention(**settings)
    randomised(theirs)
    ours.set_weights(as_ours(theirs))
    x = inputs()
    close(ours(x), array(theirs(x, x)))
    assert total(ours) > 0
    np.testing.assert_allclose(total(ours), total(theirs), rtol=1e-5)
    ours(x, return_weights=True)
    np.testing.assert_allclose(total(ours), total(theirs), rtol=1e-5)


@pytest.mark.parametrize("gated", [False, True])
def test_the_penalties_of_a_block_are_those_of_its_attention_and_dense_layers(gated):
    block = randomised(layers.EncoderBlock(2, 13, gated=gated, name="block", **SETTINGS), 14, 0.4)
    of = {weight.path.partition("block/")[2]: array(weight) for weight in block.weights}
    attention = layers.MultiHeadSelfAttention(2, **SETTINGS)
    attention.build((None, None, 14))
    attention.set_weights([values for path, values in of.items() if path.startswith("attention/")])

    def normal(x, name):
        centred = x - x.mean(-1, keepdims=True)
        centred = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return centred * of[f"{name}/gamma"] + of[f"{name}/beta"]

    def dense(x, name, activation=None):
        kernel, bias = (of[f"feed_forward/{name}/{part}"] for part in ("kernel", "bias"))
        made = keras.layers.Dense(len(bias), activation, **SETTINGS)
        made.build(x.shape)
        made.set_weights([kernel, bias])
        found.append(made)
        return array(made(x))

    x, found = inputs(width=14), [attention]
    x = normal(x + array(attention(normal(x, "attention_norm"))), "feed_forward_norm")
    hidden = dense(x, "hidden", "gelu")
    dense(hidden * dense(x, "gate") if gated else hidden, "output")
    block(inputs(width=14))
    np.testing.assert_allclose(total(block), sum(map(total, found)), rtol=1e-5)


def packed(patch):
    patch.setattr(attention_paths, "_FEW_TOKENS", -1)


def in_query_blocks(patch):
    patch.setattr(attention_paths, "runs_kernels", lambda inputs: False)
    for name, number in {"_SCORES": 20, "_LEAST_QUERIES": 2}.items():
        patch.setattr(attention_paths, name, number)


PENALISED = ["attention", "window", "additive", "multiplicative", "linear", "remade block", "rotary encoder"]


@pytest.mark.parametrize("path", [in_query_blocks, *([packed] if BACKEND == "tensorflow" else [])])
@pytest.mark.parametrize("name", PENALISED)
def test_penalties_and_their_gradients_are_alike_on_every_path_and_padding_has_none(name, path, monkeypatch):
    config = MAKE[name]().get_config()
    for rate in ("dropout", "attention_dropout", "feed_forward_dropout", "stochastic_depth"):
        config |= {rate: 0.0} if rate in config else {}
    config["activity_regularizer"] = "l2"
    layer = randomised(type(MAKE[name]()).from_config(config), NARROW, 0.3)
    x = np.random.default_rng(0).normal(size=(BATCH, LENGTH, NARROW)).astype("float32")

    def found(x):
        of_losses = gradients(layer, x, lambda y: keras.ops.sum(y) * 0, True, mask=MASK, training=True)
        layer(x, mask=MASK, training=True)
        return [np.float32(total(layer)), *of_losses]

    wanted = found(x)
    assert wanted[0] > 0
    assert (wanted[-1][~MASK] == 0).all()
    np.testing.assert_allclose(found(np.where(MASK[:, :, None], x, 100).astype("float32"))[0], wanted[0])
    path(monkeypatch)
    for one, other in zip(found(x), wanted, strict=True):
        close(one, other, rtol=1e-4, atol=1e-5)


@tensorflow_only
def test_a_graph_that_packs_only_when_it_runs_has_the_same_penalties():
    import tensorflow as tf

    encoder = layers.Encoder(2, 2, activity_regularizer="l2", seed=1)
    encoder.build((None, None, NARROW))

    def losses(x, mask):
        encoder(x, mask=mask)
        return encoder.losses

    unknown = [tf.TensorSpec([None, None, NARROW]), tf.TensorSpec([None, None], tf.bool)]
    traced = tf.function(losses, input_signature=unknown)
    for length in (7, 200):
        x = np.random.default_rng(0).normal(size=(2, length, NARROW)).astype("float32")
        mask = np.arange(length) < np.array([[4], [length]])
        found = [array(loss) for loss in traced(x, mask)]
        assert len(found) == 2 * 6
        np.testing.assert_allclose(found, [array(loss) for loss in losses(x, mask)], rtol=1e-5)


def test_a_block_that_is_computed_again_for_its_gradient_is_penalised_alike():
    x = inputs(width=6)
    found = []
    for remat in (False, True):
        block = layers.EncoderBlock(2, 7, remat=remat, activity_regularizer="l2", seed=1)
        block.build((None, None, 6))
        found.append(gradients(block, x, penalised=True, training=True))
        block(x, training=True)
        found[-1].append(np.float32(total(block)))
    for one, other in zip(*found, strict=True):
        close(one, other, rtol=1e-4, atol=1e-5)
    plain = layers.EncoderBlock(2, 7, seed=1)
    plain.build((None, None, 6))
    assert np.abs(gradients(plain, x, training=True)[0] - found[0][0]).max() > 1e-3


BOUNDED = ("grouped attention", "additive", "multiplicative", "linear", "rms and gated block", "encoder")


@pytest.mark.slow
def test_training_holds_each_projection_to_its_constraint():
    settings = {"kernel_constraint": keras.constraints.UnitNorm(axis=None), "bias_constraint": "non_neg"}
    made = [type(MAKE[name]()).from_config(MAKE[name]().get_config() | settings) for name in BOUNDED]
    model = keras.Sequential([keras.Input((LENGTH, NARROW)), *made, layers.AveragePooling()])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    before = [array(weight) for weight in model.weights]
    model.fit(np.ones((4, LENGTH, NARROW), "float32"), np.ones((4, NARROW), "float32"), verbose=0)
    assert all(
        np.abs(array(w) - b).max() > 0
        for w, b in zip(model.weights, before, strict=True)
        if "kernel" in w.path
    )
    for layer, name in zip(made, BOUNDED, strict=True):
        bounded = 0
        for weight in layer.weights:
            whole = array(weight)
            if weight.path.endswith("bias"):
                assert (whole >= 0).all(), weight.path
            elif weight.path.endswith(("kernel", "score_vector")):
                norms = [np.linalg.norm(part) for part in _of_projections(weight.path, whole, layer)]
                np.testing.assert_allclose(norms, 1, rtol=1e-4, err_msg=f"{name} {weight.path}")
                bounded += 1
        assert bounded >= 2


def _of_projections(path, whole, layer):
    """The parts of a weight that are kernels of their own."""
    if path.endswith("query_key_value_kernel"):
        heads = layer.num_heads
        shared = getattr(layer, "num_kv_heads", None) or heads
        each = whole.shape[1] // (heads + 2 * shared)
        return np.split(whole, [heads * each, (heads + shared) * each], axis=1)
    if path.endswith("score_kernel"):
        return np.split(whole, layer.num_heads, axis=1)
    if path.endswith("score_vector"):
        return list(whole)
    return [whole]


ALL = {
    "kernel_initializer": keras.initializers.HeNormal(3),
    "bias_initializer": keras.initializers.RandomNormal(0.0, 0.1, seed=4),
    "kernel_regularizer": keras.regularizers.L2(0.01),
    "bias_regularizer": keras.regularizers.L1(0.02),
    "kernel_constraint": keras.constraints.MaxNorm(3.0),
    "bias_constraint": Halved(),
    "activity_regularizer": keras.regularizers.L1L2(0.001, 0.002),
}
TABLE = {
    "embeddings_initializer": "he_normal",
    "embeddings_regularizer": "l2",
    "embeddings_constraint": keras.constraints.MaxNorm(2.0),
    "activity_regularizer": "l1",
}


@pytest.mark.parametrize("name", [*PROJECTING, "learned positions"])
def test_a_saved_model_has_all_settings_again(name, tmp_path):
    made = MAKE[name]()
    settings = TABLE if name == "learned positions" else ALL
    config = made.get_config()
    layer = type(made).from_config(config | {k: v for k, v in settings.items() if k in config})
    model = keras.Sequential([keras.Input((LENGTH, NARROW)), layer])
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.layers[0].get_config() == layer.get_config() != config
    x = np.random.default_rng(0).normal(size=(2, LENGTH, NARROW)).astype("float32")
    np.testing.assert_array_equal(array(again(x)), array(model(x)))
    assert total(model) > 0
    np.testing.assert_allclose(total(again), total(model), rtol=1e-6)


def test_every_layer_that_projects_has_the_settings():
    for name in WITH_BIASES:
        assert set(WEIGHT_SETTINGS) <= set(MAKE[name]().get_config()), name
    assert {"kernel_initializer", "kernel_regularizer", "kernel_constraint", "activity_regularizer"} <= set(
        MAKE["attention pooling"]().get_config()
    )
    assert set(TABLE) <= set(MAKE["learned positions"]().get_config())


def test_blocks_may_differ_in_their_settings():
    encoder = layers.Encoder(
        2, 2, kernel_initializer="ones", block_settings=[{}, {"kernel_initializer": "zeros"}]
    )
    encoder = layers.Encoder.from_config(encoder.get_config())
    encoder.build((None, None, 4))
    for block, value in zip(encoder.blocks, (1.0, 0.0), strict=True):
        for weight in block.weights:
            if weight.path.endswith("kernel"):
                assert (array(weight) == value).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda **s: layers.MultiHeadSelfAttention(2, **s),
        lambda **s: layers.Encoder(2, 2, **s),
        lambda **s: layers.Encoder(1, 2, block_settings=[s]),
        lambda **s: layers.LinearSelfAttention(2, **s),
    ],
)
@pytest.mark.parametrize("name", WEIGHT_SETTINGS)
def test_a_bad_setting_is_refused_by_its_name(name, make):
    kind = name.rpartition("_")[2]
    wrong = [3, "nothing of the kind", {"class_name": "Nothing", "config": {}}, {"what": 1}]
    others = {"initializer": keras.regularizers.L2(), "regularizer": keras.constraints.NonNeg()}
    wrong.append(others.get(kind, keras.initializers.Zeros()))
    wrong += [None] if kind == "initializer" else []
    for value in wrong:
        with pytest.raises(ValueError, match=f"`{name}` must be a Keras {kind}: its name.*Received"):
            make(**{name: value})


def test_bad_settings_of_tables_and_pooling_are_refused_by_their_names():
    with pytest.raises(ValueError, match="`embeddings_initializer` must be a Keras initializer"):
        layers.LearnedPositionEncoding(3, embeddings_initializer="no such")
    with pytest.raises(ValueError, match="`kernel_constraint` must be a Keras constraint"):
        layers.AttentionPooling(kernel_constraint="no such")


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"key_dim": 4}, "`head_dim`"),
        ({"intermediate_dim": 4}, "`feed_forward_dim`"),
        ({"normalize_first": True}, "`norm_first`"),
        ({"sliding_window": 4}, "`window`.*sliding_window - 1"),
    ],
)
def test_a_peers_name_of_an_argument_is_answered_with_ours(given, ours):
    for make in (
        layers.MultiHeadSelfAttention,
        layers.EncoderBlock,
        lambda n, **s: layers.Encoder(1, n, **s),
    ):
        with pytest.raises(TypeError, match=f"another name here: pass {ours}"):
            make(2, **given)
