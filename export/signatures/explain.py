"""The outputs of `explain`: the attention weights of all layers together, or each by itself.

Axes: B (batch), T (query positions), S (key positions), H (heads), L (layers).
"""

from typing import Any

import tensorflow as tf

Tensor = Any


def named_weights(weights: list[Tensor], *, together: bool) -> dict[str, Tensor]:
    """Return weights as `weights`, float32 `[B, L, H, T, S]`; or separately as `weights_0`, `weights_1`, …"""
    weights = [tf.cast(weight, tf.float32) for weight in weights]
    if together:
        return {"weights": tf.stack(weights, axis=1)}
    return {f"weights_{place}": weight for place, weight in enumerate(weights)}
