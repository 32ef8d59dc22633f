"""Load models of any kind of file; importing this package registers their classes."""

import os
from pathlib import Path

import keras

from keras_selfattn.files.folder_kinds import holds_pretrained
from keras_selfattn.files.hub_folders import located
from keras_selfattn.models.pretrained.text_encoder import TextEncoder
from keras_selfattn.models.pretrained_folders.folder_head import holds_scores, is_classifier
from keras_selfattn.models.pretrained_folders.model_folder import ModelFolder
from keras_selfattn.models.saving.saved_file import load_file
from keras_selfattn.models.text.classifier import TextClassifier
from keras_selfattn.models.text.regressor import TextRegressor


def load(path: str | os.PathLike[str]) -> keras.Model:
    """Return the model of a `.keras` file, compiled as when it was saved; or a pretrained one.

    Args:
        path: the file; a run folder that holds `model.keras`; or a pretrained model's folder of the Hugging
            Face kind, for a `TextClassifier` if its `config.json` names a model "…ForSequenceClassification",
            for a `TextRegressor` if the outputs of that are scores, and for a `TextEncoder` otherwise
            (`TextEncoder(start=path)` gives the encoder of any). The name of one in the Hugging Face hub,
            `owner/name` or `hf://owner/name@revision`, is fetched.

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
    place = located(path)
    if not holds_pretrained(place):
        return load_file(Path(place))
    return headed_model(place) if is_classifier(ModelFolder(place)) else TextEncoder(start=place)


def headed_model(
    folder: str | os.PathLike[str], *, text_pairs: bool | None = None, symmetric: bool = False
) -> TextClassifier | TextRegressor:
    """Return the model of a folder of the Hugging Face kind with its head: of labels, or of scores.

    Args:
        folder: the folder, or its name in the Hugging Face hub.
        text_pairs, symmetric: as for `TextRegressor.from_folder`.
    """
    place = located(folder)
    found = ModelFolder(place)
    kind = TextRegressor if is_classifier(found) and holds_scores(found) else TextClassifier
    return kind.from_folder(place, text_pairs=text_pairs, symmetric=symmetric)
