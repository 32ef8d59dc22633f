"""Formulas of layers in NumPy, by loops: attention with other scores, pooling, the encoder's block."""

import math

import numpy as np
import reference
from backend import array
from samples import HEADS, WIDTH

from keras_selfattn.layers import AdditiveSelfAttention, MultiplicativeSelfAttention


def additive_in_numpy(layer, x, allowed=reference.everything):
    kernel, bias, output_kernel, output_bias, vector = (w.astype("float64") for w in layer.get_weights())
    outputs, weights = [], []
    for b, sample in enumerate(x.astype("float64")):
        heads = reference.heads_of(sample, kernel, bias, 3 * HEADS)
        context, found = reference.attention(
            heads[:HEADS],
            heads[HEADS : 2 * HEADS],
            heads[2 * HEADS :],
            lambda h, t, s, query, key: vector[h] @ np.tanh(query + key),
            lambda h, t, s, b=b: allowed(b, h, t, s),
        )
        outputs.append(context @ output_kernel + output_bias)
        weights.append(found)
    return np.array(outputs), np.array(weights)


def multiplicative_in_numpy(layer, x, scale, allowed=reference.everything):
    kernel, bias, output_kernel, output_bias, matrices = (w.astype("float64") for w in layer.get_weights())
    outputs, weights = [], []
    for b, sample in enumerate(x.astype("float64")):
        context, found = reference.attention(
            [sample] * HEADS,
            [sample] * HEADS,
            reference.heads_of(sample, kernel, bias, HEADS),
            lambda h, t, s, query, key: scale * query @ matrices[:, h * WIDTH : (h + 1) * WIDTH] @ key,
            lambda h, t, s, b=b: allowed(b, h, t, s),
        )
        outputs.append(context @ output_kernel + output_bias)
        weights.append(found)
    return np.array(outputs), np.array(weights)


CASES = {
    "additive": (AdditiveSelfAttention, {}, additive_in_numpy),
    "multiplicative": (
        MultiplicativeSelfAttention,
        {},
        lambda layer, x, *rules: multiplicative_in_numpy(layer, x, WIDTH**-0.5, *rules),
    ),
    "unscaled multiplicative": (
        MultiplicativeSelfAttention,
        {"scale": 1.0},
        lambda layer, x, *rules: multiplicative_in_numpy(layer, x, 1.0, *rules),
    ),
}


def phi(x):
    return np.array([v + 1 if v > 0 else math.exp(v) for v in x])


def normalised_row(products, allowed):
    row = np.array([p if ok else 0.0 for p, ok in zip(products, allowed, strict=True)])
    return row / row.sum() if any(allowed) else row


def linear_in_numpy(layer, x, allowed=reference.everything):
    kernel, bias, output_kernel, output_bias = (w.astype("float64") for w in layer.get_weights())
    outputs, weights = [], []
    for b, sample in enumerate(x.astype("float64")):
        heads = reference.heads_of(sample, kernel, bias, 3 * HEADS)
        context, found = reference.attention(
            heads[:HEADS],
            heads[HEADS : 2 * HEADS],
            heads[2 * HEADS :],
            lambda h, t, s, query, key: phi(query) @ phi(key),
            lambda h, t, s, b=b: allowed(b, h, t, s),
            row=normalised_row,
        )
        outputs.append(context @ output_kernel + output_bias)
        weights.append(found)
    return np.array(outputs), np.array(weights)


def attention_pooling_in_numpy(x, hidden, hops, mask):
    """Lin et al., equations 5 to 8, in loops."""
    pooled, weights = [], []
    for sample, real in zip(x.astype("float64"), mask, strict=True):
        rows = []
        for r in range(hops.shape[1]):
            logits = [hops[:, r] @ np.tanh(hidden.T @ token) for token in sample]
            rows.append(reference.softmax_row(logits, real))
        weights.append(rows)
        pooled.append([sum(w * token for w, token in zip(row, sample, strict=True)) for row in rows])
    return np.array(pooled), np.array(weights)


def normalised(x, named, name, kind):
    gain = named[f"{name}/gamma" if kind == "layer" else f"{name}/scale"]
    if kind == "rms":
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * gain
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + named[f"{name}/beta"]


def block_in_numpy(block, x, mask, kind="layer", norm_first=True, gated=False):
    """The block's formula, pre-norm or post-norm; zero where masked."""
    named = {
        weight.path.split("/", weight.path.split("/").index(block.name) + 1)[-1]: array(weight).astype(
            "float64"
        )
        for weight in block.weights
    }
    attention = [named[f"attention/{n}"] for n in ("query_key_value_kernel", "query_key_value_bias")]
    attention += [named[f"attention/{n}"] for n in ("output_kernel", "output_bias")]

    def attend(x):
        scale = (x.shape[-1] // block.num_heads) ** -0.5
        found, _ = reference.self_attention(
            x, attention, block.num_heads, scale, lambda b, h, t, s: mask[b, s]
        )
        return np.where(mask[:, :, None], found, 0)

    def feed_forward(x):
        hidden = x @ named["feed_forward/hidden/kernel"] + named["feed_forward/hidden/bias"]
        hidden = 0.5 * hidden * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
        if gated:
            hidden = hidden * (x @ named["feed_forward/gate/kernel"] + named["feed_forward/gate/bias"])
        return hidden @ named["feed_forward/output/kernel"] + named["feed_forward/output/bias"]

    for name, sublayer in (("attention_norm", attend), ("feed_forward_norm", feed_forward)):
        if norm_first:
            x = x + sublayer(normalised(x, named, name, kind))
        else:
            x = normalised(x + sublayer(x), named, name, kind)
    return np.where(mask[:, :, None], x, 0)
