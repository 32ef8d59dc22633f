"""A picture in a file is the same pixels in training (by Pillow) and in the exported graph: those shown."""

import io
import struct
import warnings
import zlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from keras_selfattn.data import read_images
from keras_selfattn.data.formats.exif_orientation import exif_orientation
from keras_selfattn.errors import DataError
from keras_selfattn.export.signatures.image_files import orientation_of, stored_pixels, turned

HEIGHT, WIDTH = 13, 29
# A corner of each colour: no turn is like another one, by far more than what compression loses.
PICTURE = np.zeros((HEIGHT, WIDTH, 3), "uint8")
PICTURE[:7, :15], PICTURE[:7, 15:] = (200, 20, 20), (20, 200, 20)
PICTURE[7:, :15], PICTURE[7:, 15:] = (20, 20, 200), (200, 200, 20)
GREY = (np.add.outer(5 * np.arange(HEIGHT), 4 * np.arange(WIDTH)) % 251).astype("uint8")
# Levels that decoders of JPEG differ by on average, most at an edge of colours; a wrong turn by 60 and more.
NOISE = 6
SHORT, LONG = 3, 4


@tf.function(input_signature=[tf.TensorSpec([], tf.string)])
def graph_pixels(file):
    return turned(stored_pixels(file, 3), orientation_of(file))


graph_orientation = tf.function(orientation_of, input_signature=[tf.TensorSpec([], tf.string)])


def saved(image, kind, **options):
    content = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(content, kind, **options)
    return content.getvalue()


def entry(order, tag, value, kind=SHORT, count=1):
    content = struct.pack(
        order + {SHORT: "HH", LONG: "I"}.get(kind, "I"), *([value, 0] if kind == SHORT else [value])
    )
    return struct.pack(order + "HHI", tag, kind, count) + content


def tiff(order="<", entries=(), start=8, count=None):
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, start)
    number = struct.pack(order + "H", len(entries) if count is None else count)
    return head.ljust(start, b"\7") + number + b"".join(entries) + bytes(4)


def notes(orientation, order="<", kind=SHORT):
    around = [entry(order, tag, 7, LONG) for tag in (0x0100, 0x0101, 0x0128)]
    return tiff(order, [*around[:2], entry(order, 0x0112, orientation, kind), *around[2:]])


def segment(code, content):
    return struct.pack(">BBH", 0xFF, code, len(content) + 2) + content


def app1(exif):
    return segment(0xE1, b"Exif\0\0" + exif)


def jpeg(*segments, after=0):
    """Return PICTURE as a JPEG with segments after the first `after` of its own."""
    content, place = saved(PICTURE, "JPEG", quality=95, subsampling=0), 2
    for _ in range(after):
        place += 2 + struct.unpack(">H", content[place + 2 : place + 4])[0]
    return content[:place] + b"".join(segments) + content[place:]


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(*before, after=(), pixels=PICTURE, bits=8, colours=2):
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], bits, colours, 0, 0, 0)
    lines = zlib.compress(b"".join(b"\0" + line.tobytes() for line in pixels))
    half = len(lines) // 2
    data = [chunk(b"IDAT", lines[:half]), chunk(b"IDAT", lines[half:])]
    parts = [chunk(b"IHDR", head), *before, *data, *after, chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def read(tmp_path, content):
    """Return the pixels of a file as training reads them, in colours."""
    (tmp_path / "cat").mkdir(exist_ok=True)
    (tmp_path / "cat" / "file.png").write_bytes(content)
    image = read_images(tmp_path).inputs[0]
    return image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=-1)


