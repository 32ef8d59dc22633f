"""The Ray cluster that trainings run on: its settings, its room, and the trainings side by side on it.

Each training is a task that claims cores and memory of a node, and computes on as many threads as it claims
cores. Side by side are the trials of a search, and the encoders of a model: rows, and the files that a model
starts from, go to the cluster once; the trained model comes back as the bytes of a `.keras` file. So a node
needs this library, and no file of the machine that asks.

Reference: https://docs.ray.io/en/latest/ray-core/tasks.html; .../scheduling/resources.html.
"""

import dataclasses
import importlib
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, SelfAttentionError
from keras_selfattn.files.folder_kinds import holds_pretrained
from keras_selfattn.files.hub_folders import located
from keras_selfattn.machines.cores import thread_variables
from keras_selfattn.machines.ray_cluster import connect, ray_errors
from keras_selfattn.models.config import check_count, is_number
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.models.saving.saved_file import load_file
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.fitting import Fitted, changed, copy_of, fit_encoder, fit_with_validation
from keras_selfattn.training.tuning import Ended, reason_of
from keras_selfattn.user_warnings import warn_user

_GB = 1e9
# Seconds after which a waiting search looks for an interrupt.
_LOOK = 1.0
# A process grows with each training; a new one takes some seconds to import TensorFlow.
_TRAININGS_OF_A_PROCESS = 8
# What is trained for the result, not for comparison, begins again if its machine is lost.
_RETRIES = 2
# The files of a pretrained model that are read.
_FILES = (".json", ".txt", ".safetensors")


@dataclass(frozen=True)
class SideBySide:
    """Settings of trainings on a Ray cluster.

    Args:
        address: of the cluster as `ray.init` takes it: host:port, auto, or local for one of this machine.
        workers: the most trainings at a time; None for what the cluster has room for.
        cpus: cores that each training claims, and threads it computes on.
        memory: that each training claims, in GB. Ray then starts no more than fit; it limits nothing.
        timeout: seconds until the cluster must have answered.

    Raises:
        ConfigError: for a field out of range.

    Example:

        >>> SideBySide("local", workers=1).cpus
        1
    """

    address: str
    workers: int | None = None
    cpus: int = 1
    memory: float = 2.0
    timeout: float = 30.0

    def __post_init__(self) -> None:
        for name in ("cpus",) if self.workers is None else ("cpus", "workers"):
            check_count(name, getattr(self, name))
        for name in ("memory", "timeout"):
            if not (is_number(getattr(self, name)) and getattr(self, name) > 0):
                raise ConfigError(
                    f"`{name}` must be a number greater than 0. Received {getattr(self, name)!r}."
                )


@contextmanager
def cluster_of(settings: SideBySide, *, all_at_once: bool = False) -> Iterator["Cluster"]:
    """Yield the connected cluster; at the end the connection, or the cluster of this machine, is closed.

    Args:
        settings: of the cluster.
        all_at_once: True if all workers must run at the same time.

    Raises:
        ConfigError: if Ray is not installed, no cluster answers, or no node has what a training claims; with
            `all_at_once`, if there is no room for all workers.
    """
    ray = connect(settings.address, settings.timeout, *(("ray.util.queue",) if all_at_once else ()))
    try:
        cluster = Cluster(ray, settings)
        if all_at_once and cluster.slots < (settings.workers or 1):
            raise ConfigError(
                f"The Ray cluster has room for {cluster.slots} of {settings.workers} workers (--workers), of "
                f"{settings.cpus} CPUs and {settings.memory:g} GB each (--trial-cpus, --trial-memory). Ask "
                "for fewer, or smaller ones."
            )
        yield cluster
    finally:
        ray.shutdown()


