"""Labelled texts in fastText's form: a text on each line, with words that begin with `__label__`."""

import re
from pathlib import Path

from keras_selfattn.data.formats.records import iter_lines
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import DataError
from keras_selfattn.rows.label_names import LabelList
from keras_selfattn.rows.targets import LABEL_SET, ONE_LABEL
from keras_selfattn.rows.texts import TEXTS

# fastText's own separators of words; any other blank, such as U+00A0, is part of a word.
_BLANKS = " \t\v\f\r\0"
_LABEL = re.compile(rf"(?<![^{_BLANKS}])__label__([^{_BLANKS}]*)[{_BLANKS}]*")


def read_fasttext(path: str | Path) -> LabelledRows:
    """Read the lines of a `.txt` file such as `__label__+ a good film`; blank lines are skipped.

    Words stand between blanks, tabs, vertical tabs, form feeds, carriage returns and NUL, as for fastText. If
    a line has several labels, all rows can have any number of them.

    Reference: github.com/facebookresearch/fastText, src/dictionary.cc, `Dictionary::readWord`.

    Raises:
        DataError: if the file is missing, empty or not UTF-8, or a line has no label or an empty one; with
            the line.

    Example:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "films.txt")
        ...     _ = file.write_text("__label__+ a good film\\n__label__- a bore\\n")
        ...     rows = read_fasttext(file)
        >>> rows.inputs, rows.targets
        (['a good film', 'a bore'], ['+', '-'])
    """
    texts, labels, lines = [], [], []
    for number, line in iter_lines(path):
        if not line.strip(_BLANKS):
            continue
        names = _LABEL.findall(line)
        if not names or not all(names):
            raise DataError(
                f"{path}: line {number} has no label. In fastText's form a line begins with __label__NAME, "
                f"then the text. Received {line[:60]!r}. Tokens are read with --task tokens."
            )
        texts.append(_LABEL.sub("", line).strip(_BLANKS))
        labels.append(LabelList(dict.fromkeys(names)))
        lines.append(number)
    if not texts:
        raise DataError(f"{path} holds no texts: all of its lines are blank.")
    single = all(len(names) == 1 for names in labels)
    targets = [names[0] for names in labels] if single else labels
    kinds = {"kind": TEXTS, "target_kind": ONE_LABEL if single else LABEL_SET}
    return LabelledRows(texts, targets, str(path), lines, **kinds)
