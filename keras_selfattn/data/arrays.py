"""Arrays from .npz files, by name."""

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_selfattn.errors import DataError

# What NumPy and zipfile raise of a file that is damaged, encrypted or packed in another way.
_UNREADABLE = (
    *(ValueError, OSError, EOFError, TypeError, RuntimeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)


def read_arrays(
    file: Path, needed: Sequence[str], instead: str, *, optional: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Return some arrays of an .npz file; nothing pickled is read.

    Args:
        file: as `numpy.savez` writes it.
        needed: names of arrays that it must have.
        instead: what to store in place of Python objects, for the message.
        optional: names of those that it may have.

    Raises:
        DataError: if it is missing or none, or lacks an array that is needed.

    Example:

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(Path(folder, "rows.npz"), x=np.zeros(2))
        ...     list(read_arrays(Path(folder, "rows.npz"), ["x"], "Store numbers."))
        ['x']
    """
    if not file.exists():
        raise DataError(f"There is no file {file}. Current folder: {Path.cwd()}.")
    if not zipfile.is_zipfile(file):
        raise DataError(f"{file} is no .npz file that can be read. Write it with numpy.savez.")
    try:
        # Opened here: NumPy leaves open what it finds no arrays in.
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
            # A file in it that is no array comes as bytes.
            found = {name: archive[name] for name in archive.files if name in {*needed, *optional}}
            held = ", ".join(map(repr, archive.files)) or "nothing"
    except _UNREADABLE as error:
        if "allow_pickle" in str(error):
            raise DataError(
                f"{file} holds pickled objects, which can run code and are not read. {instead}"
            ) from None
        raise DataError(f"{file} is no .npz file that can be read: {error}.") from error
    arrays = {name: array for name, array in found.items() if isinstance(array, np.ndarray)}
    for name in needed:
        if name not in arrays:
            raise DataError(f"{file} has no array {name!r}. It holds {held}.")
    return arrays
