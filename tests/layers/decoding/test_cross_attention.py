"""MultiHeadCrossAttention against loops in NumPy, Keras' own layer, and its contract."""

import keras
import numpy as np
import pytest
import reference
from backend import BACKEND, array, compiled, gradients, tensorflow_only
from samples import BATCH, HEAD_DIM, HEADS, LENGTH, WIDTH, close, inputs

from keras_selfattn.layers import Decoder, MultiHeadCrossAttention, attention_paths

S, MEMORY_WIDTH = 13, 17
MASK = np.array([[1] * 5 + [0, 0], [0, 1, 1, 1, 0, 1, 1]], bool)
MEMORY_MASK = np.array([[0, 1] * 6 + [1], [1] * 3 + [0] * 10], bool)


def memory(length=S, batch=BATCH):
    return inputs(batch, length, MEMORY_WIDTH, seed=3)


def built(heads=HEADS, **settings):
    layer = MultiHeadCrossAttention(heads, HEAD_DIM, **settings)
    layer.build((None, None, WIDTH), (None, None, MEMORY_WIDTH))
    random = np.random.default_rng(1)
    layer.set_weights([random.normal(size=w.shape) * 0.5 for w in layer.weights])
    return layer


def expected(layer, x, other, allowed=reference.everything, **rules):
    scale = rules.pop("scale", HEAD_DIM**-0.5)
    return reference.cross_attention(x, other, layer.get_weights(), layer.num_heads, scale, allowed, **rules)


@pytest.mark.parametrize("kv_heads", [1, 3, 6])
def test_equals_loops_in_numpy(kv_heads):
    layer, x = built(6, num_kv_heads=kv_heads), inputs()
    outputs, weights = layer(x, memory(), return_weights=True)
    wanted = expected(layer, x, memory(), kv_heads=kv_heads)
    close(outputs, wanted[0])
    close(weights, wanted[1])
    close(layer(x, memory()), wanted[0])


def test_scale_cap_and_query_key_norm_are_those_of_self_attention():
    layer, x = built(scale=1.3, logit_cap=0.7, qk_norm=True), inputs()
    gains = dict(zip(("query", "key"), layer.get_weights()[6:], strict=True))

    def turn(name, vector, position):
        return vector / np.sqrt(np.mean(vector**2) + 1e-6) * gains[name]

    close(layer(x, memory()), expected(layer, x, memory(), scale=1.3, cap=0.7, turn=turn)[0])


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("form", ["masks", "lengths"])
def test_padding_of_either_side_has_no_effect_even_if_it_is_not_a_number(form, return_weights):
    layer, x, other = built(), inputs(), memory()
    mask, of_memory = MASK, MEMORY_MASK
    call = {"mask": mask, "memory_mask": of_memory}
    if form == "lengths":
        mask, of_memory = (
            np.arange(n) < np.array(lens)[:, None] for n, lens in ((LENGTH, (5, 7)), (S, (13, 3)))
        )
        call = {"valid_lens": np.array([5, 7]), "memory_lens": np.array([13, 3])}
    wanted, _ = expected(layer, x, other, lambda b, h, t, s: of_memory[b, s])
    x[~mask], other[~of_memory] = np.nan, np.inf
    found = layer(x, other, return_weights=return_weights, **call)
    close(found[0] if return_weights else found, np.where(mask[:, :, None], wanted, 0))
    if return_weights:
        assert (np.where(of_memory[:, None, None], 0, array(found[1])) == 0).all()


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_pairs_that_may_attend_equal_the_reference_and_empty_queries_give_the_bias(rank):
    layer, x = built(), inputs()
    pairs = (
        np.random.default_rng(5).random(
            {2: (LENGTH, S), 3: (BATCH, LENGTH, S), 4: (BATCH, HEADS, LENGTH, S)}[rank]
        )
        < 0.5
    )
    pairs[..., 2, :] = False
    whole = np.broadcast_to(
        pairs.reshape({2: (1, 1), 3: (BATCH, 1), 4: (BATCH, HEADS)}[rank] + (LENGTH, S)),
        (BATCH, HEADS, LENGTH, S),
    )
    call = {"attention_mask": pairs, "memory_mask": MEMORY_MASK}
    wanted = expected(layer, x, memory(), lambda b, h, t, s: whole[b, h, t, s] and MEMORY_MASK[b, s])
    outputs, weights = layer(x, memory(), return_weights=True, **call)
    close(outputs, wanted[0])
    close(weights, wanted[1])
    found = array(layer(x, memory(), **call))
    close(found, wanted[0])
    np.testing.assert_array_equal(found[:, 2], np.broadcast_to(layer.get_weights()[5], found[:, 2].shape))


