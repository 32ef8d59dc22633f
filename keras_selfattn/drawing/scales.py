"""Places on an axis: round ticks, and numbers as people read them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """A linear map from values to places.

    Args:
        low: the value at `start`.
        high: the value at `end`.
        start: place of the lowest value.
        end: place of the highest.
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a value, to a tenth."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


LARGEST = 1e300
"""Larger values are drawn like infinite ones: the distance of two of them may be infinite."""


def span(values: Iterable[float], *, least: float | None = None) -> tuple[float, float]:
    """Return the lowest and highest value below `LARGEST`, apart from each other.

    Args:
        values: any numbers; without such a one the span is 0 to 1.
        least: a value that the span must include, such as 0.
    """
    finite = [value for value in values if abs(value) < LARGEST] + ([] if least is None else [least])
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    if low == high:
        room = abs(low) * 0.1 or 1.0
        return (low, high + room) if least is not None else (low - room, high + room)
    return low, high


def ticks(low: float, high: float, count: int = 5, *, whole: bool = False) -> list[float]:
    """Return round values from `low` to `high`, about `count` of them.

    Example:

        >>> ticks(0, 1), ticks(1, 3, whole=True)
        ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [1.0, 2.0, 3.0])
    """
    rough = (high - low) / max(1, count)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough * 0.999)
    if whole:
        step = max(1.0, math.ceil(step))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{place * step:.12g}") for place in range(first, last + 1)]


def number(value: float) -> str:
    """Return a number with at most four digits that count unless it is whole, and thousands apart.

    Example:

        >>> number(0.12345), number(12345), number(2.0), number(0.00075)
        ('0.1235', '12,345', '2', '7.5e-4')
    """
    if not math.isfinite(value):
        return "none" if math.isnan(value) else "infinite"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) < 1e-3 or abs(value) >= 1e15:
        return _with_power(value)
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def tick_name(value: float) -> str:
    """Return the number beside a tick, which has room for six letters.

    Example:

        >>> tick_name(25_000), tick_name(2_500_000)
        ('25,000', '2.5e6')
    """
    return number(value) if abs(value) < 1e5 else _with_power(value)


def _with_power(value: float) -> str:
    digits, _, power = f"{value:.2e}".partition("e")
    return f"{float(digits):g}e{int(power)}"
