"""Texts with spans from a folder of brat: a `.txt` file a text, and an `.ann` file beside it with its spans.

Reference: brat standoff format, brat.nlplab.org/standoff.html; `server/src/annotation.py` of brat 1.3.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from keras_selfattn.data.formats.annotated_texts import AnnotatedText, Form, Span, says
from keras_selfattn.errors import DataError

# Annotations that are no spans, by the first character of their ids.
_OTHERS = {
    "R": "relations",
    "E": "events",
    "*": "relations",
    "A": "attributes",
    "M": "attributes",
    "N": "normalisations",
    "#": "notes",
}
_BYTE_ORDER_MARK = "\ufeff"
_LINE = (
    "Lines of an .ann are an id, a tab, and an annotation: T1, a tab, 'PER 0 3', a tab, the text of the span."
)


def iter_brat(folder: Path) -> Iterator[AnnotatedText]:
    """Yield the texts of a folder and its subfolders, in the order of their names.

    A text without an `.ann` has no annotation, unlike one with an empty `.ann`, which has no spans.

    Raises:
        DataError: if there are no `.ann` files; for one without its `.txt`; for a file that cannot be read,
            and a line that is no annotation.

    Example:

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     folder = Path(name)
        ...     _ = (folder / "1.txt").write_text("Ada wrote.")
        ...     _ = (folder / "1.ann").write_text("T1\\tPER 0 3\\tAda\\n")
        ...     [text.spans for text in iter_brat(folder)]
        [[Span(start=0, end=3, label='PER', text='Ada')]]
    """
    # Endings are added to these by hand: `with_suffix` would cut a name such as PMID.1 once more.
    files = _names(folder, "*.ann")
    if not files:
        raise DataError(
            f"{folder} has no .ann files. A folder of tokens is one of brat: .txt files, an .ann beside each."
        )
    for base in sorted(files | _names(folder, "*.txt")):
        text_file, spans_file = Path(f"{base}.txt"), Path(f"{base}.ann")
        where = str(text_file.relative_to(folder))
        if not text_file.exists():
            raise DataError(f"{spans_file} has no {text_file.name} beside it, which holds its text. Add it.")
        text = _content(text_file)
        if base in files:
            yield _annotated(where, text, spans_file)
        else:
            yield AnnotatedText(where, text, left_out="without an .ann")


def _names(folder: Path, pattern: str) -> set[Path]:
    """Return the files without their endings; hidden ones, such as ._a.ann of macOS, are no texts."""
    files = [(file, file.relative_to(folder).parts) for file in folder.rglob(pattern)]
    return {file.with_suffix("") for file, parts in files if not any(part[0] == "." for part in parts)}


def _content(file: Path) -> str:
    """Return the text of a file with its line ends: brat counts a carriage return, too."""
    try:
        return file.read_bytes().decode()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file} is not UTF-8: byte 0x{error.object[error.start]:02x}. Convert it first."
        ) from None


def _annotated(where: str, text: str, file: Path) -> AnnotatedText:
    spans, unfit, others = [], "", Counter()
    lines = _content(file).removeprefix(_BYTE_ORDER_MARK).replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if line[0] in _OTHERS:
            others[_OTHERS[line[0]]] += 1
            continue
        label, parts, said = _text_bound(file, number, line)
        if len(parts) > 1:
            unfit = unfit or f"has a span of {len(parts)} parts, {said!r:.60} (line {number} of {file.name})"
            continue
        spans.append(Span(*parts[0], label, said or None))
    # brat counts carriage returns and a byte order mark; programs that write .ann may not.
    bare = text.removeprefix(_BYTE_ORDER_MARK)
    counted = (text, text.replace("\r\n", "\n"), bare, bare.replace("\r\n", "\n"))
    fitting = next((each for each in counted if _fits(each, spans)), text)
    return AnnotatedText(where, fitting, spans, unfit=unfit, others=others)


def _text_bound(file: Path, number: int, line: str) -> tuple[str, list[tuple[int, int]], str]:
    """Return the label, the parts and the text of an annotation such as T1, a tab, PER 0 3;8 11."""
    name, _, rest = line.partition("\t")
    given, _, said = rest.partition("\t")
    label, _, offsets = given.strip().partition(" ")
    parts = [part.split() for part in offsets.split(";")]
    if name[:1] != "T" or not label or any(len(part) != 2 or not _are_offsets(part) for part in parts):
        raise DataError(f"{file}: line {number}, {line!r:.60}, is no annotation. {_LINE}")
    return label, [(int(start), int(end)) for start, end in parts], said


def _are_offsets(part: list[str]) -> bool:
    return all(each.isascii() and each.isdigit() and len(each) < 20 for each in part)


def _fits(text: str, spans: list[Span]) -> bool:
    return all(span.text is None or says(text[span.start : span.end], span.text) for span in spans)


BRAT = Form("brat", units="characters")
