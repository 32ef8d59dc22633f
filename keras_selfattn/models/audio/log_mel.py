"""Log-mel frames of sound: the resampling filter and the filter bank, defined once, in NumPy.

The exported graph computes both in TensorFlow (`export/signatures/audio_graph.py`), from the same numbers.

Axes: N (samples), T (frames), M (mel bands), K (bins of the Fourier transform), Q (blocks), L (samples of a
block of the output), W (samples of the input that a block depends on).
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from keras_selfattn.errors import DataError

# Of the sinc on each side, and the cutoff as a share of the lower rate's half: -6 dB there.
CROSSINGS, CUTOFF = 16, 0.945
# The most weights of a filter: 16 MB. Usual rates have a hundredth of it.
MOST_WEIGHTS = 2**22
# A block depends on so many times the filter's reach: fewer would be read twice, more cost more products.
REACHES = 4
# Frames that are computed together.
_TOGETHER = 1000
# Added to the energy of a band: that of noise of some 3 steps of 16 bits, far above what float32 rounds.
FLOOR = 1e-6
FRAMES_A_SECOND = 100
_SECONDS = 0.025  # of a frame
_LOWEST = 20.0  # Hz, where the first band begins


@dataclass(frozen=True)
class Resampling:
    """The filter from one sample rate to another: a sinc in a Hann window, for blocks of samples.

    Block `q` of the output, samples `q * up` to `(q + 1) * up`, is a product of the `span` samples of the
    input from `q * down - reach` on with the weights, `[span, up]`.

    Args:
        rate: samples a second of the input.
        to: of the output.

    Raises:
        DataError: for rates whose ratio needs too large a filter.

    Example:

        >>> Resampling(48_000, 16_000).resampled(np.ones(480, "float32")).shape
        (160,)

    Reference: Smith 2002, "Digital Audio Resampling", https://ccrma.stanford.edu/~jos/resample/.
    """

    rate: int
    to: int

    def __post_init__(self) -> None:
        if self.span * self.up > MOST_WEIGHTS:
            raise DataError(
                f"Sound of {self.rate:,} Hz cannot be resampled to {self.to:,} Hz: the rates have no larger "
                f"common divisor than {math.gcd(self.rate, self.to)} Hz. Save it at a usual rate, such as "
                f"{self.to:,} Hz."
            )

    @property
    def scale(self) -> float:
        """The cutoff as a share of the input's half rate."""
        return CUTOFF * min(1.0, self.to / self.rate)

    @property
    def reach(self) -> int:
        """Samples of the input on each side of a sample that it depends on."""
        return math.ceil(CROSSINGS / self.scale)

    @property
    def _times(self) -> int:
        return -(-REACHES * self.reach // (self.rate // math.gcd(self.rate, self.to)))

    @property
    def up(self) -> int:
        """Samples of a block of the output."""
        return self._times * self.to // math.gcd(self.rate, self.to)

    @property
    def down(self) -> int:
        """Samples from one block's input to the next."""
        return self._times * self.rate // math.gcd(self.rate, self.to)

    @property
    def span(self) -> int:
        return self.down + 2 * self.reach + 1

    def length(self, samples: int) -> int:
        """Return the samples of the output for so many of the input."""
        return -(-samples * self.to // self.rate)

    @functools.cached_property
    def weights(self) -> np.ndarray:
        """The weights, float64 `[W, L]`; those of each sample add up to 1."""
        ends = np.arange(self.up) * self.rate / self.to  # in samples of the input
        away = self.scale * (np.arange(self.span)[:, None] - self.reach - ends)  # [W, L]
        window = np.where(np.abs(away) < CROSSINGS, np.cos(np.pi / 2 * away / CROSSINGS) ** 2, 0)
        weights = np.sinc(away) * window
        return weights / weights.sum(axis=0)

    def resampled(self, samples: np.ndarray) -> np.ndarray:
        """Return samples `[N]` at the other rate, float32; what is beyond both ends counts as 0."""
        if self.rate == self.to or not len(samples):
            return samples
        weights, length = self.weights.astype(np.float32), self.length(len(samples))
        blocks = -(-length // self.up)
        after = (blocks - 1) * self.down + self.span - self.reach - len(samples)
        around = np.pad(samples, (self.reach, max(0, after)))
        inputs = np.lib.stride_tricks.sliding_window_view(around, self.span)[:: self.down][:blocks]  # [Q, W]
        # A part at a time: the windows of an hour would be larger than the hour.
        parts = [inputs[place : place + _TOGETHER] @ weights for place in range(0, blocks, _TOGETHER)]
        return np.concatenate(parts).ravel()[:length]


@dataclass(frozen=True)
class LogMel:
    """The filter bank: natural logarithms of the energies of mel bands, in frames of 25 ms, 100 a second.

    A frame is multiplied by a Hann window (periodic) and padded with zeros to a power of two; its power
    spectrum is weighted by triangles that are equally wide in mels, HTK's (`mel = 1127 ln(1 + f / 700)`),
    with their highest weight 1. 1e-6 is added before the logarithm. Frame `t` begins at sample `t * hop`; the
    last are padded with zeros, so that there are `ceil(samples / hop)` of them and no sample is left out.

    Args:
        rate: samples a second, divisible by 100.
        bands: mel bands.

    Example:

        >>> LogMel(8000, 40)(np.zeros(800, "float32")).shape
        (10, 40)

    Reference: Young et al., "The HTK Book", section 5.6, whose triangles these are. Not its filter bank as a
    whole: HTK has Hamming windows and pre-emphasis, and adds nothing.
    """

    rate: int
    bands: int

    @property
    def hop(self) -> int:
        return self.rate // FRAMES_A_SECOND

    @property
    def frame(self) -> int:
        """Samples of a frame."""
        return round(self.rate * _SECONDS)

    @property
    def padded(self) -> int:
        """Samples of a padded frame."""
        return 2 ** math.ceil(math.log2(self.frame))

    @functools.cached_property
    def window(self) -> np.ndarray:
        """The window of a frame, float64."""
        return np.sin(np.pi * np.arange(self.frame) / self.frame) ** 2

    @functools.cached_property
    def triangles(self) -> np.ndarray:
        """The weight of each bin in each band, float64 `[K, M]`."""
        edges = np.linspace(_mels(np.array(_LOWEST)), _mels(np.array(self.rate / 2)), self.bands + 2)
        bins = _mels(np.fft.rfftfreq(self.padded, 1 / self.rate))[:, None]  # [K, 1]
        rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
        falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
        return np.maximum(np.minimum(rising, falling), 0)

    def frames(self, samples: int) -> int:
        """Return the number of frames of so many samples."""
        return -(-samples // self.hop)

    def __call__(self, samples: np.ndarray) -> np.ndarray:
        """Return the frames of samples `[N]`, float32 `[T, M]`."""
        count = self.frames(len(samples))
        if not count:
            return np.zeros((0, self.bands), np.float32)
        window, triangles = self.window.astype(np.float32), self.triangles.astype(np.float32)
        around = np.pad(samples, (0, (count - 1) * self.hop + self.frame - len(samples)))
        frames = np.lib.stride_tricks.sliding_window_view(around, self.frame)[:: self.hop]  # [T, frame]
        found = np.empty((count, self.bands), np.float32)
        for place in range(0, count, _TOGETHER):
            part = slice(place, place + _TOGETHER)
            power = np.abs(np.fft.rfft(frames[part] * window, self.padded)) ** 2  # [.., K]
            found[part] = np.log(power.astype(np.float32) @ triangles + FLOOR)
        return found


def _mels(hertz: np.ndarray) -> np.ndarray:
    return 1127.0 * np.log1p(hertz / 700.0)
