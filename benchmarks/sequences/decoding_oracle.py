"""The oracle of decoding: encoder and decoder in NumPy and float64, one source at a time, without a cache.

Axes: S (symbols of a source), T (symbols of an answer), H (heads), D (features), V (vocabulary).
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import erf

from benchmarks.sequences.decoding_case import BEGIN, EPSILON, Array, Weights


def log_probabilities(weights: Weights, source: Sequence[int], answer: Sequence[int]) -> Array:
    """Return the log probabilities of the symbol after the begin symbol, and after each of an answer.

    Args:
        weights: of the model.
        source: ids, the end symbol included.
        answer: ids, without the begin symbol.

    Returns:
        float64 `[symbols of the answer + 1, V]`.
    """
    memory = _embedded(weights, source)
    for block in weights.blocks("encoder"):
        memory = _block(weights, block, memory, None)
    memory = _normalised(memory, weights.norm("encoder/norm"))  # [S, D]
    x = _embedded(weights, [BEGIN, *answer])
    for block in weights.blocks("decoder"):
        x = _block(weights, block, x, memory)
    logits = _normalised(x, weights.norm("decoder/norm")) @ weights.embeddings.T + weights.never  # [T, V]
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def _embedded(weights: Weights, ids: Sequence[int]) -> Array:
    vectors = weights.embeddings[list(ids)].astype("float64")
    return vectors * vectors.shape[-1] ** 0.5 + weights.positions[: len(vectors)]


def _block(weights: Weights, block: str, x: Array, memory: Array | None) -> Array:
    """Return the outputs `[T, D]` of an encoder block, or with a memory of a decoder block."""
    seen = _normalised(x, weights.norm(f"{block}/attention_norm"))
    x = x + _attention(weights, f"{block}/attention", seen, seen, causal=memory is not None)
    if memory is not None:
        seen = _normalised(x, weights.norm(f"{block}/cross_attention_norm"))
        x = x + _attention(weights, f"{block}/cross_attention", seen, memory, causal=False)
    hidden = _product(
        _normalised(x, weights.norm(f"{block}/feed_forward_norm")),
        *weights.pair(f"{block}/feed_forward/hidden"),
    )
    hidden = hidden * (1 + erf(hidden / 2**0.5)) / 2
    return x + _product(hidden, *weights.pair(f"{block}/feed_forward/output"))


def _attention(weights: Weights, name: str, x: Array, memory: Array, causal: bool) -> Array:
    query, key, value = (
        _product(y, *weights.projection(name, kind)).reshape(len(y), weights.heads, -1).swapaxes(0, 1)
        for kind, y in (("query", x), ("key", memory), ("value", memory))
    )  # [H, T or S, D]
    logits = query @ key.swapaxes(1, 2) / query.shape[-1] ** 0.5  # [H, T, S]
    if causal:
        logits = np.where(np.tri(len(x), dtype=bool), logits, -np.inf)
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    context = exponentials / exponentials.sum(-1, keepdims=True) @ value
    return _product(context.swapaxes(0, 1).reshape(len(x), -1), *weights.projection(name, "output"))


def _product(x: Array, kernel: Array, bias: Array) -> Array:
    return x @ kernel + bias


def _normalised(x: Array, norm: tuple[Array, Array]) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON) * norm[0] + norm[1]
