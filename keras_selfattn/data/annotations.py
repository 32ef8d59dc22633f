"""Rows of tokens with a label each from texts with spans of characters: units, tokens, labels, counts.

The spans become labels of the scheme IOB2: B- begins a span, I- continues it, O is outside.
"""

import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, get_args

from keras_selfattn.data.formats.annotated_texts import (
    FORMS,
    AnnotatedText,
    Columns,
    Form,
    RecordForm,
    Span,
    Units,
    Where,
    forms_of,
    place_in_words,
    says,
)
from keras_selfattn.data.formats.brat_folders import BRAT, iter_brat
from keras_selfattn.data.formats.endings import ending_of
from keras_selfattn.data.formats.records import FIRST_ROWS, iter_records, json_list
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.rows.label_names import LabelReader
from keras_selfattn.rows.span_schemes import OUTSIDE
from keras_selfattn.rows.targets import LABEL_PER_POSITION
from keras_selfattn.rows.text_tokens import split_text, token_places
from keras_selfattn.rows.tokens import TOKENS
from keras_selfattn.user_warnings import warn_user

_SKIP = "Mend it in the tool, or leave such texts out with --skip-unfit-texts (`skip_unfit_texts=True`)."
# Rows of tokens are split at blanks alone by commands, where "Rome." would be one token.
_TAKES_TEXTS = (
    "The trained model takes such texts: predict and query --file read a column text, or a .txt, and write "
    f"spans. As tokens they are split by {split_text.__module__}.{split_text.__name__}."
)
# Labels in a sentence.
_SHOWN = 8


def annotated_texts(file: Path, columns: Columns) -> tuple[Form, Iterator[AnnotatedText]] | None:
    """Return the form of a file or folder and its texts; None for a file that is of no form for certain.

    Args:
        file: a `.jsonl`, `.ndjson` or `.json` file, or a folder of brat.
        columns: the names of the text and of the spans in a record, if the user gives them.

    Raises:
        ConfigError: for `columns` of a folder.
        DataError: if the file cannot be read, or has texts, or is a `.json` file, and is of no form.
    """
    if file.is_dir():
        if any(columns):
            raise ConfigError(f"`text` and `label` are for files. {file} is a folder: leave them out.")
        return BRAT, iter_brat(file)
    is_list = ending_of(file) == ".json"
    rows: Iterator[tuple[Any, dict[str, Any]]] = iter(_of_list(file) if is_list else iter_records(file))
    first: list[tuple[Any, dict[str, Any]]] = []
    for row in rows:
        first.append(row)
        if _holds_tokens(row[1], columns) or len(first) == FIRST_ROWS:
            break
        if forms := forms_of(row[1], columns):
            texts = _of_one_form(file, forms[0], chain(first, rows), columns)
            return forms[0], _of_one_control(file, columns.label, texts)
    known = f"no texts with spans in a known form: {', '.join(form.name for form in FORMS)}"
    if is_list:
        raise DataError(
            f"{file} has {known}. Name the text with --text (`text`), or write tokens that are split already "
            "to a .jsonl."
        )
    if columns.text is None and _are_texts([record for _, record in first]):
        raise DataError(
            f"{file} has no column 'tokens', and {known}. Write spans as doccano does, offsets as integers: "
            '{"text": "Ada wrote", "label": [[0, 3, "PER"]]}.'
        )
    return None


def _are_texts(records: Sequence[dict[str, Any]]) -> bool:
    """Return True for records with a text, and none with tokens."""
    return any(isinstance(record.get("text"), str) for record in records) and not any(
        "tokens" in record for record in records
    )


def _of_one_form(
    file: Path, form: RecordForm, records: Iterable[tuple[Where, dict[str, Any]]], columns: Columns
) -> Iterator[AnnotatedText]:
    """Yield the texts of records.

    Raises:
        DataError: for a record that is of another form for certain, too or instead.
    """
    for where, record in records:
        names, place = [each.name for each in forms_of(record, columns)], f"{file}: {place_in_words(where)}"
        if len(names) > 1:
            raise DataError(
                f"{place} is of two forms, {' and '.join(names)}. Name the spans to be read with --label "
                "(`label`), or delete the others."
            )
        if names and names != [form.name]:
            raise DataError(
                f"{place} is of the form {names[0]}, others are of {form.name}. Give a file of one form."
            )
        yield form.read(str(file), where, record, columns)


