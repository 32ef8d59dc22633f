"""Pictures of attention weights, of pooling, and of the attention over a text."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_selfattn.drawing.colours import ink_on, sequential
from keras_selfattn.plots.new_figures import checked_array, count_along, largest, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Array = Any

_MAX_PANELS = 16  # heads or layers; more cannot be told apart
_CELL = 0.22  # inches, for a token in the larger font size
_SIDE = (1.5, 12.0)  # inches, least and most of all panels beside or below each other
_FONT_SIZE = (5.0, 9.0)  # points, least and most
_TEXT_WIDTH, _TEXT_SIZE, _LINE = 432.0, 10.0, 18.0  # points, of a text in colours


def attention_heatmaps(
    weights: Array, tokens: Sequence[str] | None = None, *, title: str | None = None
) -> "Figure":
    """Return the attention weights of one sample as heat maps, a panel for each head, a row for each layer.

    All panels share one colour scale, from 0 to the largest weight. The heads of one layer fill a grid, as
    square as their number allows. Heads and layers are counted from 0. If tokens are too close to be read,
    only every second, third and so on is written.

    Args:
        weights: float `[query, key]`, `[heads, query, key]` or `[layers, heads, query, key]`, at most 16
            heads and layers: one sample of the weights of `MultiHeadSelfAttention` with
            `return_weights=True`; for an `Encoder`'s list, `[weights[0] for weights in all_weights]`.
        tokens: one string for each query and key; by default the axes show positions.
        title: text above the panels.

    Returns:
        Figure whose axes are the panels, layer by layer, head by head, and last the colour bar.

    Raises:
        ValueError: if `weights` has another rank, is empty, holds a negative value or too many panels, or
            `tokens` has another length than its axes or holds something other than strings.
        ImportError: without matplotlib.

    Example:

        >>> figure = attention_heatmaps(np.full((2, 3, 3), 1 / 3), ["I", "see", "you"])
        >>> [axes.get_title() for axes in figure.axes[:2]]
        ['head 0', 'head 1']
    """
    shapes = ("[query, key]", "[heads, query, key]", "[layers, heads, query, key]")
    values = _checked_weights(weights, *shapes)
    layers, heads, queries, keys = (1, 1, *values.shape)[-4:]
    for name, count in (("layers", layers), ("heads", heads)):
        if count > _MAX_PANELS:
            raise ValueError(
                f"`weights` must have at most {_MAX_PANELS} {name}, or the panels become too small. "
                f"Received {count}; plot a part of `weights`."
            )
    labels = _checked_tokens(tokens, query=queries, key=keys)
    columns = heads if values.ndim == 4 else _columns(heads)
    figure, grid = _panels(values.reshape(-1, columns, queries, keys), labels, labels, title)
    for axes in grid[-1]:
        axes.set_xlabel("key")
    for row, axes in enumerate(grid[:, 0]):
        axes.set_ylabel(f"layer {row}\nquery" if values.ndim == 4 else "query")
    if values.ndim >= 3:
        for head, axes in enumerate(grid[0] if values.ndim == 4 else grid.flat):
            axes.set_title(f"head {head}")
    return figure


def pooling_heatmap(
    weights: Array, tokens: Sequence[str] | None = None, *, title: str | None = None
) -> "Figure":
    """Return the weights that pool one sample's tokens as a heat map, a row for each hop.

    Args:
        weights: float `[hops, length]`.
        tokens: one string for each position; by default the axis shows positions.
        title: text above the heat map.

    Returns:
        Figure whose first axes has the weights as its image; the second is the colour bar.

    Raises:
        ValueError: if `weights` has another rank, is empty or holds a negative value, or `tokens` has another
            length than its positions or holds something other than strings.
        ImportError: without matplotlib.

    Example:

        >>> figure = pooling_heatmap([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], ["I", "see", "you"])
        >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
        ['I', 'see', 'you']
    """
    values = _checked_weights(weights, "[hops, length]")
    labels = _checked_tokens(tokens, length=values.shape[1])
    figure, grid = _panels(values[None, None], labels, None, title)
    grid[0, 0].set(xlabel="position" if labels is None else "token", ylabel="hop")
    return figure


def attention_over_text(tokens: Sequence[str], weights: Array, *, title: str | None = None) -> "Figure":
    """Return a text whose tokens stand on the colours of their weights, from the left to the right.

    Args:
        tokens: T of them.
        weights: float `[T]`, at least 0, such as `TextClassifier.explain(texts)[0].received`.
        title: text above.

    Returns:
        Figure whose first axes has the tokens as its texts; the second is the colour bar.

    Raises:
        ValueError: if `weights` has another rank, is empty or holds a negative value, or `tokens` is of
            another length or holds something other than strings.
        ImportError: without matplotlib.

    Example:

        >>> figure = attention_over_text(["what", "a", "film"], [0.2, 0.1, 0.7])
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['what', 'a', 'film']
    """
    values = _checked_weights(weights, "[length]")
    names = _checked_tokens(tokens, text=len(values)) or []
    places, lines = _lines(names)
    figure = new_figure(_TEXT_WIDTH / 72 + 1, max(1.0, lines * _LINE / 72 + 0.5), title)
    axes = figure.subplots()
    axes.set(xlim=(0, _TEXT_WIDTH), ylim=(max(lines, 2) * _LINE, 0))
    axes.set_axis_off()
    _draw_tokens(axes, names, places, values / largest(values))
    scale = _scale(largest(values))
    figure.colorbar(scale, ax=axes, label="weight", pad=0.02)
    return figure


def _lines(tokens: list[str]) -> tuple[list[tuple[float, float, float]], int]:
    """Return the left end, the top and the width of each token, in points, and the number of lines."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    measure, font = TextToPath(), FontProperties(size=_TEXT_SIZE)
    x, line, places = 0.0, 0, []
    for token in tokens:
        width = measure.get_text_width_height_descent(token or " ", font, False)[0] + 4
        if x and x + width > _TEXT_WIDTH:
            x, line = 0.0, line + 1
        places.append((x, line * _LINE, width))
        x += width + 3
    return places, line + 1


