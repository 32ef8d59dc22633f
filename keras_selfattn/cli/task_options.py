"""Options that say how a file is read, and what a model is made of; each belongs to one task or several."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from keras_selfattn.errors import ConfigError
from keras_selfattn.tasks import TASKS, Task, task_named

_COUNT = click.IntRange(min=1)


def _default(task: str, value: Any) -> str:
    return f"  [{task}; default: {value}]"


_SERIES = "series, regression, forecast"
separator_option = click.option(
    "--separator",
    help="What stands between the columns of a .csv or .tsv, such as ';' or '\\t'.  "
    "[default: a comma, of .tsv a tab]",
)
_READING = (
    click.option(
        "--text", help="Column with the texts, or lists of tokens.  [text, tokens; default: text or tokens]"
    ),
    click.option(
        "--label",
        help="Column with the labels, lists of them, or numbers to learn.  [default: label; tokens: labels]",
    ),
    separator_option,
    click.option(
        "--label-separator", help="What stands between the labels of a row that bears several.  [text]"
    ),
    click.option(
        "--image-size",
        type=_COUNT,
        help="Height and width that images of several sizes are resized to.  [images]",
    ),
    click.option(
        "--column",
        type=click.Choice(["upos", "xpos", "feats", "deprel"]),
        help="Column of a .conllu with the labels." + _default("tokens", "upos"),
    ),
    click.option(
        "--id",
        "row_id",
        help="Table's column that names a line's series." + _default(_SERIES, "id"),
    ),
    click.option("--time", help=f"Table's column that orders the lines of a series.  [{_SERIES}]"),
    click.option(
        "--values", help="Columns with values, with commas between." + _default(_SERIES, "the rest")
    ),
    click.option(
        "--context", type=_COUNT, help="Frames that a forecast is made from." + _default("forecast", 48)
    ),
    click.option("--horizon", type=_COUNT, help="Values to forecast." + _default("forecast", 12)),
)

_SETTINGS = (
    click.option("--width", type=_COUNT, help="Features of a position.  [default: 128, of series 64]"),
    click.option("--layers", "num_layers", type=_COUNT, help="Encoder blocks.  [default: 2; text: 1]"),
    click.option("--heads", "num_heads", type=_COUNT, help="Attention heads.  [default: 4]"),
    click.option(
        "--dropout",
        type=click.FloatRange(0, 1, max_open=True),
        help="Share dropped in training.  [default: 0.1; text: 0.2]",
    ),
    click.option(
        "--tokens",
        type=click.Choice(["words", "characters"]),
        help="What a token is." + _default("text", "words"),
    ),
    click.option(
        "--keep-case", "lowercase", flag_value=False, default=None, help="Tell upper from lower case.  [text]"
    ),
    click.option(
        "--max-tokens", type=_COUNT, help="Longer texts are cut at the end." + _default("text", "100,000")
    ),
    click.option(
        "--training-span",
        type=_COUNT,
        help="Of longer texts a step of training reads a run of so many tokens." + _default("text", 128),
    ),
    click.option(
        "--no-wide",
        "wide",
        flag_value=False,
        default=None,
        help="Leave out the linear model of n-grams beside attention.  [text]",
    ),
    click.option(
        "--members",
        type=_COUNT,
        help="Encoders side by side, whose answers are averaged." + _default("text, tokens", 2),
    ),
    click.option(
        "--patch-size",
        type=_COUNT,
        help="Side of the patches in pixels." + _default("images", "after the size, 2 to 16"),
    ),
    click.option(
        "--no-augment",
        "augment",
        flag_value=False,
        default=None,
        help="Leave the images as they are in training: do not shift them at random.  [images]",
    ),
    click.option(
        "--kernel-size", type=_COUNT, help="Frames that the first convolution spans." + _default(_SERIES, 7)
    ),
    click.option(
        "--kernels",
        type=click.IntRange(min=0),
        help="Random convolutions beside attention, or 0." + _default("series", 4000),
    ),
    click.option(
        "--season", type=_COUNT, help="Frames after which series repeat themselves." + _default("forecast", 1)
    ),
)

_NAMES = frozenset(name for task in TASKS for name in task.reading)


def task_option(function: Callable) -> Callable:
    """`--task`, by default after the ending of the file."""
    names = [task.name for task in TASKS]
    return click.option(
        "--task", type=click.Choice(names), help="What is learned.  [default: after the file's ending]"
    )(function)


def reading_options(function: Callable) -> Callable:
    """Return the options that say how a file is read."""
    for option in reversed(_READING):
        function = option(function)
    return function


def setting_options(function: Callable) -> Callable:
    """Return the options of a model's config."""
    for option in reversed(_SETTINGS):
        function = option(function)
    return function


def pretraining_options(function: Callable) -> Callable:
    """Return the options of a text model that a classifier which begins with it must share."""
    of_a_classifier = {"dropout", "max_tokens", "training_span", "members", "wide"}
    text = next(task for task in TASKS if task.name == "text")
    settings = text.all_settings - of_a_classifier
    for option in reversed(_SETTINGS):
        function = option(function)
        if (added := _parameters(function))[-1].name not in settings:
            added.pop()
    return function


def flag(name: str) -> str:
    """Return how an option of a model's settings is written."""
    known = _parameters(setting_options(lambda: None))
    return next(option.opts[0] for option in known if option.name == name)


def _parameters(function: Any) -> list[click.Parameter]:
    """Return the options that decorators have added to a function, the last added last."""
    return function.__click_params__


def check_width(settings: dict[str, Any]) -> None:
    """Before TensorFlow is imported, and by the names of the flags."""
    width, heads = settings["width"], settings["num_heads"] or 4
    if width is not None and width % heads:
        raise ConfigError(f"--width must be divisible by --heads. Received {width} and {heads}.")


def chosen_task(options: dict[str, Any], path: Path) -> tuple[Task, dict[str, Any], dict[str, Any]]:
    """Return the task, the options that say how its files are read, and those its model is made of."""
    options = dict(options)
    task = task_named(options.pop("task", None), path)
    reading = given(options)
    return task, reading, {name: value for name, value in options.items() if name not in _NAMES}


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return those options that say how a file is read, and were given."""
    return {name: options[name] for name in sorted(_NAMES) if options.get(name) is not None}
