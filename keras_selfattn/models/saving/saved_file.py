"""Read a `.keras` file, of its own or in a run folder."""

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any, cast

import keras

from keras_selfattn.errors import RunError
from keras_selfattn.files.folder_kinds import lacks
from keras_selfattn.layers import quantized_parts
from keras_selfattn.layers.weights.settings import weights_to_come


def load_file(path: str | Path, *, folders: bool = True) -> keras.Model:
    """Return the model of a `.keras` file, or of a run folder that holds `model.keras`.

    Args:
        path: the file or the folder.
        folders: False where a pretrained model's folder would not do either; see `lacks`.

    Raises:
        RunError: if there is no such file, or Keras cannot read it.
    """
    file = Path(path)
    if file.is_dir():
        file /= "model.keras"
    if not file.is_file() or file.suffix != ".keras":
        raise RunError(lacks(Path(path), folders=folders))
    try:
        with weights_to_come():
            return cast(keras.Model, keras.saving.load_model(file))
    except (ValueError, OSError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise RunError(
            f"{file} is not a .keras file that can be read: {error}\n"
            "If an earlier version of this library wrote it, train the model again."
        ) from error


def refuse_quantized(path: Any, model: keras.Model) -> None:
    """Raise RunError if the model of a file is quantized: another one cannot begin with rounded weights."""
    if quantized_parts(model):
        raise RunError(
            f"{path} is quantized, so no other model begins with it. Give the file of the model as it was "
            "before `quantize`."
        )


def run_figures(path: str | Path) -> dict[str, Any]:
    """Return the figures in a run folder under `figures`; nothing if it is none."""
    try:
        return {"figures": json.loads((Path(path) / "metrics.json").read_text(encoding="utf-8"))}
    except (OSError, ValueError):
        return {}
