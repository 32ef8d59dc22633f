"""The checks of a run folder's files: the types of what is read by name, and that no command replaces one."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_selfattn.errors import ConfigError, RunError

_TABLES = ("history", "classes", "confusion", "errors", "spans")
_FILES = frozenset(
    {"model.keras", "metrics.json", "config.json", "vocabulary.txt", "example.json", "report.html"}
    | {f"{name}.csv" for name in _TABLES}
)
_NUMBER = (int, float)
# What is read of config.json by its name, where it is there.
_TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("model", "training", "data", "versions"), dict),
    **dict.fromkeys(("seconds", "peak_memory_mb", "best_epoch", "trained_on"), _NUMBER),
    "kind": str,
}
_TYPES_OF_ROWS: dict[str, type | tuple[type, ...]] = {"rows": int, "source": str}


def check_config(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a `config.json`.

    Raises:
        RunError: if a part of it, named in the message, has another type than trainings write.
    """
    _check_types(path, "", config, _TYPES)
    data = config.get("data") or {}
    _check_types(path, "data: ", data, dict.fromkeys(data, dict))
    for name, part in data.items():
        _check_types(path, f"data: {name}: ", part or {}, _TYPES_OF_ROWS)
    return config


def check_metrics(path: Path, metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a `metrics.json`.

    Raises:
        RunError: if its rows or split have another type than trainings write.
    """
    _check_types(path, "", metrics, {"rows": int, "split": str})
    return metrics


def check_no_file_of_run(flag: str, file: Path) -> None:
    """Raise ConfigError if a file, given by a command's flag, is one of a training, in its run folder.

    Example:

        >>> check_no_file_of_run("--report", Path("report.html"))
    """
    place = file.resolve()
    if place.name in _FILES and (place.parent / "model.keras").is_file():
        raise ConfigError(
            f"{flag} must not replace a file of a training. Received {str(file)!r}, which belongs to the run "
            f"{place.parent.name}. Give another name."
        )


def _check_types(
    path: Path, before: str, part: Mapping[str, Any], types: Mapping[str, type | tuple[type, ...]]
) -> None:
    """Raise RunError if a value is of another type, or too large; `before` comes before its name."""
    for name, kind in types.items():
        value = part.get(name)
        if value is None or (isinstance(value, kind) and not _is_too_large(value)):
            continue
        wanted = {dict: "a JSON object", str: "a text"}.get(kind, "a number")  # type: ignore[call-overload]
        raise RunError(
            f"{path} is damaged: `{before}{name}` must be {wanted}. Received {value!r:.80}. "
            "Train the run again."
        )


def _is_too_large(value: Any) -> bool:
    """Return True for an integer, which JSON does not bound, that is no float."""
    return isinstance(value, int) and abs(value) > sys.float_info.max
