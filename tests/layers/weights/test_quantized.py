"""int8 kernels: the numbers are those of Keras' scheme, and files hold them."""

import json
import re

import keras
import numpy as np
import pytest
from backend import BACKEND, array, compiled, gradients, tensorflow_only
from samples import HEAD_DIM, HEADS, LENGTH, WIDTH, close, inputs, randomised
from variants import MADE, MAKE, mostly_slow
from variants import WIDTH as NARROW

from keras_selfattn import layers
from keras_selfattn.layers.weights.quantized import QuantizedKernel

PROJECTING = [name for name, layer in MADE.items() if hasattr(layer, "enable_lora")]
MASK = np.arange(LENGTH) < np.array([[4], [LENGTH]])
UNCHANGED = "ignore:.*does not have a `quantize` method:UserWarning"  # of Keras, of a layer without kernels

pytestmark = pytest.mark.filterwarnings(UNCHANGED)


def in_model(layer, width=WIDTH):
    return keras.Sequential([keras.Input((None, width)), layer])


def int8_product(x, kernel):
    """The scheme: both sides rounded to int8, with a factor for each row of x and column of the kernel."""

    def rounded(numbers, axis):
        factor = 127 / (np.abs(numbers).max(axis, keepdims=True) + 1e-7)
        return np.rint(numbers * factor).astype("int32"), factor

    (rows, of_rows), (columns, of_columns) = rounded(x, -1), rounded(kernel, 0)
    return (rows @ columns) / (of_rows * of_columns)


def test_attention_is_that_of_rounded_tokens_and_kernels():
    layer = randomised(layers.MultiHeadSelfAttention(HEADS, HEAD_DIM))
    kernel, bias, output_kernel, output_bias = layer.get_weights()
    layer.quantize("int8")
    x = inputs()
    heads = (int8_product(x, kernel) + bias).reshape(*x.shape[:2], 3, HEADS, HEAD_DIM)
    query, key, value = heads.transpose(2, 0, 3, 1, 4)  # each [B, H, T, D]
    logits = np.where(MASK[:, None, None], query @ key.swapaxes(-1, -2) / HEAD_DIM**0.5, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    context = (weights @ value).swapaxes(1, 2).reshape(*x.shape[:2], HEADS * HEAD_DIM)
    wanted = (int8_product(context, output_kernel) + output_bias) * MASK[..., None]
    close(array(layer(x, mask=MASK)), wanted)


def test_the_feed_forward_network_is_that_of_quantized_dense_layers_of_keras():
    block = randomised(layers.EncoderBlock(HEADS, 13, head_dim=HEAD_DIM, gated=True, activation="relu"))
    x, theirs, ours = inputs().reshape(-1, WIDTH), {}, {}
    for each in (network := block._feed_forward)._projections():
        theirs[each.name] = peer = keras.layers.Dense(each.units)
        peer.build((None, each.kernel.shape[0]))
        kernel, bias = each.get_weights()
        peer.set_weights([kernel, bias])
        each.quantize("int8")
        peer.quantize("int8")
        ours[each.name] = lambda x, kernel=kernel, bias=bias: int8_product(x, kernel) + bias
    relu = keras.activations.relu
    found = array(network._output(relu(network._hidden(x)) * network._gate(x)))
    close(found, array(theirs["output"](relu(theirs["hidden"](x)) * theirs["gate"](x))))
    close(found, ours["output"](np.maximum(ours["hidden"](x), 0) * ours["gate"](x)))


@pytest.mark.parametrize("name", mostly_slow(PROJECTING))
def test_every_layer_is_close_to_itself_and_a_file_is_it(tmp_path, name):
    model, x = in_model(MAKE[name](), NARROW), inputs(width=NARROW)
    layer = model.layers[0]
    before = array(layer(x, mask=MASK))
    model.quantize("int8")
    outputs = array(layer(x, mask=MASK))
    assert 0 < np.abs(outputs - before).max() < 0.1 * np.abs(before).max()
    assert {weight.dtype for weight in layer.weights if weight.name.endswith("kernel")} == {"int8"}
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras").layers[0]
    assert np.array_equal(array(loaded(x, mask=MASK)), outputs)
    assert json.dumps(loaded.get_config()) == json.dumps(layer.get_config())  # JSON has lists, not tuples
    with pytest.raises(ValueError, match="already quantized .*'int8_from_float32'. Received: mode=int8"):
        model.quantize("int8")


class Product(keras.layers.Layer):
    """A product of int8 numbers, whose inputs are whole numbers already."""

    def __init__(self, values, **kwargs):
        super().__init__(**kwargs)
        add = {"initializer": "ones", "trainable": False}
        numbers = self.add_weight(shape=values.shape, dtype="int8", **add)
        numbers.assign(values)
        scale = self.add_weight(shape=values.shape[1:], **add)
        self.kernel = QuantizedKernel(numbers, scale, lambda x, axis: (keras.ops.cast(x, "int8"), 1.0))

    def call(self, x):
        return self.kernel.product(x)


@pytest.mark.skipif(BACKEND == "jax", reason="JAX has float64 only if told so before anything else")
@pytest.mark.parametrize("call", [lambda layer, x: array(layer(x)), compiled], ids=["eager", "compiled"])
def test_sums_of_whole_numbers_are_exact(call):
    """Each sum is beyond the 2^24 to which float32 holds all whole numbers, so what is lost would show."""
    rows, values = np.full((3, 2500), 127.0), np.full((2500, 2), 127, "int8")
    values[-1] = 126, 125
    found = call(Product(values, dtype="float64"), rows)
    assert np.array_equal(found, rows @ values.astype("float64"))


def test_compiled_as_a_whole_the_numbers_are_the_same():
    layer = randomised(layers.MultiHeadSelfAttention(HEADS, HEAD_DIM, position="rotary"))
    layer.quantize("int8")
    close(compiled(layer, inputs()), array(layer(inputs())), 1e-3)


def test_the_gradient_is_that_of_the_rounded_kernels():
    layer = randomised(layers.MultiHeadSelfAttention(HEADS, HEAD_DIM, name="layer"))
    bias, output_bias = layer.get_weights()[1::2]
    config = keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)
    layer.quantize("int8", config=config)
    assert [weight.name for weight in layer.trainable_variables] == ["query_key_value_bias", "output_bias"]
    kernels = {weight.name: array(weight).astype("float32") for weight in layer.non_trainable_variables}
    plain = randomised(layers.MultiHeadSelfAttention(HEADS, HEAD_DIM))
    rounded = [
        kernels[f"{name}_kernel"] / kernels[f"{name}_kernel_scale"] for name in ("query_key_value", "output")
    ]
    plain.set_weights([rounded[0], bias, rounded[1], output_bias])
    close(array(layer(inputs())), array(plain(inputs())))
    _, of_bias, _, of_output_bias, of_inputs = gradients(plain, inputs())
    wanted = [of_bias, of_output_bias, of_inputs]
    for one, other in zip(gradients(layer, inputs()), wanted, strict=True):
        close(one, other, 1e-3, 1e-3)


