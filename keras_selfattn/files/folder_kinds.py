"""Recognise the kind of a folder, and say what a path without a model lacks; without TensorFlow."""

import os
from pathlib import Path

from keras_selfattn.files.hub_names import EXAMPLE, near

A_FOLDER = f"a pretrained model's folder, or its name in the Hugging Face hub, such as {EXAMPLE}"


def holds_pretrained(path: str | os.PathLike[str]) -> bool:
    """Return True for a pretrained model's folder: it has `config.json`, and no file of a run."""
    path = Path(path)
    of_run = any((path / name).exists() for name in ("model.keras", "metrics.json"))
    return (path / "config.json").is_file() and not of_run


def lacks(path: Path, *, folders: bool = True) -> str:
    """Return why a path holds no model of any kind, and what to give instead.

    Args:
        path: the path.
        folders: False where a pretrained model would not do either.
    """
    wanted = f"Give a run folder of `keras-selfattn train`, a .keras file, {A_FOLDER}."
    if not folders:
        wanted = "Give a run folder of `keras-selfattn train`, or a .keras file."
    if not path.exists():
        return f"There is no model at {path}.{near(path)} {wanted}"
    if path.is_dir():
        neither = "it has neither the model.keras of a run folder nor the config.json of a pretrained model"
        what = neither if folders else "it has no model.keras"
        return f"{path} holds no model: {what}. {wanted}"
    return f"{path} is no .keras file. {wanted}"
