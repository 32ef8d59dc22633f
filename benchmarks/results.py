"""Results of a benchmark: a figure for each contestant of each row, as a CSV and on one scale."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.machine import machine, versions
from keras_selfattn.files.atomic import write_file


@dataclass(frozen=True)
class Result:
    """Measurements of one contestant in one row.

    Args:
        row: the name of the measurement, the same for all contestants of the row.
        contestant: the contestant's name.
        figures: numbers by name, with the unit at the end of the name.
        note: for the reader of the figures.
        skipped: the reason why there are no figures; empty = there are figures.
    """

    row: str
    contestant: str
    figures: dict[str, float] = field(default_factory=dict)
    note: str = ""
    skipped: str = ""

    def with_figures(self, **figures: float) -> "Result":
        """Return the same with more figures."""
        return replace(self, figures={**self.figures, **figures})


@dataclass(frozen=True)
class Table:
    """The outcome of a run, and the notes above it."""

    results: list[Result]
    notes: list[str]


def write_csv(path: Path, results: Sequence[Result]) -> None:
    """Write one line for each result; the file appears whole. Machine and versions are in every line."""
    names = list(dict.fromkeys(name for result in results for name in result.figures))
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["row", "contestant", *names, "note", "skipped", "machine", "versions"])
    where = [machine(), versions()]
    for result in results:
        numbers = [result.figures.get(name, "") for name in names]
        writer.writerow([result.row, result.contestant, *numbers, result.note, result.skipped, *where])
    write_file(path, text.getvalue().encode())


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return e of the power law `value = c size^e` that fits best, by least squares of the logarithms.

    Values that are not positive have no logarithm, and are left out. With fewer than two left, e is NaN.

    Example:

        >>> round(exponent([1, 2, 4], [5, 20, 80]), 6)
        2.0
    """
    pairs = [(math.log(size), math.log(v)) for size, v in zip(sizes, values, strict=True) if v > 0]
    if len(pairs) < 2:
        return math.nan
    mean_x, mean_y = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    above = sum((x - mean_x) * (y - mean_y) for x, y in pairs)
    return above / sum((x - mean_x) ** 2 for x, _ in pairs)
