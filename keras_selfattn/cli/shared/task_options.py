"""Options that commands share, to read a file, make a model and train it; their checks before that begins."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_selfattn.cli.shared.panels import AFTER_INTERRUPT, COUNT, PATH, Option
from keras_selfattn.errors import ConfigError
from keras_selfattn.files.folder_kinds import holds_pretrained, lacks
from keras_selfattn.files.hub_folders import HubFolder, located
from keras_selfattn.options import OptionSpec
from keras_selfattn.runs.run_folder import check_output
from keras_selfattn.task_options import COLUMNS, OPTIONS
from keras_selfattn.tasks import TASKS, tasks_of

if TYPE_CHECKING:
    from keras_selfattn.models.raw_model import RawModel
    from keras_selfattn.training import TrainConfig


OUTPUT = (
    Option("--output", type=PATH, required=True, metavar="RUN", help="Run folder to write."),
    Option("--overwrite", is_flag=True, help="Replace an existing run folder once the new one is complete."),
)
RAY = Option(
    "--ray",
    metavar="ADDRESS",
    help="Work on a Ray cluster: its address, auto, or local for one of this machine.",
)
WORKERS = Option(
    "--workers",
    type=COUNT,
    help="Processes on the Ray cluster at once.",
    without="what its CPUs have room for",
)
TIMEOUT = Option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    metavar="SECONDS",
    help="Time until a cluster, or the other processes, must have answered.",
)
RESUME = Option(
    "--resume",
    is_flag=True,
    help="Go on where this command was killed: it keeps a checkpoint beside --output until it ends.",
)
SEED = Option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    metavar="N",
    help="The same seed gives the same result.",
)

READING = tuple(sorted({name for task in TASKS for name in task.reading}))
"""Parameters that say how a file is read."""
TRAINING = ("epochs", "batch_size", "learning_rate", "label_smoothing", "class_weight", "refit", "seed")
"""Parameters that are fields of `TrainConfig`."""
# Settings that a classifier may choose freely, whatever model it starts from.
_OF_A_CLASSIFIER = frozenset({"dropout", "max_tokens", "training_span", "members", "wide", "frozen_layers"})


def encoder_options(width: str, layers: str, dropout: str) -> tuple[Option, ...]:
    """Return the options of the encoder that every model has, with defaults in words."""
    return (
        Option("--width", type=COUNT, help="Features of a position.", without=width),
        Option("--layers", "num_layers", type=COUNT, help="Encoder blocks.", without=layers),
        Option("--heads", "num_heads", type=COUNT, help="Attention heads.", without="4"),
        Option(
            "--dropout",
            type=click.FloatRange(0, 1, max_open=True),
            metavar="SHARE",
            help="Share of the features dropped in training.",
            without=dropout,
        ),
    )


def panels_of_tasks() -> dict[str, list[OptionSpec]]:
    """Return the options that are for some tasks, under headings that name the tasks."""
    return _by_tasks(OPTIONS)


def panels_of_run() -> dict[str, list[OptionSpec]]:
    """Return the options for reading a file differently than in the run's training."""
    # Their defaults are then those of the training.
    columns, rest = ([replace(each, without=None) for each in table] for table in (COLUMNS, OPTIONS))
    return {
        "Columns, if they differ from those of the training": columns,
        **_by_tasks(option for option in rest if option.name in READING),
    }


def _by_tasks(options: Iterable[OptionSpec]) -> dict[str, list[OptionSpec]]:
    panels: dict[str, list[OptionSpec]] = {}
    for option in options:
        panels.setdefault(_heading(tasks_of(option.name)), []).append(option)
    return panels


def _heading(tasks: tuple[str, ...]) -> str:
    *others, last = tasks
    return f"Only for the tasks {', '.join(others)} and {last}" if others else f"Only for the task {last}"