def test_a_memory_without_a_token_gives_the_bias_and_finite_gradients():
    layer, x = built(), inputs()
    of_memory = np.array([[False] * S, [True] * S])
    found = array(layer(x, memory(), memory_mask=of_memory))
    np.testing.assert_array_equal(found[0], np.broadcast_to(layer.get_weights()[5], found[0].shape))
    close(layer(x, memory(0)), np.broadcast_to(layer.get_weights()[5], x.shape))
    assert layer(inputs(length=0), memory()).shape == (BATCH, 0, WIDTH)
    for length in (0, S):
        call = {"memory": memory(length), "memory_mask": of_memory[:, :length]}
        assert all(np.isfinite(each).all() for each in gradients(layer, x, **call))


def test_equals_keras_multi_head_attention_with_copied_weights():
    layer, x = built(), inputs()
    theirs = keras.layers.MultiHeadAttention(HEADS, HEAD_DIM)
    theirs.build((None, None, WIDTH), (None, None, MEMORY_WIDTH))
    query, query_bias, both, biases, output, output_bias = layer.get_weights()
    key, value = (part.reshape(MEMORY_WIDTH, HEADS, HEAD_DIM) for part in np.split(both, 2, axis=1))
    key_bias, value_bias = (part.reshape(HEADS, HEAD_DIM) for part in np.split(biases, 2))
    copied = [query.reshape(WIDTH, HEADS, HEAD_DIM), query_bias.reshape(HEADS, HEAD_DIM), key, key_bias]
    theirs.set_weights([*copied, value, value_bias, output.reshape(HEADS, HEAD_DIM, WIDTH), output_bias])
    pairs = np.broadcast_to(MEMORY_MASK[:, None], (BATCH, LENGTH, S))
    close(layer(x, memory(), memory_mask=MEMORY_MASK), array(theirs(x, memory(), attention_mask=pairs)))


def test_a_config_round_trip_keeps_every_argument():
    layer = built(num_kv_heads=1, scale=0.5, dropout=0.1, use_bias=False, qk_norm=True, logit_cap=3.0, seed=4)
    again = MultiHeadCrossAttention.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert "causal" not in layer.get_config()
    again.build((None, None, WIDTH), (None, None, MEMORY_WIDTH))
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(array(again(inputs(), memory())), array(layer(inputs(), memory())))


def model_of_ids(layer):
    """Ids of both sides to the layer's output, as Keras propagates the masks of two embeddings."""
    ids, others = (keras.Input((None,), dtype="int32") for _ in range(2))
    x = keras.layers.Embedding(9, WIDTH, mask_zero=True)(ids)
    other = keras.layers.Embedding(9, MEMORY_WIDTH, mask_zero=True)(others)
    return keras.Model([ids, others], layer(x, other))


def test_masks_that_keras_propagates_reach_both_sides_in_a_model_and_in_its_file(tmp_path):
    layer = built()
    model = model_of_ids(layer)
    ids, others = np.array([[1, 2, 0], [3, 0, 0]]), np.array([[4, 0, 5, 0], [6, 7, 8, 1]])
    x, other = (
        array(each(v))
        for each, v in zip([la for la in model.layers if "embedding" in la.name], (ids, others), strict=True)
    )
    wanted, _ = expected(layer, x, other, lambda b, h, t, s: others[b, s] > 0)
    close(model([ids, others]), np.where(ids[:, :, None] > 0, wanted, 0))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(again([ids, others])), array(model([ids, others])))


def test_a_mask_that_keras_propagates_counts_beside_a_mask_of_none():
    ids = np.array([[1, 2, 3], [1, 0, 0]])
    x = keras.layers.Embedding(6, WIDTH, mask_zero=True)(ids)
    layer, other = built(), np.ones((2, 4, MEMORY_WIDTH), "float32")
    assert (array(layer(x, other, None, np.ones((2, 4), bool)))[ids == 0] == 0).all()


