"""Tokens on the colours of their weights, in a page or, with the style that they need, in a notebook's cell.

The client shows its explanations with this module, which needs `markup` alone of this room.
"""

from collections.abc import Sequence

import numpy as np

from keras_selfattn.drawing.markup import Markup, join, tag

LEVELS = 10
"""Classes of a token's colour: `w0` to `w9`."""


def token_rules(inside: str = "") -> str:
    """Return the rules of tokens and their colours; letters turn white where the ground is strong.

    Args:
        inside: the selector of the element that the tokens are in, with a space; none for a whole page.
    """
    strengths = [round(0.62 * level / (LEVELS - 1), 2) for level in range(LEVELS)]
    return (
        f"{inside}.tokens{{line-height:1.9;overflow-wrap:anywhere}}"
        f"{inside}.spaced span{{padding:1px 2px;border-radius:3px}}"
    ) + "".join(
        f"{inside}.w{level}{{background:rgba(var(--token),{strength})}}"
        for level, strength in enumerate(strengths)
    )


TOKEN_STYLE = ".selfattn{--token:86,150,220}" + token_rules(".selfattn ")
"""The rules that tokens need outside a page, of the class `selfattn` alone."""
_MATRIX_STYLE = (
    ".selfattn table{border-collapse:collapse}.selfattn td,.selfattn th{min-width:16px;height:16px;"
    "padding:0 3px;font-weight:400;text-align:end}.selfattn th[scope=col]{writing-mode:vertical-rl}"
)
_MOST_SYMBOLS = 60  # of a side of a matrix; it bounds the size of a notebook


def coloured_tokens(tokens: Sequence[str], weights: np.ndarray, *, spaced: bool, most: int = 120) -> Markup:
    """Return tokens on the colours of their weights, the largest of which is the strongest colour.

    Args:
        tokens: T of them.
        weights: float `[T]`, at least 0.
        spaced: True puts a space between tokens.
        most: tokens; the others are cut, with an ellipsis.
    """
    largest = float(np.max(weights, initial=0.0)) or 1.0
    parts: list[Markup | str] = []
    for token, weight in zip(tokens[:most], weights.tolist(), strict=False):
        level = min(LEVELS - 1, int(LEVELS * weight / largest))
        parts.append(tag("span", token, class_=f"w{level}", title=f"{weight:.1%}"))
        if spaced:
            parts.append(" ")
    # Without spaces there is no padding either: letters of Arabic stay joined.
    return tag("bdi", *parts, "…" if len(tokens) > most else None, class_=f"tokens{' spaced' * spaced}")


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


def shown_alignment(source: Sequence[str], target: Sequence[str], weights: np.ndarray) -> Markup:
    """Return a line for each symbol of an answer, with a cell on a colour for each one of its source.

    The strongest colour is that of a weight of 1. Each cell shows its weight as a tooltip; of sides of more
    than 60 symbols the first 60 are shown, and an ellipsis.

    Args:
        source: S symbols of a source.
        target: T symbols of an answer.
        weights: float `[T, S]` in [0, 1].

    Example:

        >>> "Mann reads man: 90%" in shown_alignment(["a", "man"], ["Mann"], np.array([[0.1, 0.9]]))
        True
    """
    read = [*source[:_MOST_SYMBOLS], *["…"] * (len(source) > _MOST_SYMBOLS)]
    head = tag("tr", tag("td"), *(tag("th", tag("bdi", each), scope="col") for each in read))
    lines = [
        tag("tr", tag("th", tag("bdi", symbol), scope="row"), *_cells(symbol, source, line[:_MOST_SYMBOLS]))
        for symbol, line in zip(target[:_MOST_SYMBOLS], weights, strict=False)
    ]
    more = tag("tr", tag("th", "…", scope="row")) if len(target) > _MOST_SYMBOLS else None
    table = tag("table", tag("thead", head), tag("tbody", *lines, more))
    return join([tag("style", Markup(TOKEN_STYLE + _MATRIX_STYLE)), tag("div", table, class_="selfattn")])


def _cells(symbol: str, source: Sequence[str], weights: np.ndarray) -> list[Markup]:
    return [
        tag(
            "td",
            class_=f"w{min(LEVELS - 1, int(LEVELS * share))}",
            title=f"{symbol} reads {read}: {share:.0%}",
        )
        for read, share in zip(source, weights.tolist(), strict=False)
    ]
