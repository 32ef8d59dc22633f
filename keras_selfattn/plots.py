"""Pictures of position encodings and attention weights, as matplotlib figures.

Each function takes arrays (NumPy's, or tensors that NumPy can read) and returns a new figure that pyplot does
not know: save it with `figure.savefig("weights.png")`, or leave it as the last line of a notebook's cell
after `%matplotlib inline`. Needs matplotlib: `pip install 'keras-selfattn[plots]'`.

Tokens are drawn letter for letter. For a script that the font lacks, matplotlib draws placeholders and warns
when the figure is saved; name fonts in the order to try them, before the figure is made:
`matplotlib.rcParams["font.family"] = ["DejaVu Sans", "Noto Sans Thai"]`.

Axes: T (positions or queries), S (keys), D (features), L (layers), H (heads).
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_selfattn.extras import require

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Array = Any

_MAX_PANELS = 16  # heads or layers; more cannot be told apart
_CELL = 0.22  # inches, for a token in the larger font size
_SIDE = (1.5, 12.0)  # inches, least and most of all panels beside or below each other
_FONT_SIZE = (5.0, 9.0)  # points, least and most


def encoding_curves(encoding: Array, columns: Sequence[int], *, title: str | None = None) -> "Figure":
    """Return one curve for each chosen column of a position encoding, against the position.

    Args:
        encoding: float `[length, features]`.
        columns: numbers of the columns, counted from 0.
        title: text above the curves.

    Returns:
        Figure whose one axes has the curves as its lines, in the order of `columns`.

    Raises:
        ValueError: if `encoding` has another rank or is empty, or `columns` are not columns of it.
        ImportError: without matplotlib.

    Example:

        >>> encoding = np.sin(np.arange(60)[:, None] / [1, 10, 100])
        >>> figure = encoding_curves(encoding, [0, 2])
        >>> [line.get_label() for line in figure.axes[0].lines]
        ['column 0', 'column 2']
    """
    values = _checked_array("encoding", encoding, "[length, features]")
    chosen = _checked_columns(columns, values.shape[1])
    figure = _figure(6.4, 3.2, title)
    axes = figure.subplots()
    for column in chosen:
        axes.plot(values[:, column], label=f"column {column}")
    axes.set_xlabel("position")
    axes.set_ylabel("encoding")
    _count(axes.xaxis)
    axes.margins(x=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def encoding_heatmap(encoding: Array, *, title: str | None = None) -> "Figure":
    """Return a whole position encoding as a heat map: columns to the right, positions downwards.

    Args:
        encoding: float `[length, features]`. Zero is white; NaN is left blank as well.
        title: text above the heat map.

    Returns:
        Figure whose first axes has the encoding as its image; the second is the colour bar.

    Raises:
        ValueError: if `encoding` has another rank or is empty.
        ImportError: without matplotlib.

    Example:

        >>> encoding = np.sin(np.arange(60)[:, None] / [1, 10, 100])
        >>> encoding_heatmap(encoding).axes[0].images[0].get_array().shape
        (60, 3)
    """
    values = _checked_array("encoding", encoding, "[length, features]")
    limit = _largest(np.abs(values))
    figure = _figure(4.8, 4.8, title)
    axes = figure.subplots()
    image = axes.imshow(values, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    figure.colorbar(image, ax=axes, label="encoding")
    axes.set_xlabel("column (encoding dimension)")
    axes.set_ylabel("position")
    _count(axes.xaxis)
    _count(axes.yaxis)
    return figure


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


def _figure(width: float, height: float, title: str | None) -> "Figure":
    """An empty figure of a size in inches, not managed by pyplot."""
    require("plots", "keras_selfattn.plots", "matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    if title is not None:
        figure.suptitle(title, wrap=True)
    return figure


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
    figure = _figure(columns * panel_width + beside, rows * panel_height + below, title)
    grid: Any = figure.subplots(rows, columns, squeeze=False)
    scale: dict[str, Any] = {"cmap": "Blues", "vmin": 0, "vmax": _largest(weights), "aspect": "auto"}
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


def _count(axis: Any) -> None:
    """Write whole numbers along an axis, also for a single cell, where matplotlib requires two ticks."""
    axis.get_major_locator().set_params(integer=True, min_n_ticks=1)


def _label(axis: "Axis", tokens: list[str] | None, inches: float, rotation: int) -> None:
    """Write the tokens along an axis, or as many as are readable; without tokens, positions."""
    if tokens is None:
        _count(axis)
        return
    least, most = _FONT_SIZE
    space = 72 * inches / len(tokens) / 1.2  # points; a line is 1.2 times as high as its font
    step = math.ceil(least / space)
    size = min(space * step, most)
    places = range(0, len(tokens), step)
    axis.set_ticks(places, labels=tokens[::step], rotation=rotation, fontsize=size, parse_math=False)


def _largest(values: np.ndarray) -> float:
    """The largest finite value, or 1 if there is nothing above 0 to span a colour scale."""
    return float(values.max(initial=0, where=np.isfinite(values))) or 1.0


def _checked_array(name: str, array: Array, *shapes: str) -> np.ndarray:
    if hasattr(array, "detach"):  # PyTorch's: NumPy reads it only without gradient, on the CPU, not bfloat16
        array = array.detach().cpu().double()
    try:
        values = np.asarray(array).astype("float64")  # in two steps: a tensor converts to its own dtype only
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must be an array of numbers. Received {array!r}.") from error
    if values.ndim not in {1 + shape.count(",") for shape in shapes}:
        raise ValueError(
            f"`{name}` must have shape {' or '.join(shapes)}. Received shape {values.shape}; "
            "give one sample, without its batch axis."
        )
    if values.size == 0:
        raise ValueError(
            f"`{name}` must hold at least one value. Received shape {values.shape}; fill every axis."
        )
    return values


def _checked_weights(weights: Array, *shapes: str) -> np.ndarray:
    values = _checked_array("weights", weights, *shapes)
    if (values < 0).any():
        raise ValueError(
            f"`weights` must not be negative. Received {np.nanmin(values):.3g}; "
            "give what comes after the softmax, not the logits."
        )
    return values


def _checked_columns(columns: Sequence[int], width: int) -> list[int]:
    chosen = np.asarray(columns)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
        raise ValueError(f"`columns` must be a list of column numbers, such as [6, 7]. Received {columns!r}.")
    for column in chosen.tolist():
        if not 0 <= column < width:
            raise ValueError(f"`columns` must lie in [0, {width}). Received {column}.")
    return chosen.tolist()


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
