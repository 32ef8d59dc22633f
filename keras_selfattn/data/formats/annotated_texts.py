"""Texts with spans of characters, as annotation tools write them: doccano, Prodigy, Label Studio, JSON-MIN.

Each tool's form is one entry of `FORMS`: how a record of it is told, and how it is read.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from keras_selfattn.data.formats.cells import text_of
from keras_selfattn.errors import DataError

Units = Literal["characters", "utf-16"]
Where = int | str


class Span(NamedTuple):
    """A span of a text from one offset to before another, its label, and its text if the file says it."""

    start: int
    end: int
    label: Any
    text: str | None = None


@dataclass(frozen=True)
class AnnotatedText:
    """A text with its spans, as a tool wrote them.

    Args:
        where: the number of its line, or its place in words.
        text: the text.
        spans: of the text, in any order.
        unfit: why labels of tokens cannot say the same, as the end of a sentence; "" if they may.
        left_out: why it is no row to learn from, as the tool says: rejected, cancelled; "" if it is one.
        others: counts of annotations that are no spans, such as relations, by their name.
        controls: the tool's names of the sets of labels that there are spans of, where a tool has several.
    """

    where: Where
    text: str = ""
    spans: Sequence[Span] = ()
    unfit: str = ""
    left_out: str = ""
    others: Mapping[str, int] = field(default_factory=dict)
    controls: Sequence[str] = ()


class Columns(NamedTuple):
    """The names that the user gives of the values with the text and with the spans; None for the tool's."""

    text: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Form:
    """The form in which a tool writes annotated texts.

    Args:
        name: of the tool.
        units: the units of offsets; None where versions of the tool differ, and each file has to tell.
        usual: the units where versions differ and a file does not tell; None if that is an error.
    """

    name: str
    units: Units | None = None
    usual: Units | None = None


@dataclass(frozen=True, kw_only=True)
class RecordForm(Form):
    """A form with a record, a JSON object, for each text.

    Args:
        tells: returns True for a record that is of this form for certain.
        read: returns the text of a record; it is given the file, for messages, and the record's place.
    """

    tells: Callable[[Mapping[str, Any], Columns], bool]
    read: Callable[[str, Where, Mapping[str, Any], Columns], AnnotatedText]


def place_in_words(where: Where) -> str:
    """Return a place for a message: "line 3", or the words that it already is."""
    return f"line {where}" if isinstance(where, int) else where


def forms_of(record: Mapping[str, Any], columns: Columns) -> list[RecordForm]:
    """Return the forms of a record: none if it does not tell, several if it holds spans of two tools.

    Example:

        >>> [form.name for form in forms_of({"text": "Ada", "label": [[0, 3, "PER"]]}, Columns())]
        ['doccano']
    """
    return [form for form in FORMS if form.tells(record, columns)]


def _text_of(source: str, where: Where, record: Mapping[str, Any], name: str) -> str:
    place = place_in_words(where)
    if name not in record:
        known = ", ".join(map(repr, list(record)[:20]))
        raise DataError(
            f"{source}: {place} has no {name!r}. It has {known}. Name the text with --text (`text`)."
        )
    value = record[name]
    if not isinstance(value, str):
        raise DataError(f"{source}: the {name!r} of {place} must be a text. Received {value!r:.60}.")
    return text_of(value, f"{source}: the {name!r} of {place}")


def _spans_of(place: str, value: Any, names: tuple[str, str, str]) -> list[Span]:
    """Return the spans of a list: objects with these names, or lists of a start, an end and a label.

    Args:
        place: of the list, as the beginning of a sentence.
        value: the list; null is an empty one.
        names: of the start, the end and the label.
    """
    if value is not None and not isinstance(value, list):
        raise DataError(f"{place} must be a list of spans. Received {value!r:.60}.")
    return [_span_of(place, each, names) for each in value or ()]


