"""Rows that are recordings of sound: samples of one channel, with their rate.

Axes: N (samples).
"""

import base64
import itertools
import math
import os
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_selfattn.errors import DataError
from keras_selfattn.rows.containers import ordered_rows
from keras_selfattn.rows.kind import Curves, RowKind, digest
from keras_selfattn.rows.label_names import is_missing
from keras_selfattn.rows.sound_files import decoded
from keras_selfattn.rows.wav_files import HIGHEST_RATE, LOUDEST, LOWEST_RATE, wav_bytes

# The longest example row, in seconds: people hear it at a glance.
_SHORT = 2.0
# Seconds that a stretch may end behind its recording: what tools round.
_ROUNDING = 0.01
START, END = "start", "end"
"""The columns of a table that say which stretch of a recording a row is, in seconds."""
# Points of a picture.
_POINTS = 300
# Highest and lowest sample of 16 bits.
_STEPS = 2**15


@dataclass(frozen=True, eq=False)
class Recording:
    """Sound of one channel.

    Args:
        samples: int16, or float32 in which full scale is 1, `[N]`. As float32 an int16 is divided by 32,768.
        rate: samples a second, in Hz.

    Raises:
        DataError: for samples of another kind or shape, or that are not finite; for a rate that is no
            positive integer.

    Example:

        >>> Recording(np.zeros(400, "int16"), 8000).seconds
        0.05
    """

    samples: np.ndarray
    rate: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", _as_samples(self.samples))
        rate = self.rate
        whole = isinstance(rate, int | np.integer) and not isinstance(rate, bool)
        if not (whole and LOWEST_RATE <= rate <= HIGHEST_RATE):
            raise DataError(
                f"A sample rate must be an integer from {LOWEST_RATE:,} to {HIGHEST_RATE:,}, in Hz. Received "
                f"{rate!r}."
            )
        object.__setattr__(self, "rate", int(rate))

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate

    def stretch(self, start: float = 0.0, end: float | None = None) -> "Recording":
        """Return what lies between two moments.

        Args:
            start: in seconds.
            end: in seconds; None for the end of the recording.

        Raises:
            DataError: for moments that are not in the recording, or not in this order.

        Example:

            >>> Recording(np.zeros(400, "int16"), 8000).stretch(0.01, 0.03).seconds
            0.02
        """
        last = self.seconds if end is None else end
        if not 0 <= start < last <= self.seconds + _ROUNDING:  # NaN is nothing of this
            raise DataError(
                f"A stretch must lie within the recording's {self.seconds:.3f} s, and end after it starts. "
                f"Received {start} to {last} s."
            )
        first, behind = (round(moment * self.rate) for moment in (start, last))
        found = self.samples[first:behind].copy()
        if not len(found):
            raise DataError(f"A stretch must have a sample at least. Received {start} to {last} s.")
        return Recording(found, self.rate)

    def windows(self, seconds: float) -> list[tuple[float, float]]:
        """Return start and end of windows of so many seconds, one after the other; the last one is shorter.

        What is left of up to 0.01 s belongs to the last window.

        Raises:
            DataError: for no positive number.

        Example:

            >>> Recording(np.zeros(400, "int16"), 8000).windows(0.03)
            [(0.0, 0.03), (0.03, 0.05)]
        """
        if not 1 / self.rate <= seconds < math.inf:
            raise DataError(f"Windows must have seconds, and a sample at least. Received {seconds!r} s.")
        edges = [*range(0, len(self.samples), round(seconds * self.rate))]
        if len(edges) > 1 and len(self.samples) - edges[-1] <= _ROUNDING * self.rate:
            del edges[-1]
        edges.append(len(self.samples))
        return list(itertools.pairwise(edge / self.rate for edge in edges))

    def numbers(self) -> np.ndarray:
        """Return the samples as float32 in which full scale is 1."""
        return as_floats(self.samples)

    def wav(self) -> bytes:
        """Return a WAV file of it, with the samples as they are."""
        return wav_bytes(self.samples, self.rate)


class Recordings(RowKind[Recording]):
    """Recordings of sound."""

    name, subject, plural, unit = "recording", "sound", "Recordings", "samples"

    def are_rows(self, x: Any) -> bool:
        """Return True if `x` is a list of recordings, or one of them, which is refused; not features."""
        return isinstance(x, list | tuple | str | bytes | os.PathLike | Recording)

    def read(self, x: Any) -> list[Recording]:
        return as_recordings(x)

    def key(self, row: Recording) -> Hashable:
        # Of the numbers that a model reads: the same as int16 and as floats, in WAV and in FLAC.
        return row.rate, digest(row.numbers())

    def length(self, row: Recording) -> int:
        return len(row.samples)

    def is_short(self, row: Recording) -> bool:
        return 0 < row.seconds <= _SHORT

    def as_json(self, row: Recording) -> Any:
        """Return a WAV file of a recording, as JSON has bytes: under "b64"."""
        return {"b64": base64.b64encode(row.wav()).decode()}

    def shown(self, row: Recording) -> str:
        return f"{row.seconds:.2f} s of sound"

    def picture(self, row: Recording) -> Curves:
        """Return the highest and the lowest sample of each stretch."""
        stretches = np.array_split(row.numbers(), min(_POINTS, max(1, len(row.samples))))
        ends = [(part.max(initial=0), part.min(initial=0)) for part in stretches]
        return Curves(np.array(ends, np.float32))


RECORDINGS = Recordings()


