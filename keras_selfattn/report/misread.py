"""The rows that a model answers wrongly and most surely, with their input, answer and probability."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.drawing.markup import Markup, isolated, join, tag
from keras_selfattn.drawing.notebook import coloured_tokens
from keras_selfattn.drawing.pictures import FEATURES, image, sparkline
from keras_selfattn.metrics.head_metrics import head_metrics
from keras_selfattn.metrics.mistakes import ranked_mistakes
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.report.marked_spans import marked_rows
from keras_selfattn.report.sections import Section, Table
from keras_selfattn.rows.kind import Curves, Picture, Pixels, Written
from keras_selfattn.rows.targets import ANSWERS, NUMBERS

MISREAD = "Most surely misread"
"""The title of the section of a model that answers with classes."""
SHOWN = 20
_COLOURED = 12  # texts with attention: each is computed by itself
_COLOURED_CHARACTERS = 2_000  # longer texts take seconds
_BESIDE = 8  # tokens on either side of a wrong one
_NUMBERS = 3  # of a target in a cell
_EDITS = "The error is the number of characters to edit, by those of the nearest right answer."
_BEGIN = (
    "Where the model is sure and wrong, look for a wrong label in the data, for a text that two labels "
    "share, and for a kind of row that the training lacks."
)
_COLOURS = (
    "The colour of a token is the share of the attention that it receives, mean of all layers, heads and "
    "tokens; the strongest colour is the row's largest share. It shows where the model looks, not why it "
    "decides: the n-grams beside attention have no colour. Long texts are cut with an ellipsis."
)


def misread_section(head: Head, rows: LabelledRows, outputs: Any, model: RawModel | None = None) -> Section:
    """Return the rows that are answered wrongly, the surest answer first; of numbers, the largest errors.

    Args:
        head: of the model.
        rows: the held-out rows.
        outputs: the model's predictions for them.
        model: the model, for the attention over texts; None leaves that out.
    """
    columns, lines, score = ranked_mistakes(head, rows, outputs)
    numbers, by_position = score == "error", head.per_position
    title = "Largest errors" if numbers else MISREAD
    of_texts = head.target_kind == ANSWERS
    if numbers and not of_texts:
        columns = ["true", *columns[1:]]
    if not lines:
        return Section(title, ["No held-out row is answered wrongly."])
    about = _counted(len(lines), "token" if by_position else "row", numbers, of_texts)
    lines = lines[:SHOWN]
    if by_position:
        table = Table(
            title, ["place", "tokens", *columns[3:], score], [_token_line(rows, line) for line in lines]
        )
        spans = marked_rows(rows, head_metrics(head).rows_of_spans(rows, outputs))
        return Section(title, [f"{about} The wrong token is framed.", table, *spans])
    # Attention over a source is of each piece of the answer, and has no colours here.
    model = None if of_texts else model
    named, inputs = _inputs(head, rows, outputs, [line[1] for line in lines], model)
    cells = [
        [line[0], *shown, *map(_judged, line[2:-1]), line[-1]]
        for line, shown in zip(lines, inputs, strict=True)
    ]
    table = Table(title, ["place", *named, *columns, score], cells)
    begin = [_EDITS] * of_texts if numbers else [_BEGIN.replace("text", rows.kind.name)]
    return Section(title, [about, *begin, *_note(rows, head, list(chain(*inputs))), table])


def _counted(found: int, what: str, numbers: bool, of_texts: bool = False) -> str:
    """Return the sentence above the rows."""
    order = "the largest error" if numbers else "the surest answer"
    each = f"{found:,} {what}{'s' if found > 1 else ''}"
    said = f"{each} {'are' if found > 1 else 'is'} wrong"
    if of_texts:
        said = f"{each} {'have' if found > 1 else 'has'} another answer than the right ones"
    elif numbers:
        said = f"{each} answered"
    if found > SHOWN:
        said += f"; these are the first {SHOWN}"
    return f"{said}, {order} first." if found > 1 else f"{said}."


def _inputs(
    head: Head, rows: LabelledRows, outputs: Any, chosen: Sequence[int], model: RawModel | None
) -> tuple[list[str], list[list[Markup]]]:
    """Return the columns of the chosen rows' inputs, and their cells: both texts of a pair have one each."""
    key, pictures = rows.kind.key, {row: rows.kind.picture(rows.inputs[row]) for row in chosen}
    short = [rows.inputs[row] for row in chosen[:_COLOURED] if _can_be_coloured(pictures[row])]
    coloured = dict(zip(map(key, short), explained(model, short), strict=False))
    drawn = [
        _drawn(pictures[row], head, rows, outputs, row, coloured.get(key(rows.inputs[row]))) for row in chosen
    ]
    if len(rows.kind.headings) < 2 or not isinstance(pictures[chosen[0]], Written):
        return [rows.kind.name], [[each] for each in drawn]
    parts = [list(map(isolated, rows.kind.cells(rows.inputs[row]))) for row in chosen]
    if not coloured:
        return list(rows.kind.headings), parts
    # The tokens of all parts attend to each other, so their colours are in a cell of their own.
    beside = [
        each if key(rows.inputs[row]) in coloured else isolated("")
        for row, each in zip(chosen, drawn, strict=True)
    ]
    return [*rows.kind.headings, "attention"], [[*of, each] for of, each in zip(parts, beside, strict=True)]


