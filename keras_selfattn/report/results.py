"""The sections of a report about answers on held-out rows: classes or numbers, and their probabilities."""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any, cast

import numpy as np

from keras_selfattn.drawing.builders import (
    confusion_figure,
    cosines_by_score,
    errors_by_step,
    histogram_of,
    lengths_of_answers,
    reliability_figure,
    residuals,
    scatter,
)
from keras_selfattn.drawing.charts import MOST_CELLS, MOST_CLASSES
from keras_selfattn.drawing.figures import Bars
from keras_selfattn.drawing.markup import shortened
from keras_selfattn.metrics.classes import ClassificationReport
from keras_selfattn.metrics.evaluation import Evaluation
from keras_selfattn.metrics.head_metrics import head_metrics
from keras_selfattn.metrics.label_sets import LabelSetReport
from keras_selfattn.metrics.numbers import NumberReport
from keras_selfattn.metrics.positions import LabellingReport, SpanReport
from keras_selfattn.metrics.reliability import CalibrationEffect, Reliability
from keras_selfattn.metrics.report import ClassReport, Report
from keras_selfattn.metrics.scores import ScoreFigures, ScoreReport
from keras_selfattn.metrics.text_answers import (
    NAMES_OF_ANSWERS,
    AnswerFigures,
    TextAnswerReport,
    answer_lines,
)
from keras_selfattn.metrics.vectors import SearchReport, SimilarityReport, cosines
from keras_selfattn.models.sequences.sequence_head import AnswerHead
from keras_selfattn.report.figure_names import name_in_words, value_in_words
from keras_selfattn.report.sections import Figure, Section, Table

_PAIRS, _HARDEST, _ALL_CLASSES = 20, 30, 400
_BEST = 10  # rows with the best answers
_SCATTERED = 6  # scores of a row with a picture of their own
_LETTERS = 200  # of a label in the table of all
_FIRST_PAIRS, _FIRST_LETTERS = 3, 40  # of the pairs at the top of the page, and of a label there
_SPANS = (
    "An exact match has the label, the beginning and the end of a span. An overlapping one has its label and "
    "shares a token with it; each span is matched once at most. Of one that overlaps with another label, the "
    "prediction is told; a span without any is missed, and a predicted one without any is spurious."
)
_RATES = (
    "An error rate is the number of words, or characters, to insert, remove or replace in the answers, by "
    "that of the right ones; symbols between blanks, such as phonemes, are words. Of several right answers "
    "to a row the nearest counts. BLEU and chrF, from 0 to 100, are those of sacrebleu."
)
_MEANING = (
    "Precision is the share of right ones among the answers of a class, recall the share found of its rows; "
    "F1 is their harmonic mean. Macro F1 is its mean over the classes, so that rare ones count as much as "
    "frequent ones."
)


def answers_section(figures: Report, split: str, found: Evaluation | None = None) -> Section:
    """Return the figures of answers on the rows of a split.

    Args:
        figures: the model's report.
        split: the name of the rows.
        found: the answers themselves, which numbers are drawn from; None leaves these pictures out.
    """
    return Section(f"Answers on {figures.rows:,} {split} rows", answer_blocks(figures, found))


@singledispatch
def answer_blocks(figures: Report, found: Evaluation | None) -> list[Any]:
    """Return the content of `answers_section`; each kind of report registers its own below."""
    return ["The figures above are all that is measured for this kind of model."]


@answer_blocks.register
def _of_classes(figures: ClassificationReport, found: Evaluation | None) -> list[Any]:
    return _figures_first(_confusion_blocks(figures, "rows"))


@answer_blocks.register
def _of_label_sets(figures: LabelSetReport, found: Evaluation | None) -> list[Any]:
    sentence = "A row can have several labels, or none, so that there is no confusion matrix."
    return [sentence, *_class_blocks(figures.classes, "rows")]


