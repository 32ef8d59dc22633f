"""Read WAV files inside the graph, with stock operations: a recording's format and blocks of its samples.

Training reads the same files and refuses the same ones: `keras_selfattn/rows/wav_files.py`, which has
the rules in words.

Axes: N (samples of one channel), C (channels).

Reference: Microsoft and IBM, Multimedia Programming Interface and Data Specifications 1.0, chapter 3 (RIFF,
    WAVE); RFC 2361 (numbers of formats); EBU Tech 3306 v2 (RF64).
"""

from typing import Any, NamedTuple

import tensorflow as tf

from keras_selfattn.rows.wav_files import HIGHEST_RATE, LOUDEST, LOWEST_RATE

Tensor = Any

_HEADS = (b"RIFF", b"RF64", b"BW64")
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_GUID_END = bytes.fromhex("0000 0000 1000 8000 00aa00389b71")
# One takes some 30 microseconds; a request can hold millions.
_MOST_CHUNKS = 1_000
_NOT_FILLED_IN = 0xFFFFFFFF
_LARGEST_OF_PIPES = (0x7FFF0000, 0x80000000)
_TO_PCM = "Decode it to PCM, e.g. with `ffmpeg -i in.wav -c:a pcm_s16le out.wav`."


class WavFormat(NamedTuple):
    """The samples of a WAV file: their format and their place.

    Args:
        rate: int64 `[]`, samples a second of each channel.
        channels: int64 `[]`, C.
        width: int64 `[]`, bytes a sample.
        is_float: bool `[]`, True for IEEE floats, False for integers (PCM).
        begin: int64 `[]`, the byte in the file at which the first sample begins.
        frames: int64 `[]`, samples of each channel, N.
    """

    rate: Tensor
    channels: Tensor
    width: Tensor
    is_float: Tensor
    begin: Tensor
    frames: Tensor


