"""Costs of our client beside TensorFlow Serving's own stub: import, memory, codec, calls, in one run.

    python -m benchmarks client

- Import and memory: each in fresh processes, in turns; modules are compiled beforehand. RssAnon is memory of
  the process alone, RSS counts the mapped libraries too.
- Codec: a whole Predict message of one array to bytes and back. The stock way is that of its documentation:
  `tf.make_tensor_proto`, `CopyFrom`, `SerializeToString`; `FromString`, `tf.make_ndarray`. Answers have the
  typed fields that TensorFlow Serving sends, or `tensor_content`. Both ways must give the same array.
- Calls: p50 of one client over loopback, to a server in its own process that answers with bytes made
  beforehand, so that only the clients differ. CPU is the client process's own time.

All figures are medians. The two clients take turns within a round, and each has its own process.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Row = tuple[str, float, float, str]  # what, ours, stock, unit

STOCK = "tensorflow_serving.apis"
OURS = "keras_selfattn.serving.client"
IMPORTS = {
    OURS: f"from {OURS} import Client",
    STOCK: f"import grpc; from {STOCK} import predict_pb2, prediction_service_pb2_grpc",
}

_MEASURE = """
import time
start = time.perf_counter()
{statement}
seconds = time.perf_counter() - start
memory = dict(line.split(":") for line in open("/proc/self/status") if line.startswith(("VmRSS", "RssAnon")))
print(seconds, *(int(memory[name].split()[0]) / 1024 for name in ("RssAnon", "VmRSS")))
"""


def imports(rounds: int) -> list[Row]:
    """Seconds and memory of importing each client in a fresh process."""
    samples: dict[str, list[list[float]]] = {name: [] for name in IMPORTS}
    for turn in range(rounds + 1):
        for name, statement in IMPORTS.items():
            command = [sys.executable, "-c", _MEASURE.format(statement=statement)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            if turn:  # the first turn does not count: it reads the disk, and compiles
                samples[name].append([float(number) for number in done.stdout.split()])
    found = [[statistics.median(column) for column in zip(*samples[name], strict=True)] for name in IMPORTS]
    names = (("import", "s"), ("memory after it, RssAnon", "MiB"), ("memory after it, RSS", "MiB"))
    return [(what, ours, stock, unit) for (what, unit), ours, stock in zip(names, *found, strict=True)]


def in_worker(task: str, rounds: int) -> list[Row]:
    """The rows of a task, measured in turns in a process for each client."""
    script = Path(__file__).parent / "client_worker.py"
    workers = {
        name: subprocess.Popen(
            [sys.executable, str(script), task, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("ours", "stock")
    }
    try:
        turns: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
        for _ in range(rounds):
            for name, worker in workers.items():
                turns[name].append(_measured(worker))
    finally:
        for worker in workers.values():
            worker.kill()
            worker.communicate()
    ours, stock = ({what: _median(turns[name], what) for what in turns[name][0]} for name in workers)
    return [(what, ours[what], stock[what], "µs") for what in ours]


def _measured(worker: "subprocess.Popen[str]") -> dict[str, float]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write("measure\n")
    worker.stdin.flush()
    line = worker.stdout.readline()
    if not line:
        raise RuntimeError("a process of the benchmark ended; its words are above")
    return json.loads(line)


def _median(turns: Sequence[dict[str, float]], what: str) -> float:
    return statistics.median(turn[what] for turn in turns)


def compare(rounds: int, said: Callable[[str], Any]) -> list[Row]:
    """All rows; `said` is called with the name of each next measurement."""
    rows: list[Row] = []
    for what, measure in (
        ("importing", lambda: imports(rounds)),
        ("the codec", lambda: in_worker("codec", rounds)),
        ("calls", lambda: in_worker("calls", rounds)),
    ):
        said(what)
        rows += measure()
    return rows
