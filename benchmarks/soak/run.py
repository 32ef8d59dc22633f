"""A soak from its beginning to its end: the server, the versions, the clients, the kills and the looks."""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.process import CHECKOUT, WorkerError
from benchmarks.soak.clients import clients
from benchmarks.soak.promises import Ending, Promise, promises
from benchmarks.soak.samples import Sample
from benchmarks.soak.served import Served
from benchmarks.soak.tally import Kill, Tally
from benchmarks.soak.versions import Versions

_LOOK_SECONDS = 0.25
# Seconds for the last version and the last worker to be ready, after the clients have stopped.
_SETTLING_SECONDS = 60.0


@dataclass(frozen=True)
class Settings:
    """Settings of a soak.

    Args:
        minutes: the minutes in which clients send requests.
        grpc_clients: clients over gRPC.
        rest_clients: clients over REST.
        version_seconds: seconds between one version and the next.
        kill_seconds: seconds between one killed worker and the next, if all workers are there.
        sample_seconds: seconds between two looks at the processes.
        progress: gets a line for each look.
    """

    minutes: float = 15.0
    grpc_clients: int = 32
    rest_clients: int = 8
    version_seconds: float = 2.0
    kill_seconds: float = 60.0
    sample_seconds: float = 10.0
    progress: Callable[[str], None] = print


@dataclass
class Soak:
    """The outcome of a soak.

    Args:
        workers: the number of the server's workers.
        samples: the resources it held, every few seconds.
        promises: its promises, checked.
    """

    workers: int
    samples: list[Sample] = field(default_factory=list)
    promises: list[Promise] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The title of the outcome."""
        return "one process" if self.workers == 1 else f"{self.workers} workers"


def run(settings: Settings, workers: Sequence[int]) -> Iterator[Soak]:
    """Yield the outcome for each of these numbers of workers.

    Raises:
        WorkerError: the model cannot be made, or the server does not start.
    """
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        template = Path(folder) / "template"
        made = subprocess.run(
            [sys.executable, "-m", "benchmarks.soak.template", str(template)],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, **CHECKOUT},
        )
        if made.returncode:
            raise WorkerError(f"the model cannot be made: {made.stderr.strip()[-300:]}")
        for count in workers:
            yield _Run(settings, count, template, Path(folder) / f"model-{count}").run()


class _Run:
    """One soak."""

    def __init__(self, settings: Settings, workers: int, template: Path, base: Path) -> None:
        self._settings, self._template, self._base = settings, template, base
        self._soak = Soak(workers)
        self._tally = Tally()
        self._kills: list[Kill] = []
        self._random = random.Random(workers)

    def run(self) -> Soak:
        say = self._settings.progress
        say(f"{self._soak.name}: starting")
        versions = Versions(self._template, self._base, self._settings.version_seconds)
        with Served(self._base, self._soak.workers) as served:
            served.wait()
            try:
                versions.start(served.newest_available)
                with self._clients(served, versions):
                    self._watch(served, versions)
            finally:
                versions.stop()
            say(f"{self._soak.name}: ending")
            ending = self._end(served, versions)
        self._soak.promises = promises(
            self._tally, self._kills, self._soak.samples, self._soak.workers, ending
        )
        return self._soak

    @contextmanager
    def _clients(self, served: Served, versions: Versions) -> Iterator[None]:
        settings = self._settings
        ports = (served.ports[0], served.ports[1])
        asking = clients(
            settings.grpc_clients, settings.rest_clients, ports, self._tally, versions.may_answer
        )
        try:
            for client in asking:
                client.start()
            yield
        finally:
            for client in asking:
                client.stop()
            for client in asking:
                client.join()

    def _watch(self, served: Served, versions: Versions) -> None:
        """Look at the server and kill its workers, until the time is over or the server has ended."""
        began = time.monotonic()
        ends = began + 60 * self._settings.minutes
        next_look = began + self._settings.sample_seconds
        next_kill = began + self._settings.kill_seconds if self._soak.workers > 1 else ends
        while time.monotonic() < ends and served.alive:
            now = time.monotonic()
            if now >= next_look or now + _LOOK_SECONDS >= ends:
                self._look(served, versions, now - began)
                next_look = now + self._settings.sample_seconds
            if now >= next_kill and self._kill(served):
                next_kill = now + self._settings.kill_seconds
            time.sleep(_LOOK_SECONDS)

    def _look(self, served: Served, versions: Versions, seconds: float) -> None:
        window = self._tally.window()
        ready = served.ready_workers()
        held = {
            pid: (what, served.usage(pid))
            for pid, what in served.processes().items()
            if what == "supervisor" or pid in ready
        }
        processes = {pid: one for pid, one in held.items() if one[1].threads}  # not those that just ended
        sample = Sample(
            seconds,
            window.rate,
            window.milliseconds(0.5),
            window.milliseconds(0.99),
            versions.newest,
            self._tally.wrong_count,
            self._tally.failure_count,
            len(self._kills),
            processes,
        )
        self._soak.samples.append(sample)
        self._settings.progress(sample.line())

    def _kill(self, served: Served) -> bool:
        """Kill a worker if all workers are there."""
        ready = served.ready_workers()
        if len(ready) < self._soak.workers:
            return False
        kill = served.kill_worker(self._random.choice(ready))
        self._kills.append(kill)
        had = " and ".join(f"{count} over {api}" for api, count in kill.connections.items())
        self._settings.progress(f"killed worker {kill.pid}, which had {had} connections")
        return True

    def _end(self, served: Served, versions: Versions) -> Ending:
        ends = time.monotonic() + _SETTLING_SECONDS
        while served.alive and time.monotonic() < ends and not self._has_settled(served, versions):
            time.sleep(_LOOK_SECONDS)
        newest = served.newest_available()
        ready = len(served.ready_workers())
        status = served.stop()
        came = versions.made + versions.half_copied
        due = self._soak.samples[-1].seconds / self._settings.version_seconds if self._soak.samples else 0.0
        return Ending(came, due, versions.newest, newest, ready, status, served.log())

    def _has_settled(self, served: Served, versions: Versions) -> bool:
        all_ready = len(served.ready_workers()) == self._soak.workers
        return all_ready and served.newest_available() == versions.newest