def _span_of(place: str, value: Any, names: tuple[str, str, str]) -> Span:
    found: list[Any] = [None] * len(names)
    if isinstance(value, dict):
        found = [value.get(name) for name in names]
    elif isinstance(value, list) and len(value) == len(names):
        found = value
    if any(type(offset) is not int for offset in found[:2]):
        raise DataError(
            f"{place} must hold spans, [start, end, label] or objects with {', '.join(map(repr, names))}; "
            f"offsets are integers. Received {value!r:.80}."
        )
    if isinstance(found[2], list | dict):
        raise DataError(f"{place} must hold spans with one label each, a name. Received {value!r:.80}.")
    return Span(*found)


def _counts(**values: Any) -> dict[str, int]:
    """Return how many annotations there are of each name, without those that there are none of."""
    sizes = {name: len(value) if isinstance(value, list) else 1 for name, value in values.items() if value}
    return {name.replace("_", " "): size for name, size in sizes.items()}


def _checked(kind: type, place: str, value: Any) -> Any:
    """Return a value that must be a list or an object (a dict).

    Args:
        kind: `list` or `dict`.
        place: of the value, as the beginning of a sentence.
        value: as parsed.
    """
    if not isinstance(value, kind):
        name = {list: "a list", dict: "an object"}[kind]
        raise DataError(f"{place} must be {name}. Received {value!r:.60}. Export the file again.")
    return value


# doccano ---------------------------------------------------------------------------------------------------

# With relations, without; versions before 1.6.
_DOCCANO = ("entities", "label", "labels")
_DOCCANO_SPAN = ("start_offset", "end_offset", "label")


def _is_doccano(record: Mapping[str, Any], columns: Columns) -> bool:
    spans = [record.get(name) for name in ([columns.label] if columns.label else _DOCCANO)]
    return isinstance(record.get(columns.text or "text"), str) and any(map(_are_doccano_spans, spans))


