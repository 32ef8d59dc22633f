"""Recognise the kind of a folder, and say what a path without a model lacks; without TensorFlow."""

import re
from pathlib import Path

_A_HUBS_NAME = "sentence-transformers/all-MiniLM-L6-v2"


def holds_pretrained(path: str | Path) -> bool:
    """Return True for a pretrained model's folder: it has `config.json`, and no file of a run."""
    path = Path(path)
    of_run = any((path / name).exists() for name in ("model.keras", "metrics.json"))
    return (path / "config.json").is_file() and not of_run


def how_to_fetch(path: str | Path) -> str:
    """Return a sentence about fetching a pretrained model; a path that may be a hub's name is its example.

    Example:

        >>> how_to_fetch("google/electra-small-generator")[-69:]
        'with `hf download google/electra-small-generator --local-dir FOLDER`.'
    """
    name = str(path) if re.fullmatch(r"[\w.-]*\w/[\w.-]*\w", str(path)) else _A_HUBS_NAME
    return (
        "Nothing is downloaded: fetch a pretrained model first, for example with "
        f"`hf download {name} --local-dir FOLDER`."
    )


def lacks(path: Path, *, folders: bool = True) -> str:
    """Return why a path holds no model of any kind, and what to give instead.

    Args:
        path: the path.
        folders: False where a pretrained model's folder would not do either.
    """
    wanted = "Give a run folder of `keras-selfattn train`, a .keras file, or a pretrained model's folder."
    if not folders:
        wanted = "Give a run folder of `keras-selfattn train`, or a .keras file."
    if not path.exists():
        return f"There is no model at {path}. {wanted}" + (f" {how_to_fetch(path)}" if folders else "")
    if path.is_dir():
        neither = "it has neither the model.keras of a run folder nor the config.json of a pretrained model"
        what = neither if folders else "it has no model.keras"
        return f"{path} holds no model: {what}. {wanted}"
    return f"{path} is no .keras file. {wanted}"
