"""The question that `serve` proposes for a model: something that it takes, as its card says."""

import json
from pathlib import Path
from typing import Any

_CARD = Path("assets.extra", "model_card.json")
_MOST_FEATURES = 4


def first_question(name: str, version: Path) -> tuple[str, ...]:
    """Return the words of a command that asks a model, or tell what it takes where a row is much to type.

    Args:
        name: of the model.
        version: the folder of a version. Without a card of ours in it, the model may take texts.

    Example:

        >>> first_question("films", Path("no/such/folder"))
        ('query', 'films', 'some text')
    """
    signatures = _signatures(version)
    if "encoded" in signatures:
        return "query", name, "--signature", "encoded", "image.png"
    try:
        inputs = signatures["serving_default"]["inputs"]
        described = [(alias, spec["dtype"], spec["shape"]) for alias, spec in inputs.items()]
    except (KeyError, TypeError, AttributeError):
        return ("metadata", name) if signatures else ("query", name, "some text")
    match described:
        case [(_, "string", _)]:
            return "query", name, "some text"
        case [("values", _, [_, _, int(features)])] if features <= _MOST_FEATURES:
            return "query", name, json.dumps([[0.5] * features, [1.5] * features])
    return "metadata", name


def _signatures(version: Path) -> dict[str, Any]:
    try:
        card = json.loads((version / _CARD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    # Others may write files of this name; ours have a format.
    return card["signatures"] if isinstance(card, dict) and "format" in card and "signatures" in card else {}
