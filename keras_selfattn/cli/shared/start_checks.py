"""The beginnings of a training: the model of `--from`, and the checkpoint of `--resume`."""

from pathlib import Path
from typing import Any

import click

from keras_selfattn.cli.shared.panels import AFTER_INTERRUPT
from keras_selfattn.cli.shared.task_options import flag
from keras_selfattn.errors import ConfigError
from keras_selfattn.files.folder_kinds import holds_pretrained, lacks
from keras_selfattn.runs.run_folder import check_output


def check_place(output: Path, overwrite: bool, resume: bool) -> None:
    """Raise RunError if no run could be written there; let Ctrl-C say that --resume goes on."""
    check_output(output, overwrite=overwrite, resume=resume)
    if resume:
        hint = " The same command goes on from the last checkpoint, if there is one."
        click.get_current_context().meta[AFTER_INTERRUPT] = hint


def check_start_exists(start: Path) -> None:
    """Raise an error if there is no model at `start`; called before a file is read."""
    saved = start if start.suffix == ".keras" else start / "model.keras"
    if not saved.is_file() and not holds_pretrained(start):
        raise ConfigError(f"--from: {lacks(start)}")


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