def pretraining_settings() -> list[OptionSpec]:
    """Return a text model's options, except the encoder's, that bind the classifiers that start from it."""
    text = next(task for task in TASKS if task.name == "text")
    return [option for option in text.options if option.name in text.settings - _OF_A_CLASSIFIER]


def flag(name: str) -> str:
    """Return the flag of an option for reading a file or for a model's settings, by parameter name."""
    known = {option.name: option.opts[0] for option in encoder_options("", "", "")}
    return (known | {option.name: option.flag for option in (*COLUMNS, *OPTIONS)})[name]


def check_place(output: Path, overwrite: bool, resume: bool) -> None:
    """Raise RunError if no run could be written there; let Ctrl-C say what --resume does."""
    check_output(output, overwrite=overwrite, resume=resume)
    hint = " Nothing is kept. With --resume the command keeps checkpoints, and goes on from the last one."
    if resume:
        hint = " The same command goes on from the last checkpoint, if there is one."
    click.get_current_context().meta[AFTER_INTERRUPT] = hint


def given(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the options of those names that were given."""
    return {name: options[name] for name in names if options.get(name) is not None}


def check_width(settings: Mapping[str, Any]) -> None:
    """Check the width before TensorFlow is imported, with the names of the flags in the message."""
    width, heads = settings.get("width"), settings.get("num_heads", 4)
    if width is not None and width % heads:
        raise ConfigError(f"--width must be divisible by --heads. Received {width} and {heads}.")


def located_start(start: str, revision: str | None, *, folders: bool = True) -> Path | HubFolder:
    """Return the place of the model to start from, or raise an error if there is none, before a file is read.

    Of a model of the Hugging Face hub all but its weights is then here; see `fetch_weights`.

    Args:
        start: a path, or a name in the hub.
        revision: that of a name; None for the newest.
        folders: False if no pretrained model would do.
    """
    place = located(start, revision) if folders else Path(start)
    if not has_model(place):
        raise ConfigError(f"--from: {lacks(Path(place), folders=folders)}")
    return place


def has_model(place: Path | HubFolder) -> bool:
    """Return True for a run folder, a `.keras` file and a pretrained model's folder."""
    path = Path(place)
    saved = path if path.suffix == ".keras" else path / "model.keras"
    return saved.is_file() or holds_pretrained(path)


def fetch_weights(place: Path | HubFolder, *, classifier: bool = False) -> None:
    """Fetch the weights of a model of the hub, before progress of other kinds is shown.

    Args:
        place: any; nothing is fetched for a path.
        classifier: True refuses a model without a head for labels or scores.

    Raises:
        ConfigError: for a model that cannot be read, before its weights are fetched.
    """
    if not isinstance(place, HubFolder):
        return
    from keras_selfattn.models.pretrained_folders.folder_head import read_head
    from keras_selfattn.models.pretrained_folders.model_folder import ModelFolder
    from keras_selfattn.models.pretrained_folders.sentence_settings import read_config

    folder = ModelFolder(place)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they come when the model is made
        family = read_config(folder)[0]
    if classifier:
        read_head(folder, family)
    place.fetch_weights()


def check_start(begun: Any, settings: dict[str, Any]) -> None:
    """Refuse settings that contradict the starting model.

    Args:
        begun: the result of `starting_point`.
        settings: those given, by the names of the config's fields.
    """
    for name in begun.foreign(settings):
        raise ConfigError(
            f"{flag(name)} has no meaning for a model that begins with {begun.path}. Leave it out."
        )
    for name, bound in begun.contradicted(settings).items():
        raise ConfigError(
            f"{flag(name)} contradicts {begun.path}, whose weights the model begins with: there `{name}` is "
            f"{bound!r}. Received {settings[name]!r}. Leave the option out, or begin with another model."
        )


def advised_config(model: "RawModel", rows: int, training: Mapping[str, Any]) -> "TrainConfig":
    """Return the config to train a model on a number of rows: the given fields, else those it advises."""
    from keras_selfattn.training import TrainConfig

    return TrainConfig(**{**model.advised_training(rows), **training})