class Cluster:
    """Starts trainings on a cluster that is connected.

    Args:
        ray: the module.
        settings: of the trainings.

    Attributes:
        slots: trainings at a time.

    Raises:
        ConfigError: if no node has what a training claims.
    """

    def __init__(self, ray: Any, settings: SideBySide) -> None:
        self._ray, self._settings = ray, settings
        room = room_for(ray.nodes(), settings)
        self.slots = min(room, settings.workers or room)

    def put(self, value: Any) -> Any:
        """Return a reference to a value, which all tasks share."""
        return self._ray.put(value)

    def queue(self) -> Any:
        """Return a queue that tasks and this process share."""
        return importlib.import_module("ray.util.queue").Queue(actor_options={"num_cpus": 0})

    def submit(
        self, function: Any, *arguments: Any, retries: int = 0, together: bool = False
    ) -> Sequence[Any]:
        """Start a function of two results as a task, and return the references of both.

        Args:
            function: a function of a module.
            arguments: its arguments, or references to them.
            retries: how often it begins again if its machine or process is lost.
            together: True for one of several processes of one training, on JAX: it has a process of its own
                and, if the cluster has enough of them, a GPU.
        """
        claims: dict[str, Any] = {"num_cpus": self._settings.cpus}
        claims["memory"] = int(self._settings.memory * _GB)
        variables = {**thread_variables(self._settings.cpus), "KERAS_BACKEND": keras.backend.backend()}
        if together:
            variables["KERAS_BACKEND"] = "jax"
        if together and self._ray.cluster_resources().get("GPU", 0) >= self.slots:
            claims["num_gpus"] = 1
        else:
            variables["CUDA_VISIBLE_DEVICES"] = ""  # or each task would take all memory of the GPU
        task = self._ray.remote(
            **claims,
            num_returns=2,
            max_retries=retries,
            max_calls=1 if together else _TRAININGS_OF_A_PROCESS,
            runtime_env={"env_vars": variables},
        )
        return task(function).remote(*arguments)

    def ended(self, references: Sequence[Any], end: float) -> Any:
        """Return a reference that has its value or error, or None if none has until `end`."""
        while True:
            seconds = min(_LOOK, max(0.0, end - time.perf_counter()))
            ready, _ = self._ray.wait(list(references), num_returns=1, timeout=seconds)
            if ready or time.perf_counter() >= end:
                return ready[0] if ready else None

    def get(self, reference: Any) -> Any:
        """Return a value; raise the error of the task, or DataError if Ray lost it."""
        with ray_errors():
            return self._ray.get(reference)

    def cancel(self, references: Sequence[Any]) -> None:
        """End tasks with their processes."""
        for reference in references:
            self._ray.cancel(reference, force=True)


