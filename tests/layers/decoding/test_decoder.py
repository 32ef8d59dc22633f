"""Decoder and DecoderBlock: their formula, a step as all at once, and a cache that is a value."""

import keras
import numpy as np
import pytest
import reference
from backend import BACKEND, array, examples, gradients, tensorflow_only
from formulas import normalised
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import close, randomised

from keras_selfattn import layers

BATCH, T, S, WIDTH, MEMORY_WIDTH = 3, 7, 5, 6, 4
LENS = np.array([5, 0, 2])


def inputs(length=T, width=WIDTH, batch=BATCH, seed=0):
    return np.random.default_rng(seed).normal(size=(batch, length, width)).astype("float32")


def memory(batch=BATCH):
    return inputs(S, MEMORY_WIDTH, batch, seed=1)


def built(kind=layers.Decoder, *arguments, of_memory=True, deviation=0.4, **options):
    layer = kind(*(arguments or ((2, 3) if kind is layers.Decoder else (3,))), **options)
    layer.build((None, None, WIDTH), (None, None, MEMORY_WIDTH) if of_memory else None)
    return randomised(layer, deviation=deviation)


def stepped(decoder, x, cache, sizes):
    """The outputs of steps of so many tokens, and the last cache."""
    outputs, start = [], 0
    for size in sizes:
        found, cache = decoder.step(x[:, start : start + size], cache)
        outputs.append(array(found))
        start += size
    return np.concatenate(outputs, axis=1), cache


