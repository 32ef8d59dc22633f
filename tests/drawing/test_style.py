"""Letters can be read on every level, in light and dark."""

import re

from keras_selfattn.drawing.style import STYLE


def luminance(colour):
    """Of sRGB, as WCAG defines it."""
    channels = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_letters_on_every_level_can_be_read_in_light_and_dark():
    found = re.findall(r"\.s(\d+)\{fill:(#\w+)\}\.count\.s\d+\{fill:(#\w+)\}", STYLE)
    assert len(found) == 3 * 21  # light, dark, paper
    for _level, ground, ink in found:
        low, high = sorted((luminance(ground), luminance(ink)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (ground, ink)
