"""Options of a training on several processes, which are started on this machine and end together."""

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

import click

from keras_selfattn.cli.shared.backend import BACKEND_VARIABLE
from keras_selfattn.cli.shared.console import console, error_console
from keras_selfattn.cli.shared.panels import ARGUMENTS, COUNT, Option
from keras_selfattn.cli.shared.task_options import TIMEOUT
from keras_selfattn.errors import ConfigError, Terminated
from keras_selfattn.machines.cores import nvidia_gpus, thread_variables, usable_cores
from keras_selfattn.machines.free_ports import free_port

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

_HOST = "127.0.0.1"
_VARIABLE = "KERAS_SELFATTN_LAUNCHED"
# For the others to end after one process has failed, or all were interrupted: they notice within seconds.
_END_SECONDS = 30.0
# And after SIGTERM, to remove their drafts.
_CLEAN_SECONDS = 5.0
_POLL_SECONDS = 0.1
# How often a process is interrupted within `_END_SECONDS`: calls of TensorFlow and JAX can lose an interrupt.
_INTERRUPTS = 3
_PROGRAM = "from keras_selfattn.cli.shared.processes import run; run()"
_SIGNALLED = 128


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


def launch(count: int, arguments: Sequence[str]) -> int:
    """Run `keras-selfattn` with the arguments as several processes, and return the status for this one.

    Process 0 has this one's output; of the others, the last line of a failure is shown. If this process is
    interrupted or killed, all of them end.

    Args:
        count: the number of processes.
        arguments: those of each process; what a process needs besides is added.
    """
    cores = max(1, usable_cores() // count)
    environment = {**os.environ, **thread_variables(cores), _VARIABLE: "1"}
    coordinator = f"{_HOST}:{free_port(_HOST)}"
    with ExitStack() as stack:
        errors = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(count)]
        processes: list[subprocess.Popen[bytes]] = []
        stack.callback(_kill, processes)
        for index in range(count):
            added = ["--coordinator", coordinator, "--process-count", str(count), "--process-id", str(index)]
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-P", "-c", _PROGRAM, *arguments, *added],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL if index else None,
                    stderr=errors[index] if index else None,
                    env=environment,
                    start_new_session=True,  # or Ctrl-C would reach each of them twice
                )
            )
        try:
            return _status(processes, errors)
        except KeyboardInterrupt as error:
            _interrupt(processes)
            return _SIGNALLED + (signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)


def launched() -> bool:
    """Return True in a process that `launch` started."""
    return _VARIABLE in os.environ


def run() -> None:
    """Run one of the processes, which ends when the process that started it does."""
    from keras_selfattn.cli.entry import main

    threading.Thread(target=_end_with_starter, args=(sys.stdin.fileno(),), daemon=True).start()
    main()


def _end_with_starter(descriptor: int) -> None:
    os.read(descriptor, 1)  # nothing is ever written there
    for _ in range(_INTERRUPTS):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_END_SECONDS / _INTERRUPTS)
    os._exit(_SIGNALLED + signal.SIGTERM)


def _status(processes: Sequence["subprocess.Popen[bytes]"], errors: Sequence[IO[bytes]]) -> int:
    """Wait for the processes, say why they failed unless the first one has, and return the status for all."""
    failed = _first_failed(processes)
    if failed is None:
        return 0
    by_itself = _wait(processes[0])
    first = processes[0].returncode
    if by_itself and first > 0:
        return first  # and it has told the reason
    status = processes[failed].returncode
    ending = _ending(status, errors[failed])
    error_console.print(f"Error: process {failed} of {len(processes)} ended {ending}", soft_wrap=True)
    return status if status > 0 else _SIGNALLED - status


def _first_failed(processes: Sequence["subprocess.Popen[bytes]"]) -> int | None:
    """Return the first process that fails, or None once all have ended well."""
    while True:
        statuses = [process.poll() for process in processes]
        for index, status in enumerate(statuses):
            if status:
                return index
        if None not in statuses:
            return None
        time.sleep(_POLL_SECONDS)


def _wait(process: "subprocess.Popen[bytes]") -> bool:
    """Wait for a process to end; return False if it had to be ended."""
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_CLEAN_SECONDS)
        return False
    return True


def _interrupt(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    """Interrupt the processes, and wait for their end; terminate those that do not end."""
    for _ in range(_INTERRUPTS):
        for process in processes:
            process.send_signal(signal.SIGINT)
        end = time.monotonic() + _END_SECONDS / _INTERRUPTS
        while time.monotonic() < end:
            if all(process.poll() is not None for process in processes):
                return
            time.sleep(_POLL_SECONDS)
    for process in processes:
        process.terminate()
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_CLEAN_SECONDS)


def _kill(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    """Let none of the processes outlive this one."""
    for process in processes:
        with process:  # waits, and closes its pipe
            process.kill()


def _ending(status: int, errors: IO[bytes]) -> str:
    """Return in words how a process ended: by a signal, or with the last line of its errors."""
    if status < 0:
        return f"by signal {-status} ({signal.Signals(-status).name})."
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return f"with status {status}: {lines[-1].removeprefix('Error: ') if lines else 'it said nothing.'}"


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
