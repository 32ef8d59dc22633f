"""LoRA: the updates are those of the paper, alone are trained, and files hold kernels with them."""

import warnings

import keras
import numpy as np
import pytest
from backend import array
from samples import HEAD_DIM, HEADS, LENGTH, WIDTH, close, inputs
from variants import MADE, MAKE
from variants import WIDTH as NARROW

from keras_selfattn import layers

ADAPTABLE = [name for name, layer in MADE.items() if hasattr(layer, "enable_lora")]
MASK = np.arange(LENGTH) < np.array([[4], [LENGTH]])


def built(layer):
    layer.build((None, None, WIDTH))
    return layer


def factors(layer):
    """All A and B of a layer, by the name of their weight, in pairs."""
    found = {}
    for weight in layer.trainable_variables:
        found.setdefault(weight.path.rsplit("_", 1)[0], {})[weight.name[-1]] = weight
    return found


def filled(layer, seed=0):
    """The layer, with updates that matter."""
    random = np.random.default_rng(seed)
    for weight in layer.trainable_variables:
        weight.assign(random.normal(size=weight.shape).astype("float32"))
    return layer


def in_model(layer, width=WIDTH):
    model = keras.Sequential([keras.Input((None, width)), layer])
    model.compile(keras.optimizers.SGD(1.0), "mse")
    return model


@pytest.mark.parametrize("packed", [False, True])
def test_the_output_is_that_of_kernels_with_the_products_added(packed):
    layer = built(layers.MultiHeadSelfAttention(HEADS, HEAD_DIM, seed=1))
    kernel, bias, output, output_bias = layer.get_weights()
    layer.enable_lora(2, lora_alpha=3, parts=["value", "query", "output"])
    filled(layer)
    found = factors(layer).items()
    pairs = {path.rsplit("/", 1)[-1]: (array(two["a"]), array(two["b"])) for path, two in found}
    wide = HEADS * HEAD_DIM
    for place, name in ((0, "query"), (2, "value")):
        down, up = pairs[name]
        kernel[:, place * wide : (place + 1) * wide] += 3 / 2 * down @ up
    output = output + 3 / 2 * pairs["output"][0] @ pairs["output"][1]
    plain = built(layers.MultiHeadSelfAttention(HEADS, HEAD_DIM))
    plain.set_weights([kernel, bias, output, output_bias])
    mask = MASK if packed else None
    close(array(layer(inputs(), mask=mask)), array(plain(inputs(), mask=mask)), 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ADAPTABLE)
def test_at_first_nothing_changes_and_then_only_the_updates_do(name):
    layer, x = MAKE[name](), inputs()[..., :NARROW]
    before = array(layer(x, mask=MASK))
    weights = [array(weight) for weight in layer.weights]
    layer.enable_lora(1)
    assert np.array_equal(array(layer(x, mask=MASK)), before)
    assert all(weight.shape[0] == 1 or weight.shape[1] == 1 for weight in layer.trainable_variables)
    model = in_model(layer, NARROW)
    model.fit(x, np.zeros_like(x), epochs=2, verbose=0)
    assert not np.array_equal(array(layer(x, mask=MASK)), before)
    frozen = [weight for weight in layer.weights if not weight.trainable][: len(weights)]
    assert all(any(np.array_equal(array(each), weight) for each in frozen) for weight in weights)


def test_a_block_updates_the_feed_forward_network_as_dense_layers_do():
    block = built(layers.EncoderBlock(HEADS, head_dim=HEAD_DIM, gated=True, seed=1))
    block.enable_lora(2, parts=["feed_forward"])
    filled(block)
    assert sorted(path.rsplit("/", 1)[-1] for path in factors(block)) == ["gate", "hidden", "output"]
    dense = block._feed_forward._hidden
    theirs = keras.layers.Dense(dense.units)
    theirs.build((None, WIDTH))
    theirs.set_weights([array(dense.kernel), array(dense.bias)])
    theirs.enable_lora(2)
    two = factors(dense)[next(iter(factors(dense)))]
    theirs.lora_kernel_a.assign(two["a"])
    theirs.lora_kernel_b.assign(two["b"])
    tokens = inputs().reshape(-1, WIDTH)
    close(array(dense(tokens)), array(theirs(tokens)), 1e-4)


