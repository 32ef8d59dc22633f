"""The attention weights of every layer of a model, as its own layers compute them.

Axes: B (batch), T (query positions), S (key positions), H (heads), R (hops of pooling).
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import keras

from keras_selfattn import layers

Tensor = Any

_RETURNING_WEIGHTS = (
    layers.MultiHeadSelfAttention,
    layers.AdditiveSelfAttention,
    layers.MultiplicativeSelfAttention,
    layers.LinearSelfAttention,
    layers.EncoderBlock,
    layers.Encoder,
)


class Collected(NamedTuple):
    """Weights in the order in which the layers ran.

    Args:
        attention: of each attention layer, `[B, H, T, S]`.
        pooling: of each `AttentionPooling`, `[B, R, T]`.
    """

    attention: list[Tensor]
    pooling: list[Tensor]


def attention_layers(
    model: keras.layers.Layer, kinds: tuple[type, ...] = _RETURNING_WEIGHTS
) -> list[keras.layers.Layer]:
    """Return the layers of a model that can return weights, each once, without layers inside such a layer."""
    found: dict[int, keras.layers.Layer] = {}
    for layer in model._flatten_layers(include_self=False, recursive=False):
        inner = [layer] if isinstance(layer, kinds) else attention_layers(layer, kinds)
        found |= {id(each): each for each in inner}
    return list(found.values())


@contextmanager
def collected_weights(model: keras.layers.Layer) -> Iterator[Collected]:
    """Let the layers of a model put their weights into the lists yielded.

    The model can be of any kind, and its outputs do not change.
    """
    found = Collected([], [])
    with ExitStack() as stack:
        for layer in attention_layers(model):
            stack.enter_context(_returning_weights(layer, found.attention))
        for layer in attention_layers(model, (layers.AttentionPooling,)):
            stack.enter_context(_returning_weights(layer, found.pooling))
        yield found


@contextmanager
def _returning_weights(layer: keras.layers.Layer, found: list[Tensor]) -> Iterator[None]:
    call = layer.call

    def collecting(*args: Any, return_weights: bool = False, **options: Any) -> Any:
        outputs, weights = call(*args, **options, return_weights=True)
        found.extend(weights if isinstance(weights, list) else [weights])
        return (outputs, weights) if return_weights else outputs

    # Bypass Keras' __setattr__, which tracks attributes; for this one call, on this one layer.
    attributes: Any = vars(layer)
    attributes["call"] = collecting
    try:
        yield
    finally:
        del attributes["call"]
