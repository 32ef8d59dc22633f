"""Options that `train` and `pretrain` share: where the run goes, and how its model is trained."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from keras_selfattn.models.base import RawModel
    from keras_selfattn.training import TrainConfig

_COUNT = click.IntRange(min=1)
_FIELDS = ("epochs", "batch_size", "learning_rate", "label_smoothing", "class_weight", "refit", "seed")


def training_options(*, validation: str, epochs: str, batch_size: str, learning_rate: str) -> Callable:
    """The run folder, the rows that watch the training, and the fields of `TrainConfig` that both have.

    Args:
        validation: what `--validation` holds, and what is taken without it.
        epochs: what `--epochs` counts, and what is taken without it.
        batch_size: what is taken without `--batch-size`.
        learning_rate: what is taken without `--learning-rate`.
    """
    path = click.Path(path_type=Path)
    options = (
        click.option("--output", type=path, required=True, help="The run folder to write."),
        click.option("--validation", "validation_file", type=path, help=validation),
        click.option("--epochs", type=_COUNT, help=epochs),
        click.option("--batch-size", type=_COUNT, help=f"Rows in a training step.  [default: {batch_size}]"),
        click.option(
            "--learning-rate",
            type=click.FloatRange(0, min_open=True),
            help=f"Peak of the learning rate's schedule.  [default: {learning_rate}]",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0, 2**32 - 1),
            default=0,
            help="The same seed gives the same result.",
        ),
        click.option(
            "--overwrite", is_flag=True, help="Replace an existing run folder once the new one is whole."
        ),
    )

    def decorated(function: Callable) -> Callable:
        for option in reversed(options):
            function = option(function)
        return function

    return decorated


def taken(options: dict[str, Any]) -> dict[str, Any]:
    """Take out of a command's options those that are fields of `TrainConfig`, and return the ones given."""
    found = {name: options.pop(name) for name in _FIELDS if name in options}
    return {name: value for name, value in found.items() if value is not None}


def advised_config(model: "RawModel", rows: int, given: dict[str, Any]) -> "TrainConfig":
    """Return how a model is trained on a number of rows: as given and, for the rest, as it advises."""
    from keras_selfattn.training import TrainConfig

    return TrainConfig(**{**model.advised_training(rows), **given})