@tensorflow_only
@pytest.mark.slow
def test_a_savedmodel_of_an_encoder_and_a_decoder_answers_the_same_without_its_layers(tmp_path):
    import tensorflow as tf

    model = model_of_ids(Decoder(1, 1, feed_forward_dim=8))
    model.export(tmp_path, verbose=False)
    served = tf.saved_model.load(str(tmp_path))
    for length, other in ((3, 4), (0, 2), (2, 0), (90, 40)):
        ids = [np.random.default_rng(1).integers(0, 9, (3, size)).astype("int32") for size in (length, other)]
        close(served.serve([tf.constant(each) for each in ids]), array(model(ids)))


def test_symbolic_and_eager_shapes_agree():
    layer = MultiHeadCrossAttention(HEADS, HEAD_DIM)
    outputs, weights = layer(keras.Input((None, WIDTH)), keras.Input((S, MEMORY_WIDTH)), return_weights=True)
    assert (outputs.shape, weights.shape) == ((None, None, WIDTH), (None, HEADS, None, S))


def test_query_key_and_value_start_different_and_follow_the_seed():
    first, second = (MultiHeadCrossAttention(1, seed=5) for _ in range(2))
    for layer in (first, second):
        layer.build((None, None, WIDTH), (None, None, WIDTH))
    query, _, both, *_ = first.get_weights()
    key, value = np.split(both, 2, axis=1)
    assert not any(np.allclose(a, b) for a, b in ((query, key), (key, value), (query, value)))
    np.testing.assert_array_equal(both, second.get_weights()[2])
    given = MultiHeadCrossAttention(1, kernel_initializer=keras.initializers.GlorotUniform(seed=1))
    given.build((None, None, WIDTH), (None, None, WIDTH))
    query, _, both, *_ = given.get_weights()
    assert not any(np.allclose(query, part) for part in np.split(both, 2, axis=1))


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_stays_near_float32(policy):
    exact, half = built(), MultiHeadCrossAttention(HEADS, HEAD_DIM, dtype=policy)
    half.build((None, None, WIDTH), (None, None, MEMORY_WIDTH))
    half.set_weights(exact.get_weights())
    wanted = array(exact(inputs(), memory(), memory_mask=MEMORY_MASK))
    found = array(half(inputs(), memory(), memory_mask=MEMORY_MASK))
    roundings = 16 * (2**-8 if "bfloat16" in policy else 2**-11)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=roundings * np.abs(wanted).max())


def test_lora_and_int8_are_those_of_self_attention():
    layer, x = built(), inputs()
    layer.enable_lora(2)
    assert {w.name for w in layer.trainable_variables} == {"query_a", "query_b", "value_a", "value_b"}
    close(layer(x, memory()), array(built()(x, memory())))
    plain, rounded = built(), built()
    rounded.quantize("int8")
    assert [w.dtype for w in rounded.weights if "kernel" in w.name and "scale" not in w.name] == ["int8"] * 3
    wanted = array(plain(x, memory()))
    assert 0 < np.abs(array(rounded(x, memory())) - wanted).max() < 0.05 * np.abs(wanted).max()
    again = MultiHeadCrossAttention.from_config(rounded.get_config())
    again.build((None, None, WIDTH), (None, None, MEMORY_WIDTH))
    assert again.weights[0].dtype == rounded.weights[0].dtype


def test_dropout_drops_weights_in_training_alone():
    layer, x = built(dropout=0.5, seed=1), inputs()
    np.testing.assert_array_equal(array(layer(x, memory())), array(built()(x, memory())))
    outputs, weights = layer(x, memory(), training=True, return_weights=True)
    close(weights, expected(layer, x, memory())[1])
    assert not np.allclose(array(outputs), array(layer(x, memory())))


