"""`predict --ray` gives what one machine gives, even while an actor is killed; a missing cluster is told."""

import json
import os
import signal
import socket
import subprocess
import time

import pytest
from batch_models import command, damaged, ran
from ray_nodes import cluster_of_nodes

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.filterwarnings("ignore")]

ROWS = 100_000


@pytest.fixture(scope="module")
def address():
    """A cluster of two nodes of one CPU."""
    pytest.importorskip("ray.data")
    with cluster_of_nodes(2) as address:
        yield address


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    file = tmp_path_factory.mktemp("rows") / "in.jsonl"
    texts = ("FAIL" if n % 1000 == 0 else "x" * (n % 40) for n in range(ROWS))
    file.write_text("".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(texts)))
    return file


def actors():
    """The processes that answer."""
    found = subprocess.run(["pgrep", "-f", "ray::.*Answerer"], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def test_the_answers_are_those_of_one_machine_though_an_actor_is_killed(address, source, model, tmp_path):
    output, alone = tmp_path / "out.jsonl", tmp_path / "alone.jsonl"
    words = command(model, source, output, "--ray", address, "--workers", 2, "--timeout", 60)
    running = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    state = tmp_path / ".out.jsonl.partial" / "state.json"
    while running.poll() is None and not (state.exists() and json.loads(state.read_text())["rows"]):
        time.sleep(0.01)
    killed = actors()[:1]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    _, said = running.communicate(timeout=300)
    assert running.returncode == 6, said
    assert killed
    assert ran(*command(model, source, alone)).returncode == 6
    assert output.read_bytes() == alone.read_bytes()
    errors = [path.with_name(f"{path.name}.errors.jsonl").read_bytes() for path in (output, alone)]
    assert errors[0] == errors[1]


def test_a_job_of_ones_own_maps_batches_with_the_predictor(address, model):
    import ray

    from keras_selfattn import batch

    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    try:
        rows = ray.data.from_items([{"id": n, "text": "x" * (n % 9)} for n in range(500)])
        answered = rows.map_batches(
            batch.Predictor, fn_constructor_args=(str(model),), concurrency=1, batch_size=64
        )
        found = {row["id"]: row["predicted_label"] for row in answered.take_all()}
    finally:
        ray.shutdown()
    assert found == {n: "long" if n % 9 > 3 else "short" for n in range(500)}


def test_a_damaged_file_is_told_in_the_words_of_one_machine(address, model, tmp_path):
    source = damaged(tmp_path / "in.parquet")
    words = command(model, source, tmp_path / "out.csv", "--ray", address, "--workers", 1, "--timeout", 60)
    done = ran(*words)
    assert done.returncode == 1
    assert f"Error: {source} is not a whole Parquet file: " in done.stderr.splitlines()[-1]


def test_more_workers_than_cpus_are_refused(address, source, model, tmp_path):
    words = command(model, source, tmp_path / "out.jsonl", "--ray", address, "--workers", 3, "--timeout", 60)
    done = ran(*words)
    assert done.returncode == 1
    assert "--workers 3 need as many CPUs. The Ray cluster has 2." in done.stderr


def test_a_cluster_that_is_not_there_is_told_within_the_timeout(source, model, tmp_path):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        nobody.listen()  # it accepts, and says nothing
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        start = time.monotonic()
        done = ran(*command(model, source, tmp_path / "out.jsonl", "--ray", address, "--timeout", 3))
    assert done.returncode == 1
    assert "No Ray cluster answers at" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert time.monotonic() - start < 60  # Ray itself tries for longer
