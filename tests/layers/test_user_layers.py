"""Layers inside a user's own layer, which Keras builds by tracing its `call` without any size."""

import keras
import numpy as np
import pytest
from backend import BACKEND, array
from variants import ATTENDING, MADE, MAKE, WIDTH, every_layer_mostly_slow, inputs, mostly_slow, takes

from keras_selfattn import layers


def skip_what_pytorch_cannot_trace(layer):
    """On PyTorch Keras traces with 83 in place of a size that it does not know, and without values."""
    if BACKEND == "torch" and (
        isinstance(layer, layers.LearnedPositionEncoding) or getattr(layer, "remat", False)
    ):
        pytest.skip("a table of 70 positions has no 83, and repeated dropout needs its seed's value")


class Around(keras.layers.Layer):
    """Without `build` or `compute_output_spec`: Keras learns both from `call`."""

    def __init__(self, inner, **options):
        super().__init__()
        self.supports_masking = True  # of pooled vectors the mask ends here
        self.inner, self.after, self.options = inner, keras.layers.Dense(3, use_bias=False), options

    def call(self, inputs, mask=None, valid_lens=None, attention_mask=None, training=None):
        given = {"mask": mask, "valid_lens": valid_lens, "attention_mask": attention_mask}
        options = {name: value for name, value in given.items() if value is not None} | self.options
        found = self.inner(inputs, **options)
        return [self.after(found[0]), *found[1:]] if isinstance(found, tuple) else self.after(found)


def check(layer, symbolic, real):
    """The user's model answers as the layer itself does."""
    around = Around(layer)
    model = keras.Model(list(symbolic.values()), around(**symbolic))
    found = array(model([real[name] for name in symbolic]))
    kernel = array(around.after.kernel)
    others = {name: keras.ops.convert_to_tensor(value) for name, value in real.items() if name != "inputs"}
    np.testing.assert_allclose(found, array(layer(real["inputs"], **others)) @ kernel, atol=2e-5)
    assert model.output_shape[-1] == 3
    assert set(model.output_shape[:-1]) == {None}


@every_layer_mostly_slow
def test_a_users_layer_is_built_with_unknown_sizes(make):
    skip_what_pytorch_cannot_trace(make())
    check(make(), {"inputs": keras.Input((None, WIDTH))}, {"inputs": inputs()})


@pytest.mark.slow
def test_a_users_layer_is_built_around_positions_of_a_grid():
    x = np.random.default_rng(0).normal(size=(2, 3, 5, WIDTH)).astype("float32")
    check(
        layers.SinusoidalPositionEncoding2D(),
        {"inputs": keras.Input((None, None, WIDTH))},
        {"inputs": x},
    )


RULES = {
    "mask": (keras.Input((None,), dtype="bool"), np.arange(7) < np.array([7, 3, 0, 1, 5])[:, None]),
    "valid_lens": (keras.Input((), dtype="int32"), np.array([7, 3, 0, 1, 5], "int32")),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "name", mostly_slow([name for name, layer in MADE.items() if takes(layer, "valid_lens")])
)
def test_a_users_layer_hands_on_masks_of_unknown_sizes(name, rule):
    symbolic, real = RULES[rule]
    check(
        MAKE[name](), {"inputs": keras.Input((None, WIDTH)), rule: symbolic}, {"inputs": inputs(), rule: real}
    )


@pytest.mark.parametrize("name", mostly_slow([name for name in ATTENDING if "linear" not in name]))
def test_a_users_layer_hands_on_pairs_of_unknown_sizes(name):
    pairs = np.random.default_rng(1).random((5, 7, 7)) < 0.6
    check(
        MAKE[name](),
        {"inputs": keras.Input((None, WIDTH)), "attention_mask": keras.Input((None, None), dtype="bool")},
        {"inputs": inputs(), "attention_mask": pairs},
    )


@pytest.mark.parametrize(
    "name", mostly_slow([name for name, layer in MADE.items() if takes(layer, "return_weights")])
)
def test_a_users_layer_gets_weights_of_unknown_sizes(name):
    x = keras.Input((None, WIDTH))
    layer = MAKE[name]()
    outputs = Around(layer, return_weights=True)(x)
    wanted = layer(inputs(), return_weights=True)[1]
    found = keras.Model(x, outputs[1])(inputs())
    for one, other in zip(
        found if isinstance(found, list) else [found],
        wanted if isinstance(wanted, list) else [wanted],
        strict=True,
    ):
        np.testing.assert_allclose(array(one), array(other), atol=1e-6)


@every_layer_mostly_slow
def test_a_users_layer_trains_after_its_build(make):
    skip_what_pytorch_cannot_trace(make())
    ids = keras.Input((None,), dtype="int32")
    x = Around(make(), **({"training": True} if takes(make(), "training") else {}))(
        keras.layers.Embedding(9, WIDTH)(ids)
    )
    x = x if len(x.shape) == 2 else layers.AveragePooling()(x)
    model = keras.Model(ids, keras.layers.Dense(1)(x))
    model.compile("sgd", "mse", run_eagerly=keras.backend.backend() == "tensorflow")
    data = np.random.default_rng(0).integers(9, size=(4, 5))
    history = model.fit(data, np.ones(4), epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"][0])