@answer_blocks.register
def _of_labelling(figures: LabellingReport, found: Evaluation | None) -> list[Any]:
    blocks = [] if figures.spans is None else _span_blocks(figures.spans)
    if figures.no_spans:
        blocks.append(f"There are no figures of spans: {figures.no_spans}.")
    return _figures_first([*blocks, *_confusion_blocks(figures.positions, "tokens")])


def _span_blocks(found: SpanReport) -> list[Any]:
    """Return the figures of spans: exact and overlapping matches, and what spans were taken for."""
    means, header = found.means(), ["label", "precision", "recall", "F1", "spans"]
    blocks = [_SPANS, Table("Spans", [*means.header[:-1], "F1"], means.rows)]
    blocks += _class_blocks(found.kinds, "spans")
    rows = [
        [shortened(kind.label, _LETTERS), kind.precision, kind.recall, kind.f1, kind.rows]
        for kind in found.overlapping.kinds[:_ALL_CLASSES]
    ]
    if rows:
        blocks.append(Table("Overlapping spans by label", header, rows, folded=len(rows) > 10))
    if 0 < len(found.kinds) < MOST_CLASSES:
        # One axis for both: nothing is predicted to be missed, and no span that is there is spurious.
        labels = [*(kind.label for kind in found.kinds), "(none)"]
        blocks.append(confusion_figure(labels, found.confusion, "Confusion of spans by label and prediction"))
    if confused := found.confused().rows[:_PAIRS]:
        blocks.append(Table("Most frequent mistakes of spans", ["label", "predicted", "spans"], confused))
    return blocks


@answer_blocks.register
def _of_numbers(figures: NumberReport, found: Evaluation | None) -> list[Any]:
    header = ["answers of", "mean absolute error", "root mean squared error"]
    errors = {"the model": figures.errors, **figures.baselines}
    table = Table("Errors, in the units of the targets", header, [[n, *e] for n, e in errors.items()])
    if found is None:
        return [table]
    true = np.asarray(found.head.encoded(found.rows.targets), float)  # [rows, numbers]
    predicted = np.asarray(found.outputs, float)
    pictures = [scatter(true.ravel(), predicted.ravel()), residuals((predicted - true).ravel())]
    if true.shape[1] > 1:
        answers = {"the model": predicted, **found.baselines}
        pictures.append(errors_by_step({name: each - true for name, each in answers.items()}))
    return [table, *pictures]


@answer_blocks.register
def _of_scores(figures: ScoreReport, found: Evaluation | None) -> list[Any]:
    several = len(figures.scores["model"]) > 1
    header = ["answers of", *(["score"] if several else []), *map(name_in_words, ScoreFigures._fields)]
    rows = [
        ["the model" if answers == "model" else answers, *([score] if several else []), *map(_known, each)]
        for answers, score, *each in figures.lines()
    ]
    table = Table("Figures of the scores; errors in their units", header, rows)
    if found is None:
        return [table]
    true = np.asarray(found.head.encoded(found.rows.targets), float)  # [rows, numbers]
    predicted = np.asarray(found.outputs, float)
    pictures: list[Any] = []
    for place in range(min(true.shape[1], _SCATTERED)):
        which = f" of score {figures.names[place]}" if several else ""
        pictures.append(scatter(true[:, place], predicted[:, place], which))
    return [table, *pictures, residuals((predicted - true).ravel())]


def _known(figure: float) -> Any:
    """Return a figure, or a dash for one that is not defined."""
    return "–" if np.isnan(figure) else figure


@answer_blocks.register
def _of_similarity(figures: SimilarityReport, found: Evaluation | None) -> list[Any]:
    sentence = (
        "Spearman compares the order of the cosines with that of the scores, Pearson the numbers themselves: "
        "1 is best, 0 no better than chance."
    )
    if found is None:
        return [sentence]
    scores, predicted = np.array(found.rows.targets, float), cosines(found.outputs)
    return [sentence, cosines_by_score(scores, predicted)]


