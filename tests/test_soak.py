"""The soak test finds broken promises, and a short one of our own server keeps every promise."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.commands import main
from benchmarks.serving_servers import free_ports
from benchmarks.soak import run as soak_run
from benchmarks.soak import versions as soak_versions
from benchmarks.soak.clients import Client, GrpcClient, Lost, Refused, RestClient, Unconnected
from benchmarks.soak.promises import Ending, Promise, promises
from benchmarks.soak.run import Soak
from benchmarks.soak.samples import Sample, lives
from benchmarks.soak.tally import GRPC, REST, Failure, Kill, Tally
from benchmarks.soak.template import VERSION_FILE
from benchmarks.soak.versions import Versions
from benchmarks.usage import Usage, children, usage

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


def test_who_could_not_connect_while_a_worker_died_had_no_connection_to_count():
    tally = Tally()
    for began in (10.1, 10.2, 11.9, 12.1):
        tally.failed(failure(3, began, began + 0.01, connecting=True))
    assert [each.began for each in tally.unexplained([kill(connections=0)])] == [12.1]


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


def fails(error):
    def answer(_rows):
        raise error

    return answer


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


def test_no_answer_is_a_failure_and_says_whether_the_connection_broke():
    tally = met(fails(Lost("reset")), fails(Unconnected("nobody")), fails(Refused("503: busy")))
    assert [(each.lost, each.connecting, each.words) for each in tally.unexplained([])] == [
        (True, False, "reset"),
        (True, True, "nobody"),
        (False, False, "503: busy"),
    ]


def test_a_port_where_nobody_listens_is_no_connection():
    tally = Tally()
    (port,) = free_ports(1)
    asking = [GrpcClient(0, port, tally, None), RestClient(1, port, tally, None)]
    for client in asking:
        client.start()
    end = time.monotonic() + 60
    while len({each.api for each in tally.unexplained([])}) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    for client in asking:
        client.stop()
        client.join()
    assert {(each.api, each.connecting) for each in tally.unexplained([])} == {(GRPC, True), (REST, True)}


# Versions.


@pytest.fixture
def template(tmp_path):
    folder = tmp_path / "template"
    for name in ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"0123456789")
    (folder / VERSION_FILE).parent.mkdir()
    (folder / VERSION_FILE).write_text("0\n")
    return folder


def test_versions_come_and_go_and_no_half_copied_one_stays(template, tmp_path, monkeypatch):
    for name in ("_STEP_SECONDS", "_LEFT_SECONDS"):
        monkeypatch.setattr(soak_versions, name, 0.01)
    base = tmp_path / "model"
    versions = Versions(template, base, 0.01)
    versions.start(lambda: versions.newest)
    end = time.monotonic() + 60
    while versions.half_copied < 8 and time.monotonic() < end:
        time.sleep(0.01)
    versions.stop()
    left = {int(folder.name): folder for folder in base.iterdir()}
    assert versions.made >= 3 * versions.half_copied, "three of four are whole at once"
    assert versions.newest % 4 or versions.newest // 4 % 4 == 1, "of the others one in four, in the end"
    assert max(left) == versions.newest
    assert len(left) < 10
    for number, folder in left.items():
        files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        assert files == {str(path.relative_to(template)) for path in template.rglob("*") if path.is_file()}
        assert (folder / VERSION_FILE).read_text() == f"{number}\n"
        assert versions.may_answer(number, time.monotonic())
    assert not versions.may_answer(versions.newest + 100, time.monotonic())
    assert versions.may_answer(1, time.monotonic()), "it was removed just now"
    assert not versions.may_answer(1, time.monotonic() + 3600)


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


def test_a_server_that_stays_as_it_was_keeps_every_promise():
    assert set(kept(looks(*STEADY)).values()) == {True}


@pytest.mark.parametrize(
    ("last", "broken"),
    [
        ((15, 20, 100 * MB), "no more descriptors than at first"),
        ((14, 25, 100 * MB), "no more threads than at first"),
        ((14, 20, 106 * MB), "memory within 5 % of what it was after the first minute"),
    ],
)
def test_a_process_that_holds_more_in_the_end_breaks_a_promise(last, broken):
    found = kept(looks(*STEADY[:24], *[last] * 6))
    assert [what for what, is_kept in found.items() if is_kept is False] == [broken]


def test_a_process_that_holds_more_for_a_moment_or_less_breaks_none():
    moment = [*STEADY[:28], (16, 24, 120 * MB), STEADY[0]]
    assert set(kept(looks(*moment)).values()) == {True}
    assert set(kept(looks(*STEADY[:15], *[(10, 12, 50 * MB)] * 15)).values()) == {True}
    assert set(kept(looks(*STEADY[:15], *[(14, 24, 104 * MB)] * 15)).values()) == {True}, "a pool that fills"


def test_a_process_is_compared_with_its_own_first_minute():
    first, *others = looks(*STEADY, what="worker")
    assert [(life.pid, life.began) for life in lives([first, *others])] == [
        (SERVER, 10.0),
        (SERVER + 1, 300.0),
    ]
    assert [len(life.between(60, 90)) for life in lives([first, *others])] == [4, 0]


def test_without_a_process_that_lived_long_nothing_is_told_of_growth():
    found = kept([])
    assert list(found.values()).count(None) == 3
    assert False not in found.values()


@pytest.mark.parametrize(
    ("ending", "broken"),
    [
        ({"versions": 4}, "versions came all the time"),
        ({"served": 8}, "the newest version answers"),
        ({"workers": 0}, "all workers are there"),
        ({"status": None}, "it ends as it is told to"),
        ({"status": 1}, "it ends as it is told to"),
        ({"log": ["x", "Traceback (most recent call last):"]}, "no error that nobody looked after"),
    ],
)
def test_how_it_ends_is_promised_too(ending, broken):
    found = kept(looks(*STEADY), **ending)
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


def broken_run(_settings, _workers):
    yield Soak(1, looks(*STEADY), [Promise("no wrong answer", "1 of them", False)])


@LINUX
def test_a_broken_promise_is_the_exit_status(monkeypatch, tmp_path):
    monkeypatch.setattr(soak_run, "run", broken_run)
    file = tmp_path / "looks.csv"
    result = CliRunner().invoke(main, ["soak", "--csv", str(file)])
    assert result.exit_code == 1
    assert "BROKEN" in result.output
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert len(rows) == 31
    assert (
        rows[0] | {"run": "one process", "process": "server", "descriptors": "14", "MB": "100.0"} == rows[0]
    )


@LINUX
def test_usage_tells_of_one_process_and_children_of_those_it_started():
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            assert child.pid in children(os.getpid())
            held = usage(child.pid)
            assert held.threads == 1
            assert held.descriptors >= 3
            assert 0 < held.anonymous < 100 * MB
        finally:
            child.kill()
    assert usage(child.pid) == (0, 0, 0)
    assert child.pid not in children(os.getpid())


def left_behind(folder):
    """Processes that make their temporary files in a folder, as the soak and all that it starts do."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TMPDIR={folder}\0" in path.read_text(errors="replace"):
                found.append(path.parent.name)
        except OSError:  # it has ended
            continue
    return found


