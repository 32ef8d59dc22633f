"""Writing a model's `.keras` file, without a copy of its weights in memory."""

import tempfile
import zipfile
from pathlib import Path
from typing import Any


def write_file(model: Any, path: Path) -> None:
    """Write a model as `model.save(path)` does.

    Keras builds the file of the weights in memory: three times the weights of a model that Adam has trained,
    whose moments are in it. Here that file is beside `path` until it is in the archive.

    Args:
        model: of Keras.
        path: the file, ending in `.keras`; it need not exist.

    Raises:
        OSError: if it cannot be written.

    Example:

        >>> import keras
        >>> from keras_selfattn.models.saving.saved_file import load_file
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_file(model, Path(folder, "model.keras"))
        ...     load_file(Path(folder, "model.keras")).count_params()
        8
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as place:
        folder = Path(place, "model")
        model.save(folder, zipped=False)
        with zipfile.ZipFile(path, "w") as archive:
            for file in sorted(each for each in folder.rglob("*") if each.is_file()):
                archive.write(file, file.relative_to(folder).as_posix())
