"""Scaled dot-product attention as pure functions of tensors.

Axes: B (batch), T (query positions), S (key positions), H (heads), D (features of one head).

Reference: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1.
"""

from collections.abc import Callable
from typing import Any

from keras import ops

Tensor = Any

# Half of float32's lowest value: no finite logit can carry the sum to infinity, and against any real logit
# its exponential is exactly 0. Softmax runs in float32 under every dtype policy, so this fits always.
_MASKED_LOGIT = -1.7e38


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns `softmax(scale * query @ key^T) @ value` and the softmax, computed in float32.

    A query that may attend to nothing gets weights and context of exactly zero.

    Args:
        query: `[B, H, T, D]`.
        key: `[B, H, S, D]`.
        value: `[B, H, S, D]`.
        mask: bool that broadcasts to `[B, H, T, S]`, True where attention is allowed; None allows all.
        scale: factor of the logits.
        dropout: applied to the weights that meet the values, not to those returned.

    Returns:
        context: `[B, H, T, D]`, dtype of `value`.
        weights: `[B, H, T, S]`, dtype of `value`; each row sums to 1 or is all zero.

    Example:

        >>> import numpy as np
        >>> q = k = v = np.ones((1, 1, 2, 3), "float32")
        >>> context, weights = attend(q, k, v, scale=1.0)
        >>> print(np.asarray(weights)[0, 0])
        [[0.5 0.5]
         [0.5 0.5]]
    """
    # Scaled before the product: in float16 the unscaled logits can overflow.
    logits = ops.matmul(query * scale, ops.swapaxes(key, -1, -2))  # [B, H, T, S]
    weights = ops.cast(masked_softmax(ops.cast(logits, "float32"), mask), value.dtype)  # [B, H, T, S]
    kept = weights if dropout is None else dropout(weights)
    return ops.matmul(kept, value), weights  # [B, H, T, D]


def masked_softmax(logits: Tensor, mask: Tensor | None) -> Tensor:
    """Returns the softmax over the last axis of `logits`; masked entries, and rows without any, are 0.

    Args:
        logits: float32 `[B, H, T, S]`.
        mask: bool that broadcasts to `logits`, True where attention is allowed, or None.

    Returns:
        float32 `[B, H, T, S]`.
    """
    if mask is None:
        return _softmax(logits)
    bias = ops.where(mask, 0.0, _MASKED_LOGIT)
    has_key = ops.cast(ops.any(mask, axis=-1, keepdims=True), "float32")  # [B or 1, H or 1, T or 1, 1]
    return _softmax(logits + bias) * has_key


def _softmax(logits: Tensor) -> Tensor:
    if logits.shape[-1] == 1:
        return ops.ones_like(logits)  # Keras' own warns here, though a sequence of one token is no mistake
    return ops.softmax(logits, axis=-1)
