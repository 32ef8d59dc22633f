"""Products of int8 constants by oneDNN: exact, row by row the same, and without the float kernels."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from backend import BACKEND

if BACKEND != "tensorflow":
    pytest.skip("oneDNN's operations are TensorFlow's", allow_module_level=True)

import tensorflow as tf
from samples import randomised
from variants import MADE, MAKE, mostly_slow
from variants import WIDTH as NARROW

from keras_selfattn import layers
from keras_selfattn.layers.tensorflow import int8_products
from keras_selfattn.layers.tensorflow.int8_products import ConstantKernels, rounded_kernel
from keras_selfattn.layers.weights.quantized import multiplied_kernels

pytestmark = pytest.mark.skipif(
    not int8_products.runs_int8_products(), reason="TensorFlow runs no kernels of oneDNN here"
)
WIDTH = 24


def whole_product(unsigned, numbers):
    product = tf.function(lambda x: int8_products.whole_product(x, numbers), autograph=False)
    return product(tf.constant(unsigned)).numpy()


def reference(unsigned, numbers):
    return (unsigned.astype("int64") - 128) @ numbers.astype("int64")


@pytest.mark.parametrize("rows", [0, 1, 2, 67])
@pytest.mark.parametrize(("features", "width"), [(1, 3), (17, 1), (384, 129), (518, 5), (40_001, 3)])
def test_whole_numbers_are_multiplied_exactly(rows, features, width):
    random = np.random.default_rng(rows + features)
    unsigned = random.integers(1, 256, (rows, features)).astype("uint8")
    numbers = random.integers(-64, 65, (features, width)).astype("int8")
    wanted = reference(unsigned, numbers)
    assert np.abs(wanted).max(initial=0) < 2**24
    assert np.array_equal(whole_product(unsigned, numbers), wanted)


@pytest.mark.parametrize("token", [1, 128, 255])
@pytest.mark.parametrize("features", [2, 518, 40_001])
def test_the_largest_numbers_overflow_nothing(token, features):
    """A sum of 16 bits would be cut off at the second feature, one of float32 loses bits beyond 2^24."""
    unsigned = np.full((3, features), token, "uint8")
    numbers = np.full((features, 2), (64, -64), "int8")
    wanted = reference(unsigned, numbers)
    assert np.abs(whole_product(unsigned, numbers) - wanted).max() <= 2**-23 * np.abs(wanted).max()
    if features <= 518:
        assert np.array_equal(whole_product(unsigned, numbers), wanted)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("instructions", ["AVX2", "AVX512_CORE"])
def test_processors_without_vnni_multiply_exactly_too(instructions):
    """They add up two products in 16 bits: with kernels of 8 bits the same check fails there."""
    program = (
        "import numpy as np, tensorflow as tf\n"
        "from keras_selfattn.layers.tensorflow import int8_products as products\n"
        "exact = products.runs_int8_products()\n"
        "products.OF_KERNELS = 127\n"
        "print(exact, products.runs_int8_products())"
    )
    set_ = {"ONEDNN_MAX_CPU_ISA": instructions, "TF_ENABLE_ONEDNN_OPTS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | set_, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-2:] == ["True", "False"]


def rounded_product(x, kernel):
    """The scheme in NumPy: 8 bits for a token, rounded half up, and 7 bits for a column."""
    factors = np.abs(kernel).max(0).astype("float32") / np.float32(64)
    factors = np.where(factors > 0, factors, np.float32(1))
    top = np.maximum(np.abs(x).max(-1, keepdims=True), np.float32(1e-30))
    tokens = np.floor(x * (np.float32(127) / top) + np.float32(128.5)).astype("int64") - 128
    sums = (tokens @ np.rint(kernel / factors).astype("int64")).astype("float32")
    return sums * top * (factors / np.float32(127))


def test_tokens_are_rounded_each_by_itself_and_kernels_by_column():
    random = np.random.default_rng(0)
    x = random.normal(size=(9, 31)).astype("float32") * np.logspace(-20, 20, 9, dtype="float32")[:, None]
    x[3], x[4], x[5] = 0, 5, -7
    kernel = random.normal(size=(31, 13)).astype("float32")
    kernel[:, 2] = 0
    constants = ConstantKernels([kernel := tf.Variable(kernel)])
    found = constants.product(tf.constant(x), kernel).numpy()
    np.testing.assert_allclose(found, rounded_product(x, kernel.numpy()), rtol=3e-7)
    assert not found[3].any()
    assert not found[:, 2].any()
    alone = [constants.product(tf.constant(row[None]), kernel).numpy()[0] for row in x]
    assert np.array_equal(found, alone)


def test_a_kernel_is_off_by_half_a_step_of_its_column_at_most():
    kernel = np.random.default_rng(0).normal(size=(50, 7)).astype("float32") * 10.0 ** np.arange(-3, 4)
    numbers, factors = rounded_kernel(kernel)
    assert numbers.min() >= -64
    assert (np.abs(numbers).max(0) == 64).all()
    assert (np.abs(numbers * factors - kernel) <= factors * 0.5001).all()


PROJECTING = [name for name, layer in MADE.items() if hasattr(layer, "enable_lora")]


def traced(layer, constants, width):
    @tf.function(input_signature=[tf.TensorSpec([None, None, width]), tf.TensorSpec([None, None], tf.bool)])
    def call(x, mask):
        with constants.used():
            return layer(x, mask=mask)

    return call


@pytest.mark.parametrize("name", mostly_slow(PROJECTING))
def test_graphs_of_every_layer_hold_constants_and_are_close_to_it(name):
    x = np.random.default_rng(0).normal(size=(3, 5, NARROW)).astype("float32")
    mask = np.arange(5) < np.array([[5], [2], [4]])
    layer = MAKE[name]()
    keras.Sequential([keras.Input((None, NARROW)), layer])
    before = layer(x, mask=mask).numpy()
    kernels = multiplied_kernels(layer)
    assert kernels
    call = traced(layer, ConstantKernels(kernels), NARROW).get_concrete_function()
    read = {id(handle) for handle in call.captured_inputs}
    assert not read & {id(kernel.value.handle) for kernel in kernels}
    found = call(tf.constant(x), tf.constant(mask)).numpy()
    assert 0 < np.abs(found - before).max() < 0.15 * np.abs(before).max()


@pytest.mark.parametrize("norm", ["layer", "layer_no_shift"])
def test_a_sequence_gets_the_same_bits_alone_and_in_any_batch(norm):
    """The last bit of a float decides how a token is rounded, and then moves the answer by a step."""
    lengths = np.random.default_rng(1).integers(1, 100, 40)
    x = np.random.default_rng(0).normal(size=(40, 99, WIDTH)).astype("float32")
    mask = np.arange(99) < lengths[:, None]
    encoder = randomised(layers.Encoder(2, 3, norm=norm, norm_first=False), width=WIDTH)
    call = traced(encoder, ConstantKernels(multiplied_kernels(encoder)), WIDTH)
    together = call(x, mask).numpy()
    for place, length in enumerate(lengths):
        one = slice(place, place + 1)
        assert np.array_equal(call(x[one], mask[one]).numpy(), together[one]), length
        assert np.array_equal(call(x[one, :length], mask[one, :length]).numpy(), together[one, :length])