def _draw_tokens(
    axes: "Axes", tokens: list[str], places: list[tuple[float, float, float]], shares: np.ndarray
) -> None:
    from matplotlib.patches import Rectangle

    for token, (x, y, width), share in zip(tokens, places, shares.tolist(), strict=True):
        axes.add_patch(Rectangle((x, y + 1), width, _LINE - 3, color=sequential(1 - share), linewidth=0))
        style = {"color": ink_on(1 - share), "fontsize": _TEXT_SIZE, "parse_math": False}
        axes.text(x + 2, y + _LINE / 2, token, va="center_baseline", **style)


def _scale(most: float) -> Any:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    return ScalarMappable(Normalize(0, most), ListedColormap([sequential(1 - n / 100) for n in range(101)]))


def _panels(
    weights: np.ndarray, x_tokens: list[str] | None, y_tokens: list[str] | None, title: str | None
) -> tuple["Figure", np.ndarray]:
    """A heat map for each `weights[row, column]`, and their axes `[rows, columns]`."""
    rows, columns, height, width = weights.shape
    least, most = _SIDE
    cell = min(max(_CELL, least / max(width, height)), most / (columns * width), most / (rows * height))
    panel_width, panel_height = max(cell * width, least / columns), max(cell * height, least / rows)
    # Inches beside and below the panels: names of axes, colour bar, title, and letters of tokens, 0.08 each.
    beside, below = 1.3 + 0.08 * _longest(y_tokens), 0.7 + 0.08 * _longest(x_tokens)
    figure = new_figure(columns * panel_width + beside, rows * panel_height + below, title)
    grid: Any = figure.subplots(rows, columns, squeeze=False)
    scale: dict[str, Any] = {"cmap": "Blues", "vmin": 0, "vmax": largest(weights), "aspect": "auto"}
    for place in np.ndindex(rows, columns):
        grid[place].imshow(weights[place], **scale)
    figure.colorbar(grid[0, 0].images[0], ax=grid, label="attention weight", aspect=30, pad=0.02)
    rotation = 90 if _longest(x_tokens) > 1 else 0
    for axes in grid[:-1].flat:
        axes.set_xticks([])
    for axes in grid[-1]:
        _label(axes.xaxis, x_tokens, panel_width, rotation)
    for axes in grid[:, 1:].flat:
        axes.set_yticks([])
    for axes in grid[:, 0]:
        _label(axes.yaxis, y_tokens, panel_height, rotation=0)
    return figure, grid


def _longest(tokens: list[str] | None) -> int:
    """Letters of the longest token."""
    return max(map(len, tokens or [""]))


def _columns(panels: int) -> int:
    """The smallest divisor of `panels` that makes a grid at least as wide as high, and without gaps."""
    return next(width for width in range(1, panels + 1) if panels % width == 0 and width * width >= panels)


def _label(axis: "Axis", tokens: list[str] | None, inches: float, rotation: int) -> None:
    """Write the tokens along an axis, or as many as are readable; without tokens, positions."""
    if tokens is None:
        count_along(axis)
        return
    least, most = _FONT_SIZE
    space = 72 * inches / len(tokens) / 1.2  # points; a line is 1.2 times as high as its font
    step = math.ceil(least / space)
    size = min(space * step, most)
    places = range(0, len(tokens), step)
    axis.set_ticks(places, labels=tokens[::step], rotation=rotation, fontsize=size, parse_math=False)


def _checked_weights(weights: Array, *shapes: str) -> np.ndarray:
    values = checked_array("weights", weights, *shapes)
    if (values < 0).any():
        raise ValueError(
            f"`weights` must not be negative. Received {np.nanmin(values):.3g}; "
            "give what comes after the softmax, not the logits."
        )
    return values


def _checked_tokens(tokens: Sequence[str] | None, **axes: int) -> list[str] | None:
    if tokens is None:
        return None
    labels = list(tokens)
    for token in labels:
        if not isinstance(token, str):
            raise ValueError(f"`tokens` must be strings. Received {token!r}; decode or format it.")
    for name, length in axes.items():
        if len(labels) != length:
            raise ValueError(
                f"`tokens` must have one entry for each of the {length} positions of the {name} axis. "
                f"Received {len(labels)}; if the rest is padding, cut it off `weights`."
            )
    return labels