def room_for(nodes: Sequence[dict[str, Any]], settings: SideBySide) -> int:
    """Return the number of trainings that the nodes have room for.

    Args:
        nodes: as `ray.nodes()` gives them.
        settings: of the trainings.

    Raises:
        ConfigError: if there is room for none, with the figures of the node that comes nearest.

    Example:

        >>> nodes = [{"Alive": True, "Resources": {"CPU": 4.0, "memory": 5e9}}]
        >>> room_for(nodes, SideBySide("auto")), room_for(nodes, SideBySide("auto", cpus=4))
        (2, 1)
    """
    resources = [each["Resources"] for each in nodes if each["Alive"]]
    sizes = [(int(each.get("CPU", 0)), each.get("memory", 0) / _GB) for each in resources]
    found = sum(min(cpus // settings.cpus, int(memory // settings.memory)) for cpus, memory in sizes)
    if not found:
        cpus, memory = max(sizes, default=(0, 0.0))
        raise ConfigError(
            f"Each training claims {settings.cpus} CPUs and {settings.memory:g} GB of memory (--trial-cpus, "
            f"--trial-memory). The largest node of the Ray cluster has {cpus} and {memory:.1f} GB: claim "
            "less, or name a cluster with larger nodes."
        )
    return found


class OnCluster:
    """Trains trials on a cluster, as `OneAtATime` does here, and the encoders of a model.

    Args:
        cluster: the cluster.
        model: an untrained model; copies of it, with one encoder, are trained.
        rows: to train on.
        validation: to compare by.
        config: the settings of training.
        choose_epoch: as in `fit_with_validation`.
    """

    def __init__(
        self,
        cluster: Cluster,
        model: RawModel,
        rows: LabelledRows,
        validation: LabelledRows,
        config: TrainConfig,
        *,
        choose_epoch: bool = True,
    ) -> None:
        self.slots = cluster.slots
        self._cluster, self._model = cluster, model
        self._parts = [cluster.put(each) for each in (packed(model), rows, validation)]
        self._settings = config, choose_epoch
        # The settings of each running trial, when it began, and its model, by the reference of its outcome.
        self._running: dict[Any, tuple[dict[str, Any], float, Any]] = {}

    def start(self, changes: dict[str, Any]) -> None:
        """As in `tuning.Trainer`."""
        retries = 0 if changes else _RETRIES
        outcome, model = self._cluster.submit(_trial, *self._parts, *self._settings, changes, retries=retries)
        self._running[outcome] = changes, time.perf_counter(), model

    def next_ended(self, end: float) -> Ended | None:
        """As in `tuning.Trainer`."""
        outcome = self._cluster.ended(list(self._running), end)
        if outcome is None:
            return None
        changes, began, model = self._running.pop(outcome)
        try:
            fitted, seconds, told = self._cluster.get(outcome)
        except SelfAttentionError as error:
            if not changes:
                raise
            return Ended(changes, time.perf_counter() - began, reason=reason_of(error))
        for message in () if changes else told:
            warn_user(message)
        return Ended(changes, seconds, fitted, model=lambda: self._cluster.get(model))

    def keep(self, trial: Ended) -> Ended:
        """As in `tuning.Trainer`: fetch the model, which may be lost with the machine that trained it."""
        assert trial.model is not None
        try:
            content: Any = trial.model()
        except SelfAttentionError as error:
            if not trial.changes:
                raise
            return dataclasses.replace(trial, fitted=None, reason=reason_of(error), model=None)
        return dataclasses.replace(trial, model=lambda: loaded(content, self._model))

    def stop(self) -> None:
        """As in `tuning.Trainer`."""
        self._cluster.cancel(list(self._running))
        self._running = {}


class Members:
    """Trains the encoders of a model on a cluster; a `FitMembers` of `fitting`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __call__(
        self,
        encoders: Sequence[RawModel],
        rows: LabelledRows,
        configs: Sequence[TrainConfig],
        epochs: int,
        on_pairs: bool,
    ) -> Iterator[RawModel]:
        """Yield the encoders, trained, in their order."""
        cluster, shared = self._cluster, self._cluster.put(rows)
        model = cluster.put(packed(encoders[0]))
        waiting = list(configs)
        running: list[Any] = []
        try:
            for encoder in encoders:
                while waiting and len(running) < cluster.slots:
                    task = cluster.submit(
                        _member, model, shared, waiting.pop(0), epochs, on_pairs, retries=_RETRIES
                    )
                    running.append(task[0])
                content = cluster.get(running[0])
                running.pop(0)
                yield loaded(content, encoder)
        finally:
            cluster.cancel(running)


@dataclass(frozen=True)
class Packed:
    """An untrained model in parts: its class, config, and the files that it starts from."""

    kind: type[RawModel]
    config: dict[str, Any]
    files: dict[str, bytes]

    @contextmanager
    def unpacked(self) -> Iterator[RawModel]:
        """Yield the model, whose files are there until the end of the block."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in self.files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            start = self.config.get("start")
            place = {} if start is None else {"start": str(Path(folder, Path(start).name))}
            yield self.kind.from_config({**self.config, **place})


def packed(model: RawModel) -> Packed:
    """Return an untrained model in parts that a machine without its files can put together."""
    config = model.untrained_config()
    start = config.get("start")
    if start is None:
        return Packed(type(model), config, {})
    folder = Path(located(start))
    return Packed(type(model), {**config, "start": str(folder)}, _files(folder))


def _files(start: Path) -> dict[str, bytes]:
    """Return the files that a model starts from, by their path from the folder around `start`."""
    if holds_pretrained(start):
        found = [each for each in sorted(start.rglob("*")) if each.suffix in _FILES and each.is_file()]
    else:
        found = [start if start.is_file() else start / "model.keras"]
    return {os.path.relpath(each, start.parent): each.read_bytes() for each in found}


def bytes_of(model: RawModel) -> bytes:
    """Return a trained model as the bytes of a `.keras` file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.keras")
        model.save(path)
        return path.read_bytes()


def loaded(content: bytes, given: Any) -> Any:
    """Return a trained model from its bytes; `given` is the model that it was a copy of."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.keras")
        path.write_bytes(content)
        model: Any = load_file(path)
    if hasattr(given, "start"):
        model.start = given.start  # for the record of the run
    return model


def _trial(
    untrained: Packed,
    rows: LabelledRows,
    validation: LabelledRows,
    config: TrainConfig,
    choose_epoch: bool,
    changes: dict[str, Any],
) -> tuple[tuple[Fitted, float, list[str]], bytes]:
    """Train a model with changed settings; return outcome, seconds, warnings, and its bytes. A task."""
    began = time.perf_counter()
    with untrained.unpacked() as given, warnings.catch_warnings(record=True) as caught:
        model, settings = copy_of(given, {"members": 1, **changes}), changed(config, changes)
        fitted = fit_with_validation(model, rows, validation, settings, [], 0, choose_epoch=choose_epoch)
    told = [str(each.message) for each in caught if each.category is UserWarning]
    return (fitted, time.perf_counter() - began, told), bytes_of(model)


def _member(
    untrained: Packed, rows: LabelledRows, config: TrainConfig, epochs: int, on_pairs: bool
) -> tuple[bytes, None]:
    """Train an encoder of a model; return its bytes. Runs as a task."""
    with untrained.unpacked() as model:
        fit_encoder(model, rows, config, epochs, on_pairs, callbacks=[], verbose=0)
    return bytes_of(model), None
