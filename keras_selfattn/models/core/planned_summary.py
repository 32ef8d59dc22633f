"""The summary of a model that has seen no rows: what its first `fit` learns and builds."""

from collections.abc import Iterator, Mapping
from typing import Any


def plan_lines(title: str, learns: str, parts: Mapping[str, str], returns: str, config: Any) -> Iterator[str]:
    """Yield the lines of the summary of a model before its first `fit`.

    Args:
        title: its name and, in parentheses, its class.
        learns: what the first rows determine.
        parts: descriptions of the parts beside the encoder, by name.
        returns: what `predict` returns.
        config: the settings, an `EncoderConfig`.
    """
    yield f"Model: {title}, not built yet"
    yield ""
    yield f"The first `fit` or `adapt` learns {learns} from its rows, and builds:"
    parts = {"encoder": _encoder(config), **parts, "output": returns}
    width = max(map(len, parts))
    for name, content in parts.items():
        yield f"  {name:<{width}}  {content}"
    yield ""
    yield "Settings:"
    for name, value in config.summary().items():
        yield f"  {name}: {value}"


def _encoder(config: Any) -> str:
    blocks = f"{config.num_layers} block{'s' if config.num_layers > 1 else ''} of self-attention"
    found = (
        f"{blocks}, {config.num_heads} heads, width {config.width}, feed-forward width {config.hidden_width}"
    )
    members = getattr(config, "members", 1)
    return found if members == 1 else f"{members} times: {found}"
