"""Runs of graphs whose bits must be equal: how often they are not, in which piece, and under which settings.

A graph without random numbers, run again on the same input by the same threads, gives the same bits. On busy
virtual machines runs were seen to be off for minutes at a time, which this watches for. Two processes run a
setting at once, so that they hold up each other; each takes its pieces in turns. Beside our model and its
pieces run a plain Keras model, one product of TensorFlow, and a product of that size by NumPy, in which
neither we nor TensorFlow have a part.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_WORKER = Path(__file__).with_name("equal_bits_worker.py")
_PROCESSES = 2


@dataclass(frozen=True)
class Setting:
    """The settings under which a process runs its graphs.

    Args:
        name: shown in the table.
        environment: variables beside those of this process.
        intra, inter: threads of an operation, and of a graph; 0 is TensorFlow's choice.
        threads: Python threads that run each graph at the same time.
    """

    name: str
    environment: tuple[tuple[str, str], ...] = ()
    intra: int = 1
    inter: int = 0
    threads: int = 1


SETTINGS = (
    Setting("as served: one thread an operation"),
    Setting("one thread a graph, too", inter=1),
    Setting("TensorFlow's own pool", intra=0),
    Setting("two threads ask at once", threads=2),
    Setting("without oneDNN", (("TF_ENABLE_ONEDNN_OPTS", "0"),)),
    Setting("oneDNN, no primitive kept", (("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0"),), threads=2),
    Setting("oneDNN, AVX2 at most", (("ONEDNN_MAX_CPU_ISA", "AVX2"),)),
)


@dataclass
class Watched:
    """The runs of one piece under one setting that were watched.

    Args:
        runs: how many.
        off: how many had other bits than most.
        worst: the largest difference of a value, relative to those above 1.
        rows: the largest share of the rows of a run that was off.
    """

    runs: int = 0
    off: int = 0
    worst: float = 0.0
    rows: float = 0.0


def run(runs: int, tell: Callable[[str], None], only: str = "") -> Iterator[tuple[Setting, str, Watched]]:
    """Watch so many runs of each piece under each setting; yield what was seen of each.

    Args:
        runs: of each piece in each process.
        tell: receives a line for each setting, and for each run that is off.
        only: text that a setting's name must hold.

    Raises:
        RuntimeError: if a process fails, with the end of what it wrote.
    """
    with tempfile.TemporaryDirectory() as folder:
        _finished([_started(["prepare", folder], {})])
        for setting in SETTINGS:
            if only not in setting.name:
                continue
            tell(setting.name)
            arguments = ["watch", folder, *map(str, (runs, setting.intra, setting.inter, setting.threads))]
            processes = [_started(arguments, dict(setting.environment)) for _ in range(_PROCESSES)]
            seen: dict[str, Watched] = {}
            for line in _finished(processes):
                if "off" in line:
                    tell(f"  off: {line}")
                add(seen, line)
            yield from ((setting, piece, watched) for piece, watched in seen.items())


def add(seen: dict[str, Watched], line: dict[str, Any]) -> None:
    """Count a line of a process: runs of a piece, or a run of it that was off."""
    watched = seen.setdefault(line["piece"], Watched())
    if "off" in line:
        watched.off += 1
        watched.worst = max(watched.worst, line["off"])
        watched.rows = max(watched.rows, line["rows"])
    else:
        watched.runs += line["runs"]


def _started(arguments: list[str], environment: dict[str, str]) -> subprocess.Popen:
    command = [sys.executable, str(_WORKER), *arguments]
    variables = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, **environment}
    return subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )


def _finished(processes: list[subprocess.Popen]) -> list[dict[str, Any]]:
    """Return the lines of JSON that processes write, once all have ended; none outlives an error."""
    lines = []
    try:
        for process in processes:
            output, errors = process.communicate()
            if process.returncode:
                raise RuntimeError("A process that watches failed: " + errors.strip()[-2000:])
            lines += [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    finally:
        for process in processes:
            process.kill()
    return lines
