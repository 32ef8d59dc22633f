"""Distances that a call is given, and the bias learned for each, against a loop in NumPy, on every path."""

import keras
import numpy as np
import pytest
from backend import array
from samples import HEAD_DIM, HEADS, check_gradients, close, expected, inputs, randomised

from keras_selfattn import layers

WIDTH = HEADS * HEAD_DIM
FAR, KINDS = 3, 2
LAST = KINDS + FAR  # what is further than FAR edges


def built(**settings):
    settings = {"position": layers.DistanceBias(FAR, KINDS)} | settings
    return randomised(layers.MultiHeadSelfAttention(HEADS, **settings), WIDTH)


def given(batch, length, seed=0):
    """Any integers: they need be no distances of a graph, and not symmetric."""
    return np.random.default_rng(seed).integers(-3, LAST + 4, (batch, length, length)).astype("int32")


def wanted(layer, x, distances, allowed=lambda b, h, t, s: True, **rules):
    """Outputs and weights, one sample at a time."""
    table = np.asarray(layer.get_weights()[-1], np.float64)
    found = []
    for b in range(len(x)):

        def pair(h, t, s, query, key, of=distances[b]):
            return table[min(max(of[t, s], -1), LAST) + 1, h]

        def rule(_, h, t, s, b=b):
            return allowed(b, h, t, s)

        found.append(expected(layer, x[b : b + 1], rule, pair=pair, **rules))
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


@pytest.mark.parametrize("length", [1, 2, 9])
def test_a_bias_of_each_distance_is_added(length):
    layer, x, distances = built(), inputs(3, length, WIDTH), given(3, length)
    outputs, weights = layer(x, distances=distances, return_weights=True)
    oracle = wanted(layer, x, distances)
    close(outputs, oracle[0])
    close(weights, oracle[1])
    close(layer(x, distances=distances), oracle[0])


@pytest.mark.parametrize(
    "settings",
    [{"num_kv_heads": 1}, {"causal": True}, {"window": 2}, {"window": (3, 1)}, {"logit_cap": 0.5}],
    ids=str,
)
@pytest.mark.parametrize(("batch", "length"), [(2, 7), (3, 100)])
def test_every_setting_has_it(settings, batch, length):
    layer, x, distances = built(**settings), inputs(batch, length, WIDTH), given(batch, length)
    left, right = {2: (2, 2), (3, 1): (3, 1)}.get(settings.get("window"), (length, length))
    right = 0 if settings.get("causal") else right
    oracle = wanted(
        layer,
        x,
        distances,
        lambda b, h, t, s: t - left <= s <= t + right,
        kv_heads=settings.get("num_kv_heads", HEADS),
        cap=settings.get("logit_cap"),
    )
    close(layer(x, distances=distances), oracle[0])


@pytest.mark.parametrize("count", [1, 60])
def test_distances_name_positions_with_padding_among_them(count):
    """The same in the padded layout and, with many tokens on TensorFlow, in the packed one, longest first."""
    layer, x, distances = built(), inputs(2 * count, 9, WIDTH), given(2 * count, 9)
    mask = np.array([[0, 1, 1, 0, 1, 0, 0, 0, 0], [1, 1, 1, 1, 0, 1, 1, 1, 0]] * count, bool)
    x = np.where(mask[..., None], x, np.nan).astype("float32")
    some = slice(2 * count - 2, None)
    oracle = wanted(layer, np.nan_to_num(x[some]), distances[some], lambda b, h, t, s: mask[some][b, s])[0]
    found = array(layer(x, mask=mask, distances=distances))
    close(found[some], np.where(mask[some, :, None], oracle, 0))


@pytest.mark.parametrize("of_pairs", [False, True])
@pytest.mark.parametrize("count", [1, 40])
def test_it_goes_with_lengths_and_a_mask_of_pairs(of_pairs, count):
    layer, x, distances = built(), inputs(2 * count, 8, WIDTH), given(2 * count, 8)
    lens = np.array([5, 8] * count)
    allowed = given(2 * count, 8, seed=5) > 0
    chosen = {"attention_mask": allowed} if of_pairs else {}
    found = array(layer(x, valid_lens=lens, distances=distances, **chosen))
    oracle = wanted(
        layer, x[:2], distances[:2], lambda b, h, t, s: s < lens[b] and (allowed[b, t, s] or not of_pairs)
    )[0]
    close(found[:2], np.where((np.arange(8) < lens[:2, None])[..., None], oracle, 0))


def test_heads_begin_with_nodes_at_a_distance_of_their_own():
    table = layers.DistanceBias(FAR, KINDS).weights(6, HEAD_DIM)["distance_bias"][1](0)((7, 6), "float32")
    # No path, itself, two kinds of edges, 2 and 3 edges, more; the fifth head looks where the first does.
    close(table[:, 0], np.array([-16, 0, -4, -4, -8, -12, -16]))
    close(table[:, 1], np.array([-12, -4, 0, 0, -4, -8, -12]))
    close(table[:, 3], np.array([-4, -12, -8, -8, -4, 0, -4]))
    close(table[:, 4], array(table)[:, 0])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint32"])
def test_integers_of_every_width_are_clipped_and_do_not_wrap(dtype):
    layer, x = built(), inputs(1, 5, WIDTH)
    limits = np.iinfo(dtype)
    if keras.backend.backend() != "tensorflow" and limits.max > 2**31:
        pytest.skip("JAX cuts such arrays to 32 bits itself, and PyTorch has no uint32")
    far = np.full((1, 5, 5), LAST + 1, "int32")
    close(layer(x, distances=np.full((1, 5, 5), limits.max, dtype)), array(layer(x, distances=far)))
    if limits.min < 0:
        none = np.full((1, 5, 5), limits.min, dtype)
        close(layer(x, distances=none), array(layer(x, distances=-np.ones_like(far))))


