"""The settings of a run as tables: model, training, data, versions, time and memory."""

import json
from collections.abc import Mapping
from typing import Any

from keras_selfattn.report.sections import Section, Table

# Parts of config.json in the order of the page; the others come as they are, under "Run".
_PARTS = {
    "model": "Model",
    "training": "Training",
    "data": "Data",
    "reading": "Reading of the files",
    "start": "Start",
    "versions": "Versions",
}
_LEFT_OUT = {"labels", "trials"}
_LABELS = 60


def settings_section(config: Mapping[str, Any]) -> Section:
    """Return the settings in a run's `config.json` as tables."""
    run = {name: value for name, value in config.items() if name not in {*_PARTS, *_LEFT_OUT}}
    labels = config.get("labels")
    if isinstance(labels, list):
        run["classes"] = len(labels)
    blocks: list[Any] = [_table("Run", run)]
    blocks += [_table(title, config[name]) for name, title in _PARTS.items() if _filled(config.get(name))]
    trials = config.get("trials")
    if isinstance(trials, list) and trials:
        rows = [
            [_words(each.get("changes")), each.get("score"), each.get("seconds"), each.get("reason")]
            for each in trials
        ]
        blocks.append(
            Table(f"{len(trials)} trials of settings", ["changes", "score", "seconds", "reason"], rows, True)
        )
    return Section("Settings", blocks)


def flattened(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run with one name each.

    Example:

        >>> flattened({"model": {"width": 8}, "backend": "jax"})
        {'model: width': 8, 'backend': 'jax'}
    """
    found: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            found |= {f"{name}: {inner}": each for inner, each in flattened(value).items()}
        else:
            found[name] = value
    return found


def _filled(part: Any) -> bool:
    return isinstance(part, Mapping) and bool(part)


def _table(title: str, part: Mapping[str, Any]) -> Table:
    rows = [[name.replace("_", " "), _words(value)] for name, value in flattened(part).items()]
    return Table(
        title, ["setting", "value"], rows, folded=title in ("Model", "Versions", "Reading of the files")
    )


def _words(value: Any) -> str:
    """Return a setting as text."""
    if isinstance(value, str):
        return value
    if value is None:
        return "none"
    if isinstance(value, list) and len(value) > _LABELS:
        return f"{len(value)} values"
    return json.dumps(value, ensure_ascii=False, default=str)
