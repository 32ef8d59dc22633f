"""Folders with a subfolder of files for each class."""

from collections.abc import Collection, Iterable
from pathlib import Path

from keras_selfattn.errors import DataError
from keras_selfattn.user_warnings import warn_user


def class_files(folder: Path, endings: Collection[str], called: str) -> tuple[list[Path], list[Path]]:
    """Return the files of the classes' folders, in order, and the other files.

    Names that begin with a dot are skipped; a subfolder without a file makes no class, with a warning.

    Args:
        folder: that holds the subfolders.
        endings: of the files, in lower case.
        called: what the files are, in the plural, for messages.

    Raises:
        DataError: for a folder that cannot be read.
    """
    files: list[Path] = []
    others: list[Path] = []
    empty: list[Path] = []
    for place in _seen(folder):
        if not place.is_dir():
            others.append(place)
            continue
        found = _seen(place)
        wanted = [file for file in found if file.suffix.lower() in endings and file.is_file()]
        if not wanted:
            empty.append(place)
        files += wanted
        known = set(wanted)
        others += [file for file in found if file not in known]
    for place in empty if files else ():
        warn_user(f"{place} holds no {called}: no class is made of it.")
    return files, others


def lie_in_folder(files: Iterable[Path], folder: Path, endings: Collection[str]) -> bool:
    """Return True if a file of those endings lies in the folder itself, where the classes' folders should."""
    return any(file.parent == folder and file.suffix.lower() in endings for file in files)


def _seen(folder: Path) -> list[Path]:
    try:
        places = sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}.") from error
    return [place for place in places if not place.name.startswith(".")]
