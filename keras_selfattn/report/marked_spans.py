"""Rows with wrong spans, as tokens with their true and their predicted spans marked."""

from collections.abc import Collection, Sequence
from typing import Any

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.drawing.markup import Markup, join, tag
from keras_selfattn.metrics.head_metrics import RowOfSpans
from keras_selfattn.metrics.span_matches import Span
from keras_selfattn.report.sections import Table

_SHOWN = 20
_BEFORE, _TOKENS = 8, 60  # tokens before the first wrong span, and in all
_TITLE = "Rows with the most wrong spans"
_ABOUT = "Spans are marked with their label; those that the other side has not are framed."


def marked_rows(rows: LabelledRows, found: Sequence[RowOfSpans]) -> list[Any]:
    """Return a sentence and a table of rows with wrong spans; nothing without any.

    Args:
        rows: the held-out rows, of tokens.
        found: those with wrong spans, those with the most first.
    """
    if not found:
        return []
    lines = [_line(rows, each) for each in found[:_SHOWN]]
    some = f"; these are the first {_SHOWN}" if len(found) > _SHOWN else ""
    about = f"{len(found):,} {'row has' if len(found) == 1 else 'rows have'} wrong spans{some}. {_ABOUT}"
    return [about, Table(_TITLE, ["place", "true spans", "predicted spans", "wrong"], lines)]


def _line(rows: LabelledRows, found: RowOfSpans) -> list[Any]:
    right = set(found.there) & set(found.given)
    first = min(span.start for span in {*found.there, *found.given} - right)
    low = max(0, first - _BEFORE)
    tokens, end = rows.inputs[found.row], min(len(rows.inputs[found.row]), low + _TOKENS)
    sides = [_marked(tokens, side, right, low, end) for side in (found.there, found.given)]
    return [rows.place(found.row), *sides, found.wrong]


def _marked(
    tokens: Sequence[str], spans: Sequence[Span], right: Collection[Span], low: int, end: int
) -> Markup:
    """Return the tokens from `low` to before `end`, with the spans that begin there marked."""
    parts: list[Any] = ["… "] if low else []
    place = low
    for span in spans:
        if span.stop <= low or span.start >= end:
            continue
        start, stop = max(low, span.start), min(end, span.stop)
        parts += [f"{token} " for token in tokens[place:start]]
        label = tag("small", f" {span.kind}")
        wrong = None if span in right else "wrong"
        parts += [tag("mark", " ".join(tokens[start:stop]), label, class_=wrong), " "]
        place = stop
    parts += [f"{token} " for token in tokens[place:end]]
    return tag("bdi", join([*parts, "…" if end < len(tokens) else None]))