def attention_of(named, name, x, other, heads, allowed):
    part = [named[f"{name}/{weight}"] for weight in ("output_kernel", "output_bias")]
    if name == "attention":
        first = [named[f"attention/query_key_value_{weight}"] for weight in ("kernel", "bias")]
        return reference.self_attention(x, [*first, *part], heads, (WIDTH // heads) ** -0.5, allowed)[0]
    names = [f"{of}_{weight}" for of in ("query", "key_value") for weight in ("kernel", "bias")]
    first = [named[f"{name}/{weight}"] for weight in names]
    return reference.cross_attention(x, other, [*first, *part], heads, (WIDTH // heads) ** -0.5, allowed)[0]


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("of_memory", [True, False])
def test_a_block_is_its_formula(norm_first, of_memory):
    block = built(layers.DecoderBlock, of_memory=of_memory, norm_first=norm_first, activation="relu")
    start = f"{block.path}/"
    named = {weight.path.removeprefix(start): array(weight).astype("float64") for weight in block.weights}
    x, other = inputs().astype("float64"), memory()
    real = np.arange(S) < LENS[:, None]

    def feed_forward(x):
        hidden = x @ named["feed_forward/hidden/kernel"] + named["feed_forward/hidden/bias"]
        hidden = np.maximum(hidden, 0)
        return hidden @ named["feed_forward/output/kernel"] + named["feed_forward/output/bias"]

    causal, of_row = (lambda b, h, t, s: s <= t), (lambda b, h, t, s: real[b, s])
    sublayers = {"attention_norm": lambda x: attention_of(named, "attention", x, None, 3, causal)}
    if of_memory:
        sublayers["cross_attention_norm"] = lambda x: attention_of(
            named, "cross_attention", x, other, 3, of_row
        )
    sublayers["feed_forward_norm"] = feed_forward
    for name, sublayer in sublayers.items():
        if norm_first:
            x = x + sublayer(normalised(x, named, name, "layer"))
        else:
            x = normalised(x + sublayer(x), named, name, "layer")
    call = {"memory": other, "memory_lens": LENS} if of_memory else {}
    close(block(inputs(), **call), x)


CONFIGURATIONS = st.fixed_dictionaries(
    {
        "position": st.sampled_from([None, "rotary", "alibi", "t5", "shaw"]),
        "window": st.sampled_from([None, 0, 1, 2, 6, 9]),
        "num_kv_heads": st.sampled_from([None, 1]),
        "norm": st.sampled_from(["layer", "rms"]),
        "norm_first": st.booleans(),
        "gated": st.booleans(),
        "qk_norm": st.booleans(),
        "use_bias": st.booleans(),
        "block_settings": st.sampled_from(
            [None, [{"window": 1}, {}], [{}, {"window": 3, "position": "alibi"}]]
        ),
    }
)


@settings(max_examples=examples(8), deadline=None, derandomize=True, database=None)
@given(
    CONFIGURATIONS,
    st.booleans(),
    st.sampled_from([(1,) * T, (3, 1, 3), (T,), (1, 5, 1), (2, 2, 0, 3)]),
    st.sampled_from([T, None]),
)
def test_step_by_step_equals_all_at_once(settings, of_memory, sizes, max_length):
    decoder, x = built(of_memory=of_memory, **settings), inputs()
    of_start = {"memory": memory(), "memory_lens": LENS} if of_memory else {}
    wanted = array(decoder(x, **of_start))
    cache = decoder.start(**of_start, max_length=max_length, batch_size=None if of_memory else BATCH)
    found, cache = stepped(decoder, x, cache, sizes)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(array(cache["position"]), [T] * BATCH)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", pytest.param("float64", marks=tensorflow_only)])
def test_a_step_computes_in_the_dtype_of_the_policy(policy):
    decoder, x = built(dtype=policy, deviation=0.2), inputs()
    wanted = array(decoder(x, memory()))
    cache = decoder.start(memory(), max_length=T)
    found, cache = stepped(decoder, x, cache, (2,) * 3 + (1,))
    assert keras.backend.standardize_dtype(cache["blocks"][0]["key"].dtype) == decoder.compute_dtype
    np.testing.assert_allclose(found, wanted, atol=0.1 if "bfloat16" in policy else 1e-12)


def test_steps_with_lora_and_int8_equal_all_at_once():
    decoder, x = built(), inputs()
    decoder.enable_lora(2, parts=["query", "value", "feed_forward"])
    keras.Sequential([decoder])  # as a part of a model
    for each in decoder.trainable_variables:
        each.assign(np.random.default_rng(2).normal(size=each.shape) * 0.3)
    wanted = array(decoder(x, memory()))
    found, _ = stepped(decoder, x, decoder.start(memory(), max_length=T), (3, 4))
    close(found, wanted)
    rounded = built()
    layers.quantize_parts(
        rounded, {f"block_{i}/{part}": None for i in range(2) for part in ("attention", "cross_attention")}
    )
    close(
        stepped(rounded, x, rounded.start(memory(), max_length=T), (1,) * T)[0], array(rounded(x, memory()))
    )


def test_a_window_keeps_its_keys_alone_and_needs_no_length():
    decoder, x = built(window=2), inputs(23)
    cache = decoder.start(memory())
    assert {each["key"].shape[2] for each in cache["blocks"]} == {2}
    found, cache = stepped(decoder, x, cache, (1,) * 20 + (3,))
    close(found, array(decoder(x, memory())))
    assert {each["key"].shape for each in cache["blocks"]} == {(BATCH, 3, 2, 2)}


def test_without_a_length_a_cache_has_the_positions_so_far():
    decoder, x = built(block_settings=[{}, {"window": 2}]), inputs()
    cache = decoder.start(memory())
    assert cache["blocks"][0]["growing_key"].shape == (BATCH, 3, 0, 2)
    found, cache = stepped(decoder, x, cache, (3, 1, 3))
    close(found, array(decoder(x, memory())))
    assert cache["blocks"][0]["growing_value"].shape == (BATCH, 3, T, 2)
    assert cache["blocks"][1]["key"].shape == (BATCH, 3, 2, 2)


@pytest.mark.parametrize("sizes", [(1,) * T, (3, 4)])
def test_rows_side_by_side_may_share_a_memory(sizes):
    """Hypotheses of a row read its memory, of which there is no copy."""
    decoder, x, width = built(num_kv_heads=1), inputs(batch=2 * BATCH), 2
    cache = decoder.start(memory(), memory_lens=LENS)
    whole = keras.tree.map_structure(lambda leaf: keras.ops.repeat(leaf, width, axis=0), cache)
    shared = {**whole, "memory_mask": cache["memory_mask"]}
    shared["blocks"] = [
        {**each, **{name: own[name] for name in ("memory_key", "memory_value")}}
        for each, own in zip(whole["blocks"], cache["blocks"], strict=True)
    ]
    wanted, _ = stepped(decoder, x, whole, sizes)
    close(stepped(decoder, x, shared, sizes)[0], wanted)
    close(wanted[::2], array(decoder(x[::2], memory(), memory_lens=LENS)))


def test_every_leaf_of_a_cache_has_the_batch_first_and_rows_are_taken_in_any_order():
    decoder, x, rows = built(block_settings=[{}, {"window": 2}]), inputs(), [2, 0, 2, 1]
    cache = decoder.start(memory(), memory_lens=LENS, max_length=T)
    _, cache = stepped(decoder, x, cache, (3,))
    assert {each.shape[0] for each in keras.tree.flatten(cache)} == {BATCH}
    taken = keras.tree.map_structure(lambda leaf: keras.ops.take(leaf, np.array(rows), axis=0), cache)
    found, _ = stepped(decoder, x[rows][:, 3:], taken, (1, 3))
    close(found, array(decoder(x, memory(), memory_lens=LENS))[rows][:, 3:])
    none = keras.tree.map_structure(lambda leaf: leaf[:0], cache)
    assert decoder.step(x[:0, 3:4], none)[0].shape == (0, 1, WIDTH)


def test_a_step_leaves_the_cache_that_it_was_given():
    decoder, x = built(), inputs()
    cache = decoder.start(memory(), max_length=T)
    before = [array(each).copy() for each in keras.tree.flatten(cache)]
    first, _ = decoder.step(x[:, :2], cache)
    for leaf, was in zip(keras.tree.flatten(cache), before, strict=True):
        np.testing.assert_array_equal(array(leaf), was)
    np.testing.assert_array_equal(array(decoder.step(x[:, :2], cache)[0]), array(first))


def test_steps_know_the_padding_that_keras_propagates_with_a_memory():
    ids = np.array([[1, 2, 3, 4, 5], [1, 2, 0, 0, 0], [3, 1, 4, 0, 0]])
    other = keras.layers.Embedding(6, MEMORY_WIDTH, mask_zero=True)(ids)
    decoder, x = built(), inputs()
    cache = decoder.start(other, max_length=T)
    np.testing.assert_array_equal(array(cache["memory_mask"]), ids > 0)
    close(stepped(decoder, x, cache, [T])[0], array(decoder(x, other)))


def test_padding_of_the_memory_has_no_effect_in_steps_even_if_it_is_not_a_number():
    decoder, x, other = built(), inputs(), memory()
    wanted = array(decoder(x, other, memory_lens=LENS))
    other[np.arange(S) >= LENS[:, None]] = np.nan
    mask = np.arange(S) < LENS[:, None]
    close(stepped(decoder, x, decoder.start(other, memory_mask=mask, max_length=9), (1,) * T)[0], wanted)


@tensorflow_only
@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_steps_within_a_loop_of_tensorflow_equal_all_at_once(jit_compile):
    import tensorflow as tf

    decoder, x = built(block_settings=[{}, {"window": 2}], position="rotary"), inputs()

    def token(x, place):
        # XLA takes no slice of a length that it is not told.
        return tf.gather(x, place, axis=1)[:, None] if jit_compile else x[:, place : place + 1]

    @tf.function(jit_compile=jit_compile)
    def run(x, other):
        def step(place, cache, outputs):
            output, cache = decoder.step(token(x, place), cache)
            return place + 1, cache, outputs.write(place, output[:, 0])

        outputs = tf.TensorArray(tf.float32, T, element_shape=[BATCH, WIDTH])
        start = decoder.start(other, memory_lens=LENS, max_length=T)
        *_, outputs = tf.while_loop(lambda place, *_: place < T, step, (0, start, outputs))
        return tf.transpose(outputs.stack(), [1, 0, 2])

    close(run(tf.constant(x), tf.constant(memory())), array(decoder(x, memory(), memory_lens=LENS)))


@tensorflow_only
@pytest.mark.slow
def test_a_graph_may_learn_the_number_of_places_when_it_runs():
    import tensorflow as tf

    decoder, x = built(block_settings=[{}, {"window": 2}], position="rotary"), inputs()
    wanted = array(decoder(x, memory(), memory_lens=LENS))

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int32)])
    def run(max_length, steps):
        def step(place, cache, outputs):
            output, cache = decoder.step(x[:, place : place + 1], cache)
            return place + 1, cache, outputs.write(place, output[:, 0])

        outputs = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[BATCH, WIDTH])
        start = decoder.start(memory(), memory_lens=LENS, max_length=max_length)
        assert [each["key"].shape[2] for each in start["blocks"]] == [None, 2]
        _, cache, outputs = tf.while_loop(lambda place, *_: place < steps, step, (0, start, outputs))
        return tf.transpose(outputs.stack(), [1, 0, 2]), tf.shape(cache["blocks"][0]["key"])[2]

    x = tf.constant(x)
    for max_length, steps in ((T, T), (4, 4), (9, 2)):
        found, places = run(tf.constant(max_length), tf.constant(steps))
        assert int(places) == max_length
        close(found, wanted[:, :steps])
    found, _ = run(tf.constant(3), tf.constant(6))
    close(found[:, :3], wanted[:, :3])
    assert np.isnan(array(found)[:, 3:]).all()
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(tf.constant(-1), tf.constant(1))
    compiled = tf.function(lambda n: decoder.start(memory(), max_length=n)["position"], jit_compile=True)
    with pytest.raises(ValueError, match="`max_length` must be a number that is known while the graph is bu"):
        compiled(tf.constant(3))


