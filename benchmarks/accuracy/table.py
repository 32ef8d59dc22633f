"""The accuracy table, from rows of results: as cells, and as Markdown."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks.accuracy.ours import NAME
from benchmarks.accuracy.run import Outcome, SetResult

HEADER = (
    "set",
    "rows: train / test",
    "ours",
    "in int8",
    "best linear",
    "which",
    "seconds",
    "calibration error",
    "MB",
    "CPU ms",
    "runs",
)
NUMERIC = tuple(name for name in HEADER if name not in {"set", "which"})
NOTES = (
    "Accuracy on the test rows; of token labels, of all tokens; of several folds, their mean.",
    "Ours as `keras-selfattn train` trains without a flag on all but the test rows: median of the seeds, in "
    "brackets lowest and highest. The linear model is the best of several on the validation rows, trained on "
    "those as well; of series a ridge classifier on random convolutions.",
    "In int8: the same models by their export with `--precision int8`.",
    "Seconds of training on the wall; MB of the model, ours as a SavedModel; CPU ms of answering a single "
    "row, ours by the exported graph in TensorFlow, the linear one in Python: ours / the linear one's.",
    "Expected calibration error of ours, in brackets without the temperature fitted on the rows held out at "
    "first; it is 1 where the shares of two paths were fitted on them instead.",
)
_NONE = "—"


def cells(result: SetResult) -> list[str]:
    """Return the cells of a set's line, in the order of `HEADER`."""
    mine = [row for row in result.rows if row["contestant"] == NAME]
    theirs = [row for row in result.rows if row["contestant"] != NAME]
    error, before = _median(mine, "calibration error"), _median(mine, "calibration error before")
    return [
        result.name,
        f"{result.train_rows:,} / {result.test_rows:,}",
        _spread(mine),
        _spread(mine, "int8 accuracy"),
        _spread(theirs),
        _most_frequent([row["note"] for row in theirs]),
        _both(mine, theirs, "seconds", 1),
        _NONE if error is None or before is None else f"{100 * error:.1f} % ({100 * before:.1f})",
        _both(mine, theirs, "bytes", 1e6),
        _both(mine, theirs, "cpu ms of one", 1),
        f"{len(result.rows)} of {result.wanted}",
    ]


def markdown(outcome: Outcome, command: str) -> str:
    """Return the table as a page, with all information needed to repeat it.

    Args:
        outcome: the results.
        command: the command that made them.
    """
    rows = [row for result in outcome.sets for row in result.rows]
    rule = "|".join("--:" if name in NUMERIC else "---" for name in HEADER)
    lines = [f"| {' | '.join(HEADER)} |", f"|{rule}|"]
    lines += [f"| {' | '.join(cells(result))} |" for result in outcome.sets]
    dates = sorted({str(row["time"])[:10] for row in rows})
    taken = [f"Measured {' to '.join(dict.fromkeys([dates[0], dates[-1]]))} on"] if dates else []
    places = dict.fromkeys(f"{row['machine']}; {row['versions']}." for row in rows)
    skipped = [f"- {name}: {reason}" for name, reason in outcome.skipped.items()]
    parts = [
        "# Accuracy",
        f"`{command}`",
        "\n".join(lines),
        "\n".join(f"- {note}" for note in NOTES),
        "\n".join([*taken, "", *(f"- {place}" for place in places)]),
        "\n".join(["Left out:", "", *skipped]) if skipped else "",
    ]
    return "\n\n".join(part for part in parts if part.strip()) + "\n"


def _seeds(rows: Sequence[dict[str, Any]], figure: str) -> list[float]:
    """Return the mean of a figure over the folds of each seed."""
    values: dict[int, list[float]] = {}
    for row in rows:
        if figure in row["figures"]:
            values.setdefault(row["seed"], []).append(row["figures"][figure])
    return [sum(each) / len(each) for each in values.values()]


def _median(rows: Sequence[dict[str, Any]], figure: str) -> float | None:
    values = _seeds(rows, figure)
    return median(values) if values else None


def _spread(rows: Sequence[dict[str, Any]], figure: str = "accuracy") -> str:
    values = _seeds(rows, figure)
    if not values:
        return _NONE
    between = f" ({100 * min(values):.1f}–{100 * max(values):.1f})" if len(values) > 1 else ""
    return f"{100 * median(values):.1f} %{between}"


def _both(mine: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]], figure: str, unit: float) -> str:
    found = (_median(rows, figure) for rows in (mine, theirs))
    return " / ".join(_NONE if value is None else _number(value / unit) for value in found)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.1f}"


def _most_frequent(names: Sequence[str]) -> str:
    """Return the most frequent name, and in how many folds it occurs if not in all."""
    if not names:
        return _NONE
    best = max(dict.fromkeys(names), key=list(names).count)
    share = "" if len(set(names)) == 1 else f" ({list(names).count(best)} of {len(names)})"
    return best + share
