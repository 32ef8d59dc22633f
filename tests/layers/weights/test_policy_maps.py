"""A `DTypePolicyMap`: each layer and each of its parts has the policy of its path, as Keras' own have."""

import keras
import numpy as np
import pytest
from backend import array, gradients, tensorflow_only
from keras.dtype_policies import DTypePolicy, DTypePolicyMap
from variants import MAKE, WIDTH, every_layer_mostly_slow, inputs

from keras_selfattn import layers

BFLOAT16 = DTypePolicy("mixed_bfloat16")


def mapped(make, default, policies):
    return make(dtype=DTypePolicyMap(default, dict(policies)), name="own")


def built(layer, length=None):
    layer.build((None, length, WIDTH))
    return layer


def served(layer):
    inner = keras.Input((None, WIDTH))
    return keras.Model(inner, layer(inner))


@every_layer_mostly_slow
def test_a_map_of_one_policy_is_that_policy(make, tmp_path):
    layer, plain = (
        built(mapped(make, "float32", {"own": BFLOAT16, "own/.*": BFLOAT16})),
        built(make(dtype=BFLOAT16)),
    )
    plain.set_weights(layer.get_weights())
    found = layer(inputs())
    assert (found.dtype, layer.compute_dtype) == (plain(inputs()).dtype, "bfloat16")
    np.testing.assert_array_equal(array(found), array(plain(inputs())))
    symbolic = layer(keras.KerasTensor((None, 7, WIDTH)))
    assert symbolic.dtype == "bfloat16"
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    model = served(layer)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(inputs())), array(found))
    assert loaded.layers[-1].dtype_policy["own"].name == "mixed_bfloat16"


@every_layer_mostly_slow
@pytest.mark.parametrize("outer", ["float32", "mixed_bfloat16"])
def test_parts_may_have_another_policy_than_the_whole(make, outer):
    inner = {"float32": BFLOAT16, "mixed_bfloat16": DTypePolicy("float32")}[outer]
    layer, plain = built(mapped(make, outer, {"own/.*": inner})), built(make())
    plain.set_weights(layer.get_weights())
    found = layer(inputs(), training=False)
    wanted = {"float32": "float32", "mixed_bfloat16": "bfloat16"}[outer]
    assert keras.backend.standardize_dtype(found.dtype) == layer.compute_dtype == wanted
    assert layer(keras.KerasTensor((None, 7, WIDTH))).dtype == wanted
    np.testing.assert_allclose(array(found), array(plain(inputs(), training=False)), atol=0.1)
    mode = {"training": True} if layer._call_has_training_arg else {}  # pooling has none
    for each in gradients(layer, inputs(), lambda y: keras.ops.sum(keras.ops.cast(y, "float32")), **mode):
        assert np.isfinite(each).all()


@pytest.mark.parametrize("place", ["attention", "feed_forward", "feed_forward/hidden", "attention_norm"])
def test_a_part_computes_in_the_dtype_of_its_path(place):
    """Rounded to bfloat16 in that part alone: neither float32 all through, nor bfloat16."""
    layer = built(mapped(MAKE["block"], "float32", {f"own/{place}": BFLOAT16}))
    exact, half = built(MAKE["block"]()), built(MAKE["block"](dtype="mixed_bfloat16"))
    for each in (exact, half):
        each.set_weights(layer.get_weights())
    found, wanted, rounded = (array(each(inputs())) for each in (layer, exact, half))
    error, of_half = np.abs(found - wanted).max(), np.abs(rounded - wanted).max()
    assert 1e-5 < error < of_half


NAMES = ["attention", "additive", "multiplicative", "linear", "block", "encoder"]


# Of the model's input, which has no kernels.
@pytest.mark.filterwarnings("ignore:.*does not have a `quantize` method:UserWarning")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("default", ["float32", "mixed_bfloat16"])
def test_quantized_with_a_map_it_answers_as_without_one_and_is_loaded(name, default, tmp_path):
    policies = DTypePolicyMap(default, {"own/.*": DTypePolicy(default), "other": BFLOAT16})
    layer, plain = MAKE[name](dtype=policies, name="own"), MAKE[name](dtype=default, name="own")
    model, other = served(layer), served(plain)
    other.set_weights(model.get_weights())
    for each in (model, other):
        each.quantize("int8")
    assert layers.quantized_parts(layer) == layers.quantized_parts(plain) != {}
    wanted = array(model(inputs()))
    np.testing.assert_array_equal(wanted, array(other(inputs())))
    assert dict(policies).keys() == {"own/.*", "other"}
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(again(inputs())), wanted)
    for each in (layer, again.layers[-1]):
        assert each.get_config()["dtype"] == keras.dtype_policies.serialize(policies)


def test_a_map_with_a_policy_of_whole_numbers_is_refused_by_its_path():
    policies = DTypePolicyMap("float32", {"own/attention": keras.dtype_policies.get("int8_from_float32")})
    with pytest.raises(ValueError, match="Received 'int8_from_float32' for 'own/attention'"):
        layers.EncoderBlock(2, dtype=policies)


@tensorflow_only
@pytest.mark.slow
def test_a_model_of_raw_rows_has_the_policies_of_its_layers(tmp_path):
    from keras_selfattn import models

    policies = DTypePolicyMap("float32", {"encoder/.*": BFLOAT16, "neighbours/dense": BFLOAT16})
    model = models.TextClassifier({"width": 8, "num_layers": 1, "num_heads": 2}, dtype=policies)
    model.adapt(["good film", "bad film"] * 4, ["a", "b"] * 4)
    dtypes = {layer.path: layer.compute_dtype for layer in model.core._flatten_layers() if layer.weights}
    assert dtypes["encoder"] == dtypes["embedding"] == "float32"
    assert dtypes["encoder/block_0/attention"] == dtypes["neighbours/dense"] == "bfloat16"
    for step in ("floats", "int8"):
        if step == "int8":
            model.quantize("int8")
        wanted = model.predict(["good film", "a bad one"], verbose=0)
        model.save(tmp_path / f"{step}.keras")
        again = models.load(tmp_path / f"{step}.keras")
        np.testing.assert_array_equal(again.predict(["good film", "a bad one"], verbose=0), wanted)
        assert again.core.get_layer("encoder").blocks[0].compute_dtype == "bfloat16"
