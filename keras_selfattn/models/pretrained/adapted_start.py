"""The start from a pretrained encoder that learned from more texts, and which kind of start a path is."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import keras

from keras_selfattn.errors import RunError
from keras_selfattn.files.folder_kinds import holds_pretrained
from keras_selfattn.files.hub_folders import located
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.pretrained.fine_tuning_config import (
    FineTunedConfig,
    FineTunedTokenConfig,
    MaskedPiecesConfig,
    TextEncoderConfig,
)
from keras_selfattn.models.pretrained.masked_head import HEAD_LAYERS
from keras_selfattn.models.pretrained.pretrained_start import EncoderStart, Kind, PretrainedStart
from keras_selfattn.models.pretrained_folders.pretrained_config import PretrainedConfig
from keras_selfattn.models.saving.saved_file import load_file, refuse_quantized, run_figures


class AdaptedStart(EncoderStart):
    """The pretrained model whose training `pretrain` went on with.

    Args:
        path: the run folder, or the `.keras` file.
        kind: the config of the model that begins with it.
        model: that of the file, if it has been read.

    Raises:
        RunError: if it is another model.
    """

    new_head = False

    def __init__(self, path: Any, kind: Kind = FineTunedConfig, model: Any = None) -> None:
        self._model: Any = load_file(path) if model is None else model
        found = getattr(self._model, "config", None)
        if not isinstance(found, MaskedPiecesConfig):
            raise RunError(
                f"{path} holds a {type(self._model).__name__} that is no pretrained encoder. Give a "
                "pretrained model's folder, or a run of `keras-selfattn pretrain --from FOLDER`."
            )
        refuse_quantized(path, self._model)
        config = {field.name: getattr(found, field.name) for field in fields(PretrainedConfig)}
        tokenizer = self._model.tokenizer
        guessing = {name: getattr(found, name) for name in ("guess_activation", "guess_bias")}
        super().__init__(path, kind, PretrainedConfig(**config), tokenizer, guessing)
        self.record = {"path": self.path, "kind": type(self._model).__name__, **run_figures(path)}

    def copy_to(self, core: keras.Model, head: Head | None = None) -> None:
        self._copy(core, ("embedding", "encoder"))

    def copy_head(self, core: keras.Model) -> None:
        self._copy(core, HEAD_LAYERS)

    def _copy(self, core: keras.Model, names: Sequence[str]) -> None:
        for name in names:
            core.get_layer(name).set_weights(self._model.core.get_layer(name).get_weights())


def encoder_start(path: Any) -> EncoderStart:
    """Return the encoder of texts in a folder, or in a run that went on with its training.

    Args:
        path: the place, or a name in the Hugging Face hub; or a start, which is returned.

    Raises:
        RunError: for another run or file, and as `PretrainedStart` does.
    """
    if isinstance(path, EncoderStart):
        return path
    path = located(path)
    place = Path(path)
    saved = place.suffix == ".keras" or (place / "model.keras").is_file()
    if saved:
        return AdaptedStart(path, TextEncoderConfig)
    return PretrainedStart(path, TextEncoderConfig, vectors=True)


def token_starting_point(path: Any) -> EncoderStart:
    """Return the start of a labeller of tokens: a pretrained encoder, as it is or after more training.

    Args:
        path: a pretrained model's folder or its name in the Hugging Face hub, or a run that went on with its
            training; or a start, which is returned.

    Raises:
        RunError: for another run or file, and as `PretrainedStart` does.
    """
    if isinstance(path, EncoderStart):
        return path
    path = located(path)
    if holds_pretrained(path) or not Path(path).exists():
        return PretrainedStart(path, FineTunedTokenConfig)
    return AdaptedStart(path, FineTunedTokenConfig)
