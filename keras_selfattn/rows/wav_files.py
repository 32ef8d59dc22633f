"""WAV files in NumPy: the format of a recording, its samples as one channel, and the bytes of a new file.

The exported graph reads the same files and refuses the same ones: `export/signatures/wav_graph.py`.

Axes: N (samples of one channel), C (channels).

Reference: Microsoft and IBM, Multimedia Programming Interface and Data Specifications 1.0, chapter 3 (RIFF,
    WAVE); Microsoft, Multiple Channel Audio Data and WAVE Files (WAVE_FORMAT_EXTENSIBLE); RFC 2361 (numbers
    of formats); EBU Tech 3306 v2 (RF64) and ITU-R BS.2088-1 (BW64).
"""

import re
import struct
from dataclasses import dataclass

import numpy as np

from keras_selfattn.errors import DataError

_HEADS = (b"RIFF", b"RF64", b"BW64")
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
# The end of a sub-format's GUID whose first two bytes are a number of RFC 2361.
_GUID_END = bytes.fromhex("0000 0000 1000 8000 00aa00389b71")
# Chunks that are looked through: files have some ten, and the graph needs a bound.
_MOST_CHUNKS = 1_000
_NOT_FILLED_IN = 0xFFFFFFFF
# Sizes that programs leave which write into a pipe: sox 0x7FFFF000 or a little less, ALSA's arecord
# 0x7FFFFF00 or 0x80000000.
_LARGEST_OF_PIPES = (0x7FFF0000, 0x80000000)
_DTYPES = {1: "u1", 2: "<i2", 4: "<i4", 8: "<f8"}
_FULL_SCALES = {1: 2.0**7, 2: 2.0**15, 3: 2.0**31, 4: 2.0**31}
# Samples of each channel that are decoded at a time: an hour takes no more memory than its result.
_BLOCK = 2**18
LOWEST_RATE, HIGHEST_RATE = 1_000, 768_000
"""The sample rates that are read, in Hz. From below them a model's rate is so many times more samples that a
small file would fill the memory of a server."""
LOUDEST = 1e9
"""The largest sample, in full scales: the power of larger ones could exceed float32."""

_TO_PCM = "Decode it to PCM, e.g. with `ffmpeg -i in.wav -c:a pcm_s16le out.wav`."
_FETCH = "Fetch the recording again."
_COMPRESSED = {
    2: "Microsoft ADPCM",
    6: "A-law",
    7: "mu-law",
    0x11: "IMA ADPCM",
    0x31: "GSM 6.10",
    0x50: "MPEG",
    0x55: "MP3",
    0xFF: "AAC",
    0x161: "Windows Media Audio",
    _EXTENSIBLE: "WAVE_FORMAT_EXTENSIBLE with a sub-format outside RFC 2361",
}
# The first bytes of other files, what they are, and the next step.
_OTHERS = (
    (rb"RIFX", "big-endian WAV (RIFX)", _TO_PCM),
    (rb"FORM....AIF[FC]", "AIFF", _TO_PCM),
    (rb"fLaC", "FLAC", _TO_PCM),
    (rb"OggS", "Ogg", _TO_PCM),
    (rb"ID3|\xff[\xe2-\xe7\xf2-\xf7\xfa-\xff]", "MP3", _TO_PCM),
    (rb"\xff[\xf0\xf1\xf8\xf9]", "AAC", _TO_PCM),
    (rb"....ftyp", "MP4", _TO_PCM),
    (rb"\x1aE\xdf\xa3", "WebM or Matroska", _TO_PCM),
    (rb"\.snd", "AU", _TO_PCM),
    (rb"caff", "CAF", _TO_PCM),
    (rb"#!AMR", "AMR", _TO_PCM),
    (rb"wvpk", "WavPack", _TO_PCM),
    (rb"0&\xb2u", "Windows Media", _TO_PCM),
    (rb"RIFF....(?!WAVE)....", "a RIFF file of another kind, such as AVI or WebP", _FETCH),
    (rb"version https://git-lfs", "a pointer of Git LFS", "Run `git lfs pull`."),
    (rb"(?:\xef\xbb\xbf)?\s*<", "HTML or XML, such as a server's error page", _FETCH),
)


@dataclass(frozen=True)
class WavFormat:
    """The samples of a WAV file: their format and their place.

    Args:
        rate: samples a second of each channel.
        channels: number of channels, C.
        width: bytes a sample: 1, 2, 3 or 4, and 4 or 8 for floats.
        is_float: True for IEEE floats, False for integers (PCM).
        begin: the byte in the file at which the first sample begins.
        frames: number of samples of each channel, N.
    """

    rate: int
    channels: int
    width: int
    is_float: bool
    begin: int
    frames: int