class Stretch(NamedTuple):
    """A cell of a table that names a recording, with the cells of its stretch, as they are."""

    recording: Any
    start: Any
    end: Any

    @property
    def is_whole(self) -> bool:
        """True if the row names no stretch."""
        return is_missing(self.start) and is_missing(self.end)

    def of(self, recording: Recording, where: str) -> Recording:
        """Return the stretch of its recording.

        Raises:
            DataError: for a stretch that is not in it, or a cell that is no number, with the row.
        """
        if self.is_whole:
            return recording
        start = 0.0 if is_missing(self.start) else _moment(self.start, START, where)
        end = None if is_missing(self.end) else _moment(self.end, END, where)
        try:
            return recording.stretch(start, end)
        except DataError as error:
            raise DataError(f"{where}: {error}") from error


def _moment(cell: Any, name: str, where: str) -> float:
    written = isinstance(cell, str) and re.fullmatch(r"[ \t]*[0-9.eE+-]+[ \t]*", cell)
    try:
        if not written and (isinstance(cell, bool) or not isinstance(cell, Real | Decimal)):
            raise ValueError(cell)
        return float(cell)
    except ValueError as error:
        raise DataError(
            f"{where}: the {name!r} of a recording must be a number, in seconds. Received {cell!r:.40}. "
            "Rename the column if it is something else."
        ) from error


def as_recordings(x: Any) -> list[Recording]:
    """Return recordings in any container as a list.

    Args:
        x: of each row a `Recording`; the path of a file; the bytes of one; a pair `(samples, rate)`; or a
            mapping with "array" and "sampling_rate", or with "bytes" or "path", as `datasets` has them. Files
            are WAV, or what `soundfile` reads; channels become one by their mean.

    Raises:
        DataError: for anything else, with the row's number; samples without a rate are no sound.

    Example:

        >>> [row.rate for row in as_recordings([(np.zeros(80), 8000)])]
        [8000]
    """
    x = ordered_rows(x)
    if not isinstance(x, list | tuple):
        raise DataError(
            "Recordings come in a list: of files' paths or bytes, or of pairs (samples, rate). Received "
            f"{type(x).__name__}."
        )
    return [_recording(f"Recording {place} (counted from 0)", each) for place, each in enumerate(x)]


def as_floats(samples: np.ndarray) -> np.ndarray:
    """Return samples as float32 in which full scale is 1."""
    return samples.astype(np.float32) / _STEPS if samples.dtype == np.int16 else samples


def _recording(where: str, given: Any) -> Recording:
    if isinstance(given, Recording):
        return given
    if isinstance(given, bytes | bytearray | memoryview):
        return Recording(*decoded(bytes(given), where))
    if isinstance(given, str | os.PathLike):
        return read_recording(given)
    if isinstance(given, Mapping):
        return _of_mapping(where, given)
    if isinstance(given, tuple) and len(given) == 2:
        return _of_pair(where, *given)
    raise DataError(
        f"{where} must be a file's path or bytes, or a pair (samples, rate): a sample rate is never guessed. "
        f"Received {_shown(given)}."
    )


def read_recording(path: Any) -> Recording:
    """Return the sound of a file.

    Raises:
        DataError: for a file that is missing, or cannot be read as sound, with its name.
    """
    file = Path(path)
    try:
        content = file.read_bytes()
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        why = getattr(error, "strerror", error)
        raise DataError(f"{file} cannot be read: {why}. Current folder: {Path.cwd()}.") from error
    return Recording(*decoded(content, str(file)))


def _of_mapping(where: str, given: Mapping[Any, Any]) -> Recording:
    if given.get("array") is not None and "sampling_rate" in given:
        return _of_pair(where, given["array"], given["sampling_rate"])
    content, path = given.get("bytes"), given.get("path")
    if isinstance(given.get("b64"), str):  # as `Recordings.as_json` writes it
        try:
            content = base64.b64decode(given["b64"], validate=True)
        except ValueError as error:
            raise DataError(f'{where}: its "b64" is no base64: {error}.') from error
    if isinstance(content, bytes | bytearray | memoryview):
        return Recording(*decoded(bytes(content), f"{where}, {path or 'bytes'}"))
    if content is None and isinstance(path, str | os.PathLike):
        return read_recording(path)
    if content is not None:
        raise DataError(f'{where}: its "bytes" must be bytes. Received {_shown(content)}.')
    raise DataError(
        f'{where} must have "array" and "sampling_rate", or "bytes" or "path", as `datasets` has them. '
        f"Received a mapping of {', '.join(map(str, given)) or 'nothing'}."
    )


def _of_pair(where: str, samples: Any, rate: Any) -> Recording:
    try:
        return Recording(np.asarray(samples), rate)
    except (DataError, ValueError) as error:
        raise DataError(f"{where}: {error}") from error


def _as_samples(given: Any) -> np.ndarray:
    values = np.asarray(given)
    if values.ndim != 1 or (values.dtype.kind != "f" and values.dtype != np.int16):
        raise DataError(
            "Samples must be int16, or floats in which full scale is 1, of one channel, [samples]. Received "
            f"{values.dtype} of shape {values.shape}."
        )
    if values.dtype == np.int16:
        return values
    with np.errstate(over="ignore"):
        values = values.astype(np.float32, copy=False)
    fits = np.abs(values) <= LOUDEST
    if not fits.all():
        place = int(np.argmin(fits))
        raise DataError(
            f"Samples must be finite numbers of at most 1e9. Received {values[place]} as sample {place}."
        )
    return values


def _shown(given: Any) -> str:
    if hasattr(given, "shape"):
        return f"an array of shape {np.shape(given)}"
    return f"{type(given).__name__} {given!r:.60}"
