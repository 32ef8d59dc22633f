"""Pictures of trainings and of answers: curves by epoch, a confusion matrix, reliability."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_selfattn.drawing.builders import confusion_figure, curves, reliability_figure
from keras_selfattn.drawing.charts import NAMED
from keras_selfattn.drawing.colours import ink_on, sequential
from keras_selfattn.drawing.figures import Chart, Confusion
from keras_selfattn.drawing.markup import shortened
from keras_selfattn.metrics.reliability import reliability as reliability_of
from keras_selfattn.plots.new_figures import checked_array, count_along, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = Any
_COUNTED = 12  # classes of a matrix whose cells have their counts written in
_LETTERS = 24  # of a name
_DASHES = ("-", "--", ":", "-.")


def training_curves(history: Any, *, best_epoch: int | None = None, title: str | None = None) -> "Figure":
    """Return a chart for each metric of a training, with its training and validation values by epoch.

    Args:
        history: values by name, one for each epoch, as the `history` of what `fit` returns; or that object.
            The learning rate among them is no metric.
        best_epoch: the epoch to mark, counted from 1.
        title: text above the charts.

    Returns:
        Figure with one axes for each metric, "loss" first; names that begin with `val_` are validation.

    Raises:
        ValueError: if `history` holds no values, or metrics with different numbers of epochs.
        ImportError: without matplotlib.

    Example:

        >>> figure = training_curves({"loss": [0.9, 0.4], "val_loss": [0.8, 0.5], "accuracy": [0.6, 0.9]})
        >>> [axes.get_ylabel() for axes in figure.axes]
        ['loss', 'accuracy']
    """
    values = getattr(history, "history", history)
    if not isinstance(values, Mapping) or not values:
        raise ValueError(
            f"`history` must hold values by name, such as the `history` of `fit`. Received {history!r:.80}."
        )
    epochs = {
        name: checked_array(f"history[{name!r}]", each, "[epochs]").tolist() for name, each in values.items()
    }
    if len({len(each) for each in epochs.values()}) > 1:
        sizes = ", ".join(f"{name} {len(each)}" for name, each in epochs.items())
        raise ValueError(f"`history` must hold as many epochs of each metric. Received {sizes}.")
    charts = curves(epochs, best_epoch)
    if not charts:
        raise ValueError("`history` must hold a metric. Received the learning rate alone.")
    figure = new_figure(4.6 * len(charts), 3.4, title)
    for chart, axes in zip(charts, np.ravel(figure.subplots(1, len(charts))), strict=True):
        _draw_chart(chart, axes)
    return figure


def confusion_matrix(confusion: Array, labels: Sequence[str], *, title: str | None = None) -> "Figure":
    """Return a confusion matrix: a row for each label, a column for each prediction.

    The colour of a cell is its share of the label's rows; cells without a row are blank. Up to 12 classes
    have their counts written in, and up to 60 their names.

    Args:
        confusion: int `[classes, classes]`, rows by label, columns by prediction, as
            `sklearn.metrics.confusion_matrix` returns it.
        labels: the names of the classes.
        title: text above.

    Returns:
        Figure whose first axes has the shares as its image; the second is the colour bar.

    Raises:
        ValueError: if `confusion` is not square or holds a negative value, or `labels` are of another number.
        ImportError: without matplotlib.

    Example:

        >>> figure = confusion_matrix([[8, 2], [0, 5]], ["good", "bad"])
        >>> float(figure.axes[0].images[0].get_array()[0, 1])
        0.2
    """
    counts = checked_array("confusion", confusion, "[classes, classes]")
    if counts.shape[0] != counts.shape[1]:
        raise ValueError(f"`confusion` must be square. Received shape {counts.shape}.")
    if (counts < 0).any():
        raise ValueError(f"`confusion` must hold counts. Received {counts.min():g}.")
    if len(labels) != len(counts):
        raise ValueError(
            f"`labels` must have one name for each of the {len(counts)} classes. Received {len(labels)}."
        )
    side = min(12.0, max(4.6, 2.4 + 0.3 * len(counts)))
    figure = _titled(side + 1, side, title or "")
    _draw_confusion(confusion_figure([str(label) for label in labels], counts.astype(int)), figure.subplots())
    return figure


def reliability(right: Array, confidence: Array, *, title: str | None = None) -> "Figure":
    """Return how often answers of each probability are right, in 15 equal bins.

    On the diagonal the probabilities are true: of the answers with a probability of 0.8, 80 % are right.

    Args:
        right: True for a right answer, bool `[answers]`.
        confidence: the probability of each answer, float `[answers]`, in [0, 1].
        title: text above; by default the expected calibration error.

    Returns:
        Figure whose one axes has a line with a point for each bin that has answers.

    Raises:
        ValueError: if both differ in length, or a probability is outside [0, 1].
        ImportError: without matplotlib.

    Example:

        >>> figure = reliability([True, True, False, False], [0.9, 0.9, 0.9, 0.9])
        >>> figure.get_suptitle()
        'Calibration error 40.0%'

    Reference: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 2.
    """
    answers, shares = (
        checked_array("right", right, "[answers]"),
        checked_array("confidence", confidence, "[answers]"),
    )
    if len(answers) != len(shares):
        raise ValueError(
            f"`right` and `confidence` must have one value for each answer. Received {len(answers)} and "
            f"{len(shares)}."
        )
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(f"`confidence` must be in [0, 1]. Received {shares.min():g} to {shares.max():g}.")
    found = reliability_of(answers > 0, shares)
    figure = _titled(5.6, 3.6, title or f"Calibration error {found.error:.1%}")
    _draw_chart(reliability_figure({"": found}), figure.subplots())
    return figure


def _titled(width: float, height: float, title: str) -> "Figure":
    """Return an empty figure below its title, whose dollars are no mathematics."""
    figure = new_figure(width, height, None)
    figure.suptitle(title, wrap=True, parse_math=False)
    return figure


def _draw_chart(figure: Chart, axes: "Axes") -> None:
    """Draw lines, or dots, into axes."""
    for place, line in enumerate(figure.lines):
        style: dict[str, Any] = {"linestyle": "none" if line.dots else _DASHES[place % len(_DASHES)]}
        few = len(line.x) <= 60
        axes.plot(
            line.x, line.y, label=line.name, marker="o" if line.dots or few else None, markersize=3, **style
        )
    if figure.shares:
        axes.set(xlim=(0, 1), ylim=(0, 1))
    if figure.diagonal:
        axes.axline((0, 0), slope=1, color="0.5", linestyle=":", linewidth=1)
    if figure.mark is not None:
        axes.axvline(figure.mark[0], color="0.5", linestyle="--", linewidth=1)
        axes.annotate(
            figure.mark[1], (figure.mark[0], 1), xycoords=("data", "axes fraction"), va="bottom", ha="center"
        )
    axes.set(xlabel=figure.x_name, ylabel=figure.y_name)
    if figure.whole:
        count_along(axes.xaxis)
    _legend(axes, [line.name for line in figure.lines])


def _draw_confusion(figure: Confusion, axes: "Axes") -> None:
    """Draw a confusion matrix into axes; the colour is the share of the label's rows."""
    from matplotlib.colors import ListedColormap

    count = len(figure.labels)
    shares = np.full((count, count), np.nan)
    for row, column, rows in figure.cells:
        shares[row, column] = rows / max(1, figure.totals[row])
        if count <= _COUNTED:
            ink = ink_on(1 - float(shares[row, column]))
            axes.text(column, row, f"{rows:,}", ha="center", va="center", color=ink)
    colours = ListedColormap([sequential(1 - place / 100) for place in range(101)])
    image = axes.imshow(shares, cmap=colours, vmin=0, vmax=1)
    bar: Any = axes.figure
    bar.colorbar(image, ax=axes, label="share of the label's rows", shrink=0.8)
    axes.set(xlabel="predicted", ylabel="label")
    if count > NAMED:
        return
    names = [shortened(label, _LETTERS) for label in figure.labels]
    axes.set_xticks(range(count), names, rotation=90, parse_math=False)
    axes.set_yticks(range(count), names, parse_math=False)


def _legend(axes: "Axes", names: Sequence[str]) -> None:
    if any(names):
        for text in axes.legend().get_texts():
            text.set_parse_math(False)
