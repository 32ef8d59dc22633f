"""Attention, positions and pooling again, in NumPy and plain loops: the oracle that shares no code with ours.

Axes: B (batch), T (query positions), S (key positions), H (heads), D (features).
"""

import math

import numpy as np


def softmax_row(logits, allowed):
    """Softmax of one row over the allowed entries; all zero if there are none. Float64."""
    weights = np.zeros(len(logits))
    if not any(allowed):
        return weights
    top = max(logit for logit, ok in zip(logits, allowed, strict=True) if ok)
    for s, ok in enumerate(allowed):
        if ok:
            weights[s] = math.exp(logits[s] - top)
    return weights / weights.sum()


def self_attention(x, weights, num_heads, scale, allowed):
    """Multi-head self-attention, one number at a time.

    Args:
        x: `[B, T, D]`.
        weights: query-key-value kernel and bias, output kernel and bias, as the layer orders them.
        num_heads: H.
        scale: factor of the logits.
        allowed: function of (b, h, t, s): may query t attend to key s?

    Returns:
        outputs `[B, T, D]` (no position is masked out) and weights `[B, H, T, S]`.
    """
    qkv_kernel, qkv_bias, output_kernel, output_bias = (np.asarray(w, dtype=np.float64) for w in weights)
    x = np.asarray(x, dtype=np.float64)
    batch, length, _ = x.shape
    width = qkv_kernel.shape[1] // 3
    head_dim = width // num_heads
    probabilities = np.zeros((batch, num_heads, length, length))
    outputs = np.zeros((batch, length, output_kernel.shape[1]))
    for b in range(batch):
        projected = x[b] @ qkv_kernel + qkv_bias
        joined = np.zeros((length, width))
        for h in range(num_heads):
            columns = slice(h * head_dim, (h + 1) * head_dim)
            query = projected[:, :width][:, columns]
            key = projected[:, width : 2 * width][:, columns]
            value = projected[:, 2 * width :][:, columns]
            for t in range(length):
                logits = [scale * float(query[t] @ key[s]) for s in range(length)]
                row = softmax_row(logits, [allowed(b, h, t, s) for s in range(length)])
                probabilities[b, h, t] = row
                for s in range(length):
                    joined[t, columns] += row[s] * value[s]
        outputs[b] = joined @ output_kernel + output_bias
    return outputs, probabilities


def sinusoid(position, column, width, base=10000.0):
    """One cell of the sinusoidal encoding, in float64 from an exact reduction of the angle."""
    frequency = base ** (-(column // 2 * 2) / width)
    angle = position * frequency
    return math.sin(angle) if column % 2 == 0 else math.cos(angle)
