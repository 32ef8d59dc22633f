"""The parts that all pictures share: an empty figure, whole numbers along an axis, and checked arrays."""

from typing import TYPE_CHECKING, Any

import numpy as np

from keras_selfattn.extras import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = Any


def new_figure(width: float, height: float, title: str | None) -> "Figure":
    """An empty figure of a size in inches, not managed by pyplot."""
    require("plots", "keras_selfattn.plots", "matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    if title is not None:
        figure.suptitle(title, wrap=True)
    return figure


def count_along(axis: Any) -> None:
    """Write whole numbers along an axis, also for a single cell, where matplotlib requires two ticks."""
    axis.get_major_locator().set_params(integer=True, min_n_ticks=1)


def largest(values: np.ndarray) -> float:
    """The largest finite value, or 1 if there is nothing above 0 to span a colour scale."""
    return float(values.max(initial=0, where=np.isfinite(values))) or 1.0


def checked_array(name: str, array: Array, *shapes: str) -> np.ndarray:
    """Return numbers in any container as float64, of one of the ranks that `shapes` name.

    Raises:
        ValueError: for something else, another rank, or no values.
    """
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