def _can_be_coloured(picture: Picture) -> bool:
    return isinstance(picture, Written) and len(picture.text) <= _COLOURED_CHARACTERS


def _drawn(
    picture: Picture, head: Head, rows: LabelledRows, outputs: Any, row: int, attention: Any
) -> Markup:
    """Return the picture of a row as markup; `attention` over its tokens colours them, if there is any."""
    if isinstance(picture, Pixels):
        return image(picture.values, f"image of {rows.place(row)}")
    if isinstance(picture, Curves):
        return _series(head, picture.values, rows.targets[row], outputs[row])
    if attention is None:
        return isolated(picture.text)
    return coloured_tokens(attention.tokens, attention.received, spaced=attention.spaced)


def explained(model: Any, rows: Sequence[Any], *answers: Sequence[Any]) -> Sequence[Any]:
    """Return the attention over rows where it takes no compilation; nothing elsewhere, or without a model.

    Args:
        model: that explains rows.
        rows: inputs.
        answers: of a model that writes texts, those to the rows.
    """
    import keras

    if not rows or not hasattr(model, "explain") or keras.backend.backend() == "jax":
        return []
    return model.explain(rows, *answers)


def _series(head: Head, series: np.ndarray, target: Any, output: Any) -> Markup:
    """Return a series as a small line; a forecast goes on with the true and the predicted values."""
    after = []
    if head.target_kind == NUMBERS and len(target) > 1:
        after = [("true", np.asarray(target, float)), ("predicted", np.asarray(output, float))]
    return sparkline(np.asarray(series, float), after=after)


def _token_line(rows: LabelledRows, line: Sequence[Any]) -> list[Any]:
    """Return the place, the tokens around the wrong one, the label, the prediction and its probability."""
    place, row, position = line[0], line[1], line[2]
    tokens = rows.inputs[row]
    low, high = max(0, position - _BESIDE), min(len(tokens), position + _BESIDE + 1)
    before, after = " ".join(tokens[low:position]), " ".join(tokens[position + 1 : high])
    parts = ["… " if low else None, before, " ", tag("span", tokens[position], class_="wrong"), " ", after]
    return [place, tag("bdi", join([*parts, " …" if high < len(tokens) else None])), *line[5:-1], line[-1]]


def _judged(value: Any) -> Any:
    """Return a label, the labels, or the numbers of a row as a cell."""
    if not isinstance(value, list):
        return value
    if value and isinstance(value[0], float):
        shown = ", ".join(f"{number:.4g}" for number in value[:_NUMBERS])
        return f"{shown}, … ({len(value)} numbers)" if len(value) > _NUMBERS else shown
    return ", ".join(value) or "none"


def _note(rows: LabelledRows, head: Head, inputs: Sequence[Markup]) -> list[str]:
    """Return the sentence that says how the inputs are drawn, if it is needed."""
    first = rows.kind.picture(rows.inputs[0])
    if isinstance(first, Curves):
        features = first.values.shape[-1]
        few = f"The lines are the first {FEATURES} of {features} features." if features > FEATURES else ""
        after = "After each series follow the true values, dashed, and the predicted ones."
        forecast = head.target_kind == NUMBERS and any("<g>" in shown for shown in inputs)
        return [said for said in (few, after * forecast) if said]
    if isinstance(first, Pixels):
        return ["The images are reduced to 64 pixels."] if max(first.values.shape[:2]) > 64 else []
    return [_COLOURS] if any('class="tokens' in shown for shown in inputs) else []
