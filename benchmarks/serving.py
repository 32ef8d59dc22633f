"""`bench serving`: our server beside other ways to serve the same SavedModel from Python.

In every round each server is started anew, waited for, warmed up, measured and stopped. No other server runs
meanwhile, and the median covers the differences from start to start.
"""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.peers.served_model import TOKENS
from benchmarks.process import WorkerError
from benchmarks.results import Result, Table
from benchmarks.rounds import Contestant, Settings
from benchmarks.serving_contest import (
    BATCHES,
    IN_PROCESS,
    SERVERS,
    START_UP,
    Measured,
    Place,
    Server,
    clients,
    measure_in_process,
    measure_served,
    write_model,
)
from benchmarks.usage import PROC
from keras_selfattn.errors import ConfigError

CONNECTIONS = (1, 64)
_SUMMED = "failures"  # summed over the rounds; all other figures are medians


def run(
    settings: Settings,
    connections: Sequence[int] = CONNECTIONS,
    *,
    sleep: float = 0.0,
    servers: Sequence[Server] = SERVERS,
    in_process: Sequence[Contestant] = IN_PROCESS,
) -> Table:
    """Return requests, latencies, CPU time and memory of each server, and the same model without one.

    Args:
        settings: the settings of the measurement; `seconds` are for one load on one server in one round.
        connections: the number of simultaneous clients, for each load.
        sleep: seconds that each run of the model sleeps before it computes.
        servers: the servers to compare.
        in_process: the contestants that run the model without a server.

    Raises:
        ConfigError: the system does not report the resources of other processes.
    """
    if not (PROC / "self" / "stat").exists():
        raise ConfigError("CPU time and memory of the servers are read from Linux' /proc, which is not here.")
    loads = {f"{count} connection{'s' if count > 1 else ''}": count for count in connections}
    with tempfile.TemporaryDirectory(prefix="served-") as folder, clients(settings) as asking:
        place = Place(Path(folder), settings, asking, loads)
        entries = _entries(place, servers, in_process)
        if entries:
            settings.progress("exporting the model")
            _write_model(place, sleep)
        _measure(entries, settings)
    rows = [*BATCHES, *loads, START_UP]
    found = [entry.found(row) for row in rows for entry in entries if row in entry.rows]
    return Table(found, _notes(settings, sleep))


class _Entry:
    """A contestant while it is measured: its rows, and their results in each round."""

    def __init__(
        self, name: str, rows: list[str], measure: Callable[[list[str]], dict[str, Measured]]
    ) -> None:
        self.name = name
        self.rows = rows
        self._measure = measure
        self._rounds: list[dict[str, Measured]] = []
        self._skipped = ""

    def measure(self) -> None:
        """Measure one round; a contestant that fails is out in all of its rows."""
        if self._skipped:
            return
        try:
            self._rounds.append(self._measure(self.rows))
        except WorkerError as error:
            self._skipped = str(error)

    def found(self, row: str) -> Result:
        """The outcome of all rounds together."""
        if self._skipped:
            return Result(row, self.name, skipped=self._skipped)
        rounds = [measured[row] for measured in self._rounds]
        reasons = [measured.note for measured in rounds if measured.note]
        note = f"the first failure: {reasons[0]}" if reasons else ""
        return Result(row, self.name, over_rounds([measured.figures for measured in rounds]), note)


def over_rounds(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure, and the sum of the failures.

    Example:

        >>> over_rounds([{"p50 ms": 1.0, "failures": 2}, {"p50 ms": 3.0, "failures": 0}])
        {'p50 ms': 2.0, 'failures': 2}
    """
    return {
        name: (sum if name == _SUMMED else statistics.median)([figures[name] for figures in rounds])
        for name in rounds[0]
    }


def _entries(place: Place, servers: Sequence[Server], in_process: Sequence[Contestant]) -> list[_Entry]:
    chosen = place.settings.chosen
    entries = [
        _Entry(
            each.name,
            [row for row in BATCHES if chosen(row, each.name)],
            lambda rows, each=each: measure_in_process(each, rows, place),
        )
        for each in in_process
    ]
    entries += [
        _Entry(
            each.name,
            [row for row in (*place.loads, START_UP) if chosen(row, each.name)],
            lambda rows, each=each: measure_served(each, rows, place),
        )
        for each in servers
    ]
    return [entry for entry in entries if entry.rows]


def _write_model(place: Place, sleep: float) -> None:
    try:
        write_model(place.folder, place.settings, sleep)
    except WorkerError as error:
        raise ConfigError(f"The model to serve could not be exported: {error}") from None


def _measure(entries: list[_Entry], settings: Settings) -> None:
    for number in range(settings.rounds):
        shift = number % max(1, len(entries))  # each is first in its turn
        for entry in entries[shift:] + entries[:shift]:
            settings.progress(f"round {number + 1} of {settings.rounds}: {entry.name}")
            entry.measure()


def _notes(settings: Settings, sleep: float) -> list[str]:
    model = "1 layer, d=32" if settings.quick else "2 layers, d=128"
    if sleep:
        model += f", each run sleeps {1e3 * sleep:g} ms first"
    return [
        f"Text classifier, {model}, random weights; a request is one text of {TOKENS} tokens, as a string.",
        f"Median of {settings.rounds} rounds of {settings.seconds:g} s for each load, every round in a fresh "
        "process; failures are of all rounds.",
        "Clients share the cores; each sends its next request, made beforehand, when the last is answered.",
        "CPU is of the server with all of its processes, for each good answer; MB are its RssAnon.",
    ]
