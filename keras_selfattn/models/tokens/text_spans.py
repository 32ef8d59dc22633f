"""Spans of characters of a raw text from the labels of its tokens, in NumPy.

`Labelling.spans` in `export/signatures/answers.py` does the same in a graph, by the same tables of labels.

Axes: T (tokens of a text), C (labels), P (labels before and, last, the state before the first token).
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np

from keras_selfattn.rows.span_schemes import OUTSIDE, Mark, scheme_of
from keras_selfattn.rows.text_spans import Span
from keras_selfattn.rows.text_tokens import split_text


class SpanMarks:
    """Which labels begin a span, which are in one, and the label of the span.

    Labels that mark spans, such as B-PER and I-PER, are read as the figures do (`metrics.positions.spans`): a
    span ends before O, B, S and another kind, and behind E and S; an I that follows no span begins one. Of
    other labels, such as NOUN, equal neighbours are one span; O, if it is one of them, is outside.

    Args:
        labels: label names in the order of the classes.

    Attributes:
        begins: bool `[P, C]`, True if a token of label C begins a span behind one of label P.
        inside: bool `[C]`, True if a token of the label is in a span.
        kinds: the label of the span of each of the labels; "" outside.

    Example:

        >>> SpanMarks(["B-PER", "I-PER", "O"]).kinds, SpanMarks(["NOUN", "O"]).kinds
        (['PER', 'PER', ''], ['NOUN', ''])
    """

    def __init__(self, labels: Sequence[str]) -> None:
        scheme = scheme_of(labels)
        found = [_plain(label) if scheme is None else scheme.read(label) for label in labels]
        marks = [each or _plain(label) for label, each in zip(labels, found, strict=True)]
        befores = [*marks, Mark(OUTSIDE, "")]
        self.begins = np.array([[_begins(before, mark) for mark in marks] for before in befores], bool)
        self.inside = np.array([mark.mark != OUTSIDE for mark in marks], bool)
        self.kinds = [mark.kind for mark in marks]

    def spans(
        self, text: str, places: Sequence[tuple[int, int]], chosen: np.ndarray, scores: np.ndarray
    ) -> list[Span]:
        """Return the spans of a text, in order.

        Args:
            text: the raw text.
            places: the first character of each token, and the one behind its last.
            chosen: the index of each token's label, int `[T]`.
            scores: the probability of that label, float `[T]`.

        Example:

            >>> marks = SpanMarks(["B-PER", "I-PER", "O"])
            >>> marks.spans("Ada L.", [(0, 3), (4, 5), (5, 6)], np.array([0, 1, 2]), np.array([0.5, 0.25, 1]))
            [Span(text='Ada L', label='PER', start=0, end=5, score=0.25)]
        """
        before = np.concatenate([[len(self.kinds)], chosen[:-1]]).astype(int)[: len(chosen)]
        begins, inside = self.begins[before, chosen], self.inside[chosen]
        # Each span ends before the next token that begins one, or is in none.
        edges = np.append(np.flatnonzero(begins | ~inside), len(chosen))
        found = []
        for first, behind in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if begins[first]:
                start, end = places[first][0], places[behind - 1][1]
                label, score = self.kinds[chosen[first]], float(scores[first:behind].min())
                found.append(Span(text[start:end], label, start, end, score))
        return found


def share_split_otherwise(rows: Sequence[Sequence[str]]) -> float:
    """Return the share of the tokens of rows that are not one token in a raw text, from 0 to 1.

    A row of a raw text that was split by `split_text` has none. Tokens that were split further than there,
    such as "can" and "not" of "cannot", are not seen.

    Example:

        >>> share_split_otherwise([["Ada", ",", "too"], ["It", "'s"]])
        0.2
    """
    counts = Counter(chain.from_iterable(rows))
    return sum(count for token, count in counts.items() if split_text(token) != [token]) / max(
        1, counts.total()
    )


def splitting_in_words(share: float | None) -> str:
    """Return a sentence about the tokens that a model was trained on, beside those of raw texts.

    Example:

        >>> splitting_in_words(0)
        'Raw texts are split as the training rows were.'
    """
    if share is None:
        return "Raw texts may be split into other tokens than the training rows: the model does not tell."
    if not share:
        return "Raw texts are split as the training rows were."
    several = f"{share:.2%} of their tokens are several there."
    return f"Raw texts are split otherwise than the training rows: {several}"


def _plain(label: str) -> Mark:
    """Return the mark of a label of no scheme: inside a span of its own."""
    return Mark(OUTSIDE, "") if label == OUTSIDE else Mark("I", label)


def _begins(before: Mark, mark: Mark) -> bool:
    """Return True if a token begins a span, by its mark and that of the token before."""
    return mark.mark != OUTSIDE and (before.mark in "OES" or mark.mark in "BS" or before.kind != mark.kind)
