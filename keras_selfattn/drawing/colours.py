"""A sequential colour scale whose lightness rises evenly, so that the colour-blind and a printer read it.

It runs from dark blue over grey to yellow, the one pair of hues that all common kinds of colour blindness
keep apart. Computed in OKLab, in which equal steps look equal.

Reference: Ottosson 2020, "A perceptual color space for image processing"; Nunez et al. 2018, "Optimizing
colormaps with consideration for color vision deficiency".
"""

import functools
import math

_DARKEST, _LIGHTEST = 0.28, 0.93
_BLUE, _YELLOW = 262.0, 102.0  # degrees of hue
_CHROMA = (0.11, 0.13)


def sequential(share: float) -> str:
    """Return the colour of a share in [0, 1] as "#rrggbb"; 0 is the darkest.

    Example:

        >>> sequential(0.0), sequential(1.0)
        ('#06235e', '#f9eb80')
    """
    return _sequential(round(100 * min(1.0, max(0.0, share if math.isfinite(share) else 0.0))))


@functools.cache
def _sequential(percent: int) -> str:
    share = percent / 100
    lightness = _DARKEST + (_LIGHTEST - _DARKEST) * share
    # Blue loses its chroma towards the middle, from where on yellow gains it.
    hue, most = (_BLUE, _CHROMA[0]) if share < 0.5 else (_YELLOW, _CHROMA[1])
    chroma = most * abs(2 * share - 1)
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in _from_oklab(lightness, a, b))


def _from_oklab(lightness: float, a: float, b: float) -> tuple[float, float, float]:
    """Return sRGB channels in [0, 1]; the matrices are the reference's."""
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    red = 4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short
    green = -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short
    blue = -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short
    return _gamma(red), _gamma(green), _gamma(blue)


def _gamma(linear: float) -> float:
    linear = min(1.0, max(0.0, linear))
    return 12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1 / 2.4) - 0.055


def ink_on(share: float) -> str:
    """Return the colour of letters on `sequential(share)`."""
    return "#ffffff" if share < 0.43 else "#000000"


LEVELS = 21
"""Levels of a share for which a page has a colour: `s0` to `s20`."""


def level_of(share: float) -> str:
    """Return the class of a share in [0, 1]; what is above 0 has at least level 1.

    Example:

        >>> level_of(0.0), level_of(0.01), level_of(1.0)
        ('s0', 's1', 's20')
    """
    return f"s{max(int(share > 0), round((LEVELS - 1) * min(1.0, share)))}"


def level_styles(*, dark: bool) -> str:
    """Return the rules of the levels: the larger a share, the more it stands out from the ground."""
    rules = []
    for level in range(LEVELS):
        shade = level / (LEVELS - 1) if dark else 1 - level / (LEVELS - 1)
        rules.append(f".s{level}{{fill:{sequential(shade)}}}.count.s{level}{{fill:{ink_on(shade)}}}")
    return "".join(rules)
