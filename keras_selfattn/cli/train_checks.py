"""Checks of the options of `train` that need no file, so that what cannot be is refused at once."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from keras_selfattn.cli.shared.processes import check_processes
from keras_selfattn.errors import ConfigError
from keras_selfattn.tasks import Task

if TYPE_CHECKING:
    from keras_selfattn.training import SideBySide


def check_train(options: dict[str, Any], validation_file: Path | None) -> bool:
    """Refuse options that contradict each other; return True if settings are to be searched for."""
    tune = options["tune"]
    if options["refit"] and validation_file is not None:
        raise ConfigError(
            "--refit trains on rows held out of TABLE. Leave it out where --validation is given."
        )
    if tune is not None and not math.isfinite(tune):
        raise ConfigError(f"--tune must be minutes, more than 0. Received {tune}.")
    searches = tune is not None or options["trials"] is not None
    if options["resume"] and searches:
        raise ConfigError("--resume goes on with one training; --tune and --trials make many. Leave one out.")
    check_processes(options, searches)
    _check_ray(options, searches)
    _check_timeout(options)
    return searches


def _check_timeout(options: dict[str, Any]) -> None:
    given = click.get_current_context().get_parameter_source("timeout") is ParameterSource.COMMANDLINE
    if given and all(options[name] is None for name in ("ray", "processes", "coordinator")):
        raise ConfigError(
            "--timeout is for other processes and clusters, of --processes, --coordinator and --ray. Leave "
            "it out where this process trains alone."
        )


def _check_ray(options: dict[str, Any], searches: bool) -> None:
    if options["ray"] is None:
        for name in ("workers", "trial_cpus", "trial_memory"):
            if options[name] is not None:
                option = f"--{name.replace('_', '-')}"
                raise ConfigError(f"{option} is that of --ray. Give the address of a cluster, or local.")
        return
    if not searches and options["workers"] is None:
        raise ConfigError(
            "--ray trains trials side by side, with --tune MINUTES or --trials N, or one model on several "
            "workers, with --workers N. Give one of them."
        )
    if options["processes"] is not None or options["coordinator"] is not None:
        raise ConfigError("--ray starts its own processes. Leave --processes and --coordinator out.")
    if options["resume"]:
        raise ConfigError(
            "--resume keeps its checkpoint on the machine of process 0, which on Ray is any. Leave it out, "
            "or start the processes with --coordinator."
        )


def ray_settings(options: dict[str, Any]) -> "SideBySide | None":
    """Return the settings of a Ray cluster, or None without one."""
    from keras_selfattn.training import SideBySide

    if options["ray"] is None:
        return None
    claims = {"cpus": options["trial_cpus"], "memory": options["trial_memory"]}
    asked = {name: value for name, value in claims.items() if value is not None}
    return SideBySide(options["ray"], options["workers"], **asked, timeout=options["timeout"])


def check_labels_asked(task: Task, asked: dict[str, Any]) -> None:
    """Refuse settings that no training of the task has."""
    for option, name, fits in (
        ("--balanced", "class_weight", task.target == "label"),
        ("--label-smoothing", "label_smoothing", task.target != "number"),
    ):
        if asked.get(name) and not fits:
            what = "one label a row" if name == "class_weight" else "labels"
            raise ConfigError(f"{option} is for {what}. The task is {task.name}: leave it out.")


def check_freeze(settings: dict[str, Any]) -> None:
    """Refuse frozen layers of a model that starts from nothing."""
    if "frozen_layers" in settings:
        raise ConfigError("--freeze needs --from with a pretrained model.")
