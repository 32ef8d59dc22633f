"""Figures of answers that are texts: exact ones, edits of words and characters, BLEU and chrF.

Of several right answers to a row the nearest counts, for each figure by itself.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.extras import install
from keras_selfattn.metrics.edit_distance import edit_distance
from keras_selfattn.metrics.head_metrics import HeadMetrics, Line, head_metrics
from keras_selfattn.metrics.report import Columns, Report
from keras_selfattn.models.sequences.sequence_head import AnswerHead
from keras_selfattn.models.sequences.text_answer import Answer
from keras_selfattn.rows.targets import ANSWERS

COPYING, CONSTANT = "copying", "constant"
"""Baselines: the source as its answer, and the most frequent answer of the measured rows for all of them."""
NAMES_OF_ANSWERS = {
    "model": "the model",
    COPYING: "a copy of the source",
    CONSTANT: "the most frequent answer",
}
"""The answers of a report in words."""

Right = tuple[str, ...]
"""The right answers of a row, the main one first."""


class AnswerFigures(NamedTuple):
    """Figures of answers.

    Args:
        exact_match: share of the answers that are exactly a right one; of models of words, between which
            stands one blank, however many blanks are there.
        bleu: of the corpus, 0 to 100, by sacrebleu; NaN without it, and if no right answer has four words.
        chrf: the same, of any answers.
        word_error_rate: edits of words by the words of the right answers. Words are separated by blanks, as
            the symbols of phonemes are.
        character_error_rate: edits of characters by the characters of the right answers.
    """

    exact_match: float
    bleu: float
    chrf: float
    word_error_rate: float
    character_error_rate: float


@dataclass(frozen=True)
class TextAnswerReport(Report):
    """Figures of answers that are texts.

    Args:
        answers: figures by the name of the answers: "model" first, then baselines.
        unfinished: share of the model's answers that were cut at its bound.
        count: number of rows.
        signatures: those of sacrebleu's figures, by their name; none without it.
    """

    answers: Mapping[str, AnswerFigures]
    unfinished: float
    count: int
    signatures: Mapping[str, str]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.count

    @property
    def no_bleu(self) -> str:
        """The sentence that says why there is no BLEU, or ""."""
        if not self.signatures:
            return f"There is no BLEU and chrF without sacrebleu: {install('bleu')}."
        undefined = math.isnan(self.answers["model"].bleu)
        return "There is no BLEU, since no right answer has four words." if undefined else ""

    def summary(self) -> dict[str, float]:
        of_model = self.answers["model"]._asdict()
        found = {name: value for name, value in of_model.items() if not math.isnan(value)}
        found["unfinished"] = self.unfinished
        for baseline, figures in self.answers.items():
            if baseline != "model":
                found[f"exact_match_of_{baseline}"] = figures.exact_match
                found[f"character_error_rate_of_{baseline}"] = figures.character_error_rate
        return found

    def tables(self) -> dict[str, Columns]:
        lines = [(name, *figures) for name, figures in self.answers.items()]
        found = {"errors": Columns(["answers", *AnswerFigures._fields], lines)}
        if self.signatures:
            found["signatures"] = Columns(["figure", "signature"], [*self.signatures.items()])
        return found


def text_answer_report(
    targets: Sequence[Right], texts: Sequence[str], unfinished: float, baselines: Mapping[str, Sequence[str]]
) -> TextAnswerReport:
    """Return the figures of a model's texts, of baselines, and of the most frequent right answer.

    Args:
        targets: the right answers of each row.
        texts: the model's.
        unfinished: share of them that were cut.
        baselines: the texts of baselines, by name.

    Example:

        >>> found = text_answer_report([("ab", "abc"), ("xy",)], ["abc", "x"], 0.0, {"copying": ["ab", "x"]})
        >>> found.answers["model"].exact_match, found.answers["model"].character_error_rate
        (0.5, 0.2)
    """
    (commonest, _), *_ = Counter(target[0] for target in targets).most_common(1)
    given = {"model": texts, **baselines, CONSTANT: [commonest] * len(targets)}
    (bleu, chrf), signatures = _corpus_figures(targets)
    answers = {
        name: AnswerFigures(
            float(np.mean([text in target for text, target in zip(each, targets, strict=True)])),
            bleu(each),
            chrf(each),
            edit_rate(targets, each, str.split),
            edit_rate(targets, each),
        )
        for name, each in given.items()
    }
    return TextAnswerReport(answers, unfinished, len(targets), signatures)


def edit_rate(
    targets: Sequence[Right], texts: Sequence[str], units: Callable[[str], Sequence[str]] = str
) -> float:
    """Return the edits that make texts of their nearest right answers, by the length of those.

    Args:
        targets: the right answers of each row.
        texts: one for each row.
        units: of a text, in which edits and lengths count; characters by default.

    Example:

        >>> edit_rate([("a man", "one man"), ("b",)], ["one man", "c"], str.split)
        0.3333333333333333
    """
    nearest = [_nearest(target, text, units) for target, text in zip(targets, texts, strict=True)]
    edits, length = np.sum(nearest, axis=0).tolist()
    return edits / max(1, length)


def _nearest(target: Right, text: str, units: Callable[[str], Sequence[str]] = str) -> tuple[int, int]:
    """Return the edits between a text and the nearest right answer, and the length of that, in units."""
    if text in target:
        return 0, len(units(text))
    answered = units(text)
    found = [(edit_distance(right, answered), len(right)) for right in map(units, target)]
    return min(found, key=lambda each: each[0] / max(1, each[1]))


def _corpus_figures(
    targets: Sequence[Right],
) -> tuple[list[Callable[[Sequence[str]], float]], dict[str, str]]:
    """Return functions from texts to BLEU and to chrF, and their signatures; of NaN without sacrebleu."""
    if find_spec("sacrebleu") is None:
        return [_undefined] * 2, {}
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    # sacrebleu has a list for each place of an answer among the right ones; None where a row has fewer.
    references = [
        [target[place] if place < len(target) else None for target in targets]
        for place in range(max(map(len, targets)))
    ]
    # Without `force` sacrebleu warns of texts that look tokenized, as phonemes do.
    metrics = {
        "bleu": BLEU(references=references, force=True),  # type: ignore[arg-type]
        "chrf": CHRF(references=references),  # type: ignore[arg-type]
    }

    def score_of(metric: Any) -> Callable[[Sequence[str]], float]:
        return lambda texts: float(metric.corpus_score(texts, None).score)

    scores = [score_of(metric) for metric in metrics.values()]
    main = [target[0] for target in targets]
    if not metrics["bleu"].corpus_score(main, None).totals[-1]:
        scores[0] = _undefined  # sacrebleu gives 0 to right answers, too, if none has n-grams of four words
    return scores, {name: str(metric.get_signature()) for name, metric in metrics.items()}


def _undefined(texts: Sequence[str]) -> float:
    return math.nan


@head_metrics.register(AnswerHead)
class TextAnswerMetrics(HeadMetrics[AnswerHead]):
    """Of answers that are texts. The outputs are `Answer` objects."""

    columns = ("target", "predicted")
    ranked_by = "error"
    # A search takes many times a step of training.
    rows_of_epoch = 500

    def report(
        self, targets: Sequence[Right], outputs: Sequence[Answer], baselines: Mapping[str, Any]
    ) -> TextAnswerReport:
        unfinished = float(np.mean([not answer.ended for answer in outputs]))
        # In the blanks that answers can have, on both sides of each comparison.
        same = self.head.comparable
        given = {name: [*map(same, texts)] for name, texts in baselines.items()}
        texts = [same(answer.text) for answer in outputs]
        return text_answer_report(_comparable(self.head, targets), texts, unfinished, given)

    def mistakes(self, rows: LabelledRows, outputs: Sequence[Answer]) -> list[Line]:
        """Return the rows whose answer is none of the right ones; the error is the character error rate."""
        targets = _comparable(self.head, rows.targets)
        return [
            line
            for line in answer_lines(self.head, rows, outputs)
            if self.head.comparable(line[3]) not in targets[line[1]]
        ]

    def decisions(self, targets: Sequence[Right], outputs: Any) -> None:
        return None

    def chooses_epoch(self, targets: Sequence[Right]) -> str | None:
        # The loss is of symbols after right ones: what one wrong symbol does to the rest, the search tells.
        return "character_error_rate" if any(any(answers) for answers in targets) else None


def answer_lines(head: AnswerHead, rows: LabelledRows, outputs: Sequence[Answer]) -> list[Line]:
    """Return a line for each row: place, number, right answers, the answer, its character error rate.

    Args:
        head: of the model.
        rows: with their right answers.
        outputs: the model's answers.
    """
    found: list[Line] = []
    targets = _comparable(head, rows.targets)
    for row, (target, answer) in enumerate(zip(targets, outputs, strict=True)):
        edits, length = _nearest(target, head.comparable(answer.text))
        error = edits / max(1, length)
        found.append((rows.place(row), row, ANSWERS.as_json(rows.targets[row]), answer.text, error))
    return found


def _comparable(head: AnswerHead, targets: Sequence[Right]) -> list[Right]:
    """Return right answers as they are compared with the model's."""
    return [tuple(map(head.comparable, target)) for target in targets]
