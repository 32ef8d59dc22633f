"""Tables of how good a model is, on the terminal."""

from rich.text import Text

from keras_selfattn.cli.console import columns, console
from keras_selfattn.metrics import Report

# More classes than this do not fit a terminal as a matrix, nor help as one.
_MATRIX_CLASSES = 10
_WORST = 10


def print_report(figures: Report, split: str) -> None:
    """Prints accuracy and macro F1, the classes with the lowest F1, and what is taken for what."""
    accuracy, macro_f1 = f"{figures.accuracy:.1%}", f"{figures.macro_f1:.3f}"
    bold = ((accuracy, "bold"), ", macro F1 ", (macro_f1, "bold"))
    console.print(Text.assemble(f"On {figures.rows:,} {split} rows: accuracy ", *bold))
    worst = sorted((c for c in figures.classes if c.rows), key=lambda c: c.f1)[:_WORST]
    shown = "Per class" if len(worst) == len(figures.classes) else f"The {len(worst)} hardest classes"
    numeric = ("precision", "recall", "F1", "rows")
    table = columns(shown, "label", *numeric, right=numeric)
    for c in worst:
        table.add_row(c.label, f"{c.precision:.3f}", f"{c.recall:.3f}", f"{c.f1:.3f}", f"{c.rows:,}")
    console.print(table)
    if len(figures.classes) <= _MATRIX_CLASSES:
        _print_matrix(figures)
    else:
        _print_confused(figures)


def _print_matrix(figures: Report) -> None:
    labels = [c.label for c in figures.classes]
    table = columns("Confusion: rows are labels, columns predictions", "", *labels, right=labels)
    for label, counts in zip(labels, figures.confusion.tolist(), strict=True):
        table.add_row(label, *(f"{count:,}" for count in counts))
    console.print(table)


def _print_confused(figures: Report) -> None:
    confused = figures.most_confused(_WORST)
    if not confused:
        return
    table = columns("Most frequent mistakes", "label", "predicted", "rows", right=("rows",))
    for label, predicted, rows in confused:
        table.add_row(label, predicted, f"{rows:,}")
    console.print(table)
