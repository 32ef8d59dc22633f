"""Load `.keras` files; importing this package registers their classes."""

import zipfile
import zlib
from pathlib import Path
from typing import cast

import keras

from keras_selfattn.errors import RunError
from keras_selfattn.folder_kinds import holds_pretrained
from keras_selfattn.models.pretrained.text_encoder import TextEncoder


def load(path: str | Path) -> keras.Model:
    """Return the model of a `.keras` file, compiled as when it was saved; or a pretrained encoder.

    Args:
        path: the file; a run folder that holds `model.keras`; or a pretrained model's folder of the Hugging
            Face kind, for a `TextEncoder`.

    Raises:
        RunError: if there is no such file, or Keras cannot read it.

    Example:

        >>> import tempfile
        >>> from keras_selfattn import models
        >>> model = models.TextClassifier(vocabulary=["good", "bad"], labels=["+", "-"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.keras")
        ...     models.load(folder).labels
        ['+', '-']
    """
    file = Path(path)
    if holds_pretrained(file):
        return TextEncoder(start=file)
    if file.is_dir():
        file /= "model.keras"
    if not file.is_file():
        raise RunError(f"There is no model at {file}. Give a .keras file, or a run folder made by `train`.")
    try:
        return cast(keras.Model, keras.saving.load_model(file))
    except (ValueError, OSError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise RunError(f"{file} is not a .keras file that can be read: {error}") from error
