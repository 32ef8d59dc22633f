"""Images from folders and .npz files are read, and unusable ones refused with their names."""

import numpy as np
import pytest
from PIL import Image

from keras_selfattn.data import read_images, split_rows
from keras_selfattn.errors import DataError

RED = np.zeros((5, 7, 3), "uint8") + np.array([255, 0, 0], "uint8")
GREY = np.arange(35, dtype="uint8").reshape(5, 7)


def write(folder, **images):
    for name, image in images.items():
        place, _, file = name.partition("__")
        (folder / place).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / place / file.replace("_", "."))
    return folder


def save(folder, **arrays):
    np.savez(folder / "data.npz", **arrays)
    return folder / "data.npz"


def test_a_folder_of_grey_images_gives_their_pixels_and_the_names_of_their_folders(tmp_path):
    rows = read_images(write(tmp_path, cat__b_png=GREY, cat__a_PNG=GREY + 1, dog__c_png=GREY + 2))
    assert rows.targets == ["cat", "cat", "dog"]
    np.testing.assert_array_equal(rows.inputs, [GREY + 1, GREY, GREY + 2])
    assert rows.inputs[0].dtype == np.uint8
    assert rows.source == str(tmp_path)


def test_grey_among_coloured_images_is_taken_for_a_colour(tmp_path):
    rows = read_images(write(tmp_path, cat__a_png=GREY, dog__b_png=RED))
    np.testing.assert_array_equal(rows.inputs[0], np.stack([GREY] * 3, axis=-1))
    np.testing.assert_array_equal(rows.inputs[1], RED)


def test_a_photograph_is_read_within_what_its_compression_loses(tmp_path):
    rows = read_images(write(tmp_path, cat__a_jpg=RED, dog__b_jpeg=RED))
    np.testing.assert_allclose(rows.inputs[0], RED, atol=3)


@pytest.mark.parametrize("mode", ["1", "P", "LA", "RGBA", "I;16", "CMYK"])
def test_images_of_every_mode_are_grey_or_coloured_bytes(tmp_path, mode):
    folder = write(tmp_path, cat__a_png=GREY)
    white = Image.new("RGB", (7, 5), "white")
    image = Image.new("I;16", (7, 5), 65_535) if mode == "I;16" else white.convert(mode)
    image.save(folder / "cat" / ("b.jpg" if mode == "CMYK" else "b.png"))
    found = read_images(folder).inputs[1]
    assert found.shape == ((5, 7) if mode in ("1", "LA", "I;16") else (5, 7, 3))
    assert found.dtype == np.uint8
    assert found.min() >= 254


def test_sixteen_bits_keep_their_upper_byte(tmp_path):
    folder = write(tmp_path, cat__a_png=GREY)
    Image.fromarray((GREY.astype("uint16") << 8) + 9).save(folder / "cat" / "b.png")
    np.testing.assert_array_equal(read_images(folder).inputs[1], GREY)


def test_what_is_no_image_is_passed_over_and_counted(tmp_path):
    folder = write(tmp_path, cat__a_png=GREY, dog__b_png=GREY)
    for name in ("cat/notes.txt", "labels.csv", ".hidden", "cat/.b.png"):
        (folder / name).write_text("no image")
    (folder / ".git").mkdir()
    with pytest.warns(UserWarning, match=r"2 files are not .png, .jpg or .jpeg .*, such as cat/notes.txt"):
        assert len(read_images(folder)) == 2


def test_a_class_without_images_is_named_and_none(tmp_path):
    folder = write(tmp_path, cat__a_png=GREY, dog__b_png=GREY)
    (folder / "emu").mkdir()
    with pytest.warns(UserWarning, match="emu holds no images: no class is made of it"):
        assert set(read_images(folder).targets) == {"cat", "dog"}


