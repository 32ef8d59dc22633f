"""Trials and encoders on a real Ray cluster: the results of one process, claims, deaths, and interrupts."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from pretrained_folders import write_folder
from ray_nodes import cluster_of_nodes

from keras_selfattn import training
from keras_selfattn.cli.main import main
from keras_selfattn.errors import ConfigError, DataError, TrainingError
from keras_selfattn.machines.cores import thread_variables
from keras_selfattn.machines.ray_cluster import connect
from keras_selfattn.models import TextClassifier, TextConfig
from keras_selfattn.runs.run_folder import load_run
from keras_selfattn.training import SideBySide, TrainConfig
from keras_selfattn.training.processes import clusters
from keras_selfattn.training.processes.clusters import cluster_of, room_for

on_ray = [pytest.mark.slow, pytest.mark.process, pytest.mark.filterwarnings("ignore")]
ROWS = (
    [f"{word} film number{n}" for n in range(30) for word in ("good", "bad", "fine", "poor")],
    ["+", "-", "+", "-"] * 30,
)
SMALL = TextConfig(width=8, num_heads=2, wide=False, members=2)
FAST = TrainConfig(epochs=2, batch_size=16, learning_rate=1e-3, refit=True)
A, B = {"learning_rate": 0.02}, {"width": 16}
GB = 10**9


@pytest.fixture(scope="module")
def address():
    """A cluster of two nodes of one CPU."""
    pytest.importorskip("ray")
    with cluster_of_nodes(2) as address:
        yield address


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Trains with two alternatives; gives the run and its record."""
    monkeypatch.setattr(TextClassifier, "alternatives", lambda self: [A, B])

    def run(name, cluster=None, report=lambda _line: None, **settings):
        given = {"model": TextClassifier(SMALL), "config": FAST, "trials": 2, "verbose": 0, **settings}
        done = training.train(ROWS, tmp_path / name, side_by_side=cluster, report=report, **given)
        return done, json.loads((tmp_path / name / "config.json").read_text())

    return run


def node(cpus, memory, alive=True):
    return {"Alive": alive, "Resources": {"CPU": cpus, "memory": memory}}


def test_there_is_room_for_what_each_node_has_of_both_cores_and_memory():
    claims = SideBySide("auto", cpus=2, memory=3)
    nodes = [node(8.0, 7e9), node(5.0, 64e9), node(1.0, 64e9), node(64.0, 64e9, alive=False)]
    assert room_for(nodes, claims) == 2 + 2


@pytest.mark.parametrize("nodes", [[node(1.0, 64e9), node(1.0, 64e9)], [node(64.0, 2.5e9)], []])
def test_a_cluster_without_room_for_one_training_is_told_with_figures(nodes):
    with pytest.raises(ConfigError) as error:
        room_for(nodes, SideBySide("auto", cpus=2, memory=3))
    assert "Each training claims 2 CPUs and 3 GB of memory (--trial-cpus, --trial-memory)." in str(
        error.value
    )
    cpus, memory = max(((n["Resources"]["CPU"], n["Resources"]["memory"]) for n in nodes), default=(0, 0))
    assert f"The largest node of the Ray cluster has {int(cpus)} and {memory / 1e9:.1f} GB" in str(
        error.value
    )


@pytest.mark.parametrize(
    ("field", "value"), [("workers", 0), ("cpus", 0), ("memory", 0.0), ("timeout", -1.0), ("memory", "2")]
)
def test_settings_out_of_range_are_refused(field, value):
    with pytest.raises(ConfigError, match=f"`{field}` must be"):
        SideBySide("local", **{field: value})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ray", "local"], "--ray trains trials side by side"),
        (["--workers", "2"], "--workers is that of --ray."),
        (["--trials", "2", "--resume"], "--resume goes on with one training; --tune and --trials make many."),
        (["--trials", "0"], "0 is not in the range x>=1"),
        (["--tune", "1", "--trial-memory", "0"], "0.0 is not in the range x>0"),
    ],
)
def test_the_command_refuses_what_does_not_go_together(tmp_path, options, said):
    file = tmp_path / "rows.csv"
    file.write_text("text,label\ngood,+\nbad,-\n")
    done = CliRunner().invoke(main, ["train", str(file), "--output", str(tmp_path / "run"), *options])
    assert done.exit_code != 0
    assert said in " ".join((done.output + str(done.exception)).split())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"side_by_side": SideBySide("local")}, "`side_by_side` (--ray) trains the trials of a search"),
        ({"trials": 1, "resume": True}, "`resume` (--resume) goes on with one training"),
        ({"trials": -1}, "`trials` must be an integer, 0 or more. Received -1"),
    ],
)
def test_the_same_is_refused_in_python(tmp_path, settings, said):
    with pytest.raises(ConfigError) as error:
        training.train(ROWS, tmp_path / "run", model=TextClassifier(SMALL), **settings)
    assert said in str(error.value)


@pytest.mark.slow
def test_a_model_takes_the_files_that_it_starts_from_with_it(tmp_path):
    folder = tmp_path / "here" / "pretrained"
    folder.mkdir(parents=True)
    write_folder(folder)
    (folder / "pytorch_model.bin").write_bytes(b"x" * 1000)
    packed = clusters.packed(TextClassifier(start=folder))
    sent = pickle.dumps(packed)
    assert "pretrained/pytorch_model.bin" not in packed.files, "what is never read is not sent"
    given = TextClassifier(start=folder)
    given.adapt(*ROWS)
    shutil.rmtree(tmp_path / "here")
    with pickle.loads(sent).unpacked() as model:
        model.adapt(*ROWS)
    name = "embedding"
    wanted, found = (each.core.get_layer(name).get_weights() for each in (given, model))
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(one, other)