def test_a_penalty_of_outputs_is_that_of_every_projection():
    layer = built(activity_regularizer=keras.regularizers.L2(1.0))
    x = inputs()
    layer(x, memory(), memory_mask=MEMORY_MASK)
    query, query_bias, both, biases = layer.get_weights()[:4]
    of_memory = np.where(MEMORY_MASK[..., None], memory() @ both + biases, 0)
    outputs = array(layer(x, memory(), memory_mask=MEMORY_MASK))
    wanted = sum(np.sum(each.astype("float64") ** 2) for each in (x @ query + query_bias, of_memory, outputs))
    np.testing.assert_allclose(float(array(sum(layer.losses))), wanted / BATCH, rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"memory": np.ones((BATCH, S))}, r"`memory` must have shape \[batch, length, features\]"),
        ({"memory": None}, "`memory` must be a sequence.*Received None"),
        ({"memory": np.ones((BATCH, S, 3), "float32")}, "`memory` must have 17 features.*Received 3"),
        (
            {"memory": np.ones((3, S, MEMORY_WIDTH))},
            "`memory` must have as many rows as `inputs`, 2.*Received 3",
        ),
        (
            {"memory_mask": np.ones((BATCH, LENGTH), bool)},
            r"`memory_mask` must have shape .*\(2, 13\).*\(2, 7\)",
        ),
        ({"memory_mask": np.ones((BATCH, S))}, "`memory_mask` must be boolean"),
        ({"memory_lens": np.array([1, 14])}, "`memory_lens` must lie between 0 and .* 13"),
        ({"memory_lens": np.ones((BATCH, LENGTH), int)}, r"`memory_lens` must have shape \[batch\]"),
        ({"valid_lens": np.ones((BATCH, LENGTH), int)}, r"`valid_lens` of the inputs of cross-attention"),
        (
            {"attention_mask": np.ones((S, LENGTH), bool)},
            r"`attention_mask` must have shape \[length, memory len",
        ),
        (
            {"memory_mask": MEMORY_MASK, "memory_lens": np.array([1, 3])},
            "`memory_mask` and `memory_lens` contradict each other",
        ),
    ],
)
def test_a_bad_memory_or_mask_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        built()(inputs(), **{"memory": memory().astype("float32"), **call})


def test_nothing_of_it_is_causal():
    with pytest.raises(TypeError, match="leave `causal` out.*Received causal=True"):
        MultiHeadCrossAttention(2, causal=True)


def test_names_of_keras_are_refused_and_a_missing_memory_too():
    with pytest.raises(TypeError, match="`return_attention_scores`"):
        built()(inputs(), memory(), return_attention_scores=True)
    with pytest.raises(TypeError, match="`value` has another name here: pass `memory`"):
        built()(inputs(), value=memory())
    with pytest.raises(TypeError, match="use_causal_mask"):
        built()(inputs(), memory(), use_causal_mask=True)
    with pytest.raises(TypeError, match="memory"):
        built()(inputs())


@pytest.mark.slow
def test_compiled_as_a_whole_equals_eager():
    layer = built()
    call = {"memory": memory(), "memory_mask": MEMORY_MASK, "mask": MASK}
    np.testing.assert_allclose(
        compiled(layer, inputs(), **call), array(layer(inputs(), **call)), rtol=1e-4, atol=1e-5
    )


@pytest.mark.skipif(BACKEND == "tensorflow", reason="TensorFlow packs; XLA takes the same path")
def test_scores_are_formed_for_blocks_of_queries_in_memory_linear_in_both_lengths(monkeypatch):
    sizes, attention = [], attention_paths.softmax_attention

    def noted(query, key, *others, **options):
        sizes.append(query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2])
        return attention(query, key, *others, **options)

    monkeypatch.setattr(attention_paths, "softmax_attention", noted)
    monkeypatch.setattr(attention_paths, "_SCORES", 2**10)
    monkeypatch.setattr(attention_paths, "_LEAST_QUERIES", 2)
    layer, wanted = built(), built()(inputs(length=67), memory(), return_weights=True)[0]
    for length, other in ((67, 13), (134, 13), (67, 130)):
        sizes.clear()
        found = layer(inputs(length=length), memory(other))
        assert max(sizes) <= max(2**10, 2 * BATCH * HEADS * other)
        if (length, other) == (67, 13):
            close(found, array(wanted))


@pytest.fixture
def small_blocks(monkeypatch):
    """Everything is packed, in blocks of a few scores."""
    from keras_selfattn.layers.tensorflow import block_walk

    monkeypatch.setattr(attention_paths, "_FEW_TOKENS", -1)
    for name, number in {"_SCORES": 60, "_WASTED_SCORES": 30, "_LEAST_QUERIES": 2}.items():
        monkeypatch.setattr(block_walk, name, number)


def packed_and_padded(monkeypatch, run):
    """`run()` on packed tokens and on all positions."""
    found = run()
    with monkeypatch.context() as patch:
        patch.setattr(attention_paths, "_FEW_TOKENS", 2**31 - 1)
        return found, run()


