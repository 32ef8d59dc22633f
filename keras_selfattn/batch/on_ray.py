"""The windows of rows answered on a Ray cluster, by Ray Data's `map_batches` with a pool of actors.

The driver cuts the files into windows, and writes what comes back in their order, as it writes what its own
threads answer. So a run that ends early goes on in the same way, on the cluster or without it. The actors
read rows and model themselves: both paths must lead to the same files on all nodes.

Reference: https://docs.ray.io/en/latest/data/transforming-data.html, "Stateful transforms".
"""

import importlib
import json
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from keras_selfattn.asking.raw_texts import SignatureChoice
from keras_selfattn.batch.model_graph import ModelPath
from keras_selfattn.batch.part import Answered, Part, PendingWindow
from keras_selfattn.batch.predictor import loaded
from keras_selfattn.errors import ConfigError, DataError, SelfAttentionError
from keras_selfattn.machines.cores import use_cores
from keras_selfattn.machines.ray_cluster import ray_errors
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
        self,
        found: ModelPath,
        signature: str | SignatureChoice,
        make_part: Callable[..., Part],
        workers: int | None,
    ) -> None:
        ray = importlib.import_module("ray")  # by name: it is there only with the extra
        cpus = int(ray.cluster_resources().get("CPU", 0))
        if cpus < (workers or 1):
            raise ConfigError(f"--workers {workers or 1} need as many CPUs. The Ray cluster has {cpus}.")
        self._found, self._name, self._make_part = found, signature, make_part
        self._workers = workers or cpus
        self._parts: list[Part] = []
        self._answers: Iterator[dict[str, Any]] | None = None
        self._next: dict[str, Any] | None = None
        with ray_errors():
            self._signature = ray.get(ray.remote(_signature).remote(found, signature))

    def part(self, file: Path, target: Path, *, named: bool) -> Part:
        """As in `run.Engine`."""
        part = self._make_part(self._signature, file.absolute(), target, named=named)
        self._parts.append(part)
        return part

    def answered(self, part: Part, place: Sequence[int] | None) -> Generator[Answered, None, None]:
        """As in `run.Engine`; the first call starts the actors, for all parts from this one on."""
        number = self._parts.index(part)
        with ray_errors():
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
                    int(row["cut"]),
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

    def __init__(self, found: ModelPath, signature: str | SignatureChoice, parts: Sequence[Part]) -> None:
        use_cores(1)
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
            sum(each.cut for each in found),
        )


def _signature(found: ModelPath, name: str | SignatureChoice) -> Signature:
    use_cores(1)
    if not found.path.exists():
        raise DataError(f"A node of the cluster does not find {found.path}: put it where all nodes do.")
    return loaded(found, name).signature
