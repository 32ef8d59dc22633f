"""Pictures of position encodings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_selfattn.plots.new_figures import checked_array, count_along, largest, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = Any


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
    values = checked_array("encoding", encoding, "[length, features]")
    chosen = _checked_columns(columns, values.shape[1])
    figure = new_figure(6.4, 3.2, title)
    axes = figure.subplots()
    for column in chosen:
        axes.plot(values[:, column], label=f"column {column}")
    axes.set_xlabel("position")
    axes.set_ylabel("encoding")
    count_along(axes.xaxis)
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
    values = checked_array("encoding", encoding, "[length, features]")
    limit = largest(np.abs(values))
    figure = new_figure(4.8, 4.8, title)
    axes = figure.subplots()
    image = axes.imshow(values, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    figure.colorbar(image, ax=axes, label="encoding")
    axes.set_xlabel("column (encoding dimension)")
    axes.set_ylabel("position")
    count_along(axes.xaxis)
    count_along(axes.yaxis)
    return figure


def _checked_columns(columns: Sequence[int], width: int) -> list[int]:
    chosen = np.asarray(columns)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
        raise ValueError(f"`columns` must be a list of column numbers, such as [6, 7]. Received {columns!r}.")
    for column in chosen.tolist():
        if not 0 <= column < width:
            raise ValueError(f"`columns` must lie in [0, {width}). Received {column}.")
    return chosen.tolist()
