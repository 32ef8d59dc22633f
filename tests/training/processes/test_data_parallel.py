"""Several processes train one model as one process does, and none of them is left alone."""

import csv
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import parallel_training
import pytest
from click.testing import CliRunner
from ray_nodes import cluster_of_nodes

from benchmarks.serving_servers import free_ports
from keras_selfattn import training
from keras_selfattn.cli.main import main
from keras_selfattn.errors import ConfigError
from keras_selfattn.training.processes.data_parallel import AgreedLogs

COMMAND = [sys.executable, "-c", "from keras_selfattn.cli.entry import main; main()"]
PROGRAM = [sys.executable, parallel_training.__file__]
LIMIT = 60  # seconds: what the others may take to end after one has
processes = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed"),
]


def with_marks(test):
    for mark in processes:
        test = mark(test)
    return test


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("parallel")


@pytest.fixture(scope="module")
def variables(folder):
    """The least optimisation, and a folder of what is compiled: the steps are small."""
    return {
        "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


@pytest.fixture
def start(variables):
    """Start programs that compute with JAX, and let none of them stay."""
    begun = []

    def started(words, **settings):
        env = {**os.environ, **variables, "KERAS_BACKEND": "jax"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        begun.append(subprocess.Popen(words, env=env, **pipes, **settings))
        return begun[-1]

    yield started
    for process in begun:
        with process:
            process.kill()


def ended(process, status=0):
    told = process.communicate(timeout=600)[0]
    assert process.returncode == status, told
    return told


def address():
    (port,) = free_ports(1)
    return f"127.0.0.1:{port}"


@with_marks
def test_two_processes_train_as_one_does(folder, start):
    at = address()
    for count in (1, 2):
        for process in [start([*PROGRAM, str(folder), str(count), str(index), at]) for index in range(count)]:
            ended(process)
    one, first, second = (
        json.loads((folder / f"steps-{name}.json").read_text()) for name in ("1-0", "2-0", "2-1")
    )
    assert len(one["losses"]) == 39
    np.testing.assert_allclose(first["losses"], one["losses"], rtol=0, atol=1e-5)
    assert first["losses"] == second["losses"], "each process knows the loss of all rows; process 0 stops"
    assert first["shapes"] == second["shapes"], "otherwise one would wait for the other forever"
    assert [shape[0][0] * 2 for shape in first["shapes"]] == [shape[0][0] for shape in one["shapes"]]
    assert first["weights"] == second["weights"]
    np.testing.assert_allclose(first["weights"], one["weights"], rtol=1e-2)
    assert first["accuracy"] == second["accuracy"] == pytest.approx(one["accuracy"])
    records = [json.loads((folder / f"run-{count}" / "config.json").read_text()) for count in (1, 2)]
    assert records[0]["best_epoch"] == records[1]["best_epoch"]


def test_a_stop_within_an_epoch_takes_effect_at_its_end():
    group = SimpleNamespace(from_first=lambda value: value)
    stops = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: setattr(model, "stop_training", batch == 1)
    )
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    counted = []
    steps = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: counted.append(batch))
    ones = np.ones([4, 1], "float32")
    model.fit(ones, ones, 1, epochs=3, verbose=0, callbacks=[stops, AgreedLogs(group), steps])
    assert counted == [0, 1, 2, 3]


@with_marks
def test_processes_with_other_rows_are_told_at_once(tmp_path, start):
    at = address()
    words = [*PROGRAM, str(tmp_path), "2"]
    begun = [start([*words, str(index), at, str(100 + index)]) for index in range(2)]
    for process in begun:
        assert "Process 1 has other rows than process 0. Give all processes the same." in ended(process, 1)


def table(folder):
    path = folder / "texts.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(zip(*parallel_training.texts(90), strict=True))
    return path


@pytest.fixture
def train(folder, start):
    def begun(output, *more):
        settings = ["--epochs", "2", "--width", "16", "--layers", "1", "--no-refit", "--batch-size", "16"]
        return start([*COMMAND, "train", str(table(folder)), "--output", str(output), *settings, *more])

    return begun


def children(pid):
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in found]


def wait_for(condition, process):
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)


def weights_of(run):
    return keras.saving.load_model(run / "model.keras").get_weights()


