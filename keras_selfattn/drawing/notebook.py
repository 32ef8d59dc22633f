"""Tokens on the colours of their weights, with the style that they need, for a notebook's cell."""

from collections.abc import Sequence

import numpy as np

from keras_selfattn.drawing.markup import Markup, join, tag
from keras_selfattn.drawing.pictures import coloured_tokens
from keras_selfattn.drawing.style import TOKEN_STYLE


def received(weights: np.ndarray) -> np.ndarray:
    """Return the share of the attention that each token receives, mean of layers, heads and queries.

    Args:
        weights: float `[layers, heads, T, T]`, each query's (row's) sum of weights 1.

    Returns:
        Float `[T]`.

    Example:

        >>> received(np.array([[[[0.25, 0.75], [0.75, 0.25]]]])).tolist()
        [0.5, 0.5]
    """
    return weights.mean(axis=(0, 1, 2)) if weights.shape[-1] else np.zeros(0, weights.dtype)


def shown_tokens(tokens: Sequence[str], weights: np.ndarray, *, spaced: bool) -> Markup:
    """Return tokens on colours; the largest weight has the strongest, and each shows its own as a tooltip.

    Example:

        >>> "<bdi" in shown_tokens(["good", "film"], np.array([0.9, 0.1]), spaced=True)
        True
    """
    style = tag("style", Markup(TOKEN_STYLE))
    drawn = coloured_tokens(tokens, weights, spaced=spaced, most=len(tokens))
    return join([style, tag("div", drawn, class_="selfattn")])