@tensorflow_only
def test_a_cache_of_a_window_has_a_known_number_of_places():
    import tensorflow as tf

    decoder, x = built(block_settings=[{}, {"window": 2}]), inputs(1)
    cache = decoder.start(memory(), max_length=T)

    def run(of_block):
        keys = tf.TensorSpec([BATCH, 3, None, 2])
        spec = tf.nest.map_structure(lambda leaf: tf.TensorSpec(leaf.shape, leaf.dtype), cache)
        spec["blocks"][of_block] |= {"key": keys, "value": keys}
        step = tf.function(lambda cache: decoder.step(x, cache)[0], input_signature=[spec])
        return array(step(cache))

    close(run(0), array(decoder.step(x, cache)[0]))
    with pytest.raises(ValueError, match="`cache` must have a known number of positions for block_1"):
        run(1)


def test_a_tensor_that_has_a_value_is_the_number_of_places():
    cache = built().start(memory(), max_length=keras.ops.convert_to_tensor(4, dtype="int32"))
    assert {each["key"].shape[2] for each in cache["blocks"]} == {4}
    if BACKEND == "jax":
        import jax

        with pytest.raises(ValueError, match="`max_length` must be a number that is known"):
            jax.jit(lambda places: built().start(memory(), max_length=places))(4)


