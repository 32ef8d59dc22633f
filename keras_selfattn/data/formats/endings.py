"""Endings of files, which tell their form, and how packed files are read."""

import gzip
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from keras_selfattn.errors import DataError


@dataclass(frozen=True)
class Packing:
    """A program that packs a whole file, whose ending then follows that of the form.

    Args:
        name: of the program.
        unpack: the command that unpacks a file.
        unpacked: from a file's packed content to what was packed.
        broken: the errors of reading content that is not whole.
    """

    name: str
    unpack: str
    unpacked: Callable[[BinaryIO], Any]
    broken: tuple[type[Exception], ...]


PACKINGS = {
    ".gz": Packing(
        "gzip",
        "gunzip",
        lambda content: gzip.GzipFile(fileobj=content),
        (EOFError, gzip.BadGzipFile, zlib.error),
    )
}
"""The packings of files of text, by their ending."""
# These have a compression of their own, and are no text.
_NEVER_PACKED = (".npz", ".parquet", ".feather")


def ending_of(file: Path) -> str:
    """Return the ending of a file in lower case: the one before ".gz", if it is packed.

    Example:

        >>> ending_of(Path("rows.TSV")), ending_of(Path("rows.csv.gz"))
        ('.tsv', '.csv')
    """
    return (file if packing_of(file) is None else Path(file.stem)).suffix.lower()


def packing_of(file: Path) -> Packing | None:
    """Return the packing of a file, by its ending; None for one that is not packed."""
    return PACKINGS.get(file.suffix.lower())


def checked_ending(file: Path, endings: Collection[str]) -> str:
    """Return the ending of a file as `ending_of` does, if it is known.

    Raises:
        DataError: if it is unknown, or there is no file, or a folder instead; for a packed file that is no
            text.
    """
    ending, packing = ending_of(file), packing_of(file)
    if ending in endings and ending in _NEVER_PACKED and packing is not None:
        raise DataError(
            f"{file} is packed by {packing.name}, which is for texts. Unpack it: `{packing.unpack} {file}`."
        )
    if ending in endings:
        return ending
    if not file.exists():
        raise DataError(f"There is no file {file}. Current folder: {Path.cwd()}.")
    wrong = "is a folder" if file.is_dir() else "has no known ending"
    raise DataError(f"{file} {wrong}. Give a file ending in {', '.join(endings)}.")
