"""Samples of a soak every few seconds, and the life of each process."""

from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.usage import Usage
from keras_selfattn.files.atomic import write_file

_MB = 2**20


@dataclass(frozen=True)
class Sample:
    """A look at all processes.

    Args:
        seconds: seconds since the clients began.
        rate: answered requests per second, since the last look.
        p50: the median latency in milliseconds, since the last look.
        p99: the milliseconds that one request in a hundred exceeded.
        newest: the newest version that is whole.
        wrong: the number of wrong answers so far.
        failures: the number of requests without an answer so far.
        kills: the number of killed workers so far.
        processes: each process's kind and resources, by its number.
    """

    seconds: float
    rate: float
    p50: float
    p99: float
    newest: int
    wrong: int
    failures: int
    kills: int
    processes: dict[int, tuple[str, Usage]]

    def line(self) -> str:
        """Return the sample as a line for the terminal."""
        held = [
            f"{what} {usage.descriptors} fd {usage.threads} threads {usage.anonymous / _MB:.0f} MB"
            for what, usage in self.processes.values()
        ]
        return (
            f"{self.seconds:5.0f} s  {self.rate:6,.0f}/s  p50 {self.p50:.1f} ms  p99 {self.p99:.0f} ms  "
            f"version {self.newest}  wrong {self.wrong}  failed {self.failures}  killed {self.kills}  "
            + ", ".join(held)
        )


@dataclass
class Life:
    """One process, from the time it was ready.

    Args:
        pid: its number.
        what: its kind.
        began: the time when it was first seen ready, in seconds since the clients began.
        ages: the time of each look, in seconds since `began`.
        held: its resources at each look.
    """

    pid: int
    what: str
    began: float
    ages: list[float] = field(default_factory=list)
    held: list[Usage] = field(default_factory=list)

    def between(self, start: float, end: float) -> list[Usage]:
        """Return its resources at these ages."""
        return [held for age, held in zip(self.ages, self.held, strict=True) if start <= age <= end]


def lives(samples: list[Sample]) -> list[Life]:
    """Return the life of each process in the samples."""
    found: dict[int, Life] = {}
    for sample in samples:
        for pid, (what, held) in sample.processes.items():
            life = found.setdefault(pid, Life(pid, what, sample.seconds))
            life.ages.append(sample.seconds - life.began)
            life.held.append(held)
    return [*found.values()]


def write_csv(path: Path, runs: dict[str, list[Sample]]) -> None:
    """Write a line for each process of each sample; the file appears whole."""
    names = ("run", "seconds", "requests/s", "p50 ms", "p99 ms", "newest", "wrong", "failures", "kills")
    lines = [",".join([*names, "process", "pid", "descriptors", "threads", "MB"])]
    for name, samples in runs.items():
        for one in samples:
            seen = f"{one.seconds:.1f},{one.rate:.1f},{one.p50:.2f},{one.p99:.2f}"
            counts = f"{one.newest},{one.wrong},{one.failures},{one.kills}"
            for pid, (what, held) in one.processes.items():
                used = f"{held.descriptors},{held.threads},{held.anonymous / _MB:.1f}"
                lines.append(f"{name},{seen},{counts},{what},{pid},{used}")
    write_file(path, "\n".join([*lines, ""]).encode())