@answer_blocks.register
def _of_search(figures: SearchReport, found: Evaluation | None) -> list[Any]:
    recalls = [[count, share] for count, share in figures.recall.items()]
    return [
        f"Each of {figures.queries:,} different queries orders all {figures.documents:,} different "
        "documents by their cosine, hard negatives included. Recall is the share of a query's right "
        "documents among the first ones, the reciprocal rank 1 over the place of its first right one; both "
        "are means of the queries.",
        Table("Right documents among the first", ["documents", "recall"], recalls),
    ]


@answer_blocks.register
def _of_text_answers(figures: TextAnswerReport, found: Evaluation | None) -> list[Any]:
    header = ["answers of", *map(name_in_words, AnswerFigures._fields)]
    rows = [
        [NAMES_OF_ANSWERS.get(name, name), *(_in_words(*each) for each in figures._asdict().items())]
        for name, figures in figures.answers.items()
    ]
    told = [f"{name_in_words(name)}: {signature}" for name, signature in figures.signatures.items()]
    told = [each for each in (f"Signatures: {'; '.join(told)}." if told else "", figures.no_bleu) if each]
    cut = f"{figures.unfinished:.1%} of the answers were cut at the bound, max_new_tokens."
    blocks: list[Any] = [Table("Figures of the answers", header, rows), _RATES, *told, cut]
    if found is None:
        return blocks
    lines = answer_lines(cast(AnswerHead, found.head), found.rows, found.outputs)
    lengths = {
        "sources": [len(source) for source in found.rows.inputs],
        "right answers": [len(target[0]) for target in found.rows.targets],
        "answers": [len(answer.text) for answer in found.outputs],
    }
    counts = {name: np.array(each) for name, each in lengths.items()}
    pictures = [
        lengths_of_answers(counts["right answers"], counts["answers"]),
        histogram_of("Lengths in and out", "characters", counts, shares=True),
    ]
    # Of answers that are all right, a long one is the better one.
    best = sorted(lines, key=lambda line: (line[-1], -len(line[3])))[:_BEST]
    cells = [[line[0], found.rows.inputs[line[1]], _joined(line[2]), line[3], line[-1]] for line in best]
    return [
        *blocks,
        *pictures,
        Table("Best answers", ["place", "text", "target", "predicted", "error"], cells),
    ]


def _in_words(name: str, value: float) -> str:
    return "–" if np.isnan(value) else value_in_words(name, value)


def _joined(target: Any) -> str:
    return target if isinstance(target, str) else " | ".join(target)


@singledispatch
def confused_most(figures: Report) -> list[str]:
    """Return the sentence about what is mixed up most, a reader's first question; none without classes."""
    return []


@confused_most.register
def _classes_confused(figures: ClassificationReport) -> list[str]:
    totals = {each.label: each.rows for each in figures.classes}
    pairs = [
        f"“{shortened(label, _FIRST_LETTERS)}” taken for “{shortened(predicted, _FIRST_LETTERS)}” "
        f"({rows:,} of {totals[label]:,} rows)"
        for label, predicted, rows in figures.most_confused(_FIRST_PAIRS)
    ]
    return [f"Confused most: {', '.join(pairs)}."] if pairs else []


def _figures_first(blocks: list[Any]) -> list[Any]:
    """Return the figures, which then stand side by side, before the sentences and tables."""
    return sorted(blocks, key=lambda block: not isinstance(block, Figure))


