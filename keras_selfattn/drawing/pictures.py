"""Small pictures of rows: a series as a line, an image as an embedded PNG."""

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np

from keras_selfattn.drawing.markup import Markup, join, tag
from keras_selfattn.drawing.scales import Scale, number, span

_MOST_POINTS = 200
_WIDTH, _HEIGHT = 240, 52
FEATURES = 3
"""Features of a series that are drawn, its first ones."""


def sparkline(series: np.ndarray, *, after: Sequence[tuple[str, np.ndarray]] = ()) -> Markup:
    """Return a series as a small line for each of its first features.

    Args:
        series: float `[length, features]`.
        after: values that follow the first feature, by name, such as the true and the predicted ones.
    """
    features = list(series.T[:FEATURES]) if series.size else []
    length = len(series) + max([len(values) for _, values in after], default=0)
    values = np.concatenate([np.zeros(0), *features, *(line for _, line in after)])
    values = values[np.isfinite(values)]
    across = Scale(0, max(1, length - 1), 2, _WIDTH - 2)
    ends = [float(values.min()), float(values.max())] if len(values) else []
    up = Scale(*span(ends), _HEIGHT - 3, 3)
    parts = [_polyline(range(len(line)), line, across, up, f"line c{n}") for n, line in enumerate(features)]
    for place, (name, line) in enumerate(after):
        places = range(len(series), len(series) + len(line))
        drawn = _polyline(places, line, across, up, f"line c{place}", "none" if place else "4 2")
        parts.append(tag("g", tag("title", name), drawn))
    said = f"{len(series)} steps, {number(up.low)} to {number(up.high)}"
    return tag("svg", tag("title", said), *parts, width=_WIDTH, height=_HEIGHT, role="img", aria_label=said)


def _polyline(
    places: Sequence[int],
    values: np.ndarray,
    across: Scale,
    up: Scale,
    class_: str,
    dashes: str | None = None,
) -> Markup:
    """Return a line through values, which ends before a missing one and begins anew after it."""
    chosen = extremes(values, _MOST_POINTS)
    missing = np.cumsum(~np.isfinite(values))[chosen]
    parts = []
    for part in np.split(np.array(chosen, int), 1 + np.flatnonzero(np.diff(missing))):
        points = " ".join(f"{across(places[n]):g},{up(float(values[n])):g}" for n in part.tolist())
        parts.append(tag("polyline", points=points, class_=class_, stroke_dasharray=dashes))
    return join(parts)


def extremes(values: np.ndarray, most: int) -> list[int]:
    """Return the places of at most `most` finite values, in which no peak of a long series is lost.

    Example:

        >>> extremes(np.array([0, 0, 9, 0, 0, 0, -9, 0]), 4)
        [0, 2, 4, 6]
    """
    known = np.flatnonzero(np.isfinite(values))
    if len(known) <= most:
        return known.tolist()
    parts = np.array_split(known, most // 2)
    ends = [part[[values[part].argmin(), values[part].argmax()]] for part in parts]
    return np.unique(np.concatenate(ends)).tolist()


def image(pixels: np.ndarray, said: str, most: int = 64) -> Markup:
    """Return an image as an element with its PNG inside.

    Args:
        pixels: `[height, width, channels]`, 1 or 3 channels; bytes, or floats that are scaled to their span.
            NaN is black.
        said: the text in its place.
        most: the longest side in pixels; larger images keep each second pixel, third and so on.
    """
    step = max(1, -(-max(pixels.shape[:2]) // most))
    small = np.asarray(pixels)[::step, ::step]
    if small.dtype != np.uint8:
        low, high = span(small.astype(float).ravel().tolist())
        shares = (small.astype(float) - low) / (high - low)
        small = np.round(255 * np.clip(np.nan_to_num(shares), 0, 1)).astype(np.uint8)
    content = base64.b64encode(png(small)).decode()
    shown = max(1, 64 // max(small.shape[:2]))
    height, width = (shown * size for size in small.shape[:2])
    return tag("img", src=f"data:image/png;base64,{content}", alt=said, width=width, height=height)


def png(pixels: np.ndarray) -> bytes:
    """Return bytes `[height, width, 1 or 3]` as a PNG.

    Example:

        >>> png(np.zeros((1, 1, 1), np.uint8))[:8]
        b'\\x89PNG\\r\\n\\x1a\\n'

    Reference: ISO/IEC 15948, sections 5 and 11.
    """
    height, width, channels = pixels.shape
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # each line begins with its filter: none
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)