@with_marks
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads Linux' files")
def test_a_killed_process_ends_the_others_and_the_same_command_goes_on(folder, train):
    whole, output = folder / "whole", folder / "killed"
    told = ended(train(whole, "--processes", "2", "--resume"))
    assert told.count("Trained in") == 1, "one process reports"
    killed = train(output, "--processes", "2", "--resume")
    wait_for((folder / ".killed.checkpoint" / "fit-1.npz").exists, killed)
    others = children(killed.pid)
    os.kill(others[1], signal.SIGKILL)
    began = time.monotonic()
    told = killed.communicate(timeout=600)[0]
    assert time.monotonic() - began < LIMIT
    assert killed.returncode == 1
    assert "Process 1 has gone without a word" in told
    assert not output.exists()
    assert not any(Path(f"/proc/{each}").exists() for each in others)
    told = ended(train(output, "--processes", "2", "--resume"))
    assert "Goes on after epoch" in told
    for after, never in zip(weights_of(output), weights_of(whole), strict=True):
        np.testing.assert_array_equal(after, never)
    assert not (folder / ".killed.checkpoint").exists()


@with_marks
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads Linux' files")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_processes_end_with_the_command_that_started_them(tmp_path, train, number):
    stopped = train(tmp_path / "stopped", "--processes", "2")
    wait_for(lambda: len(children(stopped.pid)) == 2, stopped)
    others = children(stopped.pid)
    wait_for(lambda: list(tmp_path.glob(".stopped.tmp-*")), stopped)  # they train
    os.kill(stopped.pid, number)
    told = stopped.communicate(timeout=LIMIT)[0]
    # Native code may print an interrupt in its own way, with its own lines alone.
    assert not re.search(r'File ".*keras_selfattn', told), told
    assert "Trained in" not in told, told
    end = time.monotonic() + LIMIT
    while any(Path(f"/proc/{each}").exists() for each in others) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{each}").exists() for each in others)
    assert list(tmp_path.iterdir()) == []


@with_marks
def test_an_error_of_all_is_told_once(folder, train):
    told = ended(train(folder / "never", "--processes", "2", "--text", "missing"), 1)
    assert told.count("missing") >= 1
    assert told.count("Error") == 1


@with_marks
def test_a_coordinator_that_does_not_answer(folder, train):
    many = ["--coordinator", address(), "--process-count", "2", "--process-id", "1", "--timeout", "0.5"]
    told = ended(train(folder / "never", *many), 1)
    assert "found no process 0" in told


# Workers of a Ray cluster.


@pytest.fixture(scope="module")
def cluster(variables):
    pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)  # the workers have the environment of their node
        with cluster_of_nodes(2) as address:
            yield address


@with_marks
def test_two_workers_of_ray_train_as_two_processes_do(folder, train, cluster):
    told = ended(train(folder / "on-ray", "--ray", cluster, "--workers", "2", "--timeout", "200"))
    assert told.count("  epoch 2/2  accuracy") == 1, "process 0 reports"
    ended(train(folder / "here", "--processes", "2"))
    figures = [json.loads((folder / run / "metrics.json").read_text()) for run in ("on-ray", "here")]
    assert figures[0] == figures[1]
    for there, here in zip(weights_of(folder / "on-ray"), weights_of(folder / "here"), strict=True):
        np.testing.assert_allclose(there, here, atol=1e-4)


@with_marks
def test_a_worker_that_dies_ends_the_training(folder, train, cluster):
    import psutil

    died = train(folder / "died", "--ray", cluster, "--workers", "2", "--timeout", "200")
    workers = []
    while len(workers) < 2:
        assert died.poll() is None, died.communicate()[0]
        named = {each.pid: (each.info["cmdline"] or [""])[0] for each in psutil.process_iter(["cmdline"])}
        workers = [pid for pid, name in named.items() if name.startswith("ray::_worker")]
        time.sleep(0.1)
    time.sleep(5)
    os.kill(workers[1], signal.SIGKILL)
    began = time.monotonic()
    told = died.communicate(timeout=600)[0]
    assert time.monotonic() - began < LIMIT
    assert died.returncode == 1
    assert told.count("Error: ") == 1
    assert "Traceback" not in told
    assert not (folder / "died").exists()


@with_marks
def test_a_cluster_with_fewer_places_than_workers(folder, train, cluster):
    told = ended(train(folder / "never", "--ray", cluster, "--workers", "3"), 1)
    assert "The Ray cluster has room for 2 of 3 workers (--workers), of 1 CPUs and 2 GB each" in told