def _confusion_blocks(figures: ClassificationReport, counted: str) -> list[Any]:
    labels = [each.label for each in figures.classes]
    blocks: list[Any] = []
    if len(labels) > MOST_CLASSES:
        blocks.append(
            f"There are {len(labels):,} classes. A matrix of more than {MOST_CLASSES} cannot be read and is "
            "left out; the table has the pairs that are confused most."
        )
    else:
        figure = confusion_figure(
            labels, figures.confusion, f"Confusion matrix, {counted} by label and prediction"
        )
        blocks.append(figure)
        if len(figure.cells) > MOST_CELLS:
            blocks.append(f"The matrix shows the {MOST_CELLS:,} cells with the most {counted}.")
    pairs = figures.most_confused(_PAIRS)
    wrong = int(figures.confusion.sum() - np.trace(figures.confusion))
    blocks.append(f"{wrong:,} of {figures.rows:,} {counted} are answered wrongly.")
    blocks.append(_MEANING)
    if pairs:
        totals = {each.label: each.rows for each in figures.classes}
        rows = [[*pair, f"{pair[2] / max(1, totals[pair[0]]):.0%}"] for pair in pairs]
        blocks.append(Table("Most frequent mistakes", ["label", "predicted", counted, "of the label"], rows))
    return [*blocks, *_class_blocks(figures.classes, counted)]


def _class_blocks(classes: Sequence[ClassReport], counted: str) -> list[Any]:
    """Return precision and recall of the hardest classes as dots, and of all as a table."""
    there = sorted((each for each in classes if each.rows), key=lambda each: each.f1)
    if not there:
        return []
    hardest = there[:_HARDEST]
    title = (
        "Precision and recall by class"
        if len(hardest) == len(there)
        else f"The {len(hardest)} hardest classes"
    )
    groups = [
        ("precision", [each.precision for each in hardest]),
        ("recall", [each.recall for each in hardest]),
    ]
    figure = Bars(title, [each.label for each in hardest], groups, "share", limit=1.0, dots=True)
    rows = [
        [shortened(each.label, _LETTERS), each.precision, each.recall, each.f1, each.rows]
        for each in classes[:_ALL_CLASSES]
    ]
    shown = f"All {len(classes):,} classes" if len(rows) == len(classes) else f"The first {len(rows)} classes"
    table = Table(shown, ["label", "precision", "recall", "F1", counted], rows, folded=len(classes) > 10)
    return [figure, table]


def reliability_section(
    found: Evaluation, split: str, effect: CalibrationEffect | None, *, of_kept_model: bool = False
) -> Section | None:
    """Return how often answers of each probability are right, before and after the calibration.

    Of a head without probabilities it is None.

    Args:
        found: the answers.
        split: the name of the answered rows.
        effect: of the calibration, on the validation rows; None if there was none.
        of_kept_model: True if the answers are of another model than the calibrated one, trained after it.
    """
    measured = found.reliability()
    if measured is None:
        return None
    curves: dict[str, Reliability] = {}
    if effect is not None:
        curves = {"before calibration": effect.before, "after calibration": effect.after}
    if effect is None or split != "validation" or of_kept_model:
        curves[f"{split} rows"] = measured
    what = f"probability of {head_metrics(found.head).decided}"
    said = [f"The {what} beside the share that is right: on the dotted line the probabilities are true."]
    if effect is not None:
        said.append(
            "The curves before and after the calibration are of the validation rows, which it was fitted to "
            f"by their likelihood; the calibration error there was {effect.before.error:.1%} before and "
            f"{effect.after.error:.1%} after."
        )
        if of_kept_model:
            said.append("They are of the model whose epochs were measured; the kept one has its calibration.")
    if f"{split} rows" in curves:
        said.append(f"On the {split} rows the calibration error is {curves[f'{split} rows'].error:.1%}.")
    if effect is None:
        said.append("There was no calibration in this run, or it is not in the run folder.")
    rows = [[name, *cells] for name, each in curves.items() for cells in _bins(each)]
    header = ["rows", "from", "to", "answers", "mean probability", "share that is right"]
    table = Table("The bins of the curves", header, rows, folded=True)
    return Section("Reliability", [*said, reliability_figure(curves), table])


def _bins(found: Reliability) -> list[tuple[float, float, int, float, float]]:
    size = len(found.counts)
    return [
        (
            place / size,
            (place + 1) / size,
            int(count),
            float(found.confidence[place]),
            float(found.accuracy[place]),
        )
        for place, count in enumerate(found.counts)
        if count
    ]
