"""The order of frames in time: a column's times as exact moments, and the steps between them."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from keras_selfattn.errors import ConfigError, DataError, first_line

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
# `datetime.fromisoformat` cuts fractions after six digits and takes any character between date and time.
_ISO = re.compile(
    r"([0-9]{4}-?(?:[0-9]{2}(?:-?[0-9]{2})?|W[0-9]{2}(?:-?[0-9])?))"
    r"(?:[T ]([0-9]{2}(?::?[0-9]{2}){0,2})(?:[.,]([0-9]{1,99}))? ?(Z|UTC|[+-][0-9]{2}(?::?[0-9]{2}){0,2})?)?"
)
# Digits of whole numbers that are dates if all of a column are: to the month, day, minute or second.
_COMPACT = (6, 8, 12, 14)
_READ = "numbers, and ISO 8601 such as 2024-01-25, 2024-01-25 09:30:00.5 or 2024-01-25T09:30+02:00"
_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
_START = datetime(1, 1, 1)
# A step is the usual one if it differs by less than a twentieth, as days do when clocks change.
_FRACTION = 20
# Of two steps either could be the usual one.
_LEAST_STEPS = 3


class _Instant(NamedTuple):
    """A moment as its clock shows it, the digits of a fraction of a second, and the offset in seconds."""

    clock: datetime
    fraction: str = ""
    offset: int | None = None


@dataclass(frozen=True)
class TimeColumn:
    """The times of the rows of a table, in the order of the file.

    Args:
        file: for messages.
        name: of the column.
        lines: the line of each row.
        given: the times as the file has them.
        moments: exact and comparable; of dates in units of `1 / second` seconds.
        clocks: what the clock showed at each; None if the times are numbers.
        second: how many units of `moments` are a second.
        has_offsets: True if the times say how far their clocks are from UTC.
        without_date: True if the times are those of a day that is not named.
    """

    file: Path
    name: str
    lines: Sequence[int]
    given: Sequence[Any]
    moments: Sequence[Any]
    clocks: Sequence[datetime] | None = None
    second: int = 1
    has_offsets: bool = False
    without_date: bool = False

    def ordered(self, rows: Sequence[int], series: str = "") -> list[int]:
        """Return the rows of one series in the order of their times; `series` names it, in messages.

        Raises:
            DataError: for two rows of one moment, with both lines.
        """
        found = sorted(rows, key=self.moments.__getitem__)
        twice = [(a, b) for a, b in pairwise(found) if self.moments[a] == self.moments[b]]
        if twice:
            first, second = twice[0]
            of = f" of the series {series!r}" if series else ""
            raise DataError(
                f"{self.file}: line {self.lines[first]} and line {self.lines[second]}{of} have one "
                f"{self.name!r}, {self.given[second]!r}: their order is unknown. "
                f"{self._next_step(found, twice)}"
            )
        return found

    def gaps(self, series: Iterable[Sequence[int]]) -> str:
        """Return a sentence about the steps that are not the usual one; "" if all are.

        Steps may be regular as moments, on the clock (noon and midnight where clocks change), or in months.

        Args:
            series: the rows of each series, in order.
        """
        every = [list(pairwise(rows)) for rows in series]
        # Each series may have a step of its own; those of few steps are looked at together.
        groups = [pairs for pairs in every if len(pairs) >= _LEAST_STEPS]
        groups.append([pair for pairs in every if len(pairs) < _LEAST_STEPS for pair in pairs])
        found = [steps for pairs in groups if (steps := self._steps(pairs)) is not None]
        steps = next((steps for steps in found if steps.other), None)
        if steps is None:
            return ""
        before, after = steps.other[0]
        months = steps.measure == self._by_month
        usual, first = (self._in_words(step, months) for step in (steps.usual, steps.measure(before, after)))
        if len(every) == 1:
            of = f", {usual}"
        else:
            of, first = " of their series", f"{first} where {usual} is usual"
        return (
            f"{self.file}: {sum(len(each.other) for each in found)} of {sum(map(len, every))} steps "
            f"between frames by {self.name!r} are not the usual one{of}. The first is {first}, from line "
            f"{self.lines[before]} to line {self.lines[after]}. Nothing is filled in: the frames on both "
            "sides are neighbours."
        )

    def order_without_dates(self, before: Sequence[int], after: Sequence[int]) -> str:
        """Return a sentence about rows of one series that times without a date have moved, or ""."""
        moved = next((place for place, row in enumerate(after) if row != before[place]), None)
        if not self.without_date or moved is None:
            return ""
        return (
            f"{self.file}: the times in {self.name!r} have no date, so the frames of a series are ordered as "
            f"of one day: line {self.lines[after[moved]]} before line {self.lines[before[moved]]}. Where a "
            "series goes on after midnight, write dates."
        )

    def _steps(self, pairs: Sequence[tuple[int, int]]) -> "_Steps | None":
        """Return the steps of pairs of rows in the measure in which most are regular."""
        measures = [self._elapsed, *([self._by_clock, self._by_month] if self.clocks else [])]
        found = [steps for measure in measures if (steps := _Steps.of(pairs, measure)) is not None]
        return min(found, key=lambda steps: len(steps.other), default=None)

    def _next_step(self, rows: Sequence[int], twice: Sequence[tuple[int, int]]) -> str:
        if self.clocks and not self.has_offsets and self._is_repeated_hour(rows, twice):
            return (
                "An hour that repeats where clocks are set back needs offsets, as in 2024-10-27T02:30+02:00; "
                "of a row that is there twice, remove one."
            )
        return "Remove one, or name the column that tells series apart with `row_id` (--id)."

    def _is_repeated_hour(self, rows: Sequence[int], twice: Sequence[tuple[int, int]]) -> bool:
        """Return True if, on each day with moments that are there twice, these are an hour among others."""
        clocks = self.clocks or ()
        by_day: dict[date, set[datetime]] = {}
        for row, _ in twice:
            by_day.setdefault(clocks[row].date(), set()).add(clocks[row])
        all_of = Counter(clocks[row].date() for row in rows)
        return len(twice) == sum(map(len, by_day.values())) and all(
            max(moments) - min(moments) < timedelta(hours=1) and all_of[day] > 2 * len(moments)
            for day, moments in by_day.items()
        )

    def _elapsed(self, before: int, after: int) -> Any:
        first, last = self.moments[before], self.moments[after]
        if isinstance(first, int) and isinstance(last, int):
            return last - first
        return float(last) - float(first)

    def _by_clock(self, before: int, after: int) -> int:
        clocks = self.clocks or ()
        passed = clocks[after] - clocks[before]
        return (passed.days * 86400 + passed.seconds) * self.second

    def _by_month(self, before: int, after: int) -> int:
        first, last = (self.clocks or ())[before], (self.clocks or ())[after]
        return 12 * (last.year - first.year) + last.month - first.month

    def _in_words(self, step: Any, months: bool) -> str:
        if months:
            return _counted(step, "month")
        if not self.clocks:
            return f"{step:g}" if isinstance(step, float) else str(step)
        seconds = step / self.second
        unit, size = next((each for each in _UNITS if seconds and seconds % each[1] == 0), _UNITS[-1])
        return _counted(seconds / size, unit)


class _Steps(NamedTuple):
    """Steps between neighbours in one measure: the usual one, and the pairs with another."""

    measure: Callable[[int, int], Any]
    usual: Any
    other: list[tuple[int, int]]

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, int]], measure: Callable[[int, int], Any]) -> "_Steps | None":
        """Return the steps of pairs of rows; None if none can be called usual."""
        if len(pairs) < _LEAST_STEPS:
            return None
        try:
            steps = [measure(*pair) for pair in pairs]
        except OverflowError:  # numbers beyond those of float
            return None
        usual = sorted(steps)[(len(steps) - 1) // 2]
        if not usual > 0:
            return None
        other = [
            pair for pair, step in zip(pairs, steps, strict=True) if abs(step - usual) * _FRACTION >= usual
        ]
        return cls(measure, usual, other)


def check_time_format(column: str | None, form: str | None) -> None:
    """Raise ConfigError for a format of times without a column of times, or one that loses a part of them."""
    if form is None:
        return
    if column is None:
        raise ConfigError(
            f"`time_format` (--time-format) is the form of a column's times. Received {form!r} without that "
            "column: name it with `time` (--time)."
        )
    parts = set(re.findall(r"%([^%])", form.replace("%%", "")))
    unread = ""
    if not parts:
        unread = "It has no part such as %Y or %d"
    elif "Z" in parts:
        unread = "Names of zones, %Z, are read without effect: write offsets, %z"
    elif ("I" in parts) != ("p" in parts):
        unread = "%I and %p need each other: without it half a day is lost"
    elif parts & set("dmbBjaAwu") and not parts & set("YyGcx"):
        unread = "Without a year, %Y, the order over New Year is lost"
    elif parts & set("UW") and not ("Y" in parts and parts & set("aAwu")):
        unread = "Weeks, %U and %W, are read only with %Y and a day of the week, such as %w"
    if unread:
        raise ConfigError(
            f"`time_format` (--time-format) must be a format of `datetime.strptime`, as in '%d.%m.%Y %H:%M'. "
            f"{unread}. Received {form!r}."
        )


def read_times(
    file: Path, name: str, lines: Sequence[int], given: Sequence[Any], form: str | None = None
) -> TimeColumn:
    """Return the times of a table's column.

    All are numbers, which are ordered by value, or all are dates, with or without a time of day, all with
    offsets or all without. Fractions of seconds count exactly, however many digits they have.

    Args:
        file: for messages.
        name: of the column.
        lines: the line of each row.
        given: the times as the file has them.
        form: their format, as for `datetime.strptime`; ISO 8601 or numbers if None.

    Raises:
        DataError: for a missing time or one in another form, with its line; for forms that cannot be ordered
            together, with both lines.

    Example:

        >>> times = ["2024-10-27T02:10+01:00", "2024-10-27T02:30+02:00"]
        >>> read_times(Path("load.csv"), "at", [2, 3], times).ordered([0, 1])
        [1, 0]
    """
    values = [value.strip(" \t") if isinstance(value, str) else value for value in given]
    for line, value in zip(lines, values, strict=True):
        if value is None or value == "":
            raise DataError(f"{file}: line {line} has no {name!r}.")
    column = TimeColumn(file, name, lines, values, [])
    if form is not None:
        return _dates(column, [_formatted(column, row, form) for row in range(len(values))])
    numbers = [_number(column, row) for row in range(len(values))]
    if None not in numbers:
        compact = _compact_dates(values)
        return _with(column, numbers) if compact is None else _dates(column, compact)
    instants = [
        None if number is not None else _iso(value) for number, value in zip(numbers, values, strict=True)
    ]
    for row, (number, instant) in enumerate(zip(numbers, instants, strict=True)):
        if number is None and instant is None:
            raise DataError(
                f"{file}: {name!r} in line {lines[row]} is no time that is read. Received {values[row]!r}. "
                f"Read are {_READ}. Name another form with `time_format` (--time-format), such as "
                "'%d.%m.%Y %H:%M'."
            )
    dates = [instant for instant in instants if instant is not None]
    if len(dates) < len(values):
        _refuse_mixture(column, [number is None for number in numbers], "a date", "a number")
    return _dates(column, dates)


def _with(column: TimeColumn, moments: Sequence[Any], **more: Any) -> TimeColumn:
    return TimeColumn(column.file, column.name, column.lines, column.given, moments, **more)


def _dates(column: TimeColumn, instants: Sequence[_Instant]) -> TimeColumn:
    has_offset = [instant.offset is not None for instant in instants]
    if len(set(has_offset)) > 1:
        _refuse_mixture(column, has_offset, "a time with an offset from UTC", "one without")
    # The digits of the longest fraction, so that moments are whole numbers.
    digits = max((len(instant.fraction) for instant in instants), default=0)
    moments = []
    for clock, fraction, offset in instants:
        passed = clock - _START
        seconds = passed.days * 86400 + passed.seconds - (offset or 0)
        moments.append(seconds * 10**digits + int(fraction.ljust(digits, "0") or 0))
    clocks = [instant.clock for instant in instants]
    # A time of day alone is one of the year 1900 for `strptime`, and no other form here is.
    days = {clock.date() for clock in clocks}
    return _with(
        column,
        moments,
        clocks=clocks,
        second=10**digits,
        has_offsets=any(has_offset),
        without_date=days == {datetime.strptime("", "").date()},
    )


def _refuse_mixture(column: TimeColumn, first_kind: Sequence[bool], one: str, other: str) -> None:
    here, there = first_kind.index(True), first_kind.index(False)
    raise DataError(
        f"{column.file}: {column.name!r} is {one} in line {column.lines[here]}, {column.given[here]!r}, and "
        f"{other} in line {column.lines[there]}, {column.given[there]!r}. Their order is unknown: write all "
        "in one form."
    )


def _number(column: TimeColumn, row: int) -> int | float | Decimal | None:
    """Return a time that is a number, exactly; None if it is something else."""
    value = column.given[row]
    found = _exact(value) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, int | float | Decimal):
        return None
    if isinstance(found, float) and not math.isfinite(found):
        raise DataError(
            f"{column.file}: {column.name!r} in line {column.lines[row]} must be a finite number, or a date. "
            f"Received {value!r}."
        )
    return found


def _exact(text: str) -> int | float | Decimal | None:
    """Return the number of a text as it is written; None if it is none."""
    if not _NUMBER.fullmatch(text):
        return math.nan if _NOT_FINITE.fullmatch(text) else None
    if text.isdecimal() and len(text) < 19:  # Python limits the digits of an int that is read from text
        return int(text)
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of over 18 digits
        return math.inf


def _compact_dates(values: Sequence[Any]) -> list[_Instant] | None:
    """Return the dates of whole numbers such as 20240125; None unless all of them are dates."""
    texts = [str(value) for value in values]
    digits = len(texts[0])
    if digits not in _COMPACT or any(len(text) != digits or not text.isdecimal() for text in texts):
        return None
    found = [f"{text}01" if digits == 6 else f"{text[:8]}T{text[8:] or '00'}" for text in texts]
    try:
        return [_Instant(datetime.fromisoformat(each)) for each in found]
    except ValueError:
        return None


def _iso(value: Any) -> _Instant | None:
    """Return a moment in ISO 8601, exactly; None if it is something else."""
    match = _ISO.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    day, time, fraction, offset = match.groups()
    if fraction and len(time.replace(":", "")) != 6:
        return None  # a fraction of a minute or an hour
    if time is None and len(day) == 7 and day[4] == "-" and "W" not in day:
        day += "-01"  # a month
    try:
        zone = "Z" if offset == "UTC" else offset or ""
        found = datetime.fromisoformat(f"{day}T{time}{zone}" if time else day)
    except ValueError:
        return None
    return _instant(found, (fraction or "").rstrip("0"))


def _formatted(column: TimeColumn, row: int, form: str) -> _Instant:
    try:
        found = datetime.strptime(str(column.given[row]), form)
    except (ValueError, re.error) as error:
        raise DataError(
            f"{column.file}: {column.name!r} in line {column.lines[row]} is not of the format {form!r} "
            f"(`time_format`, --time-format). Received {column.given[row]!r} ({first_line(error)})."
        ) from None
    return _instant(found.replace(microsecond=0), f"{found.microsecond:06}".rstrip("0"))


def _instant(found: datetime, fraction: str) -> _Instant:
    offset = found.utcoffset()
    seconds = None if offset is None else offset.days * 86400 + offset.seconds
    return _Instant(found.replace(tzinfo=None), fraction, seconds)


def _counted(number: float, unit: str) -> str:
    return f"{number:g} {unit}" + ("" if number == 1 else "s")