@pytest.mark.skipif(BACKEND != "jax", reason="a loop of JAX")
def test_steps_within_a_scan_of_jax_equal_all_at_once():
    import jax

    decoder, x = built(block_settings=[{}, {"window": 2}], position="rotary"), inputs()

    @jax.jit
    def run(x, other):
        def step(cache, token):
            output, cache = decoder.step(token[:, None], cache)
            return cache, output[:, 0]

        start = decoder.start(other, memory_lens=LENS, max_length=T)
        return jax.lax.scan(step, start, x.swapaxes(0, 1))[1].swapaxes(0, 1)

    close(run(x, memory()), array(decoder(x, memory(), memory_lens=LENS)))


def test_more_tokens_than_places_and_rows_apart_are_refused_and_nan_in_a_graph():
    decoder, x = built(), inputs()
    cache = decoder.start(memory(), max_length=3)
    with pytest.raises(ValueError, match="has places for 3 tokens.* Received 4 more after 0"):
        decoder.step(x[:, :4], cache)
    apart = {**cache, "position": keras.ops.convert_to_tensor(np.array([0, 1, 0], "int32"))}
    with pytest.raises(ValueError, match=r"must all be at the same position.* Received positions \[0, 1\]"):
        decoder.step(x[:, :1], apart)
    if BACKEND == "tensorflow":
        import tensorflow as tf

        run = tf.function(lambda x, cache: decoder.step(x, cache)[0])
        found = array(run(tf.constant(x[:, :1]), apart))
        assert np.isnan(found[[0, 2]]).all()
        full = {**cache, "position": tf.fill([BATCH], 3)}
        with pytest.raises(tf.errors.InvalidArgumentError):
            run(tf.constant(x[:, :1]), full)
    if BACKEND == "jax":
        import jax

        full = {**cache, "position": keras.ops.full((BATCH,), 3, dtype="int32")}
        assert np.isnan(array(jax.jit(lambda x, cache: decoder.step(x, cache)[0])(x[:, :1], full))).all()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda d: d.start(memory(), max_length=0), "`max_length` must be a positive integer. Received 0"),
        (
            lambda d: d.start(memory(), max_length=keras.ops.zeros((), dtype="int32")),
            "`max_length` must be a positive integer. Received 0",
        ),
        (
            lambda d: d.start(memory(), max_length=keras.ops.ones((1,), dtype="int32")),
            r"`max_length` must be a positive integer, or a scalar tensor of one. Received shape \(1,\)",
        ),
        (
            lambda d: d.start(memory(), max_length=keras.ops.ones(())),
            r"a scalar tensor of one. Received shape \(\), dtype float32",
        ),
        (lambda d: d.start(max_length=3, batch_size=2), "was built with a `memory`: pass it"),
        (lambda d: d.start(memory(), max_length=3, batch_size=3), "`batch_size` must be given without"),
        (lambda d: d.start(memory()[0], max_length=3), r"must have shape \[batch, length, features\]"),
        (lambda d: d.start(memory(), memory_lens=LENS + 1, max_length=3), "`memory_lens` must lie between 0"),
        (lambda d: d.start(memory()[..., :2], max_length=3), "`memory` must have 4 features.*Received 2"),
        (lambda d: d.step(inputs(1), {}), "`cache` must be what `start` or `step` of this decoder returned"),
        (lambda d: d.step(inputs(1, 5), d.start(memory(), max_length=3)), "`tokens` must have 6 features"),
        (lambda d: d.step(inputs(1)[:, 0], d.start(memory(), max_length=3)), r"must have shape \[batch, len"),
        (lambda d: d.step(inputs(1, batch=1), d.start(memory(), max_length=3)), "`tokens` must have as many"),
        (lambda d: d(inputs()), "was built with a `memory`: pass it"),
        (lambda d: layers.Decoder(1, 2).start(memory(), max_length=3), "`start` needs a built decoder"),
        (lambda d: built(of_memory=False)(inputs(), memory()), "was built without a `memory`"),
        (lambda d: built(of_memory=False)(inputs(), memory_lens=LENS), "`memory_lens` is of the memory"),
        (lambda d: layers.Decoder(2, 2, block_settings=[{"causal": False}, {}]), "`block_settings` may hold"),
        (
            lambda d: d(inputs(), memory(), memory_attention_mask=np.ones((S, T), bool)),
            "`memory_attention_mask` must have shape",
        ),
    ],
)
def test_wrong_calls_are_named(call, said):
    with pytest.raises(ValueError, match=said):
        call(built())


