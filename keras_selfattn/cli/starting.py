"""`--from`: the model that a training begins with, checked with the names of the flags in the messages."""

from pathlib import Path
from typing import Any

from keras_selfattn.cli.task_options import flag
from keras_selfattn.errors import ConfigError
from keras_selfattn.folder_kinds import holds_pretrained
from keras_selfattn.run_folder import check_run


def check_start_exists(start: Path) -> None:
    """Raise an error if there is no model at `start`; called before a file is read."""
    if start.suffix != ".keras":
        if not holds_pretrained(start):
            _check_folder(start)
    elif not start.is_file():
        raise ConfigError(f"--from must be a folder or a .keras file. {start} is not there.")


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


def _check_folder(start: Path) -> None:
    if not start.exists():
        raise ConfigError(
            f"--from must be a pretrained model's folder, a run folder, or a .keras file. {start} is not "
            "there. Nothing is downloaded: fetch a model first, for example with `hf download "
            "sentence-transformers/all-MiniLM-L6-v2 --local-dir FOLDER`."
        )
    check_run(start)
