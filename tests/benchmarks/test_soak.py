"""A soak of our own server runs and keeps every promise, and a broken one is not told as kept."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.soak.clients import Client
from benchmarks.soak.promises import Ending, promises
from benchmarks.soak.samples import Sample
from benchmarks.soak.tally import GRPC, REST, Failure, Kill, Tally
from benchmarks.usage import Usage

COMMAND = [sys.executable, "-m", "benchmarks", "soak"]

LINUX = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads Linux' files")

MB = 2**20

SERVER = 7  # a pid


def failure(client=1, began=10.0, ended=10.1, api=GRPC, lost=True, connecting=False):
    return Failure(api, client, began, ended, lost, "gone", connecting)


def kill(at=10.05, connections=2):
    return Kill(at, 9, {GRPC: connections, REST: 0})


# Which failures a killed worker explains.


@pytest.mark.parametrize(
    ("met", "is_explained"),
    [
        (failure(), True),
        (failure(began=9.0, ended=10.06), True),
        (failure(began=14.0, ended=14.1), True),
        (failure(began=16.0, ended=16.1), False),
        (failure(began=9.0, ended=10.0), False),
        (failure(lost=False), False),
        (failure(api=REST), False),
    ],
    ids=["in flight", "noticed late", "within 5 s", "later", "before", "an answer", "without a connection"],
)
def test_a_kill_explains_lost_requests_within_a_moment(met, is_explained):
    tally = Tally()
    tally.failed(met)
    assert tally.unexplained([kill()]) == ([] if is_explained else [met])


def test_a_kill_explains_one_failure_a_client_and_one_a_connection():
    tally = Tally()
    for client in (1, 1, 2, 3):
        tally.failed(failure(client))
    for _ in range(2):  # however often one asks
        assert [each.client for each in tally.unexplained([kill()])] == [1, 3]
    assert tally.unexplained([kill(), kill(at=10.06)]) == []


# What clients take for wrong.


class Scripted(Client):
    """A client whose server is a list of answers."""

    api = GRPC

    def __init__(self, answers, tally):
        super().__init__(1, 0, tally, lambda version, _asked: version == 5)
        self._answers = iter(answers)

    def _connect(self):
        pass

    def _disconnect(self):
        pass

    def _ask(self, rows):
        try:
            return next(self._answers)(rows)
        except StopIteration:
            self.stop()
            return [5, 5], [row + 5 for row in rows]


def met(*answers):
    tally = Tally()
    client = Scripted(answers, tally)
    client.start()
    client.join()
    return tally


def test_a_right_answer_is_that_of_one_version_that_is_there():
    tally = met(
        lambda rows: ([5, 5], [row + 5 for row in rows]),
        lambda rows: ([5, 6], [row + 6 for row in rows]),  # the answer bears another number than the model
        lambda rows: ([5, 5], [row + 4 for row in rows]),
        lambda rows: ([5, 5], [row + 6 for row in reversed(rows)]),  # that of another request
        lambda rows: ([6, 6], [row + 6 for row in rows]),  # of a version that never was whole
    )
    assert (tally.answers[GRPC], tally.wrong_count) == (2, 4)
    assert tally.wrong[-1] == "gRPC: version 6 answered, which is not there"
    assert len(tally.window().latencies) == 2


# Promises.


def looks(*held, what="server"):
    """Samples ten seconds apart of one process, and a process that lived for one of them only."""
    samples = [
        Sample(10.0 * (number + 1), 100, 1, 2, 1, 0, 0, 0, {SERVER: (what, Usage(*each))})
        for number, each in enumerate(held)
    ]
    samples[-1].processes[SERVER + 1] = ("worker", Usage(1, 1, MB))
    return samples


def kept(samples, tally=None, **ending):
    if tally is None:
        tally = Tally()
        for api in (GRPC, REST):
            tally.answered(api, 0.001)
    ended = Ending(
        **{"versions": 9, "due": 10, "newest": 9, "served": 9, "workers": 1, "status": 0, "log": (), **ending}
    )
    return {each.what.split(",")[0]: each.kept for each in promises(tally, [], samples, 1, ended)}


STEADY = [(14, 20, 100 * MB)] * 30


@pytest.mark.parametrize(
    ("last", "broken"),
    [
        ((15, 20, 100 * MB), "no more descriptors than at first"),
        ((14, 25, 100 * MB), "no more threads than at first"),
        ((14, 20, 106 * MB), "memory within 5 % of what it was after the first minute"),
    ],
)
def test_a_process_that_holds_more_in_the_end_breaks_a_promise(last, broken):
    assert set(kept(looks(*STEADY)).values()) == {True}
    found = kept(looks(*STEADY[:24], *[last] * 6))
    assert [what for what, is_kept in found.items() if is_kept is False] == [broken]


def test_wrong_answers_failures_and_silence_break_promises():
    tally = Tally()
    tally.was_wrong("6 for 5")
    tally.failed(failure())
    found = kept(looks(*STEADY), tally=tally)
    assert [what for what, is_kept in found.items() if is_kept is False] == [
        "clients of both APIs were answered",
        "no wrong answer",
        "no failure but on a killed worker's connections",
    ]


# The command.


@LINUX
@pytest.mark.shortened
def test_our_server_keeps_every_promise(tmp_path, whole):
    flags = ["--csv", str(tmp_path / "looks.csv")]
    if not whole:
        flags += ["--minutes=0.3", "--grpc-clients=4", "--rest-clients=2", "--version-seconds=1"]
        flags += ["--kill-seconds=5", "--sample-seconds=2"]
    soak = subprocess.run([*COMMAND, *flags], capture_output=True, text=True, check=False)
    assert soak.returncode == 0, soak.stdout + soak.stderr
    assert "kept" in soak.stdout
    assert "BROKEN" not in soak.stdout
    assert "killed worker" in soak.stderr
    rows = list(csv.DictReader((tmp_path / "looks.csv").read_text().splitlines()))
    assert {row["run"] for row in rows} == {"one process", "2 workers"}
    assert {row["process"] for row in rows} == {"server", "supervisor", "worker"}
