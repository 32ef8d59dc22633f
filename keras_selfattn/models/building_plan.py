"""The summary of a model that has seen no rows: what its first `fit` learns and builds."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_selfattn.models.raw_model import RawModel


def plan_lines(model: "RawModel") -> Iterator[str]:
    """Yield the lines of the summary of a model before its first `fit`."""
    yield f'Model: "{model.name}" ({type(model).__name__}), not built yet'
    yield ""
    yield f"The first `fit` or `adapt` learns {model.learns} from its rows, and builds:"
    parts = {"encoder": _encoder(model.config), **model.parts_beside(), "output": model.returns}
    width = max(map(len, parts))
    for name, content in parts.items():
        yield f"  {name:<{width}}  {content}"
    yield ""
    yield "Settings:"
    for name, value in model.config.summary().items():
        yield f"  {name}: {value}"


def _encoder(config: Any) -> str:
    blocks = f"{config.num_layers} block{'s' if config.num_layers > 1 else ''} of self-attention"
    hidden = config.feed_forward_dim or 4 * config.width
    found = f"{blocks}, {config.num_heads} heads, width {config.width}, feed-forward width {hidden}"
    members = getattr(config, "members", 1)
    return found if members == 1 else f"{members} times: {found}"
