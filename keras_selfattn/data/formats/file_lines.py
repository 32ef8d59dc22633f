"""The lines of a file in UTF-8, which may be packed, from any place on: with their bytes and numbers."""

import codecs
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from keras_selfattn.data.formats.endings import packing_of
from keras_selfattn.errors import DataError, first_line

# The most bytes of a row: a quote that nobody closes would read the rest of a file into memory.
_MOST_BYTES = 2**26
_PIECES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class Place(NamedTuple):
    """A place between two rows of a file: bytes before it, and the number of the line that begins there."""

    offset: int = 0
    line: int = 1


@contextmanager
def opened_content(file: Path, wrap: Callable[[BinaryIO], BinaryIO] | None = None) -> Iterator[Any]:
    """Yield the content of a file, unpacked; `wrap` sees its bytes as they are."""
    try:
        opened = file.open("rb")
    except FileNotFoundError:
        raise DataError(f"There is no file {file}. Current folder: {Path.cwd()}.") from None
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from error
    with opened:
        if not opened.peek(1):
            raise DataError(f"{file} is empty.")
        content: Any = opened if wrap is None else io.BufferedReader(cast(Any, wrap(opened)))
        packing = packing_of(file)
        try:
            yield content if packing is None else packing.unpacked(content)
        finally:
            if content is not opened:
                content.detach()


class RowLines:
    """The physical lines of a file from a place on, decoded, with their places.

    Bytes that are not UTF-8 become surrogates; `problem` then names the first since it was last read.

    Args:
        file: for messages.
        content: the opened file.
        start: the place to begin at.
        lone_returns: True if a carriage return alone ends a line, too.
    """

    def __init__(
        self, file: Path, content: BinaryIO, start: Place | None = None, *, lone_returns: bool = False
    ):
        self.file = file
        packing = packing_of(file)
        self._broken = () if packing is None else packing.broken
        self._content, self._lone = content, lone_returns
        self._offset, self._line = start or Place()
        if self._offset:
            content.seek(self._offset)
        self._row_start = self._offset
        self._problem = ""
        self._reading = self._read()

    @property
    def end(self) -> Place:
        """The place after the lines so far."""
        return Place(self._offset, self._line)

    def next_row(self) -> str:
        """Begin a row at the place so far; return the problem of the row before."""
        self._row_start = self._offset
        problem, self._problem = self._problem, ""
        return problem

    def __iter__(self) -> Iterator[str]:
        """Return the lines from the place so far, whoever has read those before."""
        return self._reading

    def _read(self) -> Iterator[str]:
        while line := self._next_line():
            if self._offset + len(line) - self._row_start > _MOST_BYTES:
                raise DataError(
                    f"{self.file} cannot be parsed: the row from line {self._line} on has over "
                    f"{_MOST_BYTES >> 20} MiB. Is a quote missing that ends a text?"
                )
            if self._offset == 0 and line.startswith(codecs.BOM_UTF8):
                line, self._offset = line[len(codecs.BOM_UTF8) :], len(codecs.BOM_UTF8)
            text = self._decoded(line)
            if self._lone and "\r" in text[:-2]:
                for piece in _PIECES.findall(text):
                    yield self._passed(piece, len(piece.encode(errors="surrogateescape")))
            else:
                yield self._passed(text, len(line))

    def _next_line(self) -> bytes:
        try:
            return self._content.readline(_MOST_BYTES + 1)
        except self._broken as error:
            reason = first_line(error).rstrip(".")
            ending = self.file.suffix.lower()
            raise DataError(
                f"{self.file} is not a whole {ending} file: {reason}. Copy or pack it again."
            ) from error

    def _passed(self, text: str, size: int) -> str:
        self._offset += size
        self._line += 1
        return text

    def _decoded(self, line: bytes) -> str:
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            self._problem = self._problem or _not_utf8(self.file, line[error.start], self._line)
            return line.decode(errors="surrogateescape")


def _not_utf8(file: Path, byte: int, line: int) -> str:
    return (
        f"{file} is not UTF-8: byte 0x{byte:02x} in line {line}. Convert it first, for example with "
        f"`iconv -f latin1 -t utf-8 {file} > utf8{file.suffix}`."
    )
