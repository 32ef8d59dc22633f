"""Colours are told apart by their lightness, too."""

import numpy as np

from keras_selfattn.drawing.colours import sequential


def luminance(colour):
    """Of sRGB, as WCAG defines it."""
    channels = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_lightness_of_the_colours_rises_evenly_also_without_colours():
    shades = [luminance(sequential(n / 20)) ** (1 / 3) for n in range(21)]
    steps = np.diff(shades)
    assert (steps > 0).all()
    assert steps.max() < 2 * steps.min()
