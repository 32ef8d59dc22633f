"""The SavedModel of an image classifier: numbers of any size, or files, answered as the model does."""

import io
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import tensorflow as tf
from film_model import load
from PIL import Image, ImageOps

from keras_selfattn import models
from keras_selfattn.data import read_images
from keras_selfattn.export import export_saved_model, kernels, read_card, written_graph

SHAPE = (7, 6, 3)
RANDOM = np.random.default_rng(0)


def coloured(count, height, width):
    """Images of a colour each, with noise."""
    colours = RANDOM.integers(0, 200, (count, 1, 1, 3))
    return (colours + RANDOM.integers(0, 56, (count, height, width, 3))).astype("uint8")


IMAGES = coloured(5, *SHAPE[:2])
OTHERS = [coloured(3, *size) for size in ((1, 1), (7, 9), (21, 12), (40, 3))]
SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "model-card.schema.json").read_text())


def make_model(shape=SHAPE, **options):
    config = models.ImageConfig(width=8, num_layers=2, num_heads=2, dropout=0.5)
    made = models.ImageClassifier(config, image_shape=shape, labels=["cat", "dog", "ü"], **options)
    random = np.random.default_rng(1)
    made.core.set_weights([random.normal(size=w.shape) * 0.6 for w in made.core.weights])
    scaling = [np.full(shape[-1:], 120.0), np.full(shape[-1:], 50.0)]
    made.core.get_layer("pixels").set_weights(scaling)
    made.core.get_layer("probabilities").temperature.assign(1.0)
    return made


@pytest.fixture(scope="module")
def model():
    return make_model(byte_pixels=True)


@pytest.fixture(scope="module")
def version(model, tmp_path_factory):
    return export_saved_model(model, tmp_path_factory.mktemp("base") / "animals")


@pytest.fixture(scope="module")
def signatures(version):
    found, loaded = load(version)
    yield found
    del loaded


def served(signatures, images):
    return signatures["serving_default"](image=tf.constant(images, tf.float32))


def file(image, kind="PNG", **options):
    opened = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(opened, kind, **options)
    return opened.getvalue()


@pytest.mark.process
def test_the_signatures_have_names_dtypes_and_open_shapes(signatures):
    def described(specs):
        return {name: (spec.dtype.name, spec.shape.as_list()) for name, spec in specs.items()}

    image = {"image": ("float32", [None, None, None, 3])}
    answer = {
        "probabilities": ("float32", [None, 3]),
        "label": ("string", [None]),
        "score": ("float32", [None]),
    }
    found = {
        name: (described(s.structured_input_signature[1]), described(s.structured_outputs))
        for name, s in signatures.items()
    }
    assert found == {
        "serving_default": (image, answer),
        "encoded": ({"encoded": ("string", [None])}, answer),
        "explain": (
            image,
            {"weights": ("float32", [None, 2, 2, 12, 12]), "patches": ("float32", [None, 12, 4])},
        ),
    }


@pytest.mark.process
def test_images_of_the_trained_size_are_answered_as_the_model_does(model, signatures):
    answer, wanted = served(signatures, IMAGES), model.predict(IMAGES, verbose=0)
    np.testing.assert_allclose(answer["probabilities"], wanted, atol=1e-5)
    assert [label.decode() for label in answer["label"].numpy()] == [
        model.labels[i] for i in wanted.argmax(-1)
    ]
    assert np.ptp(wanted, axis=0).max() > 0.03, "images are told apart, by far more than the tolerance"


@pytest.mark.process
@pytest.mark.parametrize("images", OTHERS, ids=lambda images: f"{images.shape[1]}x{images.shape[2]}")
def test_images_of_other_sizes_are_resized_as_the_model_does(model, signatures, images):
    found = served(signatures, images)["probabilities"]
    np.testing.assert_allclose(found, model.predict(images, verbose=0), atol=1e-5)


