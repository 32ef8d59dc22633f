"""Print a model's figures as tables on the terminal."""

import math
from collections.abc import Sequence
from functools import singledispatch

from rich.text import Text

from keras_selfattn.cli.shared.console import columns, console
from keras_selfattn.metrics import Report
from keras_selfattn.metrics.classes import ClassificationReport
from keras_selfattn.metrics.label_sets import LabelSetReport
from keras_selfattn.metrics.numbers import NumberReport
from keras_selfattn.metrics.positions import LabellingReport, SpanReport
from keras_selfattn.metrics.report import ClassReport, Columns
from keras_selfattn.metrics.scores import ScoreFigures, ScoreReport
from keras_selfattn.metrics.text_answers import NAMES_OF_ANSWERS, AnswerFigures, TextAnswerReport
from keras_selfattn.report.figure_names import name_in_words, value_in_words

# More classes than this do not fit a terminal as a matrix, nor help as one.
_MATRIX_CLASSES = 10
_WORST = 10
_SHOWN = 80  # characters of a text


@singledispatch
def print_report(figures: Report, split: str) -> None:
    """Print the figures of all rows, then the tables of this kind of report, if it registers some below."""
    _print_summary(figures, split)


def _print_summary(figures: Report, split: str) -> None:
    shown = ", ".join(
        f"{name_in_words(name)} {value_in_words(name, value)}" for name, value in figures.summary().items()
    )
    console.print(Text.assemble(f"On {figures.rows:,} {split} rows: ", (shown, "bold")))


@print_report.register
def _of_classes(figures: ClassificationReport, split: str) -> None:
    _print_summary(figures, split)
    _print_classes(figures.classes)
    _print_mistakes(figures)


@print_report.register
def _of_label_sets(figures: LabelSetReport, split: str) -> None:
    _print_summary(figures, split)
    _print_classes(figures.classes)


@print_report.register
def _of_labelling(figures: LabellingReport, split: str) -> None:
    _print_summary(figures, split)
    if figures.spans is not None:
        _print_spans(figures.spans)
    elif figures.no_spans:
        line = f"No figures of spans: {figures.no_spans}."
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    _print_classes(figures.positions.classes, "tokens")
    _print_mistakes(figures.positions, "tokens")


def _print_spans(found: SpanReport) -> None:
    """Print exact and overlapping matches of spans, the labels by exact ones, and the confusion."""
    numeric = ("precision", "recall", "F1")
    table = columns("Spans", "match", "of", *numeric, right=numeric)
    for match, of, *figures in found.means().rows:
        table.add_row(match, of, *(f"{figure:.3f}" for figure in figures))
    console.print(table)
    _print_classes(found.kinds, "spans")
    if confused := found.confused().rows[:_WORST]:
        table = columns("Most frequent mistakes of spans", "label", "predicted", "spans", right=("spans",))
        for label, predicted, spans in confused:
            table.add_row(label, predicted, f"{spans:,}")
        console.print(table)


@print_report.register
def _of_numbers(figures: NumberReport, split: str) -> None:
    """Print the errors of the model beside those of the baselines."""
    numeric = ("mean absolute error", "root mean squared error")
    table = columns(f"On {figures.rows:,} {split} rows", "answers", *numeric, right=numeric)
    for name, errors in {"the model": figures.errors, **figures.baselines}.items():
        table.add_row(name, f"{errors.absolute:.4g}", f"{errors.squared:.4g}")
    console.print(table)


@print_report.register
def _of_scores(figures: ScoreReport, split: str) -> None:
    """Print the figures of each score beside those of the baselines."""
    several = len(figures.scores["model"]) > 1
    numeric = (*(["score"] if several else []), *map(name_in_words, ScoreFigures._fields))
    table = columns(f"On {figures.rows:,} {split} rows", "answers", *numeric, right=numeric)
    for answers, score, *each in figures.lines():
        shown = ["–" if math.isnan(value) else f"{value:.4g}" for value in each]
        name = "the model" if answers == "model" else answers
        table.add_row(name, *([str(score)] if several else []), *shown)
    console.print(table)


@print_report.register
def _of_text_answers(figures: TextAnswerReport, split: str) -> None:
    """Print the figures of the model's texts beside those of the baselines."""
    numeric = tuple(map(name_in_words, AnswerFigures._fields))
    table = columns(f"On {figures.rows:,} {split} rows", "answers", *numeric, right=numeric)
    for answers, each in figures.answers.items():
        shown = ["–" if math.isnan(v) else value_in_words(name, v) for name, v in each._asdict().items()]
        table.add_row(NAMES_OF_ANSWERS.get(answers, answers), *shown)
    console.print(table)
    told = [f"{name_in_words(name)}: {signature}" for name, signature in figures.signatures.items()]
    told += [figures.no_bleu] if figures.no_bleu else []
    if figures.unfinished:
        told.append(f"{figures.unfinished:.1%} of the answers were cut at the bound (--max-new-tokens).")
    for line in told:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def print_worst_answers(mistakes: Columns) -> None:
    """Print the first rows of mistakes whose answers are texts: source, right answers, answer, error."""
    if not mistakes.rows:
        return
    table = columns("The worst answers", *mistakes.header, right=("error",))
    rows: dict[str, tuple] = {}  # rows that are alike are shown once
    for place, *texts, error in mistakes.rows:
        rows.setdefault(repr(texts), (place, texts, error))
    for place, texts, error in list(rows.values())[:_WORST]:
        shown = [" | ".join(each) if isinstance(each, list) else str(each) for each in texts]
        table.add_row(
            str(place),
            *(each if len(each) <= _SHOWN else f"{each[:_SHOWN]}…" for each in shown),
            f"{error:.3f}",
        )
    console.print(table)


def _print_classes(classes: Sequence[ClassReport], counted: str = "rows") -> None:
    """Print the classes with the lowest F1; `counted` names what has a label, such as rows."""
    worst = sorted((c for c in classes if c.rows), key=lambda c: c.f1)[:_WORST]
    shown = "Per class" if len(worst) == len(classes) else f"The {len(worst)} hardest classes"
    numeric = ("precision", "recall", "F1", counted)
    table = columns(shown, "label", *numeric, right=numeric)
    for c in worst:
        table.add_row(c.label, f"{c.precision:.3f}", f"{c.recall:.3f}", f"{c.f1:.3f}", f"{c.rows:,}")
    console.print(table)


def _print_mistakes(figures: ClassificationReport, counted: str = "rows") -> None:
    if len(figures.classes) <= _MATRIX_CLASSES:
        _print_matrix(figures)
    _print_confused(figures, counted)


def _print_matrix(figures: ClassificationReport) -> None:
    labels = [c.label for c in figures.classes]
    table = columns("Confusion: rows are labels, columns predictions", "", *labels, right=labels)
    for label, counts in zip(labels, figures.confusion.tolist(), strict=True):
        table.add_row(label, *(f"{count:,}" for count in counts))
    console.print(table)


def _print_confused(figures: ClassificationReport, counted: str) -> None:
    confused = figures.most_confused(_WORST)
    if not confused:
        return
    table = columns("Most frequent mistakes", "label", "predicted", counted, right=(counted,))
    for label, predicted, rows in confused:
        table.add_row(label, predicted, f"{rows:,}")
    console.print(table)
