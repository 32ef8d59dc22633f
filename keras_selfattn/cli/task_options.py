"""Options that commands share: to read a file, make a model and train it; and the tasks of each option."""

import copy
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from keras_selfattn import options
from keras_selfattn.cli.panels import COUNT, PATH, Option, click_option
from keras_selfattn.errors import ConfigError
from keras_selfattn.tasks import TASKS, Task

if TYPE_CHECKING:
    from keras_selfattn.models.raw_model import RawModel
    from keras_selfattn.training import TrainConfig


SEPARATOR, NO_HEADER = click_option(options.SEPARATOR), click_option(options.NO_HEADER)
COLUMNS = (
    Option(
        "--text",
        metavar="COLUMN",
        help="Column with the texts, or with the lists of tokens.",
        without="text; of tagged tokens: tokens",
    ),
    Option(
        "--label",
        metavar="COLUMN",
        help="Column with the labels, or with the numbers of a regression.",
        without="label; of tagged tokens: labels",
    ),
    SEPARATOR,
    NO_HEADER,
)
"""Options for reading a table, whatever its task."""

_OF_TASKS = (
    Option(
        "--label-separator",
        metavar="CHAR",
        help="Character between the labels of a row that has several.",
        without="one label a row, or a JSON list",
    ),
    Option("--tokens", type=click.Choice(["words", "characters"]), help="Units of a text.", without="words"),
    Option(
        "--keep-case", "lowercase", flag_value=False, default=None, help="Tell upper case from lower case."
    ),
    Option("--max-tokens", type=COUNT, help="Cut texts after so many tokens.", without="100000"),
    Option(
        "--training-span", type=COUNT, help="Tokens of a long text that a training step reads.", without="128"
    ),
    Option(
        "--no-wide", "wide", flag_value=False, default=None, help="Leave out the linear model of n-grams."
    ),
    Option(
        "--from",
        "start",
        type=PATH,
        metavar="MODEL",
        help="Begin with a pretrained model's folder, such as BERT's or MiniLM's, or a run of "
        "`pretrain --from`; for text also with any run of `pretrain` or of labelled texts.",
    ),
    Option(
        "--freeze",
        "frozen_layers",
        type=COUNT,
        metavar="N",
        help="Leave the embedding and the first N blocks of a pretrained model as they are, to save time.",
    ),
    Option("--members", type=COUNT, help="Encoders side by side; their answers are averaged.", without="2"),
    Option(
        "--column",
        type=click.Choice(["upos", "xpos", "feats", "deprel"]),
        help="Column of a .conllu file that holds the labels.",
        without="upos",
    ),
    Option(
        "--id", "row_id", metavar="COLUMN", help="Table's column that names a line's series.", without="id"
    ),
    Option(
        "--time",
        metavar="COLUMN",
        help="Table's column that orders a series: numbers, or dates in ISO 8601.",
        without="the order of the file",
    ),
    Option(
        "--time-format",
        metavar="FORMAT",
        help="Form of other dates in --time, as for Python's strptime: '%d.%m.%Y %H:%M'.",
    ),
    Option(
        "--values",
        metavar="COLUMNS",
        help="Table's columns of values, as in load,wind.",
        without="all others",
    ),
    Option("--kernel-size", type=COUNT, help="Frames that the first convolution spans.", without="7"),
    Option(
        "--kernels",
        type=click.IntRange(min=0),
        metavar="N",
        help="Random convolutions beside attention; 0 for none.",
        without="4000",
    ),
    Option("--context", type=COUNT, help="Frames that a forecast is made from.", without="48"),
    Option("--horizon", type=COUNT, help="Values to forecast.", without="12"),
    Option(
        "--season", type=COUNT, help="Frames after which series repeat themselves.", without="1, no season"
    ),
    Option(
        "--image-size", type=COUNT, metavar="PIXELS", help="Side that images of several sizes are resized to."
    ),
    Option(
        "--patch-size",
        type=COUNT,
        metavar="PIXELS",
        help="Side of a patch.",
        without="2 to 16, by image size",
    ),
    Option(
        "--no-augment", "augment", flag_value=False, default=None, help="Do not shift images in training."
    ),
)
# Tasks of options that no `Task` lists, because they are not settings of a model.
_BESIDES = {"start": ("text", "tokens")}

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


def tasks_of(name: str) -> tuple[str, ...]:
    """Return the tasks that an option is for, by the parameter's name; none if it is for all tasks.

    Example:
        >>> tasks_of("horizon"), tasks_of("members"), tasks_of("width")
        (('forecast',), ('text', 'tokens'), ())
    """
    found = tuple(task.name for task in TASKS if name in task.reading or name in task.settings)
    return found or _BESIDES.get(name, ())


def panels_of_tasks() -> dict[str, list[Option]]:
    """Return the options that are for some tasks, under headings that name the tasks."""
    return _by_tasks(_OF_TASKS)


def panels_of_run() -> dict[str, list[Option]]:
    """Return the options for reading a file differently than in the run's training."""
    columns, rest = ([_as_trained(option) for option in options] for options in (COLUMNS, _OF_TASKS))
    return {
        "Columns, if they differ from those of the training": columns,
        **_by_tasks(option for option in rest if option.name in READING),
    }


def _by_tasks(options: Iterable[Option]) -> dict[str, list[Option]]:
    panels: dict[str, list[Option]] = {}
    for option in options:
        panels.setdefault(_heading(tasks_of(str(option.name))), []).append(option)
    return panels


def _as_trained(option: Option) -> Option:
    found = copy.copy(option)
    found.without = None
    return found


def _heading(tasks: tuple[str, ...]) -> str:
    *others, last = tasks
    return f"Only for the tasks {', '.join(others)} and {last}" if others else f"Only for the task {last}"


def pretraining_settings() -> list[Option]:
    """Return a text model's options, except the encoder's, that bind the classifiers that start from it."""
    text = next(task for task in TASKS if task.name == "text")
    return [option for option in _OF_TASKS if option.name in text.settings - _OF_A_CLASSIFIER]


def flag(name: str) -> str:
    """Return the flag of an option for reading a file or for a model's settings, by parameter name."""
    known = (*COLUMNS, *_OF_TASKS, *encoder_options("", "", ""))
    return next(option.opts[0] for option in known if option.name == name)


def check_task(task: Task, options: Mapping[str, Any], instead: str = "") -> None:
    """Refuse given options that are for other tasks.

    Args:
        task: the task.
        options: by name, None where they are not given.
        instead: an alternative to leaving the option out, for the message.

    Raises:
        ConfigError: for the first such option.
    """
    for name, value in options.items():
        tasks = tasks_of(name)
        if value is not None and tasks and task.name not in tasks:
            raise ConfigError(
                f"{flag(name)} is for the task {', '.join(tasks)}. The task is {task.name}: "
                f"leave it out{instead}."
            )


def check_width(settings: Mapping[str, Any]) -> None:
    """Check the width before TensorFlow is imported, with the names of the flags in the message."""
    width, heads = settings.get("width"), settings.get("num_heads", 4)
    if width is not None and width % heads:
        raise ConfigError(f"--width must be divisible by --heads. Received {width} and {heads}.")


def given(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the options of those names that were given."""
    return {name: options[name] for name in names if options.get(name) is not None}


def advised_config(model: "RawModel", rows: int, training: Mapping[str, Any]) -> "TrainConfig":
    """Return the config to train a model on a number of rows: the given fields, else those it advises."""
    from keras_selfattn.training import TrainConfig

    return TrainConfig(**{**model.advised_training(rows), **training})