@pytest.mark.process
@pytest.mark.parametrize("size", [SHAPE[:2], (9, 4)])
def test_no_images_is_an_answerable_question(signatures, size):
    assert served(signatures, np.zeros((0, *size, 3)))["probabilities"].shape == (0, 3)
    assert signatures["encoded"](encoded=tf.constant([], tf.string))["label"].shape == (0,)
    image = tf.zeros((0, *size, 3))
    assert signatures["explain"](image=image)["weights"].shape == (0, 2, 2, 12, 12)


@pytest.mark.process
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("size", [SHAPE[:2], (14, 12)])
def test_pixels_that_are_no_numbers_still_give_probabilities(signatures, value, size):
    images = np.full((2, *size, 3), 99.0, "float32")
    images[0, 3, 2] = value
    images[1] = value
    found = served(signatures, images)["probabilities"].numpy()
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)


@pytest.mark.process
def test_images_without_a_pixel_or_with_other_channels_are_errors_that_say_so(signatures):
    with pytest.raises(tf.errors.InvalidArgumentError, match="non-zero size"):
        served(signatures, np.zeros((2, 0, 5, 3)))
    with pytest.raises((TypeError, ValueError, tf.errors.InvalidArgumentError), match=r"shape.*3"):
        served(signatures, np.zeros((2, 7, 6, 1)))


@pytest.mark.process
def test_files_are_answered_as_the_pixels_in_them(model, signatures):
    pictures = [*IMAGES[:2], OTHERS[2][0]]
    files = [file(picture) for picture in pictures]
    found = signatures["encoded"](encoded=tf.constant(files))["probabilities"]
    np.testing.assert_allclose(found, model.predict(pictures, verbose=0), atol=1e-5)


@pytest.mark.process
def test_files_of_every_mode_are_taken_for_the_colours_that_training_takes_them_for(model, signatures):
    grey = np.repeat(IMAGES[:1, ..., :1], 3, axis=-1)
    clear = np.concatenate([IMAGES[0], np.full((7, 6, 1), 9, "uint8")], axis=-1)
    smooth = np.full(SHAPE, (200, 30, 90), "uint8")
    files = [file(IMAGES[0, ..., 0]), file(clear), file(smooth, "JPEG", quality=95)]
    found = signatures["encoded"](encoded=tf.constant(files))["probabilities"]
    wanted = model.predict([grey[0], IMAGES[0], smooth], verbose=0)
    np.testing.assert_allclose(found[:2], wanted[:2], atol=1e-5)
    np.testing.assert_allclose(found[2], wanted[2], atol=0.03)


@pytest.mark.process
@pytest.mark.parametrize("size", [SHAPE[:2], (20, 13)])
def test_photographs_that_lie_on_their_side_are_answered_as_training_reads_them(
    model, signatures, tmp_path, size
):
    """Each picture has a corner of each colour, so that every turn has another answer."""
    picture = np.full((*size, 3), 40, "uint8")
    picture[: size[0] // 2, : size[1] // 2], picture[size[0] // 2 :, size[1] // 3 :] = (
        (250, 90, 0),
        (0, 0, 250),
    )
    (tmp_path / "cat").mkdir()
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        (tmp_path / "cat" / f"{orientation}.png").write_bytes(file(picture, exif=exif))
    files = [path.read_bytes() for path in sorted((tmp_path / "cat").iterdir())]
    answer = signatures["encoded"](encoded=tf.constant(files))["probabilities"].numpy()
    turned = [np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(each)))) for each in files]
    wanted = model.predict(turned, verbose=0)
    np.testing.assert_allclose(answer, wanted, atol=3e-5)
    apart = np.abs(wanted[:, None] - wanted[None]).max(-1) + np.eye(8)
    assert apart.min() > 3e-4, "each turn has its own answer, by far more than the tolerance"
    if size == SHAPE[:2]:
        read = read_images(tmp_path, image_size=7).inputs
        small = [
            np.asarray(Image.fromarray(each).resize((7, 7), Image.Resampling.BILINEAR)) for each in turned
        ]
        np.testing.assert_array_equal(read, small)


