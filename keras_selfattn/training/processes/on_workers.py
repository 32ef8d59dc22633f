"""One training on several workers of a Ray cluster, as a `ProcessGroup`.

Each worker is a task that claims cores and memory, and a GPU if there is one for each. Rows, and the files
that a model starts from, go to the cluster once; the run folder comes back as its files. So a node needs this
library, and no file of the machine that asks. Ray Train's `JaxTrainer` would want a storage that all nodes
share, and connects JAX on GPUs and TPUs only.

Reference: https://docs.ray.io/en/latest/ray-core/tasks.html.
"""

import dataclasses
import importlib
import math
import queue
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import TrainingError
from keras_selfattn.machines.free_ports import free_port
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.models.saving.saved_file import load_file
from keras_selfattn.runs.run_folder import draft_run, writing
from keras_selfattn.training.processes.clusters import Cluster, Packed, SideBySide, cluster_of, packed
from keras_selfattn.training.processes.group import ProcessGroup
from keras_selfattn.training.training import Run, train

# Between two looks at what a worker reports.
_LOOK = 0.5


def train_on_workers(
    rows: LabelledRows,
    output: Path,
    settings: SideBySide,
    *,
    model: RawModel,
    overwrite: bool = False,
    report: Callable[[str], None] = lambda _line: None,
    **arguments: Any,
) -> Run:
    """Train a model on the workers of a Ray cluster together, and write its run folder here.

    Args:
        rows: as in `train`.
        output: the run folder; it appears when all of it is written.
        settings: of the cluster; its `workers` share each batch.
        model: the model to train, which has seen no rows yet.
        overwrite: as in `train`.
        report: called with a line about each epoch, too.
        arguments: others of `train`.

    Raises:
        ConfigError: if no cluster answers, or it has no room for all workers.
        TrainingError: if a worker failed; the others have ended then.
    """
    with draft_run(output, overwrite=overwrite) as draft, cluster_of(settings, all_at_once=True) as cluster:
        report(f"On {cluster.slots} workers of the Ray cluster {settings.address}")
        job = _Job(packed(model), rows, {**arguments, "verbose": 0}, settings.timeout)
        files, run = _results(cluster, job, report)
        with writing(output):
            for name, content in files.items():
                path = draft / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
    return dataclasses.replace(run, path=output, model=load_file(output / "model.keras"))


@dataclasses.dataclass(frozen=True)
class _Job:
    """All that the workers have in common."""

    model: Packed
    rows: LabelledRows
    arguments: Mapping[str, Any]
    timeout: float


def _results(cluster: Cluster, job: _Job, report: Callable[[str], None]) -> tuple[dict[str, bytes], Any]:
    """Return the files and the outcome of process 0, while its lines are reported."""
    shared = cluster.put(job)
    addresses, lines = cluster.queue(), cluster.queue()
    tasks = [
        cluster.submit(_worker, shared, index, cluster.slots, addresses, lines, together=True)
        for index in range(cluster.slots)
    ]
    running = [outcome for _, outcome in tasks]
    patience = time.monotonic() + job.timeout
    try:
        while running:
            done = cluster.ended(running, time.perf_counter() + _LOOK)
            for line in lines.get_nowait_batch(lines.qsize()):
                report(line)
                patience = math.inf
            if time.monotonic() > patience:
                report("Waits for the workers to begin: the cluster may have other work. Ctrl-C ends it.")
                patience = math.inf
            if done is not None:
                cluster.get(done)
                running.remove(done)
        return cluster.get(tasks[0][0]), cluster.get(tasks[0][1])
    finally:
        cluster.cancel(running)


def _worker(job: _Job, index: int, count: int, addresses: Any, lines: Any) -> tuple[dict[str, bytes], Any]:
    """Train as one process of the group; return the files of the run folder and the outcome. A task."""
    address = _coordinator(index, count, addresses, job.timeout)
    arguments = dict(job.arguments)
    if index == 0:
        arguments["report"] = lines.put
        arguments["callbacks"] = [*arguments.get("callbacks", ()), _Epochs(lines.put)]
    with (
        tempfile.TemporaryDirectory() as folder,
        job.model.unpacked() as model,
        ProcessGroup(address, count, index, timeout=job.timeout) as group,
        warnings.catch_warnings(record=True) as caught,
    ):
        run = train(job.rows, Path(folder, "run"), model=model, group=group, **arguments)
        for each in caught if index == 0 else ():
            if each.category is UserWarning:
                lines.put(f"Warning: {each.message}")
        files = {} if index else _files(run.path)
    return files, dataclasses.replace(run, model=None)  # pyright: ignore[reportArgumentType]


def _coordinator(index: int, count: int, addresses: Any, timeout: float) -> str:
    """Return the address of worker 0, which gives it to the others."""
    if index == 0:
        address = _address()
        addresses.put_nowait_batch([address] * (count - 1))
        return address
    try:
        return addresses.get(timeout=timeout)
    except queue.Empty:
        raise TrainingError(
            f"Worker 0 did not begin within {timeout:g} s (--timeout) of worker {index}. The cluster has "
            "other work: wait for that, or ask for fewer workers (--workers)."
        ) from None


def _address() -> str:
    """Return an address of this node, with a free port."""
    host = importlib.import_module("ray.util").get_node_ip_address()
    return f"{host}:{free_port(host)}"


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class _Epochs(keras.callbacks.Callback):
    """Report the figures of each epoch in a line."""

    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__()
        self._report = report

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        shown = {name: value for name, value in (logs or {}).items() if name != "learning_rate"}
        figures = ", ".join(f"{name} {value:.3f}" for name, value in shown.items())
        self._report(f"  epoch {epoch + 1}/{(self.params or {}).get('epochs')}  {figures}")