def shown(content):
    """Return a picture as Pillow shows it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of broken notes
        image = Image.open(io.BytesIO(content))
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def same(found, wanted, noise=NOISE):
    assert found.shape == wanted.shape
    assert np.abs(found.astype(int) - wanted).mean() <= noise


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_read_as_it_is_shown_in_training_and_in_the_graph(tmp_path, orientation, order):
    for content in (jpeg(app1(notes(orientation, order))), png(chunk(b"eXIf", notes(orientation, order)))):
        wanted = shown(content)
        same(read(tmp_path, content), wanted, noise=0)
        same(graph_pixels(content).numpy(), wanted)


FULL = tiff("<", [entry("<", 0x0112, 6)]).ljust(65_533 - 6, b"\0")
TEXT = b"Exif\0\0" + notes(6)
XMP = b'http://ns.adobe.com/xap/1.0/\0<x tiff:Artist="Exif\0\0"/>'
SAID = {
    "first": (jpeg(app1(notes(6))), 6),
    "after JFIF": (jpeg(app1(notes(6)), after=1), 6),
    "after tables": (jpeg(app1(notes(6)), after=3), 6),
    "after a profile, XMP and a comment": (
        jpeg(
            segment(0xE2, b"ICC_PROFILE\0\1\1none"), segment(0xE1, XMP), segment(0xFE, TEXT), app1(notes(6))
        ),
        6,
    ),
    "after bytes that fill": (jpeg(b"\xff\xff\xff", app1(notes(6))), 6),
    "after stray bytes": (jpeg(b"\0\1\2\xff\0", app1(notes(6)), after=1), 6),
    "in another segment": (jpeg(segment(0xFE, TEXT), segment(0xED, TEXT)), 1),
    "after the pixels": (jpeg() + app1(notes(6)), 1),
    "of a long segment": (jpeg(app1(FULL)), 6),
    "in two segments": (jpeg(app1(notes(6)[:20]), app1(notes(6)[20:])), 6),
    "in the second, which goes on from the first": (jpeg(app1(b""), app1(notes(6))), 6),
    "twice": (jpeg(app1(notes(6)), app1(notes(8))), 6),
    "none": (jpeg(), 1),
    "with its name twice": (jpeg(app1(b"Exif\0\0" + notes(6))), 6),
    "of the thumbnail alone": (
        jpeg(app1(tiff("<", [entry("<", 0x0100, 6)])[:-4] + struct.pack("<I", 26) + notes(6)[8:])),
        1,
    ),
    "PNG": (png(chunk(b"eXIf", notes(6))), 6),
    "PNG, with the name": (png(chunk(b"eXIf", TEXT)), 6),
    "PNG, after the pixels": (png(after=[chunk(b"eXIf", notes(6))]), 6),
    "PNG, in a text": (png(chunk(b"tEXt", b"Title\0eXIf" + notes(6))), 1),
    "PNG, twice": (png(chunk(b"eXIf", notes(6)), after=[chunk(b"eXIf", notes(3))]), 3),
    "PNG, none": (png(), 1),
    "GIF": (saved(PICTURE, "GIF"), 1),
    "BMP": (saved(PICTURE, "BMP"), 1),
    "WebP": (saved(PICTURE, "WEBP", lossless=True, exif=TEXT), 6),
    "WebP, none": (saved(PICTURE, "WEBP", lossless=True), 1),
}


@pytest.mark.parametrize(("content", "wanted"), SAID.values(), ids=SAID)
def test_the_orientation_is_found_wherever_a_file_has_it(tmp_path, content, wanted):
    assert int(graph_orientation(content)) == wanted
    turn = {1: PICTURE, 3: PICTURE[::-1, ::-1], 6: np.rot90(PICTURE, -1)}[wanted]
    same(shown(content), turn)
    same(read(tmp_path, content), turn)


TIFFS = {
    "LONG": (tiff(">", [entry(">", 0x0112, 6, LONG)]), 6),
    "last of many": (
        tiff(">", [entry(">", tag, 1) for tag in range(0x0100, 0x0112)] + [entry(">", 0x0112, 6)]),
        6,
    ),
    "directory elsewhere": (tiff("<", [entry("<", 0x0112, 6)], start=31), 6),
    "header with its bytes changed": (b"MM*\0" + tiff(">", [entry(">", 0x0112, 6)])[4:], 6),
    "more entries promised": (tiff("<", [entry("<", 0x0112, 6)], count=900), 6),
    "fewer entries promised": (tiff("<", [entry("<", 0x0100, 1), entry("<", 0x0112, 6)], count=1), 1),
    "no tag": (tiff("<", [entry("<", 0x0100, 6)]), 1),
    "no entry": (tiff("<"), 1),
    "nothing": (b"", 1),
    "two values": (tiff("<", [entry("<", 0x0112, 0x00060006, LONG, 2)])[:-4] + struct.pack("<II", 6, 6), 1),
    "a value beyond": (notes(9), 1),
    "a value of 0": (notes(0), 1),
    "a large value": (notes(0x60006, kind=LONG), 1),
    "a text": (tiff("<", [entry("<", 0x0112, 6, 2)]), 1),
    "a byte": (tiff("<", [entry("<", 0x0112, 6, 1)]), 1),
    "a signed number": (tiff("<", [entry("<", 0x0112, 6, 9)]), 6),
    "a signed byte": (tiff("<", [entry("<", 0x0112, 6, 6)]), 6),
    "an unknown type": (tiff("<", [entry("<", 0x0112, 6, 99)]), 1),
    "directory beyond the end": (notes(6)[:4] + struct.pack("<I", 4_000_000_000) + notes(6)[8:], 1),
}


@pytest.mark.parametrize(("content", "wanted"), TIFFS.values(), ids=TIFFS)
def test_notes_of_every_kind_are_read_as_pillow_reads_them(content, wanted):
    file = jpeg(app1(content))
    assert (exif_orientation(content) or 1, int(graph_orientation(file))) == (wanted, wanted)
    same(shown(file), PICTURE if wanted == 1 else np.rot90(PICTURE, -1))


@pytest.mark.parametrize("order", "<>")
def test_notes_that_end_too_early_or_hold_anything_are_read_alike_and_as_pillow_reads_them(order):
    whole, random = notes(6, order), np.random.default_rng(0)
    found = []
    for size in range(len(whole)):
        file = jpeg(app1(whole[:size]))
        both = int(graph_orientation(file)), exif_orientation(whole[:size]) or 1
        assert both[0] == both[1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                wanted = Image.open(io.BytesIO(file)).getexif().get(0x0112, 1)
            except (SyntaxError, struct.error):  # Pillow's own, for a header that ends
                wanted = 1
        assert both[0] == wanted, size
        found.append(both[0])
    assert set(found) == {1, 6}
    for _ in range(200):
        changed = bytearray(whole)
        for place in random.integers(0, len(whole), 3):
            changed[place] = random.choice([0, 1, 3, 6, 42, 255])
        file = jpeg(app1(bytes(changed)))
        assert int(graph_orientation(file)) == (exif_orientation(bytes(changed)) or 1)


@pytest.mark.filterwarnings("ignore:.*EXIF data:UserWarning:PIL")
def test_broken_notes_stop_neither_side(tmp_path):
    for broken in (b"no notes", b"II*\0", b"MM\0+" + bytes(20), notes(6)[:9]):
        for content in (jpeg(app1(broken)), png(chunk(b"eXIf", broken))):
            same(read(tmp_path, content), PICTURE)
            same(graph_pixels(content).numpy(), PICTURE)


def text_profile():
    lines = f"\nexif\n{len(TEXT):8}\n{TEXT.hex()}\n"
    return chunk(b"tEXt", b"Raw profile type exif\0" + lines.encode())


XMP_TURN = b'<rdf:Description tiff:Orientation="6"/>'


@pytest.mark.parametrize(
    "content",
    [
        jpeg(segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + XMP_TURN)),
        png(chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0<tiff:Orientation>6</tiff:Orientation>")),
        png(text_profile()),
    ],
    ids=["JPEG", "PNG", "text"],
)
def test_an_orientation_elsewhere_than_in_exif_is_read_by_neither_side_and_named(tmp_path, content):
    with pytest.warns(UserWarning, match="1 files say in XMP or in a text chunk .* such as cat.file.png"):
        same(read(tmp_path, content), PICTURE)
    same(graph_pixels(content).numpy(), PICTURE)


def test_exif_is_believed_before_xmp(tmp_path):
    same(read(tmp_path, png(chunk(b"eXIf", notes(1)), text_profile())), PICTURE)


def test_many_segments_end_in_an_error_and_not_in_a_long_search():
    content = jpeg(b"\xff\xfe\0\2" * 30_000, app1(notes(6)), segment(0xFE, TEXT))
    with pytest.raises(tf.errors.InvalidArgumentError, match="may have 20,000 segments or chunks"):
        graph_orientation(content)


def test_exif_notes_of_many_segments_are_bounded():
    """Each further segment copies those before it: 60 MB of them took over a minute."""
    part = app1(notes(6) + bytes(60_000))
    assert graph_orientation(jpeg(part * 4)) == 6
    with pytest.raises(tf.errors.InvalidArgumentError, match="and 256 KiB of Exif notes"):
        graph_orientation(jpeg(part * 6))


def sixteen(pixels):
    return (pixels.astype(">u2") << 8) + 255 - pixels


def bits(pixels, size):
    """Return grey pixels with `size` bits each, several a byte."""
    levels = np.pad(pixels >> (8 - size), ((0, 0), (0, -pixels.shape[1] % (8 // size))))
    parts = levels.reshape(len(levels), -1, 8 // size)
    shifts = 8 - size * np.arange(1, 8 // size + 1)
    return (parts.astype("int64") << shifts).sum(-1).astype("uint8")


def grey_png(size, *before):
    content = png(*before, pixels=bits(GREY, size), bits=size, colours=0)
    return content.replace(
        chunk(b"IHDR", content[16:29]), chunk(b"IHDR", struct.pack(">II", WIDTH, HEIGHT) + content[24:29])
    )


ALPHA = np.concatenate([PICTURE, GREY[..., None]], axis=-1)
PALETTE = Image.fromarray(np.stack([GREY, GREY[::-1], 255 - GREY], axis=-1)).quantize(50)
FOUR_INKS = np.stack([GREY, GREY[::-1], GREY[:, ::-1], GREY // 3], axis=-1)
CMYK = saved(Image.fromarray(FOUR_INKS, "CMYK"), "JPEG", quality=98)
ADOBE = CMYK.index(b"\xff\xee")
YCCK = CMYK[: ADOBE + 15] + b"\2" + CMYK[ADOBE + 16 :]
TURN = chunk(b"eXIf", notes(7, ">"))
EXACT = {
    "grey of 16 bits, turned": png(TURN, pixels=sixteen(GREY), bits=16, colours=0),
    "alpha, turned": png(TURN, pixels=ALPHA, colours=6),
    "palette, turned": saved(PALETTE, "PNG", exif=TEXT),
    "black and white, turned": saved(Image.fromarray(GREY).convert("1"), "PNG", exif=TEXT),
    "colour": png(),
    "grey of 2 bits": grey_png(2),
    "grey of 4 bits": grey_png(4),
    "black and white": saved(Image.fromarray(GREY).convert("1"), "PNG"),
    "grey of 16 bits": png(pixels=sixteen(GREY), bits=16, colours=0),
    "colour of 16 bits": png(pixels=sixteen(PICTURE), bits=16),
    "alpha of 16 bits": png(pixels=sixteen(ALPHA), bits=16, colours=6),
    "grey and alpha of 16 bits": png(pixels=sixteen(ALPHA[..., 2:]), bits=16, colours=4),
    "alpha": png(pixels=ALPHA, colours=6),
    "grey and alpha": png(pixels=ALPHA[..., 2:].copy(), colours=4),
    "a transparent colour": png(chunk(b"tRNS", struct.pack(">HHH", 200, 20, 20))),
    "a background": png(chunk(b"bKGD", bytes(6)), pixels=ALPHA, colours=6),
    "palette": saved(PALETTE, "PNG"),
    "transparent palette": saved(PALETTE, "PNG", transparency=bytes(range(0, 250, 5))),
    "gamma": png(chunk(b"gAMA", struct.pack(">I", 100_000))),
    "significant bits": png(chunk(b"sBIT", bytes([5, 5, 5]))),
    "animated PNG": saved(
        PICTURE, "PNG", save_all=True, append_images=[Image.fromarray(PICTURE[::-1].copy())]
    ),
    "GIF": saved(PALETTE, "GIF"),
    "animated GIF": saved(PALETTE, "GIF", save_all=True, append_images=[Image.fromarray(GREY)]),
    "BMP": saved(PICTURE, "BMP"),
    "grey BMP": saved(GREY, "BMP"),
    "BMP with a palette": saved(PALETTE, "BMP"),
    "BMP with alpha": saved(Image.fromarray(ALPHA, "RGBA"), "BMP"),
}
NOISY = {
    "JPEG": saved(PICTURE, "JPEG"),
    "progressive JPEG": saved(PICTURE, "JPEG", progressive=True),
    "grey JPEG": saved(GREY, "JPEG", quality=95),
    "JPEG with a profile": saved(PICTURE, "JPEG", icc_profile=bytes(3000)),
    "several pictures": saved(
        PICTURE, "MPO", save_all=True, append_images=[Image.fromarray(PICTURE[::-1].copy())]
    ),
    "bytes after the end": jpeg() + b"more" * 9,
    "CMYK": CMYK,
    "CMYK, turned": saved(Image.fromarray(FOUR_INKS, "CMYK"), "JPEG", quality=98, exif=TEXT),
    "YCCK": YCCK,
}


@pytest.mark.parametrize("name", [*EXACT, *NOISY])
def test_files_of_every_kind_are_the_same_pixels_in_training_and_in_the_graph(tmp_path, name):
    content = (EXACT | NOISY)[name]
    same(graph_pixels(content).numpy(), read(tmp_path, content), noise=0 if name in EXACT else NOISE)


def test_a_jpeg_of_four_inks_that_does_not_say_which_is_none_is_refused_by_name(tmp_path):
    length = struct.unpack(">H", CMYK[ADOBE + 2 : ADOBE + 4])[0]
    content = CMYK[:ADOBE] + CMYK[ADOBE + 2 + length :]
    assert np.abs(graph_pixels(content).numpy().astype(int) - shown(content)).max() > 200, "decoders disagree"
    with pytest.raises(DataError, match=r"cat.file.png \(a CMYK JPEG without Adobe's marker"):
        read(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (saved(PALETTE, "GIF", transparency=7), "a GIF whose first picture is transparent"),
        (
            saved(PALETTE, "GIF")[:6]
            + struct.pack("<HH", WIDTH + 5, HEIGHT + 3)
            + saved(PALETTE, "GIF")[10:],
            "a GIF",
        ),
        (saved(Image.fromarray(GREY.astype("float32")), "TIFF"), "a TIFF of 32 bits a pixel"),
        (saved(Image.fromarray(GREY.astype("int32")), "TIFF"), "a TIFF of 32 bits a pixel"),
    ],
    ids=["transparent GIF", "partial GIF", "float", "int"],
)
def test_pixels_that_a_served_model_would_read_otherwise_are_refused_by_name(tmp_path, content, said):
    with pytest.raises(DataError, match=rf"cat.file.png \({said}"):
        read(tmp_path, content)


BMP = saved(Image.fromarray(ALPHA, "RGBA"), "BMP")
MASKS = bytes.fromhex("ff000000 00ff0000 0000ff00")
RED_FIRST = (
    BMP[:10] + struct.pack("<I", 66) + BMP[14:30] + struct.pack("<I", 3) + BMP[34:54] + MASKS + BMP[54:]
)
GIF = saved(PALETTE, "GIF")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            GIF[:6] + struct.pack("<HH", WIDTH + 5, HEIGHT + 3) + GIF[10:],
            "first picture of a GIF file must fill it",
        ),
        (RED_FIRST, "must have uncompressed pixels in the order"),
        (BMP[:30] + struct.pack("<I", 1) + BMP[34:], "must have uncompressed pixels in the order"),
    ],
    ids=["partial GIF", "BMP of red first", "packed BMP"],
)
def test_files_that_stock_operations_would_read_wrongly_are_refused_by_the_graph(content, said):
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        graph_pixels(content)