@pytest.mark.parametrize("name", ["multi-head", "encoder"])
def test_a_file_is_one_without_lora_and_goes_on_with_it(tmp_path, name):
    make = {
        "multi-head": lambda: layers.MultiHeadSelfAttention(HEADS, HEAD_DIM),
        "encoder": lambda: layers.Encoder(2, HEADS, head_dim=HEAD_DIM, gated=True),
    }[name]
    parts = ["key", "output"] if name == "multi-head" else ["query", "feed_forward"]
    model = in_model(make())
    model.layers[0].enable_lora(2, parts=parts)
    filled(model.layers[0])
    wanted = array(model(inputs()))
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    assert np.array_equal(array(model(inputs())), wanted), "saving leaves the model as it is"
    plain = in_model(make())
    plain.load_weights(tmp_path / "model.weights.h5")
    close(array(plain(inputs())), wanted, 1e-4)
    loaded = keras.models.load_model(tmp_path / "model.keras")
    close(array(loaded(inputs())), wanted, 1e-4)
    assert loaded.layers[0].get_config()["lora"] == model.layers[0].get_config()["lora"]
    for mine, theirs in zip(loaded.trainable_variables, model.trainable_variables, strict=True):
        assert np.array_equal(array(mine), array(theirs)), "training goes on with the factors"
    kept = array(loaded.layers[0].weights[0])
    close(kept, array(model.layers[0].weights[0]), 1e-4)


def test_lora_of_some_blocks_is_saved_and_goes_on_as_well(tmp_path):
    encoder = layers.Encoder(2, HEADS, head_dim=HEAD_DIM)
    model = in_model(encoder)
    encoder.blocks[1].enable_lora(2, parts=["value"])
    filled(encoder.blocks[1])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    close(array(loaded(inputs())), array(model(inputs())), 1e-4)
    for mine, theirs in zip(loaded.trainable_variables, model.trainable_variables, strict=True):
        close(array(mine), array(theirs), 1e-5)


@pytest.mark.parametrize(("rank", "parts"), [(3, ["query", "value"]), (2, ["value"]), (2, ["key", "value"])])
def test_weights_of_another_rank_or_of_other_parts_begin_with_no_update_there(tmp_path, rank, parts):
    made = []
    for arguments in ((2, None, ["query", "value"]), (rank, None, parts)):
        model = in_model(layers.MultiHeadSelfAttention(HEADS, HEAD_DIM))
        model.layers[0].enable_lora(*arguments)
        filled(model.layers[0], seed=len(made))
        made.append(model)
    saved, loaded = made
    before = {path.rsplit("/", 1)[-1]: array(two["b"]) for path, two in factors(saved.layers[0]).items()}
    saved.save_weights(tmp_path / "saved.weights.h5")
    loaded.load_weights(tmp_path / "saved.weights.h5")
    close(array(loaded(inputs())), array(saved(inputs())), 1e-4)
    for path, two in factors(loaded.layers[0]).items():
        name = path.rsplit("/", 1)[-1]
        same = rank == 2 and name in before
        wanted = before[name] if same else np.zeros(two["b"].shape)
        np.testing.assert_array_equal(array(two["b"]), wanted, err_msg=name)


def test_weights_without_lora_begin_with_no_update(tmp_path):
    plain = in_model(layers.MultiHeadSelfAttention(HEADS, HEAD_DIM))
    plain.save_weights(tmp_path / "plain.weights.h5")
    layer = layers.MultiHeadSelfAttention(HEADS, HEAD_DIM)
    model = in_model(layer)
    layer.enable_lora(2)
    filled(layer)
    model.load_weights(tmp_path / "plain.weights.h5")
    assert np.array_equal(array(model(inputs())), array(plain(inputs())))
    assert all(array(two["a"]).any() for two in factors(layer).values()), "or nothing could be learned"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"rank": 0}, "`rank` must be"),
        ({"rank": 1.5}, "`rank` must be"),
        ({"rank": WIDTH + 1}, "at most the smaller side of each kernel: query has"),
        ({"rank": 1, "lora_alpha": 0}, "`lora_alpha` must be"),
        ({"rank": 1, "parts": ["gate"]}, "`parts` must be some of query, key, value, output"),
        ({"rank": 1, "parts": "query"}, "`parts` must be some of"),
        ({"rank": 1, "parts": []}, "`parts` must be some of"),
    ],
)
def test_arguments_are_checked_and_nothing_is_frozen(arguments, told):
    layer = built(layers.MultiHeadSelfAttention(HEADS, HEAD_DIM))
    with pytest.raises(ValueError, match=told):
        layer.enable_lora(**arguments)
    assert len(layer.trainable_variables) == 4
    layer.enable_lora(1)