@pytest.mark.process
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "Input is empty"),
        (b"no image", "Unknown image file format"),
        (file(OTHERS[2][0])[:-40], "Invalid PNG data"),
        (file(OTHERS[2][0], "JPEG")[:60], "Invalid JPEG|JPEG"),
    ],
)
def test_a_broken_file_is_an_error_that_says_so(signatures, content, said):
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        signatures["encoded"](encoded=tf.constant([file(IMAGES[0]), content]))


@pytest.mark.process
def test_explain_gives_the_weights_between_the_patches_row_by_row(model, signatures):
    found = signatures["explain"](image=tf.constant(IMAGES, tf.float32))["weights"].numpy()
    core, x = model.core, IMAGES.astype("float32")
    for name in ("pixels", "patches", "positions", "sequence"):
        x = core.get_layer(name)(x)
    _, wanted = core.get_layer("encoder")(x, return_weights=True)
    np.testing.assert_allclose(found, np.stack(wanted, axis=1), atol=1e-5)


@pytest.mark.process
def test_explain_says_where_each_patch_is_whatever_the_image(model, signatures):
    height, width, _ = model.image_shape
    side = model.core.get_layer("patches").patch_size
    wanted = [
        (top / height, left / width, min(top + side, height) / height, min(left + side, width) / width)
        for top in range(0, height, side)
        for left in range(0, width, side)
    ]
    found = signatures["explain"](image=tf.zeros((2, 31, 5, 3)))["patches"]
    np.testing.assert_allclose(found, [wanted, wanted], rtol=1e-6)


@pytest.mark.process
def test_the_graph_draws_nothing_and_holds_stock_operations_only(version):
    counts = written_graph.count_operations(written_graph.read_saved_model(version / "saved_model.pb"))
    parts = ("Random", "Dropout", "Grad", "PyFunc", "ProjectiveTransform")
    assert [op for op in counts if any(part in op for part in parts) and op != "StopGradient"] == []
    oldest = kernels.read(Path(written_graph.__file__).with_name("tensorflow-2.16.txt").read_text())
    assert set(counts) <= set(oldest)
    assert counts["DecodeImage"] == 1


@pytest.mark.process
def test_the_card_is_what_its_schema_says(version):
    card = read_card(version)
    jsonschema.validate(card, SCHEMA)
    assert (card["task"], card["labels"]) == ("image-classification", ["cat", "dog", "ü"])
    assert np.shape(card["signatures"]["serving_default"]["example"]["request"]["image"]) == (1, *SHAPE)


@pytest.mark.process
def test_a_model_of_other_numbers_than_bytes_takes_no_files(tmp_path, unchecked):
    path = export_saved_model(make_model((4, 5, 1)), tmp_path)
    found, _loaded = load(path)
    assert set(found) == {"serving_default", "explain"}


@pytest.mark.process
def test_a_grey_model_takes_coloured_files_for_their_brightness(tmp_path, unchecked):
    model = make_model((4, 5, 1), byte_pixels=True)
    found, _loaded = load(export_saved_model(model, tmp_path))
    plain = np.full((4, 5, 3), (200, 30, 90), "uint8")
    files = [file(np.full((4, 5), 77, "uint8")), file(plain)]
    answer = found["encoded"](encoded=tf.constant(files))["probabilities"]
    grey = [np.full((4, 5), 77, "uint8"), np.asarray(Image.fromarray(plain).convert("L"))]
    wanted = model.predict(grey, verbose=0)
    np.testing.assert_allclose(answer[0], wanted[0], atol=1e-5)
    np.testing.assert_allclose(answer[1], wanted[1], atol=0.05)


@pytest.mark.process
def test_narrow_weights_are_compared_on_images_of_any_size(model, tmp_path, unchecked):
    labels = [model.labels[i] for i in model.predict(IMAGES, verbose=0).argmax(-1)]
    rows = [*IMAGES[:4], np.repeat(IMAGES[4], 2, axis=0)]
    said = []
    export_saved_model(
        model, tmp_path, precision="float16-weights", evaluation=(rows, labels), report=said.append
    )
    assert (said[0].rows, said[0].before.accuracy >= 0.8) == (5, True)
