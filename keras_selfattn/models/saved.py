"""Read models that this library has saved."""

import zipfile
import zlib
from pathlib import Path
from typing import cast

import keras

from keras_selfattn.errors import RunError


def load_saved(path: str | Path) -> keras.Model:
    """Return the model of a `.keras` file or a run folder, compiled as when it was saved.

    Args:
        path: the file; or a run folder that holds `model.keras`.

    Raises:
        RunError: if there is no such file, or Keras cannot read it.
    """
    file = Path(path)
    if file.is_dir():
        file /= "model.keras"
    if not file.is_file():
        raise RunError(f"There is no model at {file}. Give a .keras file, or a run folder made by `train`.")
    try:
        return cast(keras.Model, keras.saving.load_model(file))
    except (ValueError, OSError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise RunError(f"{file} is not a .keras file that can be read: {error}") from error