def _of_one_control(file: Path, label: str | None, texts: Iterator[AnnotatedText]) -> Iterator[AnnotatedText]:
    """Yield the texts of a file whose spans are of one control of the tool, or of the one that is named.

    Raises:
        DataError: for spans of a second one, which label the tokens again, and for a name that has no spans.
    """
    seen: dict[str, Where] = {}
    for text in texts:
        for control in text.controls:
            seen.setdefault(control, text.where)
        if label is None and len(seen) > 1:
            raise DataError(
                f"{file} has spans under {_and(seen)}, the second in {place_in_words([*seen.values()][1])}. "
                "Name those to be read with --label (`label`)."
            )
        yield text
    if label is not None and seen and label not in seen:
        raise DataError(f"{file} has no spans under {label!r}; it has some under {_and(seen)}.")


def _and(names: Iterable[str]) -> str:
    return " and ".join(map(repr, names))


def _of_list(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the records of a list with their places: the tool's number of a task."""
    for number, record in enumerate(json_list(file), start=1):
        yield f"task {record['id']}" if "id" in record else f"entry {number}", record


def _holds_tokens(record: dict[str, Any], columns: Columns) -> bool:
    """Return True for a row of tokens that are split already: a list of texts, as `read_tagged` takes it."""
    tokens = record.get(columns.text or "tokens")
    return isinstance(tokens, list) and not any(isinstance(each, dict) for each in tokens)


def read_annotations(
    file: Path,
    form: Form,
    texts: Iterator[AnnotatedText],
    offsets: Units | None = None,
    skip_unfit_texts: bool = False,
) -> LabelledRows:
    """Return a row of tokens and labels for each text; `note` of the rows says what was read.

    Args:
        file: of the texts, for messages.
        form: of the file.
        texts: of the file.
        offsets: the units of the spans' offsets; None if the form or the file tells.
        skip_unfit_texts: True to leave out texts with spans that labels of tokens cannot mark.

    Raises:
        ConfigError: for other `offsets` than those of the form.
        DataError: if the file does not tell its offsets; for a text that labels of tokens cannot mark, with
            its place; for a label that begins with a mark of a scheme; if no span is left.
    """
    left = _LeftOut()
    kept = [text for text in texts if left.keeps(text)]
    units, read = _units(file, form, kept, offsets), LabelReader()
    rows: list[_Row] = []
    for text in _once_each(kept):
        found = _row(file, text, units, read)
        if isinstance(found, _Row):
            rows.append(found)
        elif skip_unfit_texts:
            left.add("unfit for labels of tokens", text.where)
        else:
            raise DataError(f"{file}: {found}. {_SKIP}")
    note = _note(file, form, units, rows, left)
    left.warn(file)
    inputs, targets = [row.tokens for row in rows], [row.labels for row in rows]
    where = [row.where for row in rows]
    kinds = {"kind": TOKENS, "target_kind": LABEL_PER_POSITION}
    return LabelledRows(inputs, targets, str(file), where, note=note, **kinds)


def _note(file: Path, form: Form, units: Units, rows: Sequence["_Row"], left: "_LeftOut") -> str:
    """Return what was read, in a sentence, and one about what to give to the trained model.

    Raises:
        DataError: if there are no spans.
    """
    spans = [kind for row in rows for kind in row.kinds]
    texts, names = _counted(len(rows), "text"), sorted(set(spans))
    if not spans:
        raise DataError(f"{file} has no spans in {texts} ({form.name}){left}. Mark some in the tool.")
    counted = ", offsets in units of UTF-16" if units == "utf-16" else ""
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    sums = f"{texts} with {_counted(len(spans), 'span')} of {_counted(len(names), 'label')}"
    return f"{file} ({form.name}{counted}): {sums}: {shown}{left}. {_TAKES_TEXTS}"


class _LeftOut:
    """Counts of the texts that are left out, with the first one's place, and of annotations that are."""

    def __init__(self) -> None:
        self.texts: dict[str, tuple[int, Where]] = {}
        self.others: Counter[str] = Counter()

    def keeps(self, text: AnnotatedText) -> bool:
        """Return True for a text to learn from; count one that is not, and annotations that are no spans."""
        if text.left_out:
            self.add(text.left_out, text.where)
            return False
        self.others.update(text.others)
        return True

    def add(self, reason: str, where: Where) -> None:
        """Count a text that is left out."""
        count, first = self.texts.get(reason, (0, where))
        self.texts[reason] = count + 1, first

    def __str__(self) -> str:
        """Return what is left out, as the end of a sentence; "" for nothing."""
        texts = [f"{_counted(count, 'text')} {reason}" for reason, (count, _) in self.texts.items()]
        others = [f"{name} ({count:,})" for name, count in self.others.items()]
        return f"; left out: {', '.join(texts + others)}" if texts or others else ""

    def warn(self, file: Path) -> None:
        """Warn of what is left out, if anything is."""
        texts = [
            f"{_counted(count, 'text')} {reason} (the first: {place_in_words(first)})"
            for reason, (count, first) in self.texts.items()
        ]
        others = [f"{name} ({count:,}), which are no spans" for name, count in self.others.items()]
        if texts or others:
            warn_user(f"{file}: left out: {'; '.join(texts + others)}.")


def _counted(count: int, noun: str) -> str:
    """Return a number of things in words, such as "1 text" or "1,000 texts"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _once_each(texts: Sequence[AnnotatedText]) -> Iterator[AnnotatedText]:
    """Yield one of the annotations of each text, if all say the same; else all of them, as unfit.

    Those of several annotators are in several records of some tools, and in several folders of brat.
    """
    first: dict[str, AnnotatedText] = {}
    differ: dict[str, AnnotatedText] = {}
    for text in texts:
        if set(first.setdefault(text.text, text).spans) != set(text.spans):
            differ.setdefault(text.text, text)
    for text in texts:
        if text.text in differ:
            other = (differ if text is first[text.text] else first)[text.text]
            place = place_in_words(other.where)
            yield replace(text, unfit=f"is annotated again in {place}, with other spans: keep one")
        elif text is first[text.text]:
            yield text


class _Row(NamedTuple):
    """The tokens of a text, their labels, the text's place, and the label of each span."""

    tokens: list[str]
    labels: list[str]
    where: Where
    kinds: list[str]


def _row(file: Path, text: AnnotatedText, units: Units, read: LabelReader) -> _Row | str:
    """Return the row of a text; or why there is none, as a sentence without its end.

    Raises:
        DataError: for a label that is none.
    """
    place, tokens = place_in_words(text.where), _Tokens(text.text)
    if text.unfit:
        return f"{place} {text.unfit}"
    found: dict[tuple[int, int, str], Span] = {}
    for span, (begin, end) in zip(text.spans, _in_characters(text, units), strict=True):
        covered = tokens.covered(span, begin, end)
        if isinstance(covered, str):
            return f"{_said(span)} in {place} {covered}"
        where = f"{file}: the label of {_said(span)} in {place}"
        found[*covered, _kind(where, read(where, span.label))] = span  # one that is written twice is one
    labels, before = [OUTSIDE] * len(tokens.texts), (0, 0, "")
    for here in sorted(found):
        first, end, kind = here
        if first < before[1]:
            return (
                f"{_said(found[here])} in {place} overlaps with {_said(found[before])}: a token has one label"
            )
        begin, inside = sys.intern(f"B-{kind}"), sys.intern(f"I-{kind}")
        labels[first:end] = [begin] + [inside] * (end - first - 1)
        before = here
    return _Row(tokens.texts, labels, text.where, [kind for *_, kind in found])


def _said(span: Span) -> str:
    return f"the span {span.start}-{span.end} ({span.label!s:.40})"


def _kind(where: str, name: str) -> str:
    """Return the label of a span, if it is a name.

    Raises:
        DataError: for a blank one, and for one that begins with a mark, as labels of tokens do.
    """
    kind = name.strip()
    if not kind or kind[:2] in ("B-", "I-"):
        raise DataError(
            f"{where} is {name!r}. Labels of spans are names, PER for B-PER and I-PER: the marks are made "
            "from the spans. Rename it in the tool."
        )
    return kind


class _Tokens:
    """The tokens of a text, and the characters where they begin and end."""

    def __init__(self, text: str) -> None:
        places = token_places(text)
        self.text = text
        self.texts = split_text(text)
        self.starts = [start for start, _ in places]
        self.ends = [end for _, end in places]

    def covered(self, span: Span, begin: int, end: int) -> tuple[int, int] | str:
        """Return the first token of a span and the one behind its last; or why it has no whole tokens.

        Args:
            span: what the file says.
            begin: its first character in the text, as a number; below 0 for none.
            end: the character behind its last.
        """
        if min(begin, end) < 0 or end > len(self.text):
            return f"has an offset that is no place in its text of {len(self.text)} characters"
        # White space at the ends of a span is no part of a token.
        first, behind = bisect_right(self.ends, begin), bisect_left(self.starts, end)
        if begin >= end or first >= behind:
            return "is empty, or white space alone"
        if span.text is not None and not says(self.text[begin:end], span.text):
            return f"is {self.text[begin:end]!r:.60} in its text, where the file says {span.text!r:.60}"
        if self.starts[first] < begin:
            return f"begins inside the token {self.texts[first]!r:.60}"
        if self.ends[behind - 1] > end:
            return f"ends inside the token {self.texts[behind - 1]!r:.60}"
        return first, behind


# Units of offsets ------------------------------------------------------------------------------------------


def _units(file: Path, form: Form, texts: Sequence[AnnotatedText], given: Units | None) -> Units:
    """Return the units of the offsets: those of the form or, where versions of a tool differ, of the file.

    They differ behind a character beyond the basic plane, such as an emoji, which is two units of UTF-16.
    The right ones put all spans on whole tokens.

    Raises:
        ConfigError: for other units than the form has, and unknown ones.
        DataError: if spans fit by both, or by none, and the tool has no usual one.
    """
    if given not in (None, *get_args(Units)):
        raise ConfigError(f"`offsets` must be one of {', '.join(get_args(Units))}. Received {given!r}.")
    if form.units is not None:
        if given not in (None, form.units):
            raise ConfigError(
                f"`offsets` is {given!r}, and {form.name} counts {form.units}. Leave it out for {file}."
            )
        return form.units
    if given is not None:
        return given
    doubtful = [text for text in texts if _has_pairs(text.text) and _by_units_differ(text)]
    if not doubtful:
        return "characters"
    fits: list[Units] = [units for units in get_args(Units) if all(_fits(text, units) for text in doubtful)]
    if len(fits) == 1:
        return fits[0]
    if form.usual is not None:
        return form.usual
    raise DataError(
        f"{file}: spans of {len(doubtful)} texts, the first in {place_in_words(doubtful[0].where)}, stand "
        "behind characters that are two units of UTF-16, such as emoji. Counted either way, "
        f"{'all spans are' if fits else 'not all spans are'} whole tokens, so the file does not tell its "
        f"units. Name them: --offsets utf-16 or --offsets characters (`offsets`).{_hint(form)}"
    )


def _hint(form: Form) -> str:
    if form.name != "doccano":
        return ""
    return (
        " doccano from 1.6 on counts utf-16, earlier versions characters; projects that count grapheme "
        "clusters cannot be read."
    )


def _has_pairs(text: str) -> bool:
    """Return True if a character of a text is two units of UTF-16."""
    return not text.isascii() and max(text) > "\uffff"


def _by_units_differ(text: AnnotatedText) -> bool:
    return _in_characters(text, "utf-16") != _in_characters(text, "characters")


def _fits(text: AnnotatedText, units: Units) -> bool:
    """Return True if all spans are whole tokens, and what the file says of their texts is so."""
    tokens = _Tokens(text.text)
    places = zip(text.spans, _in_characters(text, units), strict=True)
    return all(not isinstance(tokens.covered(span, *place), str) for span, place in places)


def _in_characters(text: AnnotatedText, units: Units) -> list[tuple[int, int]]:
    """Return the offsets of a text's spans in characters; -1 for one inside a character."""
    if units == "characters" or not _has_pairs(text.text):
        return [(span.start, span.end) for span in text.spans]
    places: list[int] = []
    for place, character in enumerate(text.text):
        places += [place, -1] if character > "\uffff" else [place]
    behind = len(text.text)
    places.append(behind)

    def place_of(offset: int) -> int:
        return places[offset] if 0 <= offset < len(places) else min(offset, -1) if offset < 0 else behind + 1

    return [(place_of(span.start), place_of(span.end)) for span in text.spans]
