"""Raw texts asked of a labeller: which signature their rows ask for, and spans in doccano's form.

A labeller has the signature `spans`, of raw texts, beside that of tokens. Its spans are written as doccano
does, `{"text": …, "label": [[start, end, "PER"], …]}`, so that the tool and `train` read them.

Reference: doccano 1.8, `backend/data_import/pipeline` (`makers.py`, `label.py`) of its source.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.options import OptionSpec
from keras_selfattn.serving.client import Signature
from keras_selfattn.serving.wire.signature_names import (
    COUNT,
    DEFAULT_SIGNATURE,
    END,
    LABEL,
    SPANS,
    START,
    TEXT,
)

SPAN_OUTPUTS = (LABEL, START, END, COUNT)
"""The outputs that a span in doccano's form is made of."""
TOKENS = "tokens"
"""The column of a row that holds tokens that are split."""
# Where annotation tools write the spans of a text, and what joins two of them.
_ANNOTATIONS = ("label", "labels", "entities", "spans", "relations")

OFFSETS = OptionSpec(
    "--offsets",
    "What offsets of spans count: utf-16 (its units), as doccano does, or characters, as Python does.",
    choices=("utf-16", "characters"),
    without="utf-16",
)


@dataclass(frozen=True)
class SignatureChoice:
    """The signature that rows ask for, which depends on what they hold and on what the model has.

    Args:
        rows: "texts", "tokens", "either" for texts that could be tokens between blanks, or "mixed" for
            files that differ.
        where: the place of the rows, as the beginning of a sentence.
        given: the name that the user gives; None to let the rows decide.
    """

    rows: Literal["texts", "tokens", "either", "mixed"]
    where: str
    given: str | None = None

    def of(self, names: Collection[str]) -> str:
        """Return the name among those of a model.

        Raises:
            ConfigError: for rows that could be both, of a model that takes both.

        Example:

            >>> choice = SignatureChoice("texts", "rows.jsonl")
            >>> choice.of(["serving_default", "spans"]), choice.of(["serving_default"])
            ('spans', 'serving_default')
        """
        if self.given is not None or SPANS not in names:
            return self.given or DEFAULT_SIGNATURE
        if self.rows in ("either", "mixed"):
            told = {
                "either": "texts that could be raw, or tokens between blanks",
                "mixed": "raw texts in some files, and in others not",
            }
            raise ConfigError(
                f"{self.where} has {told[self.rows]}, and the model takes both. Say which: --signature "
                f"{SPANS} for raw texts, --signature {DEFAULT_SIGNATURE} for tokens."
            )
        return SPANS if self.rows == "texts" else DEFAULT_SIGNATURE


def choice_for(
    row: Mapping[str, Any], where: str, given: str | None, column: str | None, trained: str | None = None
) -> SignatureChoice:
    """Return the signature that a file asks for by its columns and its first row.

    Args:
        row: the first row; empty if none can be read.
        where: the file.
        given: the name of the signature that the user gives, if any.
        column: the column that the user names, if any.
        trained: the column of the model's training, if that is known.

    Example:

        >>> choice_for({"id": 7, "text": "Ada wrote."}, "rows.csv", None, None).rows
        'texts'
    """
    name = column or (trained if trained in row else None)
    if name is None and TEXT in row and not are_tokens(row.get(TOKENS)):
        name = TEXT
    elif name is None:
        name = next(iter(row)) if len(row) == 1 else TOKENS
    if name == TOKENS or name not in row or isinstance(row[name], list):
        return SignatureChoice("tokens", where, given)
    # The column of a training may be that of tokens, whatever its name.
    return SignatureChoice("texts" if name == TEXT != trained else "either", where, given)


def are_tokens(value: Any) -> bool:
    """Return True for tokens that are split; those of Prodigy are objects, with places in their text."""
    is_of_tool = isinstance(value, list) and any(isinstance(each, dict) for each in value)
    return value is not None and not is_of_tool


def answers_spans(signature: Signature) -> bool:
    """Return True for a signature from raw texts to spans of characters."""
    return len(signature.inputs) == 1 and set(SPAN_OUTPUTS) <= signature.outputs.keys()