@pytest.mark.parametrize(
    ("settings", "of_memory"), [({"num_kv_heads": 1}, True), ({"head_dim": 5}, True), ({}, False)]
)
def test_a_cache_of_another_decoder_is_refused(settings, of_memory):
    """A decoder with as many blocks has other heads, or reads no memory."""
    here, other = layers.Decoder(1, 2), layers.Decoder(1, 2, **settings)
    here.build((None, None, WIDTH), (None, None, MEMORY_WIDTH))
    other.build((None, None, WIDTH), (None, None, MEMORY_WIDTH) if of_memory else None)
    given = {"memory": memory()} if of_memory else {"batch_size": BATCH}
    with pytest.raises(ValueError, match="`cache` must be what `start` or `step` of this decoder returned"):
        here.step(inputs(1), other.start(**given, max_length=3))
    with pytest.raises(ValueError, match="`cache` must be what `start` or `step` of this decoder returned"):
        other.step(inputs(1), here.start(memory(), max_length=3))


@pytest.mark.parametrize("kind", [layers.Decoder, layers.DecoderBlock])
def test_a_decoder_is_always_causal(kind):
    with pytest.raises(TypeError, match="A decoder is always causal"):
        kind(2, 2, causal=False)


def test_weights_of_every_block_and_of_the_memory_are_returned():
    decoder = built()
    outputs, weights, of_memory = decoder(inputs(), memory(), memory_lens=LENS, return_weights=True)
    close(outputs, array(decoder(inputs(), memory(), memory_lens=LENS)))
    assert [each.shape for each in weights] == [(BATCH, 3, T, T)] * 2
    assert [each.shape for each in of_memory] == [(BATCH, 3, T, S)] * 2
    sums = array(of_memory[1]).sum(-1)
    close(sums, np.broadcast_to((LENS > 0)[:, None, None], sums.shape).astype("float32"))
    symbolic = decoder(keras.Input((T, WIDTH)), keras.Input((S, MEMORY_WIDTH)), return_weights=True)
    shapes = keras.tree.map_structure(lambda each: (None, *each.shape[1:]), symbolic)
    assert keras.tree.flatten(shapes) == keras.tree.flatten(
        keras.tree.map_structure(lambda each: (None, *each.shape[1:]), [outputs, weights, of_memory])
    )