ROWS = {
    "none": {},
    "masks": {
        "mask": np.array([MASK[0], MASK[1], [False] * LENGTH, [True] * LENGTH, MASK[0]]),
        "memory_mask": np.array([MEMORY_MASK[0], MEMORY_MASK[1], [True] * S, [False] * S, [True] * S]),
    },
    "pairs": {
        "mask": np.resize(MASK, (5, LENGTH)),
        "memory_lens": np.array([0, 13, 1, 5, 9]),
        "attention_mask": np.random.default_rng(2).random((5, 1, LENGTH, S)) < 0.5,
    },
}


@tensorflow_only
@pytest.mark.parametrize("masks", ROWS)
@pytest.mark.parametrize("settings", [{}, {"num_kv_heads": 1, "qk_norm": True, "dropout": 0.4, "seed": 3}])
def test_packed_outputs_and_gradients_equal_those_of_all_positions(
    masks, settings, small_blocks, monkeypatch
):
    import tensorflow as tf

    x, other = inputs(5), memory(batch=5)
    for name, padding in (("mask", x), ("memory_mask", other)):
        if name in ROWS[masks]:
            padding[~ROWS[masks][name]] = np.nan

    def run():
        layer = built(**settings)
        given = [tf.constant(x), tf.constant(other)]
        with tf.GradientTape() as tape:
            tape.watch(given)
            y = layer(*given, training="dropout" in settings and masks != "masks", **ROWS[masks])
            total = tf.reduce_sum(y * y * inputs(5, seed=9))
        found = tape.gradient(total, [*layer.trainable_variables, *given])
        return [array(y), *(np.asarray(tf.convert_to_tensor(each)) for each in found)]

    for one, wanted in zip(*packed_and_padded(monkeypatch, run), strict=True):
        scale = max(np.abs(wanted).max(initial=0), 1e-3)
        np.testing.assert_allclose(one / scale, wanted / scale, rtol=0, atol=3e-5)


@tensorflow_only
def test_no_packed_block_holds_more_scores_than_its_budget(small_blocks, monkeypatch):
    """Each block holds all keys of its queries: memory grows with the keys, and not with the queries."""
    import tensorflow as tf

    from keras_selfattn.layers.tensorflow import block_attention

    seen, softmax = [], block_attention.masked_softmax

    def counted(logits, *args, **options):
        seen.append(int(tf.size(logits)))
        return softmax(logits, *args, **options)

    monkeypatch.setattr(block_attention, "masked_softmax", counted)
    layer = built(1)
    for length, other in ((50, 40), (100, 40), (50, 80)):
        seen.clear()
        layer(inputs(1, length), memory(other, 1))
        assert max(seen) <= max(60, 2 * other)
        assert sum(seen) == length * other


@tensorflow_only
def test_graphs_of_unknown_sizes_take_few_tokens_and_many(monkeypatch):
    import tensorflow as tf

    layer = built()
    sizes = [tf.TensorSpec([None, None, width]) for width in (WIDTH, MEMORY_WIDTH)]
    traced = tf.function(lambda x, other: layer(x, other), input_signature=sizes)
    for batch, length, other in ((2, 3, 5), (2, 0, 3), (2, 3, 0), (3, 100, 4), (3, 100, 0)):
        x, of_memory = inputs(batch, length), memory(other, batch)
        with monkeypatch.context() as patch:
            patch.setattr(attention_paths, "_FEW_TOKENS", 2**31 - 1)
            wanted = array(layer(x, of_memory))
        close(traced(x, of_memory), wanted)


def test_a_rematerialised_layer_has_the_same_gradients_by_both_sequences():
    x, other = inputs(), keras.ops.convert_to_tensor(memory())
    plain = built(dropout=0.3, seed=2)
    with keras.RematScope("full"):
        again = MultiHeadCrossAttention(HEADS, HEAD_DIM, dropout=0.3, seed=2)
        again.build((None, None, WIDTH), (None, None, MEMORY_WIDTH))
    again.set_weights(plain.get_weights())
    for layer in (plain, again):  # by the memory, as what is differentiated by
        layer.by_memory = gradients(Swapped(layer, x), array(other), training=True)[-1]
    np.testing.assert_allclose(again.by_memory, plain.by_memory, rtol=1e-4, atol=1e-5)
    assert np.abs(plain.by_memory).max() > 0


class Swapped(keras.layers.Layer):
    """Attention as a layer of its memory."""

    def __init__(self, attention, x):
        super().__init__()
        self._attention, self._x = attention, x
        self.built = True

    def call(self, memory, training=None):
        return self._attention(self._x, memory, training=training)
