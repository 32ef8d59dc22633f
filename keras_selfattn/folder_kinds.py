"""Recognise the kind of a folder, without TensorFlow."""

from pathlib import Path


def holds_pretrained(path: str | Path) -> bool:
    """Return True for a pretrained model's folder: it has `config.json`, and no file of a run."""
    path = Path(path)
    of_run = any((path / name).exists() for name in ("model.keras", "metrics.json"))
    return (path / "config.json").is_file() and not of_run
