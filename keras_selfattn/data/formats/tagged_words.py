"""Rows of words with a label each, `word|LABEL`, a row a line, as spaCy reads files that end in .iob.

Reference: spaCy, `spacy/training/converters/iob_to_docs.py`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from keras_selfattn.data.token_columns import BLANKS, DOCUMENT, Token, is_empty, token_lines
from keras_selfattn.errors import DataError

_BETWEEN = "|"


def are_tagged_words(file: Path) -> bool:
    """Return True if a file has no tabs and all its words are `word|LABEL`, or have as many "|" each."""
    has_tabs = any("\t" in content for _, content in token_lines(file))
    counts = _bars(_word_lines(file))
    return not has_tabs and len(counts) == 1 and 0 not in counts


def are_mostly_columns(file: Path) -> bool:
    """Return True if half of the words of a file or more have no "|", as the labels of columns."""
    counts = _bars(_word_lines(file))
    return 2 * counts[0] >= counts.total()


def word_rows(file: Path) -> list[list[Token]]:
    """Return the rows of a file: of each word what is before the first "|", and the label behind the last.

    Raises:
        DataError: for a word with another number of "|" than most have: one is a word, or part of one.

    Example:

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "names.iob")
        ...     _ = file.write_text("Ada|NNP|B-PER wrote|VBD|O\\n")
        ...     [[(token.text, token.label) for token in row] for row in word_rows(file)]
        [[('Ada', 'B-PER'), ('wrote', 'O')]]
    """
    rows = list(_word_lines(file))
    counts = _bars(rows)
    most = max(1, counts.most_common(1)[0][0]) if counts else 1
    for line, words in rows:
        for word in words:
            if word.count(_BETWEEN) != most:
                raise DataError(
                    f"{file}: line {line} has {word!r:.60}, with {word.count(_BETWEEN)} {_BETWEEN!r}, where "
                    f"{most} are in most words: word{_BETWEEN}LABEL, and blanks between words. A word that "
                    "holds one needs another form, such as .conll."
                )
    return [[Token(line, *_parts(word)) for word in words] for line, words in rows]


def _word_lines(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the words of each line that has some, without the one that begins a document."""
    for line, content in token_lines(file):
        words = [] if is_empty(content) else _words(content)
        if words and words[0].split(_BETWEEN, 1)[0] == DOCUMENT:
            words = words[1:]
        if words:
            yield line, words


def _bars(lines: Iterable[tuple[int, list[str]]]) -> Counter[int]:
    """Return how many words have each number of "|"."""
    return Counter(word.count(_BETWEEN) for _, words in lines for word in words)


def _words(content: str) -> list[str]:
    return [word for word in content.replace("\t", " ").strip(BLANKS).split(" ") if word]


def _parts(word: str) -> tuple[str, str]:
    """Return the word and its label."""
    return word.split(_BETWEEN, 1)[0], word.rsplit(_BETWEEN, 1)[1]
