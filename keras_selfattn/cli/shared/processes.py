"""Options of a training on several processes."""

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from keras_selfattn.cli.shared.backend import BACKEND_VARIABLE
from keras_selfattn.cli.shared.console import console
from keras_selfattn.cli.shared.launch import launch, launched
from keras_selfattn.cli.shared.panels import ARGUMENTS, COUNT, Option
from keras_selfattn.cli.shared.task_options import TIMEOUT
from keras_selfattn.errors import ConfigError
from keras_selfattn.machines.cores import nvidia_gpus, usable_cores

if TYPE_CHECKING:
    from keras_selfattn.training import ProcessGroup

PROCESSES = (
    Option(
        "--processes", type=COUNT, help="Train on so many processes of this machine, with JAX.", without="1"
    ),
    Option(
        "--coordinator",
        metavar="HOST:PORT",
        help="Train on processes of many machines: an address of the first one, which listens there. Each "
        "process is this command, with its own --process-id.",
    ),
    Option("--process-count", type=COUNT, help="How many they are."),
    Option("--process-id", type=click.IntRange(min=0), metavar="N", help="Which of them this is, from 0."),
    TIMEOUT,
)


def check_processes(options: Mapping[str, Any], searches: bool) -> None:
    """Raise ConfigError for options that lack others, or contradict."""
    many = {name: options[name] for name in ("coordinator", "process_count", "process_id")}
    missing = [f"--{name.replace('_', '-')}" for name, value in many.items() if value is None]
    if options["processes"] is not None and len(missing) < len(many) and not launched():
        raise ConfigError(
            "--processes starts all processes, on this machine; with --coordinator each is started by "
            "itself. Leave one out."
        )
    if missing and len(missing) < len(many):
        raise ConfigError(
            f"--coordinator, --process-count and --process-id belong together. Missing: {', '.join(missing)}."
        )
    if not missing and options["process_id"] >= options["process_count"]:
        raise ConfigError(
            f"--process-id counts from 0 to --process-count less 1, {options['process_count'] - 1}. Received "
            f"{options['process_id']}."
        )
    if searches and (options["processes"] is not None or not missing):
        raise ConfigError(
            "--processes and --coordinator are for one training; --tune and --trials make many, which --ray "
            "spreads. Leave one out."
        )


def launch_if_asked(options: Mapping[str, Any]) -> None:
    """With --processes start them and exit when they have ended, unless this is one of them.

    Keras must not be imported yet.
    """
    if options["processes"] is None and options["coordinator"] is None:
        return
    _use_jax()
    if launched() or options["processes"] is None:
        return
    _check_devices(options["processes"])
    context = click.get_current_context()
    sys.exit(launch(options["processes"], [str(context.info_name), *context.meta[ARGUMENTS]]))


def _use_jax() -> None:
    """Let Keras compute with JAX; raise ConfigError if another backend is asked for, or JAX is missing."""
    asked = os.environ.get(BACKEND_VARIABLE) or "jax"
    if asked != "jax":
        raise ConfigError(
            f"--processes and --coordinator train on JAX, and {BACKEND_VARIABLE} is {asked!r}. Leave it out, "
            "or train in one process."
        )
    if importlib.util.find_spec("jax") is None:
        raise ConfigError(
            "--processes and --coordinator train on JAX, which is not installed: "
            "pip install 'keras-selfattn[jax]'"
        )
    os.environ[BACKEND_VARIABLE] = "jax"


def _check_devices(count: int) -> None:
    """Raise ConfigError if there is no GPU, or else no core, for each process."""
    asked = os.environ.get("JAX_PLATFORMS", "")
    plugins = any(map(importlib.util.find_spec, ("jax_cuda12_plugin", "jax_cuda13_plugin")))
    gpus = nvidia_gpus() if plugins and (not asked or "cuda" in asked) else 0
    if 0 < gpus < count:
        raise ConfigError(
            f"--processes {count}: each process computes on a GPU of its own, and this machine has {gpus}. "
            "Ask for no more, or train on CPUs (JAX_PLATFORMS=cpu)."
        )
    if not gpus and count > usable_cores():
        raise ConfigError(
            f"--processes {count}: each process computes on a core of its own at least, and this machine has "
            f"{usable_cores()}. Ask for no more, or train on several machines (--coordinator)."
        )


@contextmanager
def in_process_group(options: Mapping[str, Any]) -> Iterator["ProcessGroup | None"]:
    """Yield the group that the options name, of which this process is one; None without them."""
    if options["coordinator"] is None:
        yield None
        return
    from keras_selfattn.training import ProcessGroup

    index = options["process_id"]
    group = ProcessGroup(
        options["coordinator"],
        options["process_count"],
        index,
        timeout=options["timeout"],
        device=index if launched() else None,
    )
    console.quiet = not group.is_first
    with group:
        yield group