def test_a_quarter_of_the_bytes_of_kernels_is_written(tmp_path):
    model = in_model(layers.Encoder(1, 4), 64)
    sizes = []
    for file in (tmp_path / "float.weights.h5", tmp_path / "int8.weights.h5"):
        model.save_weights(file)
        sizes.append(file.stat().st_size)
        if len(sizes) == 1:
            kernels = sum(array(weight).nbytes for weight in model.weights if weight.name.endswith("kernel"))
            model.quantize("int8")
    assert 0.7 * kernels < sizes[0] - sizes[1] < 0.75 * kernels


def test_filters_choose_layers_by_name_and_their_files_hold_the_others_as_floats(tmp_path):
    model = in_model(layers.Encoder(2, HEADS, head_dim=HEAD_DIM))
    model.quantize("int8", filters=["^hidden$", "^attention$"])
    parts = [f"block_{index}/{part}" for index in range(2) for part in ("attention", "feed_forward/hidden")]
    assert sorted(model.layers[0].get_config()["quantized"]) == sorted(parts)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert np.array_equal(array(loaded(inputs())), array(model(inputs())))
    assert [weight.dtype for weight in loaded.weights] == [weight.dtype for weight in model.weights]
    loaded.quantize("int8", filters="^output$")


@pytest.mark.parametrize("lora_first", [True, False])
def test_lora_beside_quantized_kernels_is_trained_saved_and_needed(tmp_path, lora_first):
    def made(with_lora=True):
        model = in_model(layers.EncoderBlock(HEADS, head_dim=HEAD_DIM, seed=1))
        for step in ("lora", "int8") if lora_first else ("int8", "lora"):
            if step == "int8":
                model.quantize("int8")
            elif with_lora:
                model.layers[0].enable_lora(2, parts=["query", "output", "feed_forward"])
        return model

    model = made()
    assert all(re.search("_[ab]$", weight.name) for weight in model.trainable_variables)
    before = array(model(inputs()))
    random = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(random.normal(size=weight.shape))
    outputs = array(model(inputs()))
    assert np.abs(outputs - before).max() > 0.1
    found = gradients(model.layers[0], inputs())
    assert all(np.abs(each).max() > 0 for each in found)
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    assert np.array_equal(array(keras.models.load_model(tmp_path / "model.keras")(inputs())), outputs)
    other = made()
    other.load_weights(tmp_path / "model.weights.h5")
    assert np.array_equal(array(other(inputs())), outputs)
    with pytest.raises(ValueError, match="the layer must have the same.*It has none. Call `enable_lora`"):
        made(with_lora=False).load_weights(tmp_path / "model.weights.h5")