def test_lora_is_enabled_once_on_a_built_layer_without_constraints():
    layer = layers.MultiHeadSelfAttention(HEADS, HEAD_DIM)
    with pytest.raises(ValueError, match="needs a built layer"):
        layer.enable_lora(1)
    built(layer).enable_lora(1)
    with pytest.raises(ValueError, match="enabled already, with rank 1"):
        layer.enable_lora(1)
    bounded = built(layers.MultiHeadSelfAttention(HEADS, HEAD_DIM, kernel_constraint="non_neg"))
    with pytest.raises(ValueError, match="leave `kernel_constraint` out"):
        bounded.enable_lora(1)


def test_a_part_that_has_lora_is_refused_as_is_a_part_of_what_has_it():
    encoder = built(layers.Encoder(2, HEADS, head_dim=HEAD_DIM))
    encoder.blocks[1].enable_lora(2)
    with pytest.raises(ValueError, match="enabled already, with rank 2"):
        encoder.enable_lora(1)
    other = built(layers.Encoder(2, HEADS, head_dim=HEAD_DIM))
    other.enable_lora(1)
    with pytest.raises(ValueError, match="enabled already, with rank 1"):
        other.blocks[0].enable_lora(2)


def test_frozen_weights_stay_frozen_when_the_updates_are_frozen_and_trained_again():
    encoder = built(layers.Encoder(2, HEADS, head_dim=HEAD_DIM, norm_first=True))
    paths = [weight.path for weight in encoder.weights]
    encoder.enable_lora(2)
    assert [weight.path for weight in encoder.weights if "/lora/" not in weight.path] == paths
    trained = [weight.path for weight in encoder.trainable_variables]
    assert len(set(trained)) == 2 * 2 * 2
    encoder.trainable = False
    assert not encoder.trainable_variables
    encoder.trainable = True
    assert [weight.path for weight in encoder.trainable_variables] == trained


def test_a_layer_that_was_frozen_trains_its_updates():
    layer = built(layers.MultiHeadSelfAttention(HEADS, HEAD_DIM))
    layer.trainable = False
    layer.enable_lora(2)
    assert [weight.name for weight in layer.trainable_variables] == [
        "query_a",
        "query_b",
        "value_a",
        "value_b",
    ]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "mixed_float16"])
def test_updates_leave_half_precision_as_it_is(tmp_path, dtype):
    model = in_model(layers.EncoderBlock(HEADS, head_dim=HEAD_DIM, dtype=dtype))
    model.layers[0].enable_lora(2, parts=["query", "output", "feed_forward"])
    for weight in model.trainable_variables:
        weight.assign(np.full(weight.shape, 0.1))
    outputs = model(inputs())
    assert keras.backend.standardize_dtype(outputs.dtype) == dtype.removeprefix("mixed_")
    model.save_weights(tmp_path / "half.weights.h5")
    plain = in_model(layers.EncoderBlock(HEADS, head_dim=HEAD_DIM, dtype=dtype))
    plain.load_weights(tmp_path / "half.weights.h5")
    np.testing.assert_allclose(array(plain(inputs())), array(outputs), rtol=0.03, atol=0.03)


def test_models_are_quantized_though_these_layers_are_not():
    model = in_model(layers.EncoderBlock(HEADS, head_dim=HEAD_DIM))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Keras, for each layer that stays as it is
        model.quantize("int8")
    assert np.isfinite(array(model(inputs()))).all()
