"""Load models of any kind of file; importing this package registers their classes."""

from pathlib import Path

import keras

from keras_selfattn.files.folder_kinds import holds_pretrained
from keras_selfattn.models.pretrained.text_encoder import TextEncoder
from keras_selfattn.models.pretrained_folders.folder_head import is_classifier
from keras_selfattn.models.pretrained_folders.model_folder import ModelFolder
from keras_selfattn.models.saving.saved_file import load_file
from keras_selfattn.models.text.classifier import TextClassifier


def load(path: str | Path) -> keras.Model:
    """Return the model of a `.keras` file, compiled as when it was saved; or a pretrained one.

    Args:
        path: the file; a run folder that holds `model.keras`; or a pretrained model's folder of the Hugging
            Face kind, for a `TextClassifier` if its `config.json` names a model "…ForSequenceClassification",
            and for a `TextEncoder` otherwise (`TextEncoder(start=path)` gives the encoder of either).

    Raises:
        RunError: if there is no such file, or it cannot be read.
        ConfigError: for a pretrained model that cannot be read.

    Example:

        >>> import tempfile
        >>> from keras_selfattn import models
        >>> model = models.TextClassifier(vocabulary=["good", "bad"], labels=["+", "-"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.keras")
        ...     models.load(folder).labels
        ['+', '-']
    """
    if not holds_pretrained(path):
        return load_file(path)
    if is_classifier(ModelFolder(path)):
        return TextClassifier.from_folder(path)
    return TextEncoder(start=path)
