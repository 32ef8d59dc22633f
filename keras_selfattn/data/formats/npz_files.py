"""Arrays from .npz files, by name."""

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_selfattn.errors import DataError

# Errors of NumPy and zipfile for a file that is damaged, encrypted or compressed in another way.
_UNREADABLE = (
    *(ValueError, OSError, EOFError, TypeError, RuntimeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)


def read_arrays(
    file: Path, needed: Sequence[str], instead: str, *, optional: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Return some arrays of an .npz file; nothing pickled is read.

    Args:
        file: a file in the format of `numpy.savez`.
        needed: names of the required arrays.
        instead: the replacement for Python objects, for the message.
        optional: names of the optional arrays.

    Raises:
        DataError: if it is missing or not an .npz file, or lacks a required array.

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
        raise DataError(f"{file} is not a readable .npz file. Write it with numpy.savez.")
    try:
        # Opened here: NumPy leaves a file without arrays open.
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
            # If a file in the archive is not an array, NumPy returns its bytes.
            found = {name: archive[name] for name in archive.files if name in {*needed, *optional}}
            held = ", ".join(map(repr, archive.files)) or "nothing"
    except _UNREADABLE as error:
        if "allow_pickle" in str(error):
            raise DataError(
                f"{file} holds pickled objects, which can run code and are not read. {instead}"
            ) from None
        raise DataError(f"{file} is not a readable .npz file: {error}.") from error
    arrays = {name: array for name, array in found.items() if isinstance(array, np.ndarray)}
    for name in needed:
        if name not in arrays:
            raise DataError(f"{file} has no array {name!r}. It holds {held}.")
    return arrays