def test_floats_and_int8_are_not_loaded_into_each_other(tmp_path):
    model = in_model(layers.MultiHeadSelfAttention(HEADS, HEAD_DIM))
    model.save_weights(tmp_path / "float.weights.h5")
    model.quantize("int8")
    with pytest.raises(ValueError, match="is quantized, and its weights are .*load floats before"):
        model.load_weights(tmp_path / "float.weights.h5")


def test_other_modes_leave_the_kernels_with_a_warning():
    model = in_model(layers.EncoderBlock(HEADS, head_dim=HEAD_DIM))
    before = array(model(inputs()))
    refused = '"int8" alone; its kernels stay as they are. Received mode=.int4'
    with pytest.warns(UserWarning, match=refused) as told:
        model.quantize("int4")
    named = {str(each.message).split()[0] for each in told}
    assert {"MultiHeadSelfAttention", "Dense"} <= named
    assert np.array_equal(array(model(inputs())), before)


def test_what_keras_refuses_is_refused():
    layer = layers.MultiHeadSelfAttention(HEADS)
    with pytest.raises(ValueError, match="isn't yet built"):
        layer.quantize("int8")
    half = layers.MultiHeadSelfAttention(HEADS, HEAD_DIM, dtype="float16")
    half.build((None, None, WIDTH))
    with pytest.raises(ValueError, match="doesn't work well with compute_dtype='float16'"):
        half.quantize("int8")
    for make in (
        layers.MultiHeadSelfAttention,
        layers.EncoderBlock,
        lambda *heads, **dtype: layers.Encoder(1, *heads, **dtype),
    ):
        with pytest.raises(
            ValueError, match="`dtype` must be a policy of floats. Received 'int8_from_float32'"
        ):
            make(HEADS, dtype="int8_from_float32")
    with pytest.raises(ValueError, match="no part 'block_7' to quantize: those of one: block_0, norm"):
        layers.quantize_parts(layers.Encoder(1, 1, name="one"), {"block_7": None})


@pytest.mark.parametrize("shape", [(0, LENGTH, WIDTH), (2, 0, WIDTH)])
def test_no_tokens_have_no_outputs(shape):
    layer = randomised(layers.EncoderBlock(HEADS, head_dim=HEAD_DIM))
    layers.quantize_parts(layer, dict.fromkeys(["attention", "feed_forward/hidden", "feed_forward/output"]))
    assert tuple(layer(np.zeros(shape, "float32")).shape) == shape


def test_a_policy_that_a_built_layer_gets_quantizes_it():
    """Keras' setter of `dtype_policy` calls `quantize`."""
    layers_of = [randomised(layers.MultiHeadSelfAttention(HEADS, HEAD_DIM)) for _ in range(2)]
    layers_of[0].quantize("int8")
    layers_of[1].dtype_policy = "int8_from_float32"
    outputs = [array(layer(inputs())) for layer in layers_of]
    assert np.array_equal(*outputs)


def test_half_precision_stays_so():
    layer = randomised(layers.EncoderBlock(HEADS, head_dim=HEAD_DIM, dtype="mixed_bfloat16"))
    before = array(layer(inputs()))
    layers.quantize_parts(layer, dict.fromkeys(["attention", "feed_forward/hidden", "feed_forward/output"]))
    outputs = layer(inputs())
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
    assert np.abs(array(outputs) - before).max() < 0.1 * np.abs(before).max()
    assert layer.get_config()["dtype"]["config"]["name"] == "mixed_bfloat16"


@tensorflow_only
def test_unquantized_layers_have_the_operations_that_they_had():
    import tensorflow as tf

    layer = layers.EncoderBlock(HEADS, head_dim=HEAD_DIM, activation="relu")
    layer.build((None, None, WIDTH))

    def operations():
        call = tf.function(lambda x: layer(x)).get_concrete_function(tf.TensorSpec([2, LENGTH, WIDTH]))
        return [node.op for node in call.graph.as_graph_def().node]

    found = operations()
    counted = {name: found.count(name) for name in ("MatMul", "Cast", "Round", "Mul")}
    assert counted == {"MatMul": 4, "Cast": 0, "Round": 0, "Mul": 5}
    layers.quantize_parts(layer, {"attention": None})
    assert operations().count("Round") == 2
