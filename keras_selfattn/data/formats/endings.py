"""Endings of files, which tell their form."""

from collections.abc import Collection
from pathlib import Path

from keras_selfattn.errors import DataError

PACKED = ".gz"
"""The ending of a file that gzip packed."""
# These have a compression of their own, and are no text.
_NEVER_PACKED = (".npz", ".parquet", ".feather")


def ending_of(file: Path) -> str:
    """Return the ending of a file in lower case: the one before ".gz", if it is packed by gzip.

    Example:

        >>> ending_of(Path("rows.TSV")), ending_of(Path("rows.csv.gz"))
        ('.tsv', '.csv')
    """
    packed = file.suffix.lower() == PACKED
    return (Path(file.stem) if packed else file).suffix.lower()


def checked_ending(file: Path, endings: Collection[str]) -> str:
    """Return the ending of a file as `ending_of` does, if it is known.

    Raises:
        DataError: if it is unknown, or there is no file, or a folder instead; for a packed file that is no
            text.
    """
    ending = ending_of(file)
    if ending in endings and ending in _NEVER_PACKED and file.suffix.lower() == PACKED:
        raise DataError(f"{file} is packed by gzip, which is for texts. Unpack it: `gunzip {file}`.")
    if ending in endings:
        return ending
    if not file.exists():
        raise DataError(f"There is no file {file}. Current folder: {Path.cwd()}.")
    wrong = "is a folder" if file.is_dir() else "has no known ending"
    raise DataError(f"{file} {wrong}. Give a file ending in {', '.join(endings)}.")
