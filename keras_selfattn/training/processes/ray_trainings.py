"""Trainings side by side on a Ray cluster: the trials of a search, and the encoders of a model.

Rows, and the files that a model starts from, go to the cluster once; the trained model comes back as the
bytes of a `.keras` file. So a node needs this library, and no file of the machine that asks.
"""

import dataclasses
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import SelfAttentionError
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.fitting import Fitted, fit_member, fit_monitored
from keras_selfattn.training.packed_models import Packed, bytes_of, loaded, packed
from keras_selfattn.training.processes.clusters import Cluster
from keras_selfattn.training.processes.model_copies import changed, copy_of
from keras_selfattn.training.trials import Ended, reason_of
from keras_selfattn.user_warnings import warn_user

# What is trained for the result, not for comparison, begins again if its machine is lost.
_RETRIES = 2


class OnCluster:
    """Trains trials on a cluster, as `OneAtATime` does here, and the encoders of a model.

    Args:
        cluster: the cluster.
        model: an untrained model; copies of it, with one encoder, are trained.
        rows: to train on.
        validation: to compare by.
        config: the settings of training.
        choose_epoch: as in `fit_monitored`.
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
        """As in `trials.Trainer`."""
        retries = 0 if changes else _RETRIES
        outcome, model = self._cluster.submit(_trial, *self._parts, *self._settings, changes, retries=retries)
        self._running[outcome] = changes, time.perf_counter(), model

    def next_ended(self, end: float) -> Ended | None:
        """As in `trials.Trainer`."""
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
        """As in `trials.Trainer`: fetch the model, which may be lost with the machine that trained it."""
        assert trial.model is not None
        try:
            content: Any = trial.model()
        except SelfAttentionError as error:
            if not trial.changes:
                raise
            return dataclasses.replace(trial, fitted=None, reason=reason_of(error), model=None)
        return dataclasses.replace(trial, model=lambda: loaded(content, self._model))

    def stop(self) -> None:
        """As in `trials.Trainer`."""
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
        fitted = fit_monitored(model, rows, validation, settings, [], 0, choose_epoch=choose_epoch)
    told = [str(each.message) for each in caught if each.category is UserWarning]
    return (fitted, time.perf_counter() - began, told), bytes_of(model)


def _member(
    untrained: Packed, rows: LabelledRows, config: TrainConfig, epochs: int, on_pairs: bool
) -> tuple[bytes, None]:
    """Train an encoder of a model; return its bytes. Runs as a task."""
    with untrained.unpacked() as model:
        fit_member(model, rows, config, epochs, on_pairs, callbacks=[], verbose=0)
    return bytes_of(model), None
