"""Load `.keras` files; importing this package registers their classes."""

from pathlib import Path

import keras

from keras_selfattn.folder_kinds import holds_pretrained
from keras_selfattn.models.pretrained.text_encoder import TextEncoder
from keras_selfattn.models.saved_file import load_file


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
    return TextEncoder(start=path) if holds_pretrained(path) else load_file(path)
