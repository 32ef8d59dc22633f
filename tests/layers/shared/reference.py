"""Attention, positions and pooling again, in NumPy and plain loops: the oracle that shares no code with ours.

Axes: B (batch), T (query positions), S (key positions), H (heads), G (key-value heads), D (features).
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


def heads_of(x, kernel, bias, count):
    """`[T, features]` to a list of `count` heads `[T, D]`."""
    projected = x @ kernel + bias
    width = projected.shape[1] // count
    return [projected[:, h * width : (h + 1) * width] for h in range(count)]


def everything(b, h, t, s):
    return True


def attention(queries, keys, values, score, allowed, row=softmax_row, extra=None):
    """One sample, one number at a time.

    Args:
        queries: H arrays `[T, D]`.
        keys, values: G arrays `[S, D]`; head h reads number h // (H / G).
        score: function of (h, t, s, query, key) to a logit.
        allowed: function of (h, t, s): may query t attend to key s?
        row: logits and allowed of one query to its weights.
        extra: function of (t, s) to a vector added to value s, or None.

    Returns:
        context: `[T, H D]`.
        weights: `[H, T, S]`.
    """
    length, others, share = len(queries[0]), len(keys[0]), len(queries) // len(keys)
    weights = np.zeros((len(queries), length, others))
    context = np.zeros((length, len(queries), values[0].shape[1]))
    for h, query in enumerate(queries):
        key, value = keys[h // share], values[h // share]
        for t in range(length):
            logits = [score(h, t, s, query[t], key[s]) for s in range(others)]
            weights[h, t] = row(logits, [allowed(h, t, s) for s in range(others)])
            for s in range(others):
                added = 0 if extra is None else extra(t, s)
                context[t, h] += weights[h, t, s] * (value[s] + added)
    return context.reshape(length, -1), weights


def self_attention(
    x,
    weights,
    num_heads,
    scale,
    allowed=everything,
    kv_heads=None,
    turn=None,
    bias=None,
    extra=None,
    cap=None,
    pair=None,
):
    """Multi-head dot-product self-attention with the layer's weights.

    Args:
        x: `[B, T, D]`.
        weights: query-key-value kernel and bias, output kernel and bias, as the layer orders them.
        num_heads: H.
        scale: factor of the logits.
        allowed: function of (b, h, t, s): may query t attend to key s?
        kv_heads: G, by default H.
        turn: function of ("query" or "key", vector, position) to a vector, or None.
        bias: function of (h, t, s, scaled query) to what is added to the logit, or None.
        extra: function of (t, s) to a vector added to value s, or None.
        cap: bound of the logits before the bias, or None.
        pair: function of (h, t, s, query, key), unscaled, to what is added to the logit, or None.

    Returns:
        outputs `[B, T, D]` (no position is masked out) and weights `[B, H, T, S]`.
    """
    kernel, kernel_bias, output_kernel, output_bias = (np.asarray(w, dtype=np.float64) for w in weights[:4])
    kv_heads = kv_heads or num_heads

    def score(h, t, s, query, key):
        if turn is not None:
            query, key = turn("query", query, t), turn("key", key, s)
        logit = scale * float(query @ key)
        logit = logit if cap is None else cap * math.tanh(logit / cap)
        logit += 0 if pair is None else pair(h, t, s, query, key)
        return logit + (0 if bias is None else bias(h, t, s, scale * query))

    outputs, probabilities = [], []
    for b, sample in enumerate(np.asarray(x, dtype=np.float64)):
        heads = heads_of(sample, kernel, kernel_bias, num_heads + 2 * kv_heads)
        context, found = attention(
            heads[:num_heads],
            heads[num_heads : num_heads + kv_heads],
            heads[num_heads + kv_heads :],
            score,
            lambda h, t, s, b=b: allowed(b, h, t, s),
            extra=extra,
        )
        outputs.append(context @ output_kernel + output_bias)
        probabilities.append(found)
    return np.array(outputs), np.array(probabilities)


def cross_attention(
    x, memory, weights, num_heads, scale, allowed=everything, kv_heads=None, turn=None, cap=None
):
    """Multi-head dot-product attention from `x` `[B, T, D]` to `memory` `[B, S, E]`, by a layer's weights.

    Args:
        x, memory: queries are made of the one, keys and values of the other.
        weights: query kernel and bias, key-value kernel and bias, output kernel and bias.
        num_heads, scale, allowed, kv_heads, turn, cap: as of `self_attention`; s is a place of the memory.

    Returns:
        outputs `[B, T, D]` and weights `[B, H, T, S]`.
    """
    query_kernel, query_bias, kernel, bias, output_kernel, output_bias = (
        np.asarray(w, dtype=np.float64) for w in weights[:6]
    )
    kv_heads = kv_heads or num_heads

    def score(h, t, s, query, key):
        if turn is not None:
            query, key = turn("query", query, t), turn("key", key, s)
        logit = scale * float(query @ key)
        return logit if cap is None else cap * math.tanh(logit / cap)

    outputs, probabilities = [], []
    for b, (sample, other) in enumerate(zip(x.astype("float64"), memory.astype("float64"), strict=True)):
        of_memory = heads_of(other, kernel, bias, 2 * kv_heads)
        context, found = attention(
            heads_of(sample, query_kernel, query_bias, num_heads),
            of_memory[:kv_heads],
            of_memory[kv_heads:],
            score,
            lambda h, t, s, b=b: allowed(b, h, t, s),
        )
        outputs.append(context @ output_kernel + output_bias)
        probabilities.append(found)
    return np.array(outputs), np.array(probabilities)


def sinusoid(position, column, width, base=10000.0):
    """One cell of the sinusoidal encoding, in float64 from an exact reduction of the angle."""
    frequency = base ** (-(column // 2 * 2) / width)
    angle = position * frequency
    return math.sin(angle) if column % 2 == 0 else math.cos(angle)


def rotated(vector, position, base=10000.0):
    """Rotary positions: features i and i + D/2 turn by position / base**(2i / D); an odd last stays."""
    turned, half = np.array(vector, dtype=np.float64), len(vector) // 2
    for i in range(half):
        angle = position * base ** (-2 * i / (2 * half))
        a, b = vector[i], vector[i + half]
        turned[i] = a * math.cos(angle) - b * math.sin(angle)
        turned[i + half] = b * math.cos(angle) + a * math.sin(angle)
    return turned


def bucket(distance, num_buckets, max_distance, causal):
    """T5's bucket of a distance, with its boundaries as integer powers instead of logarithms."""
    offset, away = 0, -distance
    if not causal:
        num_buckets //= 2
        offset, away = (num_buckets if distance > 0 else 0), abs(distance)
    away = max(away, 0)
    exact = num_buckets // 2
    if away < exact:
        return offset + away
    ranges = num_buckets - exact
    # away >= exact * (max_distance / exact) ** (i / ranges), without roots
    reached = [i for i in range(ranges) if away**ranges * exact**i >= exact**ranges * max_distance**i]
    return offset + exact + max(reached)
