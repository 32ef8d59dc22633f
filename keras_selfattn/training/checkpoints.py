"""Checkpoints of a training, from which the same call goes on after it was killed.

A training is one fit or several, in an order that its settings decide. Each has a file, which holds all that
the next epoch depends on. So a training that was killed and goes on ends with the weights of one that was
never killed. Digests of rows, settings and files tell whether it is the same training.
"""

import dataclasses
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_selfattn import __version__
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, OtherProcessError, RunError, TrainingError
from keras_selfattn.files.atomic import lock_folder, new_file, remove_dead_drafts
from keras_selfattn.files.hub_folders import located
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.runs.run_folder import writing
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.processes.group import ProcessGroup

# Epochs can be shorter than the writing of a file.
_SECONDS_BETWEEN = 10.0
_STOPPING = ("wait", "stopped_epoch", "best", "best_epoch", "least_loss", "kept_loss")


def training_digests(
    model: RawModel, config: TrainConfig, rows: LabelledRows, validation: LabelledRows
) -> dict[str, str]:
    """Return the digests of all that a training depends on, by the name for messages."""
    described = [type(model).__name__, model.config.to_dict()]
    start = model.get_config().get("start")
    return {
        "rows": digest_of([rows.inputs, rows.targets]),
        "validation rows": digest_of([validation.inputs, validation.targets]),
        "settings": digest_of([described, dataclasses.asdict(config)]),
        "files to start from (--from)": "" if start is None else digest_of_files(Path(located(start))),
        "backend or version of Keras": f"{keras.backend.backend()} {keras.__version__}",
        "version of keras-selfattn": __version__,
    }


def digest_of(value: Any) -> str:
    """Return a digest of rows or settings: equal for equal values in equal containers.

    Example:

        >>> digest_of(["good", 1.5]) == digest_of(["good", 1.5])
        True
        >>> digest_of(["good", "bad"]) == digest_of(["goodbad"])
        False
    """
    found = hashlib.sha256()
    _add(found, value)
    return found.hexdigest()


def digest_of_files(path: Path) -> str:
    """Return a digest of a file, or of the names and contents of all files in a folder."""
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    parts = []
    for each in files:
        with each.open("rb") as file:
            parts.append([str(each.relative_to(path)), hashlib.file_digest(file, "sha256").hexdigest()])
    return digest_of(parts)


def _add(digest: Any, value: Any) -> None:
    """Add a value with its kind and size, so that no two values give the same bytes."""
    if isinstance(value, Mapping):
        value = [each for pair in value.items() for each in pair]
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        content, parts, kind = np.ascontiguousarray(value).tobytes(), [], f"{value.dtype} {value.shape}"
    elif isinstance(value, list | tuple | np.ndarray):
        content, parts, kind = b"", value, f"list {len(value)}"
    else:
        content, parts = repr(value).encode(errors="surrogatepass"), []
        kind = f"{type(value).__name__} {len(content)}"
    digest.update(f"<{kind}>".encode() + content)
    for part in parts:
        _add(digest, part)


class Checkpoints:
    """The checkpoints of one training.

    Args:
        folder: the folder of their files, which exists.
        digests: of all that the training depends on, by name.
        report: called with a line about each fit that goes on.
        group: the processes that train together; process 0 reads and writes the files.
    """

    def __init__(
        self,
        folder: Path,
        digests: Mapping[str, str],
        report: Callable[[str], None],
        group: ProcessGroup | None = None,
    ) -> None:
        self._folder, self._digests, self._report, self._fits = folder, dict(digests), report, 0
        self._group = group

    def next_fit(self, model: keras.Model, stopping: keras.callbacks.EarlyStopping | None) -> "FitCheckpoint":
        """Return the checkpoint of the next fit, with the state of the model's last one.

        Args:
            model: compiled and built, as the fit begins with it; its variables and its optimizer's are set.
            stopping: the callback of the fit that stops it, if there is one.

        Raises:
            ConfigError: if the file is of a training of other rows or settings.
            RunError: if the file cannot be read.
        """
        self._fits += 1
        path = self._folder / f"fit-{self._fits}.npz"
        found = FitCheckpoint(path, self._digests, stopping, self._group)
        found.restore(model)
        if found.epochs:
            self._report(f"Goes on after epoch {found.epochs}, from {self._folder}")
        return found


@contextmanager
def checkpoint_folder(target: Path) -> Iterator[Path]:
    """Yield the folder of the checkpoints of a run folder's training; remove it if the block succeeds.

    It is also removed after a TrainingError of this process, with which every repetition would end.

    Raises:
        RunError: if it cannot be written, or another process trains there.
    """
    folder = target.parent / f".{target.name}.checkpoint"
    with _locked(folder, target):
        _remove_remains(folder, target)
        try:
            yield folder
        except OtherProcessError:
            raise
        except TrainingError:  # the same call would fail again, and other settings would be refused
            shutil.rmtree(folder, ignore_errors=True)
            raise
        else:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            with suppress(OSError):  # one that holds checkpoints stays
                folder.rmdir()