def _are_doccano_spans(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    first = value[0]
    if isinstance(first, dict):
        return "start_offset" in first
    return isinstance(first, list) and len(first) == 3 and type(first[0]) is type(first[1]) is int


def _read_doccano(source: str, where: Where, record: Mapping[str, Any], columns: Columns) -> AnnotatedText:
    """Return a line of doccano's export; see `backend/data_export` of its source, version 1.8."""
    place = place_in_words(where)
    names = [columns.label] if columns.label else [name for name in _DOCCANO if name in record]
    if len(names) != 1 or names[0] not in record:
        found = f"{' and '.join(map(repr, names))}, of which one is to be read" if names else "no spans"
        raise DataError(
            f"{source}: {place} has {found}. Name the list of spans with --label (`label`), [] for none."
        )
    return AnnotatedText(
        where,
        _text_of(source, where, record, columns.text or "text"),
        _spans_of(f"{source}: the {names[0]!r} of {place}", record[names[0]], _DOCCANO_SPAN),
        others=_counts(relations=record.get("relations"), labels_of_texts=record.get("cats")),
    )


# Prodigy ---------------------------------------------------------------------------------------------------

_PRODIGY_SPAN = ("start", "end", "label")
_ANSWERS = ("accept", "reject", "ignore")
# Of recipes that classify; `accept` holds the chosen `options`.
_OF_WHOLE_TEXTS = frozenset(("label", "accept", "options"))


def _is_prodigy(record: Mapping[str, Any], columns: Columns) -> bool:
    spans = record.get(columns.label or "spans")
    is_spans = isinstance(spans, list) and bool(spans) and isinstance(spans[0], dict) and "start" in spans[0]
    # A control of Label Studio may be named so.
    has_text = isinstance(record.get(columns.text or "text"), str) and not _is_minimal(record, columns)
    return has_text and (is_spans or (isinstance(spans, list) and {"answer", "_input_hash"} <= record.keys()))


def _read_prodigy(source: str, where: Where, record: Mapping[str, Any], columns: Columns) -> AnnotatedText:
    """Return a line of `prodigy db-out`; see prodi.gy/docs/api-interfaces, `ner_manual`, `spans_manual`."""
    place, answer = place_in_words(where), record.get("answer", "accept")
    if answer not in _ANSWERS:
        raise DataError(
            f"{source}: the 'answer' of {place} must be {' or '.join(_ANSWERS)}. Received {answer!r:.60}."
        )
    text = _text_of(source, where, record, columns.text or "text")
    if answer != "accept":
        return AnnotatedText(where, text, left_out=f"with the answer {answer}")
    name = columns.label or "spans"
    if _labels_whole_text(record, record.get(name)):
        return AnnotatedText(where, text, left_out="with labels of the whole text and no spans")
    unfit = ""
    if record.get("_view_id") == "ner":
        unfit = "is a yes to one span that a model proposed (`_view_id` ner): its other spans are not known"
    return AnnotatedText(
        where,
        text,
        # A text without spans may have no list of them.
        _spans_of(f"{source}: the {name!r} of {place}", record.get(name), _PRODIGY_SPAN),
        unfit=unfit,
        others=_counts(relations=record.get("relations")),
    )


def _labels_whole_text(record: Mapping[str, Any], spans: Any) -> bool:
    """Return True for an answer of recipes that classify, `textcat` and `choice`: nobody looked for spans."""
    if record.get("_view_id") in ("classification", "choice"):
        return not spans
    return spans is None and not _OF_WHOLE_TEXTS.isdisjoint(record)


# Label Studio ----------------------------------------------------------------------------------------------

_STUDIO_SPAN = ("start", "end", "labels")
# Names of a region's answer, which are its type; JSON-MIN has no other.
_REGIONS = (
    "labels",
    "hypertextlabels",
    "paragraphlabels",
    "choices",
    "taxonomy",
    "rating",
    "number",
    "datetime",
)
# Besides the task's data, in JSON-MIN.
_OF_MINIMAL = frozenset(
    ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement")
)


def _is_studio(record: Mapping[str, Any], columns: Columns) -> bool:
    return isinstance(record.get("data"), dict) and isinstance(_annotations(record), list)


def _annotations(record: Mapping[str, Any]) -> Any:
    return record.get("annotations", record.get("completions"))  # completions: before version 1.0


def _read_studio(source: str, where: Where, record: Mapping[str, Any], columns: Columns) -> AnnotatedText:
    """Return a task of Label Studio's JSON; see labelstud.io/guide/task_format.

    Where several annotators agree, their spans are read once. Predictions and drafts are no annotations.
    """
    place = f"of {place_in_words(where)}"
    data = _checked(dict, f"{source}: the 'data' {place}", record.get("data"))
    text = _studio_text(source, where, data, columns)
    given = _checked(list, f"{source}: the 'annotations' {place}", _annotations(record))
    given = [_checked(dict, f"{source}: each of the 'annotations' {place}", each) for each in given]
    whole = [each for each in given if not (each.get("was_cancelled") or each.get("skipped"))]
    if not whole:
        return AnnotatedText(where, text, left_out="cancelled or not annotated")
    results = [_checked(list, f"{source}: a 'result' {place}", each.get("result") or []) for each in whole]
    found = [_studio_result(source, where, each, text, columns) for each in results]
    controls = list(dict.fromkeys(control for each in found for control in each.controls))
    if any(set(each.spans) != set(found[0].spans) for each in found[1:]):
        unfit = f"has {len(found)} annotations that differ, of several annotators: keep one of a text"
        return AnnotatedText(where, text, unfit=unfit, controls=controls)
    # Regions that are no spans are not compared: those of each annotator count.
    return replace(found[0], unfit=next((each.unfit for each in found if each.unfit), ""), controls=controls)


def _studio_text(source: str, where: Where, data: Mapping[str, Any], columns: Columns) -> str:
    """Return the text of a task: the value with that name, "text" by default, or the only one."""
    names = [name for name, value in data.items() if isinstance(value, str)]
    only = names[0] if len(names) == 1 else "text"
    return _text_of(source, where, data, columns.text or ("text" if "text" in data else only))


def _studio_result(
    source: str, where: Where, result: Sequence[Any], text: str, columns: Columns
) -> AnnotatedText:
    """Return the text of an annotation, whose regions are `result`: those of one control, if it is named."""
    spans, unfit = [], ""
    others: dict[str, int] = {}
    controls: list[str] = []
    marked = set()
    place = f"{source}: a region of {place_in_words(where)}"
    for each in result:
        region = _checked(dict, place, each)
        value = _checked(dict, f"{place} has a 'value' that", region.get("value") or {})
        kind = str(region.get("type") or next((name for name in value if name in _REGIONS), "labels"))
        if not kind.endswith("labels"):
            name = {"relation": "relations"}.get(kind, f"{kind} annotations")
            others[name] = others.get(name, 0) + 1
            continue
        controls.append(str(region.get("from_name")))
        if columns.label not in (None, controls[-1]):
            continue
        marked.add(str(region.get("to_name")))
        labels = _checked(list, f"{place} has 'labels' that", value.get("labels") or [])
        if kind != "labels" or "startOffset" in value:
            unfit = unfit or f"has regions of the type {kind}, in HTML or a dialogue: only plain text is read"
        elif len(labels) != 1:
            unfit = unfit or f"has a span with {len(labels)} labels"
        else:
            span = _span_of(place, {**value, "labels": labels[0]}, _STUDIO_SPAN)
            said = value.get("text")
            spans.append(span._replace(text=said if isinstance(said, str) else None))
    if len(marked) > 1:
        unfit = unfit or f"marks {len(marked)} texts ({', '.join(sorted(marked))}), not one"
    controls = list(dict.fromkeys(controls))
    return AnnotatedText(where, text, spans, unfit=unfit, others=others, controls=controls)


def _is_minimal(record: Mapping[str, Any], columns: Columns) -> bool:
    return len(_OF_MINIMAL & record.keys()) > 2 and {"annotation_id", "annotator"} <= record.keys()


def _read_minimal(source: str, where: Where, record: Mapping[str, Any], columns: Columns) -> AnnotatedText:
    """Return a record of Label Studio's JSON-MIN, an annotation: its spans are under their control's name."""
    data = {name: value for name, value in record.items() if name not in _OF_MINIMAL}
    text = _studio_text(source, where, data, columns)
    if "annotation_id" not in record:
        raise DataError(
            f"{source}: {place_in_words(where)} has no 'annotation_id', as others have. Export it again."
        )
    if record["annotation_id"] is None:
        return AnnotatedText(where, text, left_out="cancelled or not annotated")
    regions = [(name, each) for name, value in data.items() if _are_regions(value) for each in value]
    place = f"{source}: a region of {place_in_words(where)}"
    result = [{"from_name": name, "value": _checked(dict, place, each)} for name, each in regions]
    return _studio_result(source, where, result, text, columns)


def _are_regions(value: Any) -> bool:
    """Return True for a list of regions, which are of a text: they have a start."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "start" in value[0]


FORMS = (
    # Label Studio counts characters today, and counted units of UTF-16 before.
    RecordForm("Label Studio (JSON)", usual="characters", tells=_is_studio, read=_read_studio),
    RecordForm("Label Studio (JSON-MIN)", usual="characters", tells=_is_minimal, read=_read_minimal),
    RecordForm("Prodigy", units="characters", tells=_is_prodigy, read=_read_prodigy),
    # doccano 1.6 and later count units of UTF-16, earlier ones characters.
    RecordForm("doccano", tells=_is_doccano, read=_read_doccano),
)
"""The forms of records."""


def says(text: str, span_text: str) -> bool:
    """Return True if a part of a text is what a file says of it.

    Line breaks may differ: Label Studio writes a backslash and an n for one, brat a blank.
    """
    return text == span_text or _without_blanks(text) == _without_blanks(span_text)


def _without_blanks(text: str) -> str:
    return re.sub(r"\\n|\\r|\s+", "", text)
