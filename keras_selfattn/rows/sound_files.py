"""The content of a file of sound as samples: WAV by this project, other formats by `soundfile`."""

import importlib
import io
import re
import zlib
from typing import Any

import numpy as np

from keras_selfattn.errors import DataError, MissingExtraError
from keras_selfattn.rows.wav_files import check_head, read_wav, wav_bytes

SOUND_ENDINGS = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif")
"""The endings of files of sound."""
# How files of other formats begin, and their names: what `soundfile` is asked for. MP3 begins with a tag, or
# with 11 bits of one, a version (01 is none) and a layer (00 is none).
_BEGINNINGS = (
    (rb"fLaC", "FLAC"),
    (rb"OggS", "Ogg"),
    (rb"ID3|\xff[\xe2-\xe7\xf2-\xf7\xfa-\xff]", "MP3"),
    (rb"FORM....AIF[FC]", "AIFF"),
)
# Lengths from here on stand for one that is not known: `flac` writes none into a pipe.
_UNKNOWN = 2**62
# In memory libsndfile 1.2 takes MP3 without a tag of ID3 for SD2 if the current folder holds a file `._`, as
# it leaves of SD2: https://github.com/libsndfile/libsndfile/issues/1112. It does not skip a tag of size 0.
_EMPTY_TAG = b"ID3\x03" + bytes(5) + bytes([10]) + bytes(10)
# A head of MP3 may count itself as a frame, and the first frames may lack bits that are in frames before
# them. The samples of a frame.
_SPARE_FRAMES, _LARGEST_FRAME = 10, 1152
# From sizes such as these on nobody filled them in: sox writes 0x7F000008 into a pipe.
_SIZES_OF_PIPES = 0x7F000000
# Thousand bits a second of layer III, and its samples a second, of MPEG 1; MPEG 2 has half the rate, 2.5 a
# quarter.
_RATES = (44_100, 48_000, 32_000)
_KBITS_1 = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_KBITS_2 = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_BITS_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def decoded(content: bytes, name: str) -> tuple[np.ndarray, int]:
    """Return the samples of a file, int16 or float32 `[N]`, and their rate, in Hz.

    The format is told from the content, not from an ending. Channels become one by their mean. Only WAV is
    read without `soundfile`, which decodes FLAC, Ogg (Vorbis and Opus), MP3 and AIFF. Of these a file that is
    cut off is refused, but for cuts that it does not show: see `_fault`, and of Ogg a cut between two pages.

    Args:
        content: the file's bytes.
        name: of the file, for messages.

    Raises:
        DataError: for a file that is damaged, or no sound.
        MissingExtraError: for another format than WAV without `soundfile`.

    Example:

        >>> from keras_selfattn.rows.wav_files import wav_bytes
        >>> samples, rate = decoded(wav_bytes(np.zeros(4, "int16"), 8000), "a.wav")
        >>> samples.dtype.name, rate
        ('int16', 8000)
    """
    form = _other_format(content)
    if form is None:
        return read_wav(content, name)
    soundfile = _soundfile(name, form)
    if form == "Ogg":
        content = _whole_pages(content, name)
    try:
        samples, rate, promised = _by_soundfile(soundfile, content, form)
    except (RuntimeError, ValueError, TypeError) as error:  # soundfile's own are RuntimeErrors
        # Its whole text begins with the address of the bytes; of MP3 without a frame it speaks of a file.
        said = str(getattr(error, "error_string", error)).rstrip(".")
        said = "it has no frames" if said.startswith("File does not exist") else said
        raise DataError(f"{name} cannot be read as {form}: {said}. Repair or remove it.") from error
    if fault := _fault(content, form, len(samples), promised):
        raise DataError(f"{name} {fault}")
    if not np.isfinite(samples).all():
        raise DataError(f"{name}: its samples are not all finite numbers. Repair or remove it.")
    return samples, rate


def as_wav(content: bytes, name: str) -> bytes:
    """Return a file as WAV, which a served model reads: WAV as it is, of which the head alone is read.

    Args:
        content: the file's bytes.
        name: of the file, for messages.

    Raises:
        DataError, MissingExtraError: as `decoded`, for a file of another format; for one that is no sound.
    """
    if _other_format(content):
        return wav_bytes(*decoded(content, name))
    check_head(content[:256], name)  # the server refuses it, too, but does not know its name
    return content


def _other_format(content: bytes) -> str | None:
    """Return the name of the format of a file that is no WAV, if `soundfile` may read it."""
    return next((form for begin, form in _BEGINNINGS if re.match(begin, content, re.DOTALL)), None)


def _by_soundfile(soundfile: Any, content: bytes, form: str) -> tuple[np.ndarray, int, int]:
    """Return the samples, `[N]`, their rate, and the number of samples that the file promises."""
    tag = b"" if form != "MP3" or content.startswith(b"ID3") else _EMPTY_TAG
    with soundfile.SoundFile(io.BytesIO(tag + content)) as file:
        if file.frames >= _UNKNOWN:
            raise ValueError("its head does not say its length, which `ffmpeg -i in.flac out.flac` adds")
        # At once: behind each part soundfile seeks, which is not exact in MP3.
        values = file.read(dtype="float32", always_2d=True)
        return values.mean(axis=1, dtype=np.float32), int(file.samplerate), int(file.frames)