def test_images_of_several_sizes_are_refused_with_their_sizes_or_resized(tmp_path):
    folder = write(tmp_path, cat__a_png=GREY, dog__b_png=RED[:4], dog__c_png=np.full((9, 9), 7, "uint8"))
    said = r"of 3 sizes, height x width: 5 x 7 \(cat/a.png\), 4 x 7 \(dog/b.png\), .*Give --image-size"
    with pytest.raises(DataError, match=said):
        read_images(folder)
    rows = read_images(folder, image_size=6)
    assert {image.shape for image in rows.inputs} == {(6, 6, 3)}
    np.testing.assert_array_equal(rows.inputs[1], np.broadcast_to([255, 0, 0], (6, 6, 3)))
    np.testing.assert_array_equal(rows.inputs[2], np.full((6, 6, 3), 7))


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n", None])
def test_files_that_cannot_be_read_are_named(tmp_path, content):
    folder = write(
        tmp_path, cat__a_png=GREY, dog__b_png=np.random.default_rng(0).integers(0, 255, (50, 50, 3), "uint8")
    )
    whole = (folder / "dog" / "b.png").read_bytes()
    (folder / "dog" / "b.png").write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(
        DataError, match=r"1 of 2 files cannot be read as images: dog/b.png \(.*Repair or remove"
    ):
        read_images(folder)


def test_folders_that_cannot_train_a_model_are_refused(tmp_path):
    with pytest.raises(DataError, match="There is no file or folder .*nowhere"):
        read_images(tmp_path / "nowhere")
    (tmp_path / "table.csv").write_text("text,label\n")
    with pytest.raises(DataError, match="table.csv has no known ending. Give a file ending in .npz"):
        read_images(tmp_path / "table.csv")
    (tmp_path / "table.csv").unlink()
    with pytest.raises(DataError, match="holds no images. Give a folder with a subfolder for each class"):
        read_images(tmp_path)
    sound = tmp_path / "low"
    sound.mkdir()
    (sound / "0.wav").write_bytes(b"")
    with pytest.raises(DataError, match=r"holds files of sound. Give --task audio"):
        read_images(tmp_path)
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(DataError, match="holds its images in no subfolder, which would be their class. Give"):
        read_images(tmp_path)


@pytest.mark.parametrize("labels", [np.array([3, 10]), np.array(["3", "10"]), np.array([b"3", b"10"])])
def test_an_npz_file_gives_its_images_and_labels_by_name(tmp_path, labels):
    x = np.stack([GREY, GREY + 1])
    rows = read_images(save(tmp_path, x=x, y=labels))
    assert rows.targets == ["3", "10"]
    np.testing.assert_array_equal(rows.inputs, x)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": GREY}, "has no array 'y'. It holds 'x'"),
        ({"images": GREY, "y": GREY}, "has no array 'x'. It holds 'images', 'y'"),
        ({}, "has no array 'x'. It holds nothing"),
        ({"x": GREY, "y": np.zeros(5, int)}, r"`x` must hold numbers .* Received uint8 of shape \(5, 7\)"),
        ({"x": GREY[None], "y": np.zeros(2, int)}, r"`y` must hold .* each of the 1 images. .*\(2,\)"),
        ({"x": GREY[None], "y": np.zeros(1)}, "`y` must hold an integer or a string .* Received float64"),
        ({"x": GREY[None], "y": np.zeros((1, 3), int)}, r"Received int64 of shape \(1, 3\)"),
        ({"x": GREY[None].astype(str), "y": np.zeros(1, int)}, "`x` must hold numbers"),
        ({"x": np.array([GREY], object), "y": np.zeros(1, int)}, "pickled objects.*one array of numbers"),
    ],
)
def test_arrays_that_cannot_be_used_are_named(tmp_path, arrays, said):
    with pytest.raises(DataError, match=said):
        read_images(save(tmp_path, **arrays))


@pytest.mark.parametrize("content", [b"", b"no zip file", None])
def test_an_npz_file_that_is_none_is_refused(tmp_path, content):
    file = save(tmp_path, x=GREY[None], y=np.zeros(1, int))
    file.write_bytes(file.read_bytes()[:100] if content is None else content)
    with pytest.raises(DataError, match="is not a readable .npz file"):
        read_images(file)
    with pytest.raises(DataError, match="`image_size` is for folders"):
        read_images(file, image_size=8)


def test_equal_images_fall_on_one_side_of_a_split(tmp_path):
    x = np.repeat(np.arange(20, dtype="uint8"), 3)[:, None, None] * np.ones((4, 4), "uint8")
    rows = read_images(save(tmp_path, x=x, y=np.arange(60) % 2))
    kept, held = split_rows(rows, 0.2, seed=0)
    assert len(held) == 12
    assert not {int(image[0, 0]) for image in kept.inputs} & {int(image[0, 0]) for image in held.inputs}