def test_a_model_of_an_encoder_and_a_decoder_is_the_same_from_its_file_and_its_masks_arrive(tmp_path):
    sources, targets = (keras.Input((None,), dtype="int32") for _ in range(2))
    embeddings = [keras.layers.Embedding(9, width, mask_zero=True) for width in (MEMORY_WIDTH, WIDTH)]
    of_source = layers.Encoder(1, 2)(embeddings[0](sources))
    decoder = layers.Decoder(1, 3, position="rotary", dropout=0.1, stochastic_depth=0.2)
    model = keras.Model([sources, targets], decoder(embeddings[1](targets), of_source))
    given = np.array([[3, 1, 0], [2, 5, 6]]), np.array([[4, 5, 0, 0], [1, 2, 3, 8]])
    found = array(model(given))
    assert (found[0, 2:] == 0).all()
    lone = array(model((given[0][:1, :2], given[1][:1, :2])))
    close(found[:1, :2], lone)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(again(given)), found)
    assert again.layers[-1].get_config() == decoder.get_config()


@pytest.mark.parametrize(
    "rates", [{}, {"dropout": 0.2, "stochastic_depth": 0.3, "feed_forward_dropout": 0.1}]
)
def test_rematerialisation_changes_no_gradient_by_inputs_or_memory(rates):
    plain = built(layers.DecoderBlock, seed=1, **rates)
    again = built(layers.DecoderBlock, seed=1, remat=True, **rates)
    found = [
        [*gradients(each, inputs(), memory=memory(), training=True), by_memory(each)]
        for each in (plain, again)
    ]
    for one, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-4)
    assert np.abs(found[0][-1]).max() > 0


def by_memory(block):
    """The gradient by the memory."""

    class Swapped(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.built = True

        def call(self, memory, training=None):
            return block(inputs(), memory, training=training)

    return gradients(Swapped(), memory(), training=True)[-1]


@tensorflow_only
def test_packed_tokens_of_both_sides_equal_all_positions(monkeypatch):
    from keras_selfattn.layers import attention_paths

    decoder, x, other = built(position="t5"), inputs(), memory()
    call = {"memory_lens": LENS, "valid_lens": np.array([3, 7, 0])}
    wanted = array(decoder(x, other, **call))
    x[0, 3:], other[1:2] = np.nan, np.nan
    monkeypatch.setattr(attention_paths, "_FEW_TOKENS", -1)
    close(decoder(x, other, **call), wanted)
