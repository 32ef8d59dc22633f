"""Which symbols of its source each symbol of an answer reads, of some right and some wrong answers."""

from typing import Any, cast

from keras_selfattn.drawing.figures import Alignment
from keras_selfattn.drawing.markup import shortened
from keras_selfattn.metrics.evaluation import Evaluation
from keras_selfattn.metrics.text_answers import answer_lines
from keras_selfattn.models.sequences.sequence_head import AnswerHead
from keras_selfattn.report.misread import explained
from keras_selfattn.report.sections import Section
from keras_selfattn.rows.targets import ANSWERS

_EACH = 2  # answers of either kind: a figure has a cell for each pair of symbols
_CHARACTERS, _SYMBOLS = 200, 40  # of a side; names of more symbols would have no room
_TITLE_LETTERS = 40
_MEANING = (
    "Each line is a symbol of the answer, and its colours are the shares of the source's symbols in what the "
    "model reads to write it: the weights of the last decoder block, mean of its heads. They say what it "
    "reads, not why it answers so."
)


def alignment_section(found: Evaluation, model: Any) -> Section | None:
    """Return the alignment of some right and some wrong answers; None if the answers are no texts.

    Args:
        found: the answers on held-out rows.
        model: that gave them; without one the section is left out, and so are answers too long to draw.
    """
    if found.head.target_kind != ANSWERS:
        return None
    lines = [line for line in _by_error(found) if _can_be_drawn(found, line)]
    right = [line for line in lines if not line[-1]][-_EACH:]  # the longest
    wrong = [line for line in lines if line[-1]][-_EACH:]  # those with the largest errors
    chosen = [*right, *wrong[::-1]]
    answers = [str(line[3]) for line in chosen]
    seen = explained(model, [found.rows.inputs[line[1]] for line in chosen], answers)
    figures = [
        Alignment(_title(line), each.source, each.target, each.weights.tolist())
        for line, each in zip(chosen, seen, strict=False)
        if max(each.weights.shape) <= _SYMBOLS
    ]
    return Section("What each symbol reads", [_MEANING, *figures]) if figures else None


def _by_error(found: Evaluation) -> list[Any]:
    """Return the lines of answers, the smallest error first, and of equal errors the shortest."""
    first: dict[str, Any] = {}  # of rows with one source, which have one answer
    for line in answer_lines(cast(AnswerHead, found.head), found.rows, found.outputs):
        first.setdefault(found.rows.inputs[line[1]], line)
    return sorted(first.values(), key=lambda line: (line[-1], len(line[3])))


def _can_be_drawn(found: Evaluation, line: Any) -> bool:
    """Return True for short texts on both sides; what the bound cut has no end to draw."""
    source, answer = found.rows.inputs[line[1]], found.outputs[line[1]]
    short = max(len(source), len(answer.text)) <= _CHARACTERS
    return short and answer.ended and bool(source.strip() and answer.text.strip())


def _title(line: Any) -> str:
    said = "right" if not line[-1] else f"error {line[-1]:.0%}"
    return f"{shortened(str(line[3]), _TITLE_LETTERS)} ({said}, place {line[0]})"