def check_offsets(signature: Signature, offsets: str | None, outputs: Sequence[str]) -> None:
    """Raise ConfigError for units of offsets where no offsets are written in doccano's form."""
    if offsets is not None and (outputs or not answers_spans(signature)):
        why = "--outputs count characters" if outputs else "these answers are none"
        raise ConfigError(f"--offsets is for spans in doccano's form, and {why}: leave it out.")


def asked_outputs(outputs: Sequence[str]) -> list[str]:
    """Return the outputs to ask of a signature of spans: those that are named, and their number."""
    return list(dict.fromkeys((*(outputs or SPAN_OUTPUTS), COUNT)))


def without_rest(answer: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
    """Return the named outputs of a row, each cut to the number of its spans."""
    count = int(answer[COUNT])
    return {name: answer[name] if name == COUNT else answer[name][:count] for name in outputs}


def columns_without_rest(found: Mapping[str, Sequence[Any]], outputs: Sequence[str]) -> dict[str, list[Any]]:
    """Return the named outputs of rows, as `without_rest` does, from columns with an entry for each row."""
    answers = (dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True))
    rows = [without_rest(answer, outputs) for answer in answers]
    return {name: [row[name] for row in rows] for name in outputs}


def doccano_spans(text: str, answer: Mapping[str, Any], offsets: str | None) -> list[list[Any]]:
    """Return the spans of a text as doccano writes them, `[start, end, label]`.

    Args:
        text: the text.
        answer: outputs of its row, with places in characters (code points).
        offsets: "characters", or "utf-16" for units, of which a character beyond the basic plane has two.

    Raises:
        DataError: for a label that is no text, which JSON cannot hold: another would stand in its place.

    Example:

        >>> answer = {"start": [2], "end": [5], "label": ["PER"], "count": 1}
        >>> doccano_spans("😀 Ada", answer, None), doccano_spans("😀 Ada", answer, "characters")
        ([[3, 6, 'PER']], [[2, 5, 'PER']])
    """
    own = without_rest(answer, SPAN_OUTPUTS)
    places = [[int(place) for place in own[name]] for name in (START, END)]
    if offsets != "characters" and not text.isascii() and max(text) > "\uffff":
        units = [0]
        for character in text:
            units.append(units[-1] + (2 if character > "\uffff" else 1))
        places = [[units[place] for place in each] for each in places]
    return [[*span] for span in zip(*places, map(_name, own[LABEL]), strict=True)]


def _name(label: Any) -> str:
    try:
        return label.decode() if isinstance(label, bytes) else str(label)
    except UnicodeDecodeError:
        raise DataError(
            f"a span has the label {label!r:.60}, which is no UTF-8: name outputs, --outputs label --outputs "
            "start --outputs end, to have it in base64"
        ) from None


def annotated_record(record: Mapping[str, Any], column: str, text: str, spans: Any) -> dict[str, Any]:
    """Return a row with the model's spans in place of those that a tool wrote, and all other values.

    Args:
        record: the row.
        column: the column of its text.
        text: the text as the model read it.
        spans: of the model.

    Raises:
        DataError: for a `label` that is no list of spans, whose place the answer would take.

    Example:

        >>> annotated_record({"id": 7, "text": "Ada", "entities": []}, "text", "Ada", [[0, 3, "PER"]])
        {'id': 7, 'text': 'Ada', 'label': [[0, 3, 'PER']]}
    """
    kept = {name: value for name, value in record.items() if not is_annotation(name, value)}
    if LABEL in kept:
        raise DataError(
            f"it has a column {LABEL!r}, {kept[LABEL]!r:.40}, whose name doccano has for spans: rename it"
        )
    return {**kept, column: text, LABEL: spans}


def is_annotation(name: str, value: Any) -> bool:
    """Return True for a value of a row that a tool wrote about spans of its text: lists of names are none."""
    if name not in _ANNOTATIONS or not isinstance(value, list | None):
        return False
    return not any(isinstance(each, str) for each in value or ())
