"""Measuring contestants in turns, round after round, so that all see the same machine."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from benchmarks.process import Worker, WorkerError
from benchmarks.results import Result

# The largest difference of outputs, which are of size 1. Of 64 vectors that int8 turns by a cosine of 0.995
# some element of 25,000 differs by 0.5; those of vectors without a relation by 4 and more.
_LIMITS = {"float32": 1e-3, "tensorfloat32": 0.05, "bfloat16": 0.15, "int8": 1.0}
_GRADIENT_LIMITS = {"float32": 1e-3, "tensorfloat32": 0.02, "bfloat16": 0.1}  # relative


@dataclass(frozen=True)
class Settings:
    """Settings of a measurement.

    Args:
        rounds: the number of rounds, each of about `seconds` for each contestant.
        seconds: the seconds of one measurement.
        deadline: seconds that a worker may take for one answer.
        only: texts that must all be in the name of row and contestant; empty = everything.
        quick: one small row and little of everything: to see that it runs, not to measure.
        progress: called with each next step.
    """

    rounds: int = 5
    seconds: float = 0.3
    deadline: float = 900.0
    only: tuple[str, ...] = ()
    quick: bool = False
    progress: Callable[[str], None] = lambda _text: None

    def chosen(self, row: str, contestant: str) -> bool:
        """Return True if `only` includes this row and contestant."""
        label = f"{row} {contestant}".lower()
        return all(text.lower() in label for text in self.only)


@dataclass(frozen=True)
class Contestant:
    """A contestant of a benchmark.

    Args:
        name: its name in the table.
        build: `MODULE:FUNCTION` for the worker.
        environment: variables its process needs.
        fields: fields of the case for this contestant alone.
    """

    name: str
    build: str
    environment: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)


class Workers:
    """The workers of a run: one for each contestant, kept from row to row, all killed at the end.

    Args:
        settings: the settings of the measurement.
        one_thread: True for one core and one thread each.
        built_together: True to build the contestants of a row at the same time, where compiling them is most
            of the work; they are measured in turns in any case.
    """

    def __init__(self, settings: Settings, *, one_thread: bool = True, built_together: bool = False) -> None:
        self._settings = settings
        self._one_thread = one_thread
        self._builders = None if built_together else 1
        self._running: dict[str, Worker] = {}
        self._stack = ExitStack()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def of(self, contestant: Contestant) -> Worker:
        """Return the contestant's worker, or a new worker if there is none or it died."""
        worker = self._running.get(contestant.name)
        if worker is None or not worker.alive:
            worker = Worker(
                contestant.build,
                one_thread=self._one_thread,
                environment=dict(contestant.environment),
                deadline=self._settings.deadline,
            )
            self._stack.callback(worker.close)
            self._running[contestant.name] = worker
        return worker

    def measure(
        self, row: str, case: dict[str, Any], contestants: Sequence[Contestant], *, check: bool = True
    ) -> list[Result]:
        """Return CPU and wall milliseconds of a call, median and least, for each contestant in order."""
        entries = [_Entry(contestant, Result(row, contestant.name)) for contestant in contestants]

        def build(entry: "_Entry") -> None:
            self._settings.progress(f"{row}: building {entry.contestant.name}")
            entry.attempt(lambda: self._ready(entry, case, check))

        with ThreadPoolExecutor(self._builders) as pool:
            list(pool.map(build, entries))
        self._settings.progress(f"{row}: {self._settings.rounds} rounds")
        for number in range(self._settings.rounds):
            shift = number % max(1, len(entries))  # each is first in its turn
            for entry in entries[shift:] + entries[:shift]:
                if entry.calls:
                    entry.attempt(entry.time)
        return [entry.found() for entry in entries]

    def _ready(self, entry: "_Entry", case: dict[str, Any], check: bool) -> None:
        worker = entry.worker = self.of(entry.contestant)
        known = worker.ask("prepare", case={**case, **entry.contestant.fields})
        figures = worker.ask("check")["figures"] if check else {}
        entry.result = Result(entry.result.row, entry.result.contestant, figures, known["form"])
        refused = refusal(figures, case.get("precision") or case.get("dtype", "float32"))
        if refused:
            raise WorkerError(refused)
        entry.calls = worker.ask("warm", seconds=self._settings.seconds)["calls"]


class _Entry:
    """A contestant in a row, while it is being measured."""

    def __init__(self, contestant: Contestant, result: Result) -> None:
        self.contestant = contestant
        self.result = result
        self.worker: Worker | None = None
        self.calls = 0
        self._times: list[dict[str, float]] = []

    def attempt(self, action: Callable[[], None]) -> None:
        """Do the action; if the worker fails, the contestant is out of the row."""
        try:
            action()
        except WorkerError as error:
            self.calls = 0
            figures = self.result.figures
            self.result = Result(self.result.row, self.contestant.name, figures, skipped=str(error))

    def time(self) -> None:
        assert self.worker is not None
        self._times.append(self.worker.ask("time", calls=self.calls))

    def found(self) -> Result:
        if self.result.skipped:
            return self.result
        return self.result.with_figures(**summary(self._times))


def summary(times: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return median and least milliseconds of CPU and wall time from the seconds of each round."""
    found = {}
    for kind in ("cpu", "wall"):
        taken = [1e3 * time[kind] for time in times]
        found |= {f"{kind} median ms": statistics.median(taken), f"{kind} min ms": min(taken)}
    return found


def refusal(figures: Mapping[str, float], precision: str) -> str:
    """Return why a contestant is not measured: its results differ; empty = it computes the same."""
    # Written so that NaN is refused.
    if not figures.get("difference", 0.0) <= _LIMITS[precision]:
        return f"refused: outputs differ by {figures['difference']:.2g}"
    if not figures.get("gradient", 0.0) <= _GRADIENT_LIMITS.get(precision, 0.0):
        return f"refused: gradients differ by {figures['gradient']:.2g} of their size"
    return ""


def measure_memory(
    row: str, case: dict[str, Any], contestant: Contestant, settings: Settings, *, one_thread: bool = True
) -> Result:
    """Return the MB by which the peak memory of a fresh process grows in its first call of the case."""
    result = Result(row, contestant.name)
    settings.progress(f"{row}: memory of {contestant.name}")
    environment = dict(contestant.environment)
    worker = Worker(
        contestant.build, one_thread=one_thread, environment=environment, deadline=settings.deadline
    )
    with worker:
        try:
            worker.ask("prepare", case={**case, **contestant.fields})
            grown = worker.ask("memory")["bytes"]
        except WorkerError as error:
            return Result(row, contestant.name, skipped=str(error))
    return result.with_figures(**{"memory MB": grown / 1e6})
