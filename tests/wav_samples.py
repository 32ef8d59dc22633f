"""WAV files of every kind that are read, and of those that are refused, made byte by byte."""

import struct

import numpy as np

from keras_selfattn.rows.wav_files import wav_bytes

RATE, CHANNELS, FRAMES = 11_025, 3, 37
PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
GUID_END = bytes.fromhex("0000 0000 1000 8000 00aa00389b71")
OPEN = 0xFFFFFFFF


def chunk(kind, content, size=None):
    size = len(content) if size is None else size
    return kind + struct.pack("<I", size) + content + bytes(len(content) % 2)


def described(code, channels, bits, width=None, rate=RATE, frame=None, more=b""):
    width = bits // 8 if width is None else width
    frame = channels * width if frame is None else frame
    return chunk(b"fmt ", struct.pack("<HHIIHH", code, channels, rate, rate * frame, frame, bits) + more)


def extensible(code, channels, bits, valid, guid_end=GUID_END, most=24):
    more = struct.pack("<HHIH", 22, valid, 0, code) + guid_end
    return described(EXTENSIBLE, channels, bits, more=more[:most])


def wave(*chunks, head=b"RIFF", size=None):
    content = b"WAVE" + b"".join(chunks)
    return head + struct.pack("<I", len(content) if size is None else size) + content


def ds64(size, samples=0):
    return chunk(b"ds64", struct.pack("<qqqI", 0, size, samples, 0))