# Options.


def refused(tmp_path, *words):
    path = table(tmp_path)
    done = CliRunner().invoke(main, ["train", str(path), "--output", str(tmp_path / "run"), *words])
    assert done.exit_code == 1, done.output
    return done.output


def test_options_that_belong_together(tmp_path):
    told = refused(tmp_path, "--coordinator", "a:1", "--process-id", "0")
    assert "Missing: --process-count." in told
    told = refused(
        tmp_path, "--processes", "2", "--coordinator", "a:1", "--process-count", "2", "--process-id", "0"
    )
    assert "Leave one out." in told
    assert "--tune and --trials make many" in refused(tmp_path, "--processes", "2", "--tune", "1")


def test_a_process_beyond_the_count(tmp_path):
    many = ["--coordinator", "a:1", "--process-count", "2", "--process-id", "2"]
    assert "--process-id counts from 0 to --process-count less 1, 1. Received 2." in refused(tmp_path, *many)


@pytest.mark.parametrize("options", [["--processes", "2"], ["--coordinator", "a:1"]])
def test_another_backend_is_refused_before_anything_is_read(tmp_path, monkeypatch, options):
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    options += [] if "--processes" in options else ["--process-count", "2", "--process-id", "0"]
    told = " ".join(refused(tmp_path, *options).split())
    assert "--processes and --coordinator train on JAX, and KERAS_BACKEND is 'tensorflow'." in told


def test_several_processes_without_jax(tmp_path, monkeypatch):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jax" else find(name))
    told = " ".join(refused(tmp_path, "--processes", "2").split())
    assert "which is not installed: pip install 'keras-selfattn[jax]'" in told


def test_more_processes_than_gpus(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    find = importlib.util.find_spec
    found = ("jax", "jax_cuda12_plugin")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found if name in found else find(name))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    told = " ".join(refused(tmp_path, "--processes", "2").split())
    assert "--processes 2: each process computes on a GPU of its own, and this machine has 1." in told


def test_more_processes_than_cores(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    find = importlib.util.find_spec
    missing = ("jax_cuda12_plugin", "jax_cuda13_plugin")
    found = {"jax": "jax", **dict.fromkeys(missing)}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: found[name] if name in found else find(name)
    )
    told = " ".join(refused(tmp_path, "--processes", "4000").split())
    assert "--processes 4000: each process computes on a core of its own at least" in told


def test_a_timeout_of_nothing(tmp_path):
    assert "--timeout is for other processes" in refused(tmp_path, "--timeout", "5")


def test_options_of_ray(tmp_path):
    assert "Give one of them." in refused(tmp_path, "--ray", "local")
    assert "--workers is that of --ray" in refused(tmp_path, "--workers", "2")
    assert "--trial-cpus is that of --ray" in refused(tmp_path, "--trial-cpus", "1", "--trials", "2")
    assert "--trial-memory is that of --ray" in refused(tmp_path, "--trial-memory", "8")
    on_ray = ["--ray", "local", "--workers", "2"]
    assert "Leave --processes and --coordinator out." in refused(tmp_path, *on_ray, "--processes", "2")
    assert "--resume keeps its checkpoint" in refused(tmp_path, *on_ray, "--resume")


def test_tuning_is_of_one_process():
    group = training.ProcessGroup("localhost:1", 2, 0)
    with pytest.raises(ConfigError, match="for one training"):
        training.train(parallel_training.texts(60), "never", group=group, tune=1.0)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("localhost", 2, 0), "--coordinator"),
        (("localhost:1", 0, 0), "--process-count"),
        (("localhost:1", 2, 2), "from 0 to 1"),
        (("localhost:1", 2, -1), "--process-id"),
        (("localhost:1", True, 0), "`count`"),
    ],
)
def test_a_group_checks_its_arguments(arguments, told):
    with pytest.raises(ConfigError, match=told):
        training.ProcessGroup(*arguments)
    with pytest.raises(ConfigError, match="--timeout"):
        training.ProcessGroup("localhost:1", 2, 0, timeout=float("nan"))


def test_a_group_needs_jax():
    if keras.backend.backend() == "jax":
        pytest.skip("it is JAX")
    with pytest.raises(ConfigError, match="KERAS_BACKEND=jax"), training.ProcessGroup("localhost:1", 2, 0):
        pass