@contextmanager
def _locked(folder: Path, target: Path) -> Iterator[None]:
    """Make a folder of checkpoints and hold its lock; leave that of another process as it is."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = lock_folder(folder)
        except BlockingIOError as error:
            raise RunError(
                f"Another process trains {target} with resume (--resume). Wait for it, or choose another "
                "output."
            ) from error
    try:
        yield
    finally:
        os.close(lock)


def _remove_remains(folder: Path, target: Path) -> None:
    """Remove the drafts that a killed training left: of checkpoints, and of the run folder."""
    with writing(folder):
        for draft in folder.glob(".fit-*.tmp-*"):
            draft.unlink()
        remove_dead_drafts(target.parent, re.escape(target.name))


class FitCheckpoint(keras.callbacks.Callback):
    """Write the state of a fit after its epochs; the last callback of the fit.

    Args:
        path: the file.
        digests: of all that the training depends on, by name.
        stopping: the callback that stops the fit, if there is one.
        group: as in `Checkpoints`.

    Attributes:
        epochs: the epochs that were trained before this fit begins, 0 without a file.
        ended: True if the last of them was the last of the fit.
        history: the values of all epochs by name.
    """

    def __init__(
        self,
        path: Path,
        digests: Mapping[str, str],
        stopping: keras.callbacks.EarlyStopping | None,
        group: ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        self._path, self._digests, self._stopping = path, dict(digests), stopping
        self._group, self._writes = group, group is None or group.is_first
        self._stopping_state: dict[str, Any] = {}
        self._written = time.monotonic()
        self.epochs, self.ended = 0, False
        self.history: dict[str, list[float]] = {}

    def restore(self, model: keras.Model) -> None:
        """Set a model and its optimizer to the state in the file, if there is one.

        Of several processes, only process 0 sets the variables. The others get them before the first step.
        """
        known = self._restored(model) if self._writes and self._path.exists() else {}
        if self._group is not None:
            best = known.pop("best_weights", None)
            known = self._group.from_first(known)
            known |= {} if best is None else {"best_weights": best}
        if not known:
            return
        self.epochs, self.ended, self.history = known["epochs"], known["ended"], known["history"]
        self._stopping_state = known["stopping"]
        if "best_weights" in known:
            self._stopping_state["best_weights"] = known["best_weights"]

    def _restored(self, model: keras.Model) -> dict[str, Any]:
        """Set a model and its optimizer to the state in the file; return the rest of the state."""
        arrays, known = self._read()
        for name, digest in self._digests.items():
            if known["digests"].get(name) != digest:
                raise ConfigError(
                    f"`resume` (--resume) goes on with the training in {self._path.parent}, which has other "
                    f"{name}. Give those, or remove that folder to start anew."
                )
        for name, variables in _variables(model).items():
            if sum(each.startswith(f"{name}/") for each in arrays) != len(variables):
                raise ConfigError(
                    f"{self._path} is of another version of keras-selfattn, whose {name} has other "
                    "variables. Remove its folder to start anew."
                )
            _assign(variables, [arrays[f"{name}/{place}"] for place in range(len(variables))])
        if self._stopping is not None and "best/0" in arrays:
            count = sum(name.startswith("best/") for name in arrays)
            known["best_weights"] = [arrays[f"best/{place}"] for place in range(count)]
        return known

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        # After the other callback, which has just forgotten what it knew.
        for name, value in self._stopping_state.items():
            setattr(self._stopping, name, value)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        model: Any = self.model
        for name, value in (logs or {}).items():
            # A checkpoint of an earlier version may lack a column, which then would begin too late.
            if self.epochs == 0 or name in self.history:
                self.history.setdefault(name, []).append(float(value))
        self.epochs = epoch + 1
        self.ended = bool(model.stop_training) or self.epochs == (self.params or {}).get("epochs")
        due = self.ended or time.monotonic() - self._written >= _SECONDS_BETWEEN
        if self._writes and due:
            self._write(model)
            self._written = time.monotonic()

    def _read(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        try:
            with self._path.open("rb") as file, np.load(file, allow_pickle=False) as found:
                arrays = dict(found)
            return arrays, json.loads(str(arrays.pop("state")))
        except Exception as error:
            raise RunError(
                f"{self._path} cannot be read: {error}. Remove {self._path.parent} to start anew."
            ) from error

    def _write(self, model: keras.Model) -> None:
        arrays: dict[str, Any] = {
            f"{name}/{place}": keras.ops.convert_to_numpy(variable)
            for name, variables in _variables(model).items()
            for place, variable in enumerate(variables)
        }
        stopping: Any = self._stopping
        for place, weight in enumerate(getattr(stopping, "best_weights", None) or []):
            arrays[f"best/{place}"] = weight
        state = {
            "digests": self._digests,
            "epochs": self.epochs,
            "ended": self.ended,
            "history": self.history,
            "stopping": {} if stopping is None else {name: getattr(stopping, name) for name in _STOPPING},
        }
        arrays["state"] = np.array(json.dumps(state, default=float))
        with writing(self._path), new_file(self._path) as file:
            savez: Any = np.savez  # its stubs give the type of another argument to arrays by name
            savez(file, **arrays)


def _variables(model: Any) -> dict[str, list[Any]]:
    """Return all that a step of training changes, seeds of dropout included."""
    return {"model": model.variables, "optimizer": model.optimizer.variables}


def _assign(variables: list[Any], values: list[np.ndarray]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