def test_nothing_knows_the_order_of_the_tokens():
    """Permuted inputs and distances give permuted outputs: in a graph the nodes have no order."""
    encoder = layers.Encoder(2, HEADS, position=layers.DistanceBias(FAR, KINDS), seed=1, dropout=0.0)
    x, distances = inputs(2, 11, WIDTH), given(2, 11)
    order = np.random.default_rng(3).permutation(11)
    before = array(encoder(x, distances=distances))
    after = array(encoder(x[:, order], distances=distances[:, order][:, :, order]))
    close(after, before[:, order])


def test_blocks_of_an_encoder_read_distances_or_not():
    settings = [{"position": layers.DistanceBias(FAR, KINDS)}, {}]
    encoder = layers.Encoder(2, HEADS, 16, block_settings=settings, dropout=0.0, norm_first=False, seed=1)
    x, distances = inputs(2, 6, WIDTH), given(2, 6)
    outputs = array(encoder(x, distances=distances))
    by_hand = encoder.blocks[1](encoder.blocks[0](x, distances=distances))
    close(outputs, array(by_hand))
    others = array(encoder(x, distances=distances + 1))
    assert np.abs(others - outputs).max() > 1e-4


def functional(**settings):
    x, distances = keras.Input((None, WIDTH)), keras.Input((None, None), dtype="int32")
    encoder = layers.Encoder(2, HEADS, position=layers.DistanceBias(FAR, KINDS), seed=1, **settings)
    return keras.Model([x, distances], layers.AveragePooling()(encoder(x, distances=distances)))


@pytest.mark.parametrize("remat", [False, True])
def test_a_model_learns_the_biases_and_is_saved(remat, tmp_path):
    model, x, distances = functional(remat=remat), inputs(64, 7, WIDTH), given(64, 7)
    model.compile("adam", "mse", jit_compile=False)
    table = model.layers[-2].blocks[0].get_weights()
    model.fit([x, distances], np.ones((64, WIDTH)), epochs=1, batch_size=64, verbose=0)
    changed = [
        np.abs(a - b).max() for a, b in zip(table, model.layers[-2].blocks[0].get_weights(), strict=True)
    ]
    assert min(changed) > 0
    model.save(tmp_path / "model.keras")
    close(
        array(keras.saving.load_model(tmp_path / "model.keras")([x, distances])), array(model([x, distances]))
    )


@pytest.mark.parametrize("count", [2, 40])
def test_its_gradients_are_those_of_differences(count):
    tf = pytest.importorskip("tensorflow")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("other backends differentiate the same operations themselves")
    layer, x = built(dtype="float64"), np.repeat(inputs(2, 7, WIDTH), count // 2, 0).astype("float64")
    distances = np.repeat(given(2, 7), count // 2, 0)

    def loss():
        return tf.reduce_mean(tf.sin(layer(x, distances=distances)))

    check_gradients(layer, loss)


@pytest.mark.slow
def test_one_block_of_queries_after_the_other_gives_the_same():
    """So many scores that a compiled function, or another backend, computes them by blocks."""
    layer, x, distances = built(), inputs(2, 1100, WIDTH), given(2, 1100)
    whole = layer(x, distances=distances, return_weights=True)[0]
    close(layer(x, distances=distances), array(whole))
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        compiled = tf.function(lambda x, d: layer(x, distances=d), jit_compile=True)
        close(compiled(x, distances), array(whole))


@pytest.mark.parametrize(
    ("position", "distances", "message"),
    [
        (layers.DistanceBias(), None, "DistanceBias needs the call argument `distances`"),
        ("rotary", np.zeros((2, 5, 5), int), "read by positions such as DistanceBias"),
        (None, np.zeros((2, 5, 5), int), "leave it out, or set `position`"),
        (layers.DistanceBias(), np.zeros((2, 5, 5)), "must hold integers. Received dtype float"),
        (layers.DistanceBias(), np.zeros((2, 5, 4), int), r"\[batch, length, length\], here \(2, 5, 5\)"),
        (layers.DistanceBias(), np.zeros((5, 5), int), r"Received shape \(5, 5\)"),
        (layers.DistanceBias(), np.zeros((1, 5, 5), int), r"Received shape \(1, 5, 5\)"),
    ],
)
@pytest.mark.parametrize("kind", [layers.MultiHeadSelfAttention, layers.EncoderBlock, layers.Encoder])
def test_what_does_not_fit_is_refused(kind, position, distances, message):
    made = {layers.Encoder: {"num_layers": 1}}.get(kind, {})
    layer = kind(num_heads=HEADS, position=position, **made)
    with pytest.raises(ValueError, match=message):
        layer(inputs(2, 5, WIDTH), distances=distances)
    symbolic = None if distances is None else keras.KerasTensor(distances.shape, str(distances.dtype))
    with pytest.raises(ValueError, match=message):
        layer(keras.KerasTensor((2, 5, WIDTH)), distances=symbolic)


def test_decoders_take_none():
    decoder = layers.Decoder(1, HEADS, position=layers.DistanceBias())
    with pytest.raises(ValueError, match="decoders take none"):
        decoder(inputs(2, 5, WIDTH))


def test_arguments_are_checked_and_saved():
    assert layers.DistanceBias(5, 3).get_config() == {"max_distance": 5, "edge_kinds": 3}
    for wrong in ({"max_distance": 0}, {"edge_kinds": 0}, {"edge_kinds": 1.5}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            layers.DistanceBias(**wrong)
