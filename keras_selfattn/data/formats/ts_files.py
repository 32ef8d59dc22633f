"""Series from `.ts` files, the format of the UEA and UCR archives, of aeon and of sktime.

Axes: T (frames), F (features).

Reference: http://www.timeseriesclassification.com, "ts file format".
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from keras_selfattn.data.formats.plain_numbers import bare, values_of
from keras_selfattn.data.formats.records import iter_lines
from keras_selfattn.errors import DataError
from keras_selfattn.user_warnings import warn_user

_TAG = re.compile(r"@([^ \t]*)[ \t]*(.*)")
_SPACES = re.compile(r"[ \t]+")
_BOOLEANS = ("timestamps", "missing", "univariate", "equallength", "targetlabel")
_COUNTS = ("dimensions", "serieslength")
_TAGS = ("problemname", "classlabel", *_BOOLEANS, *_COUNTS)
_WRITTEN = (
    "@problemName, @timeStamps, @missing, @univariate, @dimensions, @equalLength, @seriesLength, @classLabel "
    "and @targetlabel"
)


def read_ts(file: Path, targets: str | None) -> tuple[list[np.ndarray], list[str], list[int]]:
    """Return the series `[T, F]` of a `.ts` file, their labels and lines.

    Args:
        file: the file.
        targets: what the rows must end with: "labels", "numbers", or None for anything.

    Raises:
        DataError: for an invalid file, or rows that contradict its header, with the line.
    """
    lines = ((number, bare(line)) for number, line in lines_with_text(file))
    header = _read_header(file, lines)
    header.check_targets(targets)
    rows = _Rows(header)
    for number, line in lines:
        if not _is_comment(line):
            rows.add(number, line, known_labels=targets is not None)
    if not rows.series:
        raise DataError(f"{file} has no rows after @data.")
    rows.warn_of_missing()
    return rows.series, rows.labels, rows.where


def lines_with_text(file: Path) -> Iterator[tuple[int, str]]:
    """Return the lines that hold more than blanks and tabs, with their numbers.

    Raises:
        DataError: if there are none.
    """
    found = [(number, line) for number, line in iter_lines(file) if bare(line)]
    if not found:
        raise DataError(f"{file} is empty.")
    return iter(found)


def _is_comment(line: str) -> bool:
    # ARFF's sign is also in files of aeon.
    return line.startswith(("#", "%"))


@dataclass(frozen=True)
class _Header:
    """The tags of a file, in lower case, with their values as text."""

    file: Path
    tags: dict[str, str] = field(default_factory=dict)

    def add(self, line: int, name: str, value: str) -> None:
        """Note a tag, once it is known and its value is one of its kind."""
        tag = "dimensions" if name.lower() == "dimension" else name.lower()
        where = f"{self.file}: line {line}"
        if tag not in _TAGS:
            raise DataError(
                f"{where} has the tag @{name}, which is not known. Known are {_WRITTEN}. Remove the line if "
                "the rows do not depend on it."
            )
        says = _SPACES.split(value)[0].lower() if tag == "classlabel" else value.lower()
        if tag in (*_BOOLEANS, "classlabel") and says not in ("true", "false"):
            raise DataError(f"{where}: @{name} must be true or false. Received {value!r}.")
        if tag in _COUNTS and not re.fullmatch("[0-9]{1,9}", value):
            raise DataError(f"{where}: @{name} must be a whole number. Received {value!r}.")
        # The name of the problem has no effect: it is there twice in a file of aeon.
        if self.tags.setdefault(tag, value) != value and tag != "problemname":
            raise DataError(f"{where}: @{name} was {self.tags[tag]!r} before, and is {value!r} here.")

    def says(self, tag: str, answer: str = "true") -> bool:
        return self.tags.get(tag, "").lower() == answer

    def count(self, tag: str) -> int | None:
        return int(self.tags[tag]) if tag in self.tags else None

    @property
    def label_words(self) -> list[str]:
        """The words after `@classLabel true`: labels, of which some may be several words."""
        said, *words = _SPACES.split(self.tags.get("classlabel", "false"))
        return words if said.lower() == "true" else []

    @property
    def has_label(self) -> bool:
        """True if rows end with a label, or a number to predict."""
        return self.says("targetlabel") or self.tags.get("classlabel", "").lower().startswith("true")

    def check_targets(self, targets: str | None) -> None:
        """Raise DataError for time stamps, or rows that do not end as they must."""
        if self.says("timestamps"):
            raise DataError(
                f"{self.file} has time stamps (@timeStamps true), which are not read. Write values at even "
                "distances."
            )
        if targets is not None and not self.has_label:
            raise DataError(
                f"{self.file} has neither @classLabel true nor @targetlabel true: its rows have no labels."
            )
        if targets == "labels" and self.says("targetlabel"):
            raise DataError(
                f"{self.file} has @targetlabel true: its rows end with numbers to predict, which would be a "
                "class each. Read it with the task regression (--task regression, `read_regression`)."
            )


def _read_header(file: Path, lines: Iterator[tuple[int, str]]) -> _Header:
    """Return the tags of the lines up to @data."""
    header = _Header(file)
    for number, line in lines:
        tag = _TAG.fullmatch(line)
        if tag is not None and tag[1].lower() == "data":
            if tag[2]:
                raise DataError(
                    f"{file}: line {number} has {tag[2][:40]!r} after @data: rows begin below it."
                )
            return header
        if tag is not None:
            header.add(number, tag[1], tag[2])
        elif not _is_comment(line):
            raise DataError(f"{file}: line {number} comes before @data and is not a tag: {line[:40]!r}.")
    raise DataError(f"{file} has no @data: it is not a .ts file.")


class _Rows:
    """The rows so far; each is checked against the header and the first one.

    Args:
        header: of the file.
    """

    def __init__(self, header: _Header):
        self.series: list[np.ndarray] = []
        self.labels: list[str] = []
        self.where: list[int] = []
        self._header = header
        self._words = header.label_words
        self._known: set[str] = set()
        self._length = None if header.says("equallength", "false") else header.count("serieslength")
        self._ends_empty = False
        # The first line with a missing value.
        self._missing: int | None = None

    def add(self, line: int, text: str, *, known_labels: bool) -> None:
        """Read a row; its label must be one of the header's if `known_labels`."""
        where = f"{self._header.file}: line {line}"
        fields = text.split(":")
        if self._header.has_label:
            self._add_label(where, fields, known_labels)
        else:
            self._drop_end(where, fields)
        if any("(" in each for each in fields):
            raise DataError(f"{where} has time stamps, which are not read. Write values at even distances.")
        self._check_dimensions(where, len(fields))
        columns = [values_of(where, each.split(",")) for each in fields]
        self._check_lengths(where, [len(column) for column in columns])
        if self._missing is None and any(np.isnan(column).any() for column in columns):
            self._missing = line
        self.series.append(_frames(columns))
        self.where.append(line)

    def warn_of_missing(self) -> None:
        """Warn of missing values in a file that says that it has none."""
        if self._missing is not None and self._header.says("missing", "false"):
            warn_user(
                f"{self._header.file}: line {self._missing} has missing values, though the header says "
                "@missing false. They are read as missing."
            )

    def _add_label(self, where: str, fields: list[str], known: bool) -> None:
        label = bare(fields.pop())
        if not fields:
            raise DataError(f"{where} has no ':' between its values and its label. Received {label[:40]!r}.")
        if not label:
            raise DataError(f"{where} has no label after its last ':'.")
        if known and self._words and label not in self._known:
            if not _is_run(_SPACES.split(label), self._words):
                says = ", ".join(self._words)
                raise DataError(f"{where} has the label {label!r}. @classLabel says that they are {says}.")
            self._known.add(label)
        self.labels.append(label)

    def _drop_end(self, where: str, fields: list[str]) -> None:
        """Remove the empty place of a label: aeon and sktime end a row with ":" where there is none."""
        ends_empty = len(fields) > 1 and not bare(fields[-1])
        if not self.series:
            self._ends_empty = ends_empty
        elif ends_empty != self._ends_empty:
            one, other = ("ends", "do not") if ends_empty else ("does not end", "do")
            raise DataError(
                f"{where} {one} with ':', and the rows before it {other}. Without labels all rows end alike: "
                "a dimension without values at the end is written as '?'."
            )
        if ends_empty:
            fields.pop()

    def _check_dimensions(self, where: str, found: int) -> None:
        header, said = self._header, self._header.count("dimensions")
        if self.series and self.series[0].shape[1] != found:
            raise DataError(f"{where} has {found} dimensions; the first row has {self.series[0].shape[1]}.")
        if said is not None and said != found:
            raise DataError(f"{where} has {found} dimensions; @dimensions says {said}.")
        if "univariate" in header.tags and header.says("univariate") != (found == 1):
            raise DataError(f"{where} has {found} dimensions; @univariate says {header.tags['univariate']}.")

    def _check_lengths(self, where: str, lengths: Sequence[int]) -> None:
        if self._length is None and self._header.says("equallength"):
            self._length = lengths[0]
        for dimension, length in enumerate(lengths, start=1):
            if self._length not in (None, length):
                tag = "@seriesLength" if "serieslength" in self._header.tags else "@equalLength true"
                raise DataError(
                    f"{where} has {length} values in dimension {dimension}; by {tag} they are {self._length}."
                )


def _is_run(words: Sequence[str], known: Sequence[str]) -> bool:
    """Return True if words follow each other among the known ones: blanks part labels and words alike."""
    size = len(words)
    return any(list(known[at : at + size]) == list(words) for at in range(len(known) - size + 1))


def _frames(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Return dimensions as frames `[T, F]`; shorter ones end in NaN."""
    found = np.full((max(map(len, columns), default=0), len(columns)), np.nan, np.float32)
    for place, column in enumerate(columns):
        found[: len(column), place] = column
    return found
