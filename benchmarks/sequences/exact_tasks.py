"""Tasks from text to text whose right answers are known exactly: dates, numbers in words, reversal.

Rows are drawn by a seed: the same seed gives the same rows on every machine. No test row has a source of the
training rows.
"""

import calendar
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Row = tuple[str, str]
Draw = Callable[[np.random.Generator], Row]

# Each date is written with one of them; "ordinal" is 1st, 2nd, 3rd, 4th, …
DATE_FORMS = (
    "{y}-{m:02}-{d:02}",
    "{y}{m:02}{d:02}",
    "{y}/{m}/{d}",
    "{y}.{m:02}.{d:02}",
    "{d}.{m}.{y}",
    "{d:02}.{m:02}.{y}",
    "{m}/{d}/{y}",
    "{m:02}/{d:02}/{y}",
    "{d} {month} {y}",
    "{d} {short} {y}",
    "{month} {d}, {y}",
    "{short} {d}, {y}",
    "{month} {ordinal}, {y}",
    "{ordinal} {month} {y}",
    "the {ordinal} of {month}, {y}",
    "{weekday}, {d} {month} {y}",
    "{weekday}, {month} {d}, {y}",
    "{d}-{short}-{y}",
    "{d} {capitals} {y}",
    "{y} {month} {d}",
)
_YEARS = 1900, 2099
_ONES = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_ONES += ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_GROUPS = {10**6: "million", 10**3: "thousand", 100: "hundred"}
# Digits and characters of training rows, and of rows that are longer by at most a quarter.
_DIGITS, _MORE_DIGITS = (1, 7), (8, 9)
_CHARACTERS, _MORE_CHARACTERS = (1, 40), (41, 50)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class ExactRows:
    """The rows of a task.

    Args:
        train, test: rows of the same lengths.
        longer: test rows that are up to a quarter longer than any training row; none of dates.
    """

    train: list[Row]
    test: list[Row]
    longer: list[Row]


def iso_date(year: int, month: int, day: int, form: str) -> Row:
    """Return a date in a written form, and as ISO 8601.

    Example:

        >>> iso_date(2024, 3, 9, "{month} {ordinal}, {y}")
        ('March 9th, 2024', '2024-03-09')
    """
    name = calendar.month_name[month]
    ending = {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th") if day // 10 != 1 else "th"
    weekday = calendar.day_name[calendar.weekday(year, month, day)]
    words = {"month": name, "short": name[:3], "capitals": name.upper(), "weekday": weekday}
    written = form.format(y=year, m=month, d=day, ordinal=f"{day}{ending}", **words)
    return written, f"{year}-{month:02}-{day:02}"


def in_words(number: int) -> str:
    """Return a number from 0 to 999,999,999 in English words.

    Example:

        >>> in_words(1_042_000)
        'one million forty-two thousand'
    """
    if number < len(_ONES):
        return _ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens - 2] + (f"-{_ONES[ones]}" if ones else "")
    size = next(size for size in _GROUPS if number >= size)
    count, rest = divmod(number, size)
    return f"{in_words(count)} {_GROUPS[size]}" + (f" {in_words(rest)}" if rest else "")


def exact_rows(task: str, train: int, test: int, seed: int = 0) -> ExactRows:
    """Return the rows of a task of `EXACT_TASKS`.

    Args:
        task: its name.
        train, test: numbers of rows; there are `test` longer ones, too.
        seed: of the draw.
    """
    draw, longer = EXACT_TASKS[task]
    random = np.random.default_rng([seed, list(EXACT_TASKS).index(task)])
    known: set[str] = set()
    return ExactRows(
        train=_drawn(draw, train, random, known),
        test=_drawn(draw, test, random, known),
        longer=[] if longer is None else _drawn(longer, test, random, known),
    )


def _drawn(draw: Draw, count: int, random: np.random.Generator, known: set[str]) -> list[Row]:
    """Return rows whose sources are not among the known ones, where they are added."""
    rows: list[Row] = []
    while len(rows) < count:
        row = draw(random)
        if row[0] not in known:
            known.add(row[0])
            rows.append(row)
    return rows


def _date(random: np.random.Generator) -> Row:
    year, month = int(random.integers(*_YEARS, endpoint=True)), int(random.integers(1, 12, endpoint=True))
    day = int(random.integers(1, calendar.monthrange(year, month)[1], endpoint=True))
    return iso_date(year, month, day, DATE_FORMS[random.integers(len(DATE_FORMS))])


def _number(digits: tuple[int, int]) -> Draw:
    def draw(random: np.random.Generator) -> Row:
        count = int(random.integers(*digits, endpoint=True))
        number = int(random.integers(10 ** (count - 1) if count > 1 else 0, 10**count))
        return str(number), in_words(number)

    return draw


def _reversal(lengths: tuple[int, int]) -> Draw:
    def draw(random: np.random.Generator) -> Row:
        letters: Any = random.choice(list(_LETTERS), int(random.integers(*lengths, endpoint=True)))
        text = "".join(letters)
        return text, text[::-1]

    return draw


# What draws a row, and what draws a longer one.
EXACT_TASKS: dict[str, tuple[Draw, Draw | None]] = {
    "dates": (_date, None),
    "numbers": (_number(_DIGITS), _number(_MORE_DIGITS)),
    "reversal": (_reversal(_CHARACTERS), _reversal(_MORE_CHARACTERS)),
}