def _fault(content: bytes, form: str, count: int, promised: int) -> str | None:
    """Return what is wrong with a file of which libsndfile read `count` samples without an error.

    It reads what it finds of a file that is cut off, and goes on behind a damaged part. Not known: damage
    within AIFF or MP3; a cut of MP3 that loses up to two frames, or whose head does not say its length.
    """
    if form == "AIFF":  # whose last byte, of padding, some leave out
        missing = 8 + int.from_bytes(content[4:8], "big") - len(content)
        is_cut = 1 < missing < _SIZES_OF_PIPES - len(content)
        return f"is damaged: its last {missing:,} bytes are missing. Fetch it again." if is_cut else None
    if form == "MP3":
        return _fault_of_mp3(content, count, promised)
    if count < promised:
        return f"is damaged: of {promised:,} samples {promised - count:,} are missing. Fetch it again."
    return None


def _whole_pages(content: bytes, name: str) -> bytes:
    """Return the pages of an Ogg file without what stands behind them, or raise DataError.

    libogg skips damaged pages (RFC 3533, section 6), and libsndfile 1.2.0 knows no length of a file with a
    tag behind them. A cut between two pages is not known.
    """
    place = 0
    while content.startswith(b"OggS", place):
        body = place + 27 + content[place + 26] if place + 26 < len(content) else len(content)
        end = body + sum(content[place + 27 : body])
        page = content[place:end]
        if len(page) < 27 or end > len(content):
            raise DataError(f"{name} is damaged: it is cut off in a page of Ogg. Fetch it again.")
        if _ogg_checksum(page[:22] + bytes(4) + page[26:]) != int.from_bytes(page[22:26], "little"):
            raise DataError(
                f"{name} is damaged: its page of Ogg at byte {place:,} has another checksum. Fetch it again."
            )
        place = end
    if (lost := content.find(b"OggS", place)) >= 0:
        raise DataError(
            f"{name} is damaged: the bytes from {place:,} to {lost:,} are no page of Ogg. Fetch it again."
        )
    return content[:place]


def _ogg_checksum(page: bytes) -> int:
    # Of the same polynomial as zlib's, but from the highest bit on, from 0, and not inverted.
    found = zlib.crc32(page.translate(_BITS_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{found:032b}"[::-1], 2)


def _fault_of_mp3(content: bytes, count: int, promised: int) -> str | None:
    """Return what is wrong with the length of an MP3 file, which is in the head of most of them."""
    first = 0
    while content.startswith(b"ID3", first):  # a size of 4 times 7 bits
        size = content[first + 6 : first + 10]
        first += 10 + sum(byte << shift for byte, shift in zip(size, (21, 14, 7, 0), strict=False))
    # Behind the 4 bytes of the frame and what it says of its channels.
    if any(content[first + place : first + place + 4] in (b"Xing", b"Info") for place in (13, 21, 36)):
        missing = promised - count
        said = f"is damaged: of {promised:,} samples {missing:,} are missing. Fetch it again."
        return said if missing > 2 * _LARGEST_FRAME else None
    if count + _SPARE_FRAMES * _LARGEST_FRAME < _mp3_samples(content, first):
        return (
            f"is MP3 whose head does not say its length, so that libsndfile reads {count:,} samples "
            "of it and leaves out others. Convert it, e.g. with `ffmpeg -i in.mp3 out.wav`."
        )
    return None


def _mp3_samples(content: bytes, place: int) -> int:
    """Return the number of samples in the frames of layer III from `place` on, to the first other bytes."""
    count = 0
    while place + 4 <= len(content) and content[place] == 0xFF and content[place + 1] & 0xE6 == 0xE2:
        version, other = content[place + 1] >> 3 & 3, content[place + 2]
        bits, rate, padding = other >> 4, other >> 2 & 3, other >> 1 & 1
        if version == 1 or bits in (0, 15) or rate == 3:
            break
        halvings = (2, 0, 1, 0)[version]
        kbits = (_KBITS_2 if halvings else _KBITS_1)[bits - 1]
        place += (72 if halvings else 144) * 1000 * kbits // (_RATES[rate] >> halvings) + padding
        count += 576 if halvings else 1152
    return count


def _soundfile(name: str, form: str) -> Any:
    try:
        return importlib.import_module("soundfile")
    except ModuleNotFoundError:
        raise MissingExtraError(
            f"{name} is {form}, which the package soundfile reads: pip install 'keras-selfattn[audio]'. Or "
            "save it as WAV, which needs no package."
        ) from None
    except OSError as error:  # without its library libsndfile
        raise MissingExtraError(
            f"{name} is {form}, and the package soundfile cannot be used: {error}."
        ) from error