def start(folder, *flags):
    return subprocess.Popen(
        [*COMMAND, *flags],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@LINUX
@pytest.mark.shortened
def test_our_server_keeps_every_promise(tmp_path, whole):
    flags = ["--csv", str(tmp_path / "looks.csv")]
    if not whole:
        flags += ["--minutes=0.3", "--grpc-clients=4", "--rest-clients=2", "--version-seconds=1"]
        flags += ["--kill-seconds=5", "--sample-seconds=2"]
    with start(tmp_path, *flags) as soak:
        printed, progress = soak.communicate()
    assert soak.returncode == 0, printed + progress
    assert "BROKEN" not in printed
    assert "killed worker" in progress
    rows = list(csv.DictReader((tmp_path / "looks.csv").read_text().splitlines()))
    assert {row["run"] for row in rows} == {"one process", "2 workers"}
    assert {row["process"] for row in rows} == {"server", "supervisor", "worker"}
    assert left_behind(tmp_path) == []


@LINUX
@pytest.mark.shortened
def test_an_interrupt_ends_the_soak_and_its_server(tmp_path):
    with start(tmp_path, "--workers=2", "--sample-seconds=1", "--grpc-clients=2", "--rest-clients=2") as soak:
        try:
            for line in soak.stderr:
                if "version" in line:
                    break
            assert left_behind(tmp_path)
            soak.send_signal(signal.SIGINT)
            _, progress = soak.communicate(timeout=60)
        finally:
            soak.kill()
    assert (soak.returncode, progress.splitlines()[-1]) == (128 + signal.SIGINT, "Interrupted.")
    assert left_behind(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == []
