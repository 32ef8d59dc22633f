"""ImageClassifier: images in, names out, and everything it needs in one file."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from keras_selfattn import layers, models
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.images.classifier import patch_size_for
from keras_selfattn.rows.images import as_images

SMALL = models.ImageConfig(width=8, num_layers=1, num_heads=2, dropout=0.0)
RANDOM = np.random.default_rng(0)


def bars(count, height=7, width=6):
    """Noise with a bright row, or a bright column."""
    images = RANDOM.integers(0, 90, (count, height, width), "uint8")
    for number, image in enumerate(images):
        image[(slice(None), number % width) if number % 2 else number % height] += 160
    return images, ["column" if number % 2 else "row" for number in range(count)]


IMAGES, LABELS = bars(48)


@pytest.fixture(scope="module")
def trained():
    keras.utils.set_random_seed(0)
    model = models.ImageClassifier(SMALL)
    model.compile(keras.optimizers.Adam(0.02))
    model.fit(IMAGES, LABELS, epochs=15, verbose=0)
    return model


def untrained(images=IMAGES, labels=LABELS, **settings):
    model = models.ImageClassifier(models.ImageConfig(**{**SMALL.to_dict(), **settings}))
    model.compile()
    model.adapt(images, labels)
    return model


@pytest.mark.slow
def test_fit_predict_and_evaluate_take_images_and_keep_their_order(trained):
    probabilities = trained.predict(IMAGES[:6], batch_size=4, verbose=0)
    assert probabilities.shape == (6, 2)
    one_by_one = np.concatenate([trained.predict([image], verbose=0) for image in IMAGES[:6]])
    np.testing.assert_allclose(probabilities, one_by_one, atol=1e-6)
    assert [trained.labels[i] for i in probabilities.argmax(-1)] == LABELS[:6]
    images, labels = bars(50)
    assert trained.evaluate(images, labels, verbose=0)[1] >= 0.9


def test_images_come_in_any_container_and_any_type_of_number(trained):
    wanted = trained.predict(IMAGES[:3], verbose=0)
    for images in (
        list(IMAGES[:3]),
        tuple(IMAGES[:3, ..., None]),
        IMAGES[:3].tolist(),
        IMAGES[:3].astype("float64"),
        IMAGES[:3].astype("int64"),
        tf.constant(IMAGES[:3]),
        [Image.fromarray(image) for image in IMAGES[:3]],
        [IMAGES[0], IMAGES[1].astype("float16"), IMAGES[2]],
    ):
        np.testing.assert_allclose(trained.predict(images, verbose=0), wanted, atol=1e-6)


def test_only_images_of_bytes_promise_that_files_are_read_alike():
    """A picture of booleans is 0 and 1; the same picture in a file would be 0 and 255."""
    for images in (IMAGES, IMAGES > 100, IMAGES.astype("float32")):
        assert untrained(images).byte_pixels == (images.dtype == np.uint8)
        np.testing.assert_array_equal(np.stack(as_images(images))[..., 0], images)


def test_pixels_are_scaled_by_mean_and_deviation_of_each_channel_of_the_training_images():
    images = RANDOM.normal([3.0, -20.0, 0.5], [2.0, 0.25, 1.0], (9, 4, 5, 3))
    model = untrained(images, ["a", "b", "c"] * 3)
    scaling = model.core.get_layer("pixels")
    found = np.asarray(scaling(images))
    np.testing.assert_allclose(found, (images - images.mean((0, 1, 2))) / images.std((0, 1, 2)), atol=1e-4)
    assert not scaling.trainable_weights


def test_only_training_changes_the_images_and_only_where_asked():
    keras.utils.set_random_seed(0)
    x = IMAGES[..., None].astype("float32")  # of so small images few are moved
    for augment in (True, False):
        model = untrained(augment=augment)
        plain, training = (np.asarray(model.core(x, training=training)) for training in (False, True))
        assert np.allclose(plain, training, atol=1e-6) is not augment


def test_the_core_is_patches_positions_encoder_and_pooling_in_this_order():
    model = untrained(patch_size=3)
    core, x = model.core, IMAGES[:2, ..., None].astype("float32")
    patches = core.get_layer("patches")(core.get_layer("pixels")(x))
    assert patches.shape == (2, 3, 2, 8)
    placed = np.asarray(layers.SinusoidalPositionEncoding2D()(patches)).reshape(2, 6, 8)
    pooled = np.asarray(core.get_layer("encoder")(placed)).mean(1)
    wanted = core.get_layer("probabilities")(core.get_layer("logits")(pooled))
    np.testing.assert_allclose(np.asarray(core(x)), wanted, atol=1e-5)


@pytest.mark.slow
def test_later_images_of_another_size_are_resized_as_tensorflow_does(trained):
    large = np.repeat(np.repeat(IMAGES[:4], 3, axis=1), 2, axis=2)
    wanted = tf.image.resize(large[..., None], [7, 6], antialias=True)
    found = trained.predict([IMAGES[0], *large], verbose=0)
    np.testing.assert_allclose(found[1:], trained.predict(wanted.numpy(), verbose=0), atol=1e-6)
    np.testing.assert_allclose(found[:1], trained.predict(IMAGES[:1], verbose=0), atol=1e-6)
    assert np.isfinite(trained.predict([np.zeros((1, 1)), np.zeros((500, 2))], verbose=0)).all()


@pytest.mark.slow
def test_a_row_can_bear_several_labels_or_none():
    model = models.ImageClassifier(SMALL)
    model.compile()
    labels = [["dark"] if number % 3 else ["dark", "round"] if number else [] for number in range(48)]
    model.fit(IMAGES, labels, epochs=1, verbose=0)
    assert (model.labels, model.multi_label) == (["dark", "round"], True)
    assert model.predict(IMAGES[:2], verbose=0).shape == (2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 1), (8, 5, 3)])
def test_images_of_every_shape_train_even_if_all_their_pixels_are_equal(shape):
    model = models.ImageClassifier(SMALL)
    model.compile()
    model.fit([np.full(shape, 9, "uint8")] * 2, ["a", "b"], epochs=1, verbose=0)
    assert np.isfinite(model.predict([np.full(shape, 255)], verbose=0)).all()


@pytest.mark.slow
def test_a_saved_file_carries_size_scale_labels_and_the_compiled_state(trained, tmp_path):
    trained.save(tmp_path / "model.keras")
    again = models.load(tmp_path / "model.keras")
    assert (again.labels, again.config, again.byte_pixels) == (["column", "row"], SMALL, True)
    assert again.image_shape == (7, 6, 1)
    found, wanted = (model.predict(IMAGES[:6], verbose=0) for model in (again, trained))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    again.fit(IMAGES, LABELS, epochs=1, verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_answers_nearly_the_same(trained, policy):
    narrow = models.ImageClassifier.from_config({**trained.get_config(), "dtype": policy})
    narrow.core.set_weights(trained.core.get_weights())
    wanted = trained.predict(IMAGES, verbose=0)
    np.testing.assert_allclose(narrow.predict(IMAGES, verbose=0), wanted, atol=0.05)
    far = [np.full((7, 6), value, "float32") for value in (3e38, -3e38)]
    assert np.isfinite(narrow.predict(far, verbose=0)).all()


def test_the_patch_size_follows_the_size_of_the_image_by_the_rule():
    for height, width in ((1, 1), (8, 8), (28, 28), (33, 32), (100, 20), (128, 128), (640, 480)):
        patches = {p: -(-height // p) * -(-width // p) for p in (2, 4, 8, 16)}
        wanted = min((p for p in patches if patches[p] <= 64), default=16)
        assert patch_size_for(height, width) == wanted
    assert untrained(np.zeros((2, 28, 28)), ["a", "b"]).core.get_layer("patches").patch_size == 4


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (
            [np.zeros((8, 8)), np.zeros((8, 9))],
            "Image 1 .* is 8 x 9 with 1 channel, the first is 8 x 8 with 1",
        ),
        (
            [np.zeros((8, 8)), np.zeros((8, 8, 3))],
            "Image 1 .* is 8 x 8 with 3 channels, the first .* 1 channel",
        ),
        (np.zeros((2, 8, 8, 2)), r"Image 0 .* 1 or 3 channels. Received shape \(8, 8, 2\)"),
        (np.zeros((2, 8, 8, 4)), r"Image 0 .* Received shape \(8, 8, 4\)"),
        (np.zeros((2, 0, 8)), r"Image 0 .* Received shape \(0, 8, 1\)"),
        ([np.zeros((8, 8)), [[1, 2], [3]]], "Image 1 .* must be an array"),
        ([np.zeros((8, 8)), None], "Image 1 .* must be an array"),
        ([np.zeros((8, 8)), np.full((8, 8), np.nan)], "Image 1 .* not finite numbers"),
        ([np.zeros((8, 8)), np.full((8, 8), 1e300)], "Image 1 .* not finite numbers"),
        (np.full((2, 8, 8), "x"), "Image 0 .* must hold numbers. Received dtype <U1"),
        (np.zeros((8, 8)), r"Received shape \(8, 8\); wrap a single image in a list"),
        (np.zeros((3, 8, 8)), "Images and labels differ in number. Received 3 and 2"),
        ([], "There are no rows"),
    ],
)
def test_images_that_cannot_train_are_refused(images, said):
    model = models.ImageClassifier(SMALL)
    model.compile()
    with pytest.raises(DataError, match=said):
        model.fit(images, ["a", "b"] if len(images) else [], verbose=0)


def test_images_that_cannot_be_answered_are_refused(trained):
    with pytest.raises(DataError, match=r"Image 1 .* is 7 x 6 with 3 channels. .* of 7 x 6 with 1 channel\."):
        trained.predict([np.zeros((7, 6)), np.zeros((7, 6, 3))], verbose=0)
    with pytest.raises(DataError, match="not finite numbers"):
        trained.predict([np.full((7, 6), np.inf)], verbose=0)
    assert trained.predict([], verbose=0).shape == (0, 2)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"patch_size": 0}, "`patch_size` must be a positive integer. Received 0"),
        ({"patch_size": 2.5}, "`patch_size`.* Received 2.5"),
        ({"augment": "no"}, "`augment` must be True or False. Received 'no'"),
        ({"width": 9, "num_heads": 2}, "width=9, num_heads=2"),
    ],
)
def test_bad_settings_are_named_with_their_value(field, said):
    with pytest.raises(ConfigError, match=said):
        models.ImageConfig(**field)


def test_half_of_what_a_trained_model_has_is_refused():
    with pytest.raises(ConfigError, match="`image_shape` and `labels` go together"):
        models.ImageClassifier(labels=["a", "b"])
