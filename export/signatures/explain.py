"""The outputs of `explain`: the attention weights of all layers together, or each by itself.

Axes: B (batch), T (query positions), S (key positions), H (heads), L (layers), R (hops of pooling).
"""

from typing import Any

import tensorflow as tf

from keras_selfattn.models.core.attention_weights import Collected

Tensor = Any


def named_weights(collected: Collected, *, together: bool) -> dict[str, Tensor]:
    """Return the weights as outputs, float32.

    Attention is `weights`, `[B, L, H, T, S]`, or separately `weights_0`, `weights_1`, …, `[B, H, T, S]`.
    Attention pooling is `pooling`, `[B, R, T]`; of several layers `pooling_0`, `pooling_1`, …
    """
    weights, pooling = ([tf.cast(each, tf.float32) for each in found] for found in collected)
    found = {"weights": tf.stack(weights, axis=1)} if together else _numbered("weights", weights)
    return found | ({"pooling": pooling[0]} if len(pooling) == 1 else _numbered("pooling", pooling))


def _numbered(name: str, tensors: list[Tensor]) -> dict[str, Tensor]:
    return {f"{name}_{place}": tensor for place, tensor in enumerate(tensors)}
