"""Which kind of folder a path is, told without TensorFlow."""

from pathlib import Path


def holds_pretrained(path: str | Path) -> bool:
    """Return True for a pretrained model's folder: it has `config.json`, and no `model.keras` of a run."""
    path = Path(path)
    return (path / "config.json").is_file() and not (path / "model.keras").exists()