def stored(bits, is_float=False, channels=CHANNELS, frames=FRAMES):
    """Return random samples over the whole range, as a file stores them."""
    random = np.random.default_rng(bits)
    if is_float:
        return random.uniform(-1, 1, [frames, channels]).astype(f"<f{bits // 8}").tobytes()
    return random.bytes(frames * channels * bits // 8)


def plain(bits, is_float=False, channels=CHANNELS, before=(), after=(), **of_data):
    data = chunk(b"data", stored(bits, is_float, channels), **of_data)
    return wave(described(FLOAT if is_float else PCM, channels, bits), *before, data, *after)


SIXTEEN = described(PCM, 1, 16)
MONO = stored(16, channels=1)
NOTE = chunk(b"LIST", b"INFOISFT\5\0\0\0data\0\0")
# All have a recording in them, by kind.
READ = {
    **{f"{bits} bits": plain(bits) for bits in (8, 16, 24, 32)},
    **{f"{bits} bits, mono": plain(bits, channels=1) for bits in (8, 16, 24, 32)},
    **{f"{bits} bits, stereo": plain(bits, channels=2) for bits in (8, 16, 24, 32)},
    **{f"float {bits}": plain(bits, True) for bits in (32, 64)},
    **{f"float {bits}, mono": plain(bits, True, 1) for bits in (32, 64)},
    "written, 16 bits": wav_bytes(np.frombuffer(MONO, "<i2"), RATE),
    "written, float": wav_bytes(np.frombuffer(stored(32, True, 1), "<f4"), RATE),
    "extensible, 16 bits": wave(extensible(PCM, CHANNELS, 16, 16), chunk(b"data", stored(16))),
    "extensible, 20 of 24 bits": wave(extensible(PCM, CHANNELS, 24, 20), chunk(b"data", stored(24))),
    "extensible, 24 of 32 bits": wave(extensible(PCM, CHANNELS, 32, 24), chunk(b"data", stored(32))),
    "extensible, float": wave(extensible(FLOAT, CHANNELS, 32, 32), chunk(b"data", stored(32, True))),
    "12 bits": wave(described(PCM, 1, 12, 2), chunk(b"data", MONO)),
    "RF64": wave(ds64(len(MONO), FRAMES), SIXTEEN, chunk(b"data", MONO, OPEN), NOTE, head=b"RF64", size=OPEN),
    "BW64": wave(ds64(len(MONO), FRAMES), SIXTEEN, chunk(b"data", MONO, OPEN), NOTE, head=b"BW64", size=OPEN),
    "RF64 with a size of 32 bits": wave(ds64(1), SIXTEEN, chunk(b"data", MONO), NOTE, head=b"RF64"),
    "RF64, not filled in": wave(ds64(0), SIXTEEN, chunk(b"data", MONO, OPEN), head=b"RF64", size=OPEN),
    "RF64, negative": wave(ds64(-5), SIXTEEN, chunk(b"data", MONO, OPEN), head=b"RF64", size=OPEN),
    "RF64, no ds64": wave(SIXTEEN, chunk(b"data", MONO, OPEN), head=b"RF64", size=OPEN),
    "size open": wave(SIXTEEN, chunk(b"data", MONO, OPEN), size=OPEN),
    "size 0": wave(SIXTEEN, chunk(b"data", MONO, 0), size=0),
    "size 0, head as first written": wave(SIXTEEN, chunk(b"data", MONO, 0), size=36),
    "size of sox": wave(SIXTEEN, chunk(b"data", MONO, 0x7FFFF000), size=0x7FFFF024),
    "size of arecord": wave(SIXTEEN, chunk(b"data", MONO, 0x80000000), size=0x80000024),
    "size open, half a frame": wave(described(PCM, 2, 16), chunk(b"data", MONO + b"\1", OPEN))[:-1],
    "half a frame": wave(described(PCM, 2, 16), chunk(b"data", MONO + b"\1")),
    "head's size too large": wave(SIXTEEN, chunk(b"data", MONO), size=10**6),
    "chunks before": plain(16, before=[NOTE, chunk(b"odd ", b"\1\2\3"), chunk(b"data"[::-1], b"")]),
    "chunks before the format": wave(NOTE, chunk(b"JUNK", bytes(29)), SIXTEEN, chunk(b"data", MONO)),
    "chunks after": plain(24, channels=1, after=[NOTE]),
    "data twice": plain(24, channels=1, after=[chunk(b"data", bytes(8))]),
    "anything after": plain(16, after=[b"\0\1\2"]),
    "a long format": wave(described(PCM, 1, 16, more=bytes(31)), chunk(b"data", MONO)),
    "two formats": wave(described(FLOAT, 2, 64), SIXTEEN, chunk(b"data", MONO)),
    "most chunks": wave(SIXTEEN, *[chunk(b"none", b"")] * 998, chunk(b"data", MONO)),
    "many channels": wave(described(PCM, 500, 8), chunk(b"data", stored(8, channels=500, frames=3))),
}
# None has a sample in it.
EMPTY = {
    "empty": wave(SIXTEEN, chunk(b"data", b"")),
    "empty, 24 bits": wave(described(PCM, 2, 24), chunk(b"data", b"")),
    "empty, size open": wave(SIXTEEN, chunk(b"data", b"", OPEN), size=OPEN),
    "empty, head not filled in": wave(SIXTEEN, chunk(b"data", b""), size=0),
    "empty, chunks after": wave(SIXTEEN, chunk(b"data", b""), NOTE),
    "less than a frame": wave(described(PCM, 2, 24), chunk(b"data", bytes(5))),
}

NO_WAV, COMPRESSED, BITS = "begins with RIFF, RF64 or BW64", "compressed", "PCM of 1 to 32 bits"
ALIGNED, DAMAGED, NO_DATA = "block alignment", "damaged.*missing", "no `data` chunk"
DATA = chunk(b"data", MONO)


def of_code(code, bits=16):
    return wave(described(code, 1, bits, 2), DATA)


# A file, what both sides say of it, and what training adds.
REFUSED = {
    "nothing": (b"", NO_WAV, "is empty"),
    "a short head": (wave(SIXTEEN, DATA)[:11], NO_WAV, "begins with b'RIFF"),
    "big-endian": (b"RIFX" + wave(SIXTEEN, DATA)[4:], NO_WAV, r"big-endian WAV \(RIFX\). Decode"),
    "AIFF": (b"FORM\0\0\0\x2eAIFFCOMM" + bytes(40), NO_WAV, "like AIFF. Decode"),
    "FLAC": (b"fLaC" + bytes(40), NO_WAV, "like FLAC"),
    "Ogg": (b"OggS" + bytes(40), NO_WAV, "like Ogg"),
    "MP3": (b"\xff\xfb\x90\x64" + bytes(40), NO_WAV, "like MP3"),
    "MP3 with notes": (b"ID3\3" + bytes(40), NO_WAV, "like MP3"),
    "AAC": (b"\xff\xf1\x50\x80" + bytes(40), NO_WAV, "like AAC"),
    "MP4": (b"\0\0\0\x20ftypM4A " + bytes(40), NO_WAV, "like MP4"),
    "WebM": (b"\x1aE\xdf\xa3" + bytes(40), NO_WAV, "like WebM"),
    "AVI": (b"RIFF" + bytes(4) + b"AVI LIST" + bytes(40), NO_WAV, "like a RIFF file of another kind"),
    "HTML": (b"\n<!DOCTYPE html><title>404</title>", NO_WAV, "like HTML or XML"),
    "text": ("Größe\n".encode() * 60, NO_WAV, "like text. Fetch"),
    "Git LFS": (b"version https://git-lfs.github.com/spec/v1\n", NO_WAV, "git lfs pull"),
    "other bytes": (bytes(range(200)), NO_WAV, "it begins with"),
    "ADPCM": (of_code(2), COMPRESSED, "Microsoft ADPCM, format 2.*ffmpeg"),
    "A-law": (of_code(6), COMPRESSED, "A-law"),
    "mu-law": (of_code(7), COMPRESSED, "mu-law"),
    "IMA ADPCM": (of_code(17), COMPRESSED, "IMA ADPCM"),
    "GSM": (of_code(0x31), COMPRESSED, "GSM"),
    "MP3 in it": (of_code(0x55), COMPRESSED, "MP3"),
    "an unknown code": (of_code(0x1234), COMPRESSED, r"\(format 4660\)"),
    "extensible A-law": (wave(extensible(6, 1, 8, 8), DATA), COMPRESSED, "A-law"),
    "another sub-format": (
        wave(extensible(1, 1, 16, 16, GUID_END[::-1]), DATA),
        COMPRESSED,
        "outside RFC 2361",
    ),
    "a cut sub-format": (wave(extensible(1, 1, 16, 16, most=20), DATA), COMPRESSED, "outside RFC 2361"),
    "float of 16 bits": (wave(described(FLOAT, 1, 16), DATA), BITS, "16 bits, format 3"),
    "PCM of 64 bits": (wave(described(PCM, 1, 64), DATA), BITS, "64 bits"),
    "PCM of no bits": (wave(described(PCM, 1, 0), DATA), BITS, "0 bits"),
    "no channels": (wave(described(PCM, 0, 16), DATA), "number of channels", "Received 0"),
    "no rate": (wave(described(PCM, 1, 16, rate=0), DATA), "sample rate", "Received 0"),
    # From 4 Hz to 8,000 a file would become 2,000 times as large.
    "a low rate": (wave(described(PCM, 1, 16, rate=4), DATA), "sample rate", "Received 4"),
    "a high rate": (wave(described(PCM, 1, 16, rate=10**6), DATA), "sample rate", "Received 1,000,000"),
    "frames too large": (wave(described(PCM, 1, 24, frame=4), DATA), ALIGNED, "of 3. Received 4"),
    "frames of nothing": (wave(described(PCM, 2, 16, frame=0), DATA), ALIGNED, "of 4. Received 0"),
    "no format": (wave(NOTE, DATA), "no `fmt ` chunk before", "anew"),
    "the format after": (wave(DATA, SIXTEEN), "no `fmt ` chunk before", "anew"),
    "a short format": (wave(chunk(b"fmt ", SIXTEEN[8:22]), DATA), "at least 16 bytes", "Received 14"),
    "no data": (wave(SIXTEEN, NOTE), NO_DATA, "cut off"),
    "no size of data": (wave(SIXTEEN, b"data\0\0"), NO_DATA, "cut off"),
    "no chunks": (wave(), NO_DATA, "cut off"),
    "a chunk beyond the end": (wave(SIXTEEN, chunk(b"LIST", b"", OPEN), DATA), NO_DATA, "cut off"),
    "a format beyond the end": (wave(described(PCM, 1, 16)[:-4]), NO_DATA, "cut off"),
    "too many chunks": (wave(SIXTEEN, *[chunk(b"none", b"")] * 999, DATA), "1,000 chunks", "anew"),
    "cut off": (wave(SIXTEEN, DATA)[:-1], DAMAGED, "of 74 bytes of samples the last 1 are"),
    "a little below 2 GiB": (wave(SIXTEEN, chunk(b"data", MONO, 0x7FFEFFFF)), DAMAGED, "of 2,147,418,111"),
    "over 2 GiB": (wave(SIXTEEN, chunk(b"data", MONO, 0x80000001)), DAMAGED, "of 2,147,483,649"),
    "RF64, cut off": (
        wave(ds64(2**62), SIXTEEN, chunk(b"data", MONO, OPEN), head=b"RF64"),
        DAMAGED,
        "of 4,611,686,018,427,387,904",
    ),
    "ds64 in RIFF": (
        wave(ds64(74), SIXTEEN, chunk(b"data", MONO, 500)),
        DAMAGED,
        "of 500 bytes of samples the last 426 are",
    ),
}
# Files whose format is right, and whose samples are not.
NOT_FINITE = {
    f"{number} of {dtype}": wave(
        described(FLOAT, 1, 8 * np.dtype(dtype).itemsize),
        chunk(b"data", np.array([0.5, 0, number], dtype).tobytes()),
    )
    for dtype, number in [("<f4", np.nan), ("<f4", -np.inf), ("<f8", np.nan), ("<f8", 1e39), ("<f4", -2e9)]
}