def wav_format(content: bytes | memoryview, name: str) -> WavFormat:
    """Return the format of a WAV file's samples and their place, without decoding them.

    Files are RIFF, or RF64 and BW64 with sizes of 64 bits; samples are PCM of 8 to 32 bits, or floats of 32
    or 64. Samples with fewer bits than their bytes hold are read as left-aligned, as the standard says.

    A size of the data that was never filled in, as recorders and pipes leave it, stands for all bytes to the
    end of the file: 0xFFFFFFFF, 0 unless the size in the file's head is right, and some 2 GiB in a smaller
    file. The size in the head is not used otherwise. Bytes at the end of the data that are no whole frame are
    dropped, also where the size includes them: libsndfile and Python's `wave` do so, and some programs count
    the byte that pads an odd chunk.

    Args:
        content: the bytes of the whole file.
        name: the file's name, for messages.

    Raises:
        DataError: if the file is no WAV, is big-endian, compressed or damaged, or contradicts itself.

    Example:

        >>> wav_format(wav_bytes(np.zeros(5, "int16"), 8000), "a.wav")
        WavFormat(rate=8000, channels=1, width=2, is_float=False, begin=44, frames=5)
    """
    check_head(bytes(content[:256]), name)
    described, begin, size = _chunks_until_data(content, name)
    rate, channels, width, is_float = _sample_format(described, name)
    size = _data_size(bytes(content[:36]), size, begin, len(content), name)
    return WavFormat(rate, channels, width, is_float, begin, size // (channels * width))


def read_wav(content: bytes, name: str) -> tuple[np.ndarray, int]:
    """Return a WAV file's samples as one channel, `[N]`, and their rate in Hz.

    Samples of 16 bits in one channel are int16, as stored. All others are float32: integers of b bytes are
    divided by 2**(8 b - 1), where 8 bits are unsigned around 128. The mean of channels is computed in float64
    and rounded to float32 at the end.

    Args:
        content: the bytes of the whole file.
        name: the file's name, for messages.

    Raises:
        DataError: as `wav_format`, and if a sample is NaN, infinite or beyond `LOUDEST`.

    Example:

        >>> read_wav(wav_bytes(np.array([1, -2], "int16"), 8000), "a.wav")
        (array([ 1, -2], dtype=int16), 8000)
    """
    form = wav_format(content, name)
    if form.channels == 1 and form.width == 2:
        # A copy, which can be written to and does not keep the whole file.
        return np.frombuffer(content, "<i2", form.frames, form.begin).astype(np.int16), form.rate
    samples = np.empty(form.frames, np.float32)
    for first in range(0, form.frames, _BLOCK):
        block = samples[first : first + _BLOCK]
        with np.errstate(over="ignore", invalid="ignore"):
            block[:] = _mean_of_channels(content, form, first, len(block))
        if not (np.abs(block) <= LOUDEST).all():
            place = first + int(np.flatnonzero(~(np.abs(block) <= LOUDEST))[0])
            raise DataError(
                f"{name}: samples must be finite numbers of at most 1e9. Sample {place:,} (counted from 0) "
                "is not. Write the file anew, or remove it."
            )
    return samples, form.rate


def wav_bytes(samples: np.ndarray, rate: int) -> bytes:
    """Return a WAV file of one channel: 16-bit PCM for int16 samples, 32-bit floats for float32.

    Args:
        samples: int16 or float32 `[N]`; floats are from -1 to 1 by custom, which is not checked.
        rate: samples a second.

    Raises:
        DataError: if the samples have another dtype or shape or need over 4 GiB, or the rate is out of range.

    Example:

        >>> wav_bytes(np.zeros(3, "float32"), 16000)[:4]
        b'RIFF'
    """
    if samples.ndim != 1 or samples.dtype not in (np.int16, np.float32):
        raise DataError(
            f"Samples of a WAV file must be int16 or float32 [N]. Received {samples.dtype} of shape "
            f"{samples.shape}. Convert them."
        )
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise DataError(f"`rate` must be {LOWEST_RATE:,} to {HIGHEST_RATE:,} Hz. Received {rate}.")
    if samples.nbytes > 2**32 - 2**10:
        raise DataError(
            f"A WAV file holds up to 4 GiB. Received {samples.nbytes:,} bytes. Write the samples in parts."
        )
    width, is_float = samples.itemsize, samples.dtype.kind == "f"
    code = _FLOAT if is_float else _PCM
    described = struct.pack("<HHIIHH", code, 1, rate, min(width * rate, 2**32 - 1), width, 8 * width)
    # All formats but PCM have the size of an extension, and say in `fact` how many samples they hold.
    parts = [_chunk(b"fmt ", described + bytes(2) * is_float)]
    parts += [_chunk(b"fact", struct.pack("<I", len(samples)))] * is_float
    parts += [_chunk(b"data", samples.astype(samples.dtype.newbyteorder("<")).tobytes())]
    return _chunk(b"RIFF", b"WAVE" + b"".join(parts))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("<I", len(content)) + content + bytes(len(content) % 2)


def check_head(head: bytes, name: str) -> None:
    """Refuse what is no WAV file, by what its first bytes look like.

    Args:
        head: the first 256 bytes of the file, or all that it has.
        name: the file's name, for messages.

    Raises:
        DataError: if they are not those of a WAV file.
    """
    if head[:4] in _HEADS and head[8:12] == b"WAVE":
        return
    rule = f"{name} is no WAV file, which begins with RIFF, RF64 or BW64, and then WAVE"
    if not head:
        raise DataError(f"{rule}: it is empty. {_FETCH}")
    for begin, kind, next_step in _OTHERS:
        if re.match(begin, head, re.DOTALL):
            raise DataError(f"{rule}: it looks like {kind}. {next_step}")
    if head.decode("utf-8", "ignore").replace("\n", " ").replace("\r", " ").replace("\t", " ").isprintable():
        raise DataError(f"{rule}: it looks like text. {_FETCH}")
    raise DataError(f"{rule}: it begins with {head[:12]!r}. {_TO_PCM}")


def _chunks_until_data(content: bytes | memoryview, name: str) -> tuple[bytes, int, int]:
    """Return up to 40 bytes of the `fmt ` chunk, and the first byte and the size of the `data` chunk."""
    place, described = 12, None
    for _ in range(_MOST_CHUNKS):
        if place > len(content) - 8:
            raise DataError(f"{name} has no `data` chunk: it is cut off, or holds no samples. {_FETCH}")
        kind, (size,) = bytes(content[place : place + 4]), struct.unpack_from("<I", content, place + 4)
        if kind == b"data":
            if described is None:
                raise DataError(f"{name} has no `fmt ` chunk before its `data` chunk. Write the file anew.")
            return described, place + 8, size
        if kind == b"fmt ":
            described = bytes(content[place + 8 : place + 8 + min(size, 40)])
        place += 8 + size + size % 2
    raise DataError(f"{name}: over {_MOST_CHUNKS:,} chunks come before `data`. Write the file anew.")


def _sample_format(described: bytes, name: str) -> tuple[int, int, int, bool]:
    """Return the rate, the channels, the bytes a sample and True for floats, of a `fmt ` chunk."""
    if len(described) < 16:
        raise DataError(
            f"{name}: its `fmt ` chunk must have at least 16 bytes. Received {len(described)}. Write it anew."
        )
    code, channels, rate, _, frame, bits = struct.unpack_from("<HHIIHH", described)
    if code == _EXTENSIBLE and described[26:40] == _GUID_END:
        (code,) = struct.unpack_from("<H", described, 24)
    if code not in (_PCM, _FLOAT):
        kind = f"{_COMPRESSED[code]}, " if code in _COMPRESSED else ""
        raise DataError(f"{name}: its samples are compressed ({kind}format {code}). {_TO_PCM}")
    if bits not in ((32, 64) if code == _FLOAT else range(1, 33)):
        raise DataError(
            f"{name}: samples must be PCM of 1 to 32 bits or floats of 32 or 64. Received {bits} bits, "
            f"format {code}. {_TO_PCM}"
        )
    width = (bits + 7) // 8
    if channels == 0:
        raise DataError(f"{name}: its number of channels must be positive. Received 0. Write the file anew.")
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise DataError(
            f"{name}: its sample rate must be {LOWEST_RATE:,} to {HIGHEST_RATE:,} Hz. Received {rate:,}. "
            "Write the file anew."
        )
    if frame != channels * width:
        raise DataError(
            f"{name}: {channels} channels of {width} bytes a sample need a block alignment of "
            f"{channels * width}. Received {frame}. {_TO_PCM}"
        )
    return rate, channels, width, code == _FLOAT


def _data_size(head: bytes, size: int, begin: int, whole: int, name: str) -> int:
    """Return the bytes of samples from `begin` on, of a file of `whole` bytes, whose chunk says `size`."""
    rest = whole - begin
    if head[:4] != b"RIFF" and size == _NOT_FILLED_IN:
        # `ds64` must be the first chunk. Its size is the signed number that the graph reads, 0 without it.
        size = struct.unpack_from("<q", head, 28)[0] if head[12:16] == b"ds64" else 0
        is_open = size < 1
    else:
        is_of_pipe = size > rest and _LARGEST_OF_PIPES[0] <= size <= _LARGEST_OF_PIPES[1]
        is_finished = 8 + struct.unpack_from("<I", head, 4)[0] == whole
        is_open = size == _NOT_FILLED_IN or is_of_pipe or (size == 0 and not is_finished)
    if is_open:
        return rest
    if size > rest:
        raise DataError(
            f"{name} is damaged: of {size:,} bytes of samples the last {size - rest:,} are missing. {_FETCH}"
        )
    return size


def _mean_of_channels(content: bytes, form: WavFormat, first: int, count: int) -> np.ndarray:
    """Return float64 `[count]`, the samples from `first` on."""
    begin, numbers = form.begin + first * form.channels * form.width, count * form.channels
    if form.width == 3:
        padded = np.zeros([numbers, 4], np.uint8)
        padded[:, 1:] = np.frombuffer(content, np.uint8, 3 * numbers, begin).reshape(-1, 3)
        stored = padded.view("<i4")  # times 256
    else:
        dtype = f"<f{form.width}" if form.is_float else _DTYPES[form.width]
        stored = np.frombuffer(content, dtype, numbers, begin)
    total = stored.reshape(count, form.channels).sum(axis=1, dtype=np.float64)  # [N]; exact for integers
    if form.width == 1:
        total -= 128 * form.channels
    return total / (form.channels * (1 if form.is_float else _FULL_SCALES[form.width]))
