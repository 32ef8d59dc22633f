"""A run that is killed, interrupted or out of space goes on where it stopped: no row is lost or doubled."""

import csv
import hashlib
import json
import os
import signal
import subprocess
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from batch_models import command, ran

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROWS = 60_000


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Rows of one line and of several, in three parts of three forms."""
    folder = tmp_path_factory.mktemp("rows") / "in"
    folder.mkdir()
    rows = [{"id": n, "text": f"{n}\n{'x' * (n % 50)}" if n % 70 else "FAIL"} for n in range(ROWS)]
    for row in rows[:ROWS:97]:
        row["text"] = f'"{row["id"]}", é'
    third = ROWS // 3
    with (folder / "0.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["id", "text"])
        writer.writeheader()
        writer.writerows(rows[:third])
    (folder / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[third : 2 * third]))
    pq.write_table(pa.Table.from_pylist(rows[2 * third :]), folder / "2.parquet", row_group_size=5000)
    return folder


@pytest.fixture(scope="module")
def whole(source, model, tmp_path_factory):
    """The output of a run that nothing stops."""
    output = tmp_path_factory.mktemp("whole") / "out"
    done = ran(*command(model, source, output))
    assert done.returncode == 6, done.stderr
    return output


def content(output):
    """The output's files and its errors, as digests; of Parquet the rows."""
    errors = output.with_name(f"{output.name}.errors.jsonl")
    found = {}
    for path in [*sorted(output.iterdir()), errors]:
        data = pq.read_table(path).to_pylist() if path.suffix == ".parquet" else path.read_bytes()
        found[path.name.removeprefix(output.name)] = hashlib.sha256(repr(data).encode()).hexdigest()
    return found


def rows_so_far(output):
    try:
        state = json.loads((output.with_name(f".{output.name}.partial") / "state.json").read_text())
    except FileNotFoundError:
        return -1
    return state["rows"] + state["failed"]


def killed_at(words, output, rows, number=signal.SIGKILL):
    """Ends a run once it has so many rows on the disk; gives its process."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 200
    while process.poll() is None and rows_so_far(output) < rows:
        assert time.monotonic() < deadline
        time.sleep(0.0005)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    return process.returncode, said


def test_kills_at_many_places_lose_and_double_nothing(source, model, whole, tmp_path):
    output = tmp_path / "out"
    words = command(model, source, output)
    kills = 0
    for rows in (0, 1, 15_000, 20_001, 35_000, 48_000, ROWS):
        code, _ = killed_at(words, output, rows)
        kills += code == -signal.SIGKILL
    assert kills >= 5
    done = ran(*words)
    assert done.returncode in (1, 6), done.stderr
    if done.returncode == 1:  # the last kill came after the end
        assert "exists already" in done.stderr
    assert content(output) == content(whole)
    assert not output.with_name(".out.partial").exists()


def test_an_interrupt_says_what_is_kept_and_the_next_run_goes_on(source, model, whole, tmp_path):
    output = tmp_path / "out"
    words = command(model, source, output)
    code, said = killed_at(words, output, 10_000, signal.SIGINT)
    assert code == 128 + signal.SIGINT
    assert "rows are kept in" in said
    assert "the same command goes on with them" in said
    assert said.strip().endswith("Interrupted.")
    assert not output.exists()
    assert ran(*words).returncode == 6
    assert content(output) == content(whole)


def test_a_full_disk_is_told_and_what_is_written_stays(source, model, whole, tmp_path):
    """A limit on the size of a file stands for a disk, which a test cannot fill."""
    output = tmp_path / "out"
    words = command(model, source, output)
    limited = ["bash", "-c", 'ulimit -f 700; exec "$@"', "bash", *words]
    done = ran(*limited, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 1, done.stderr
    assert (
        "cannot be written: File too large. Free space on it, and run the same command again" in done.stderr
    )
    assert rows_so_far(output) > 0
    assert ran(*words).returncode == 6
    assert content(output) == content(whole)


def test_two_runs_at_once_do_not_mix(source, model, tmp_path):
    output = tmp_path / "out"
    words = command(model, source, output)
    first = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        while rows_so_far(output) < 0:
            time.sleep(0.01)
        os.kill(first.pid, signal.SIGSTOP)
        done = ran(*words)
        assert done.returncode == 1
        assert f"Another process is writing {output} now" in done.stderr
    finally:
        first.kill()
        first.wait()