def wav_format(file: Tensor) -> WavFormat:
    """Return the format of a WAV file's samples and their place, without decoding them.

    A file that training refuses fails with a sentence, which a server answers as INVALID_ARGUMENT.

    Args:
        file: string `[]`, the content of the file, below 2 GiB as in any request.

    Example:

        >>> import numpy as np
        >>> from keras_selfattn.rows.wav_files import wav_bytes
        >>> file = wav_bytes(np.zeros(5, "int16"), 8000)
        >>> int(wav_format(tf.constant(file)).frames)
        5
    """
    head = _padded(file, 0, 36, 36)
    is_wav = tf.reduce_any(tf.strings.substr(head, 0, 4) == tf.constant(_HEADS))
    is_wav &= tf.strings.substr(head, 8, 4) == b"WAVE"
    is_wav = _asserted(
        is_wav,
        is_wav,
        "The file is no little-endian WAV file, which begins with RIFF, RF64 or BW64, and then WAVE.",
        _TO_PCM,
    )
    with tf.control_dependencies([is_wav]):
        described, begin, size = _chunks_until_data(file)
    rate, channels, width, is_float = _sample_format(file, *described)
    size = _data_size(head, size, begin, _length(file))
    return WavFormat(rate, channels, width, is_float, begin, size // (channels * width))


def wav_samples(file: Tensor, form: WavFormat, first: Tensor, count: Tensor) -> Tensor:
    """Return a block of a WAV file's samples as one channel, float32 `[count]`, and decode no others.

    Places before the recording and after it are 0. Samples are scaled to -1 to 1; the mean of channels is
    computed in float64. Integers equal training's to the last bit, and so do floats of one or two channels;
    those of more channels may be added in another order (one unit in float32's last place). Floats below
    float32's smallest normal number, 1.2e-38, may be 0. A sample in the block that is NaN, infinite or beyond
    float32 fails.

    Args:
        file: string `[]`, the content of the file.
        form: its format.
        first: int64 `[]`, the first sample of the block; may be negative.
        count: int64 `[]`, samples in the block, 0 or more.

    Example:

        >>> import numpy as np
        >>> from keras_selfattn.rows.wav_files import wav_bytes
        >>> file = tf.constant(wav_bytes(np.array([0.5, 0.25], "float32"), 8000))
        >>> first, count = tf.constant(-1, tf.int64), tf.constant(3, tf.int64)
        >>> wav_samples(file, wav_format(file), first, count).numpy()
        array([0.  , 0.5 , 0.25], dtype=float32)
    """
    begin = tf.clip_by_value(first, 0, form.frames)
    end = tf.maximum(tf.clip_by_value(first + count, 0, form.frames), begin)
    frame = form.channels * form.width
    block = tf.strings.substr(file, form.begin + begin * frame, (end - begin) * frame)
    numbers = tf.reshape(_numbers(block, form), tf.stack([end - begin, form.channels]))  # [N, C]
    mean = tf.reduce_sum(numbers, 1) / tf.cast(form.channels, tf.float64)
    samples = tf.cast(mean, tf.float32)  # [N]
    samples = _asserted(
        tf.reduce_all(tf.abs(samples) <= LOUDEST),
        samples,
        "Samples of a WAV file must be finite numbers of at most 1e9. Write the file anew.",
    )
    before = tf.clip_by_value(-first, 0, count)
    around = tf.stack([before, count - before - (end - begin)])
    return tf.pad(samples, around[None])  # [count]


def _chunks_until_data(file: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
    """Return the place and size of the `fmt ` chunk's content, and those of the `data` chunk's."""
    last = _length(file) - 8
    none = tf.constant(-1, tf.int64)

    def step(place: Tensor, of_format: Tensor, format_size: Tensor, of_data: Tensor, size: Tensor) -> Any:
        head = tf.strings.substr(file, place, 8)
        kind, length, begin = tf.strings.substr(head, 0, 4), _number(_bytes(head), 4, 8), place + 8
        is_format, is_data = kind == b"fmt ", kind == b"data"
        return (
            begin + length + tf.math.floormod(length, 2),
            tf.where(is_format, begin, of_format),
            tf.where(is_format, length, format_size),
            tf.where(is_data, begin, of_data),
            tf.where(is_data, length, size),
        )

    place, of_format, format_size, begin, size = tf.while_loop(
        lambda place, _, __, of_data, ___: (place <= last) & (of_data < 0),
        step,
        (tf.constant(12, tf.int64), none, none, none, none),
        maximum_iterations=_MOST_CHUNKS,
        parallel_iterations=1,
    )
    many = f"Over {_MOST_CHUNKS:,} chunks come before `data` in a WAV file. Write the file anew."
    begin = _asserted((begin >= 0) | (place > last), begin, many)
    begin = _asserted(begin >= 0, begin, "A WAV file has no `data` chunk: it is cut off. Send it anew.")
    said = "A WAV file has no `fmt ` chunk before its `data` chunk. Write the file anew."
    return (_asserted(of_format >= 0, of_format, said), format_size), begin, size


def _sample_format(file: Tensor, place: Tensor, size: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the rate, the channels, the bytes a sample and True for floats, of a `fmt ` chunk's content."""
    short = "The `fmt ` chunk of a WAV file must have at least 16 bytes. Received:"
    place = _asserted(size >= 16, place, short, size)
    described = _padded(file, place, tf.minimum(size, 40), 40)
    numbers = _bytes(described)
    fields = ((0, 2), (2, 4), (4, 8), (12, 14), (14, 16), (24, 26))
    code, channels, rate, frame, bits, sub_format = (_number(numbers, *each) for each in fields)
    is_extensible = (code == _EXTENSIBLE) & (tf.strings.substr(described, 26, 14) == _GUID_END)
    code = tf.where(is_extensible, sub_format, code)
    is_float, width = code == _FLOAT, (bits + 7) // 8
    known = (code == _PCM) | is_float
    code = _asserted(known, code, f"The samples of a WAV file are compressed. {_TO_PCM} Its format:", code)
    can_read = tf.where(code == _FLOAT, (bits == 32) | (bits == 64), (bits >= 1) & (bits <= 32))
    said = f"A WAV file must hold PCM of 1 to 32 bits or floats of 32 or 64. {_TO_PCM} Received bits:"
    width = _asserted(can_read, width, said, bits)
    channels = _asserted(channels > 0, channels, "The number of channels of a WAV file must be positive.")
    said = f"The sample rate of a WAV file must be {LOWEST_RATE:,} to {HIGHEST_RATE:,} Hz. Received:"
    rate = _asserted((rate >= LOWEST_RATE) & (rate <= HIGHEST_RATE), rate, said, rate)
    said = f"The block alignment of a WAV file contradicts its channels and bits. {_TO_PCM} Received:"
    channels = _asserted(frame == channels * width, channels, said, frame)
    return rate, channels, width, is_float


def _data_size(head: Tensor, size: Tensor, begin: Tensor, whole: Tensor) -> Tensor:
    """Return the bytes of samples from `begin` on, of a file of `whole` bytes, whose chunk says `size`."""
    numbers, rest = _bytes(head), whole - begin
    is_large = (tf.strings.substr(head, 0, 4) != b"RIFF") & (size == _NOT_FILLED_IN)
    has_large = tf.strings.substr(head, 12, 4) == b"ds64"
    large = tf.where(has_large, _number(numbers, 28, 36), 0)
    is_of_pipe = (size > rest) & (size >= _LARGEST_OF_PIPES[0]) & (size <= _LARGEST_OF_PIPES[1])
    is_finished = 8 + _number(numbers, 4, 8) == whole
    is_open = (size == _NOT_FILLED_IN) | is_of_pipe | ((size == 0) & ~is_finished)
    is_open = tf.where(is_large, large < 1, is_open)
    size = tf.where(is_open, rest, tf.where(is_large, large, size))
    said = "A WAV file is damaged. Send it anew. Bytes of samples that are missing at its end:"
    return _asserted(size <= rest, size, said, size - rest)


def _numbers(block: Tensor, form: WavFormat) -> Tensor:
    """Return the stored numbers in a block, float64 `[N C]`, integers from -1 to 1."""

    def decoded(dtype: Any, scale: float = 1.0) -> Tensor:
        return tf.cast(tf.io.decode_raw(block, dtype, little_endian=True), tf.float64) / scale

    def of_24_bits() -> Tensor:
        parts = tf.reshape(tf.cast(tf.io.decode_raw(block, tf.uint8), tf.int32), [-1, 3])  # [N C, bytes]
        low, middle, high = tf.unstack(parts, axis=1)
        number = low + 2**8 * middle + 2**16 * high
        # The highest bit counts negative.
        return tf.cast(number - 2 * tf.bitwise.bitwise_and(number, 2**23), tf.float64) / 2.0**23

    branches = [
        lambda: decoded(tf.uint8, 2.0**7) - 1,
        lambda: decoded(tf.int16, 2.0**15),
        of_24_bits,
        lambda: decoded(tf.int32, 2.0**31),
        lambda: decoded(tf.float32),
        lambda: decoded(tf.float64),
    ]
    of_float = tf.where(form.width == 4, tf.constant(4, tf.int64), 5)
    branch = tf.where(form.is_float, of_float, form.width - 1)
    return tf.switch_case(tf.cast(branch, tf.int32), branches)


def _asserted(rule: Tensor, value: Tensor, said: str, *received: Any) -> Tensor:
    """Return `value`, after a rule that fails with what is said."""
    with tf.control_dependencies([tf.debugging.Assert(rule, [said, *received])]):
        return tf.identity(value)


def _length(file: Tensor) -> Tensor:
    return tf.cast(tf.strings.length(file), tf.int64)


def _padded(file: Tensor, place: Any, size: Any, whole: int) -> Tensor:
    """Return `size` bytes from a place in the file, with NULs behind to `whole` of them."""
    found = tf.strings.substr(file, place, size)
    return tf.strings.substr(tf.strings.join([found, bytes(whole)]), 0, whole)


def _bytes(content: Tensor) -> Tensor:
    return tf.cast(tf.io.decode_raw(content, tf.uint8), tf.int64)


def _number(content: Tensor, begin: int, end: int) -> Tensor:
    """Return little-endian bytes as an unsigned number; 8 of them as a signed one, as int64 wraps around."""
    powers = [256**power for power in range(end - begin)]
    return tf.reduce_sum(content[begin:end] * tf.constant(powers, tf.int64))
