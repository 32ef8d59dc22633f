"""The windows of rows answered on a Ray cluster, by Ray Data's `map_batches` with a pool of actors.

The driver cuts the files into windows, and writes what comes back in their order, as it writes what its own
threads answer. So a run that ends early goes on in the same way, on the cluster or without it. The actors
read rows and model themselves: both paths must lead to the same files on all nodes.

Reference: https://docs.ray.io/en/latest/data/transforming-data.html, "Stateful transforms".
"""

import importlib
import json
import logging
import os
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from keras_selfattn.batch.graphs import ModelPath, first_line
from keras_selfattn.batch.part import Answered, Part, PendingWindow
from keras_selfattn.batch.predictor import loaded
from keras_selfattn.errors import ConfigError, DataError, SelfAttentionError
from keras_selfattn.serving.client import Signature


class RayEngine:
    """Answers on a cluster; it must be connected.

    Args:
        found: the model.
        signature: the signature to call.
        make_part: from the model's signature, a file and its target to the part.
        workers: actors; None for one for each CPU of the cluster.

    Raises:
        ConfigError: if the cluster has fewer CPUs than `workers`.
        DataError: if its nodes do not find the model.
    """

    def __init__(
        self, found: ModelPath, signature: str, make_part: Callable[..., Part], workers: int | None
    ) -> None:
        ray = _ray()
        cpus = int(ray.cluster_resources().get("CPU", 0))
        if cpus < (workers or 1):
            raise ConfigError(f"--workers {workers or 1} need as many CPUs. The Ray cluster has {cpus}.")
        self._found, self._name, self._make_part = found, signature, make_part
        self._workers = workers or cpus
        self._parts: list[Part] = []
        self._answers: Iterator[dict[str, Any]] | None = None
        self._next: dict[str, Any] | None = None
        with _errors():
            self._signature = ray.get(ray.remote(_signature).remote(found, signature))

    def part(self, file: Path, target: Path, *, named: bool) -> Part:
        """As in `run.Engine`."""
        part = self._make_part(self._signature, file.absolute(), target, named=named)
        self._parts.append(part)
        return part

    def answered(self, part: Part, place: Sequence[int] | None) -> Generator[Answered, None, None]:
        """As in `run.Engine`; the first call starts the actors, for all parts from this one on."""
        number = self._parts.index(part)
        with _errors():
            if self._answers is None:
                self._answers = self._started(number, place)
                self._next = next(self._answers, None)
            while self._next is not None and self._next["part"] == number:
                row = self._next
                if row["problem"]:
                    raise DataError(row["problem"])
                yield Answered(
                    row["rows"],
                    row["errors"],
                    int(row["count"]),
                    int(row["failed"]),
                    json.loads(row["place"]),
                    int(row["done"]),
                )
                self._next = next(self._answers, None)

    def _started(self, first: int, place: Sequence[int] | None) -> Iterator[dict[str, Any]]:
        data = importlib.import_module("ray.data")
        windows = [
            {"part": number, "start": json.dumps(start), "end": json.dumps(end)}
            for number in range(first, len(self._parts))
            for start, end in self._parts[number].places(place if number == first else None)
        ]
        if not windows:
            return iter(())
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        context.execution_options.preserve_order = True
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        answers = data.from_items(windows, override_num_blocks=len(windows)).map_batches(
            _Answerer,
            fn_constructor_args=(self._found, self._name, self._parts),
            batch_size=1,
            compute=data.ActorPoolStrategy(size=min(self._workers, len(windows))),
            num_cpus=1,
        )
        return iter(answers.iter_rows())


class _Answerer:
    """An actor: answers the windows of a batch, on one CPU."""

    def __init__(self, found: ModelPath, signature: str, parts: Sequence[Part]) -> None:
        _one_thread()
        self._model, self._parts = loaded(found, signature), parts

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for number, start, end in zip(batch["part"], batch["start"], batch["end"], strict=True):
            answer, problem = Answered(b"", b"", 0, 0, [], 0), ""
            try:
                answer = self._answered(self._parts[number], json.loads(start), json.loads(end))
            except SelfAttentionError as error:  # Ray would hand on its own error, without this one
                problem = str(error)
            place = json.dumps(answer.place)
            named = {**vars(answer), "part": int(number), "place": place, "problem": problem}
            for name, value in named.items():
                found.setdefault(name, []).append(value)
        return found

    def _answered(self, part: Part, start: list[int] | None, end: list[int]) -> Answered:
        writer, found = part.writer(), []
        with ThreadPoolExecutor(1) as executor:
            for window in part.windows(start, end):
                found.append(PendingWindow(part, window, self._model, executor).result(writer))
        return Answered(
            b"".join(each.rows for each in found),
            b"".join(each.errors for each in found),
            sum(each.count for each in found),
            sum(each.failed for each in found),
            found[-1].place,
            found[-1].done,
        )


def connect(address: str, timeout: float) -> None:
    """Connect to a Ray cluster; "local" starts one of this machine, which ends with the process.

    Args:
        address: as `ray.init` takes it: host:port, auto or local.
        timeout: seconds until the cluster must have answered.

    Raises:
        ConfigError: if Ray Data is not installed, or no cluster answers.
    """
    ray = _ray()
    logging.getLogger("ray").setLevel(logging.ERROR)  # it warns of its thread
    failed: list[BaseException] = []

    def begin() -> None:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
        except BaseException as error:  # noqa: BLE001  whatever Ray raises, it is told
            failed.append(error)

    # Ray itself tries for a minute and more.
    thread = threading.Thread(target=begin, daemon=True)
    thread.start()
    thread.join(timeout)
    if thread.is_alive() or failed:
        reason = f": {first_line(failed[0])}" if failed else f" within {timeout:g} s"
        raise ConfigError(
            f"No Ray cluster answers at {address!r}{reason}. Name the address of its head, such as "
            "10.0.0.1:6379, or local for a cluster of this machine; --timeout gives it more seconds."
        )


def _ray() -> Any:
    try:
        importlib.import_module("ray.data")
        return importlib.import_module("ray")
    except ImportError as error:
        raise ConfigError("Ray Data is not installed: pip install 'keras-selfattn[ray]'") from error


def _signature(found: ModelPath, name: str) -> Signature:
    _one_thread()
    if not found.path.exists():
        raise DataError(f"A node of the cluster does not find {found.path}: put it where all nodes do.")
    return loaded(found, name).signature


def _one_thread() -> None:
    for name in ("TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as the command has it: see `import_tensorflow`


class _errors:  # noqa: N801  used like a function
    """Raise errors of Ray as the error of ours that caused them, or as DataError."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        ray = importlib.import_module("ray.exceptions")
        if error is None or not isinstance(error, ray.RayError):
            return
        # Of a task the error itself; of an actor's constructor only Ray's words.
        cause = getattr(error, "cause", None)
        if isinstance(cause, SelfAttentionError):
            raise DataError(str(cause)) from error
        raise DataError(f"Ray failed: {first_line(error)}.") from error
