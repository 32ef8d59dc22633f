"""The processes of one command: their status, the reason that is told, and their end."""

import time

import pytest

from keras_selfattn.cli.shared import processes as launching
from keras_selfattn.errors import Terminated

pytestmark = pytest.mark.process
INDEX = "import os, signal, sys, time; index = int(sys.argv[-1]); "


@pytest.fixture
def launched(monkeypatch, capfd):
    """Launch two processes that run a program; give the status and what they said."""
    monkeypatch.setattr(launching, "_END_SECONDS", 2.0)

    def run(program):
        monkeypatch.setattr(launching, "_PROGRAM", INDEX + program)
        status = launching.launch(2, ["train", "table.csv"])
        return status, capfd.readouterr().err

    return run


def test_all_that_end_well(launched):
    assert launched("pass") == (0, "")


@pytest.mark.parametrize(
    ("program", "status", "told"),
    [
        (
            "sys.exit('Error: no room' if index else 0)",
            1,
            "Error: process 1 of 2 ended with status 1: no room\n",
        ),
        ("sys.exit('Error: no room')", 1, "Error: no room\n"),
        (
            "sys.stderr.write('a line\\n' * 100_000 * index); sys.exit('the reason' if index else 0)",
            1,
            "Error: process 1 of 2 ended with status 1: the reason\n",
        ),
        (
            "os.kill(os.getpid(), signal.SIGKILL) if index else None",
            137,
            "Error: process 1 of 2 ended by signal 9 (SIGKILL).\n",
        ),
    ],
)
def test_a_failure_has_its_status_and_is_told_once(launched, program, status, told):
    assert launched(program) == (status, told)


@pytest.mark.parametrize(("interrupt", "status"), [(KeyboardInterrupt, 130), (Terminated, 143)])
def test_the_status_of_an_interrupt_is_the_one_of_a_single_process(launched, monkeypatch, interrupt, status):
    def interrupted(_processes):
        raise interrupt

    monkeypatch.setattr(launching, "_first_failed", interrupted)
    assert launched("signal.pause()")[0] == status


def test_a_process_that_lost_an_interrupt_is_interrupted_again(launched, monkeypatch, tmp_path):
    interrupted, files = launching._interrupt, [tmp_path / "ready-0", tmp_path / "ready-1"]

    def when_ready(_processes):
        while not all(file.exists() for file in files):
            time.sleep(0.01)
        raise KeyboardInterrupt

    statuses = []

    def with_statuses(processes):
        interrupted(processes)
        statuses.extend(process.returncode for process in processes)

    monkeypatch.setattr(launching, "_first_failed", when_ready)
    monkeypatch.setattr(launching, "_interrupt", with_statuses)
    monkeypatch.setenv("READY", str(tmp_path / "ready-"))
    assert launched(
        "times = []\n"
        "def lost(*_):\n"
        "    times.append(1)\n"
        "    if len(times) == 2: os._exit(7)\n"
        "signal.signal(signal.SIGINT, lost)\n"
        "open(os.environ['READY'] + str(index), 'w').close()\n"
        "while True: time.sleep(60)"
    ) == (130, "")
    assert statuses == [7, 7]


def test_a_process_that_hangs_can_clean_up_before_it_is_killed(launched, monkeypatch, tmp_path):
    draft = tmp_path / "draft"
    monkeypatch.setenv("DRAFT", str(draft))
    status, _ = launched(
        "draft = os.environ['DRAFT']\n"
        "def clean(*_):\n"
        "    time.sleep(0.2)\n"
        "    os.rmdir(draft)\n"
        "    os._exit(0)\n"
        "if index:\n"
        "    while not os.path.isdir(draft): time.sleep(0.01)\n"
        "    sys.exit(1)\n"
        "signal.signal(signal.SIGTERM, clean)\n"
        "os.mkdir(draft)\n"
        "time.sleep(60)"
    )
    assert status == 1
    assert not draft.exists()