class TestOnRay:
    pytestmark = on_ray

    def test_one_worker_chooses_what_this_process_chooses_and_trains_the_same_encoders(
        self, address, trained
    ):
        lines = []
        here, of_here = trained("here", trials=1)
        there, of_there = trained("there", SideBySide(address, workers=1), lines.append, trials=1)
        assert here.changes == there.changes
        assert there.changes == A
        for one, other in zip(of_here["trials"], of_there["trials"], strict=True):
            assert one["changes"] == other["changes"]
            assert one["score"] == pytest.approx(other["score"], rel=1e-4)
        texts = ["good film", "bad film", "poor number"]
        models = [load_run(run.path) for run in (here, there)]
        np.testing.assert_allclose(*(each.predict(texts, verbose=0) for each in models), atol=1e-4)
        assert of_there["trained_on"] == len(ROWS[0])
        assert lines[-2:] == ["  encoder 1 of 2 is trained", "  encoder 2 of 2 is trained"]

    def test_a_worker_that_is_killed_is_one_failed_trial(self, address, trained):
        killed = []

        def kill():
            deadline = time.monotonic() + 120
            while not killed and time.monotonic() < deadline:
                found = subprocess.run(
                    ["pgrep", "-f", "^ray::_trial"], capture_output=True, text=True, check=False
                )
                for pid in map(int, found.stdout.split()):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                time.sleep(0.01)

        def report(line):
            if line.startswith("Trying learning_rate"):
                threading.Thread(target=kill, daemon=True).start()

        cluster = SideBySide(address, workers=1)
        run, record = trained("run", cluster, report, model=TextClassifier({**SMALL.to_dict(), "members": 1}))
        assert len(killed) == 1
        first, second, third = record["trials"]
        assert (second["changes"], second["score"]) == (A, None)
        assert "died" in second["reason"]
        assert first["score"] is not None
        assert third["score"] is not None
        assert run.path.is_dir()

    def test_a_training_computes_on_the_cores_that_it_claims(self, address):
        def environment(_given):
            import tensorflow as tf

            tf.linalg.matmul(tf.ones([512, 512]), tf.ones([512, 512]))
            names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
            return dict(os.environ), len([name for name in names if name.startswith("tf_Compute")])

        with cluster_of(SideBySide(address)) as cluster:
            assert cluster.slots == 2
            with pytest.raises(ConfigError, match="This program is connected to a Ray cluster already"):
                connect(address, 60)
            found, threads = (cluster.get(each) for each in cluster.submit(environment, None))
        assert thread_variables(1).items() <= found.items()
        assert found["KERAS_BACKEND"] == "tensorflow"
        assert threads <= 1

    def test_the_errors_of_a_training_are_told_in_their_own_words(self, address):
        def fails(error):
            raise error

        with cluster_of(SideBySide(address)) as cluster:
            with pytest.raises(TrainingError, match=r"^no number$"):
                cluster.get(cluster.submit(fails, TrainingError("no number"))[0])
            with pytest.raises(DataError, match=r"^Ray failed: MemoryError: no room\.$"):
                cluster.get(cluster.submit(fails, MemoryError("no room"))[0])

    def test_a_cluster_with_too_little_is_told_before_training(self, address, trained):
        with pytest.raises(ConfigError, match=r"claims 2 CPUs and 2 GB.* has 1 and \d+\.\d GB"):
            trained("run", SideBySide(address, cpus=2))

    def test_sigterm_still_calls_the_handler_of_this_program(self, address):
        program = (
            "import os, signal, sys, time\n"
            "from keras_selfattn.machines.ray_cluster import connect\n"
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
            "connect(sys.argv[1], 60)\n"
            "os.kill(os.getpid(), signal.SIGTERM)\n"
            "time.sleep(60)"
        )
        done = subprocess.run([sys.executable, "-c", program, address], timeout=120, check=False)
        assert done.returncode == 7

    def test_after_ctrl_c_the_best_so_far_is_trained_and_written_and_no_process_stays(self, tmp_path):
        mark = uuid.uuid4().hex
        rows = zip(*ROWS, strict=True)
        (tmp_path / "rows.csv").write_text("text,label\n" + "".join(f"{t},{label}\n" for t, label in rows))
        program = "from keras_selfattn.cli.entry import main; main()"
        small = "--members 1 --epochs 2 --width 8 --heads 2 --no-wide"
        options = f"--output run --ray local --tune 60 --timeout 120 {small}"
        words = [sys.executable, "-u", "-c", program, "train", "rows.csv", *options.split()]
        environment = {**os.environ, "MARK_OF_THIS_TEST": mark, "COLUMNS": "200"}
        running = subprocess.Popen(
            words,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        said = []
        for line in running.stdout:
            # Once: a line that an interrupt falls into is printed again.
            if "with nothing changed: val_loss" in line and line not in said:
                os.killpg(running.pid, signal.SIGINT)  # as a terminal sends it
            said.append(line)
        running.stdout.close()
        assert running.wait(120) == 0, "".join(said)
        assert any(line.startswith("Interrupted: goes on with the best settings so far") for line in said)
        record = json.loads((tmp_path / "run" / "config.json").read_text())
        assert record["trials"][0]["changes"] == {}
        assert record["trained_on"] == len(ROWS[0])
        deadline = time.monotonic() + 30
        while marked(mark) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert marked(mark) == []


def marked(mark):
    """The processes that have a mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(path.parent.joinpath("cmdline").read_text()[:80])
        except OSError:  # it has ended
            continue
    return found
