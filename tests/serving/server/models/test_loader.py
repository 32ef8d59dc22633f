"""Loading and unloading of a version: tags, sessions, retries, memory."""

import gc
import logging
import os
import sys
import threading
from contextlib import closing

import numpy as np
import pytest
import serving_models as models
import tensorflow as tf
from serving_models import HalfPlusTwo, save

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.models import saved_model_servable
from keras_selfattn.serving.server.models.loader import Loader
from keras_selfattn.serving.server.models.saved_model_servable import SavedModelServable, session_config


@pytest.fixture
def tf1_base(tmp_path):
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # TensorFlow 1's functions are all deprecated
    models.save_tf1(tmp_path, 1)
    return tmp_path


def test_tags_choose_the_graph(tf1_base):
    with pytest.raises(errors.ServerStartError, match="MetaGraphDef associated with tags"):
        Server(ServerConfig("default", tf1_base, port=0, saved_model_tags="serve,gpu")).start()


@pytest.mark.parametrize(
    ("settings", "threads"),
    [
        ({}, (1, 0)),
        ({"tensorflow_intra_op_parallelism": 3, "tensorflow_inter_op_parallelism": 5}, (3, 5)),
        ({"tensorflow_session_parallelism": 7}, (7, 7)),
    ],
)
def test_the_session_gets_the_threads_it_is_told(half_base, settings, threads):
    with closing(
        Loader(ServerConfig("half", half_base, **settings)).load("half", 3, half_base / "3")
    ) as servable:
        config = servable._session._config
    assert (config.intra_op_parallelism_threads, config.inter_op_parallelism_threads) == threads


def test_the_session_gets_what_its_file_says(half_base, tmp_path):
    file = tmp_path / "session.conf"
    file.write_text("allow_soft_placement: true intra_op_parallelism_threads: 2")
    settings = {"tensorflow_session_config_file": file, "per_process_gpu_memory_fraction": 0.25}
    with closing(
        Loader(ServerConfig("half", half_base, **settings)).load("half", 3, half_base / "3")
    ) as servable:
        config = servable._session._config
    assert config.allow_soft_placement
    assert config.intra_op_parallelism_threads == 2
    assert config.gpu_options.per_process_gpu_memory_fraction == 0.25
    file.write_text("nothing: 1")
    with pytest.raises(errors.InvalidArgumentError, match="Invalid protobuf file"):
        Loader(ServerConfig("half", half_base, tensorflow_session_config_file=file))


@pytest.mark.parametrize(
    ("text", "passes", "without_tfg"),
    [
        ("", "ONE", True),
        ("graph_options { rewrite_options { constant_folding: OFF } }", "ONE", True),
        ("graph_options { rewrite_options { meta_optimizer_iterations: TWO } }", "TWO", False),
    ],
)
def test_graphs_are_prepared_in_one_pass_unless_the_file_decides(tmp_path, text, passes, without_tfg):
    file = tmp_path / "session.conf"
    file.write_text(text)
    found = session_config(ServerConfig("m", tmp_path, tensorflow_session_config_file=file))
    rewriting = found.graph_options.rewrite_options
    assert rewriting.NumIterationsType.Name(rewriting.meta_optimizer_iterations) == passes
    assert rewriting.disable_tfg_optimizer == without_tfg


@pytest.mark.parametrize(
    ("text", "gpu", "plan"),
    [
        ("", False, "NO_MEM_OPT"),
        ("", True, "DEFAULT_MEM_OPT"),
        ("graph_options { rewrite_options { memory_optimization: HEURISTICS } }", False, "HEURISTICS"),
    ],
)
def test_memory_is_planned_for_a_gpu_or_as_the_file_says(tmp_path, monkeypatch, text, gpu, plan):
    devices = [b"/physical_device:CPU:0"] + [b"/physical_device:GPU:0"] * gpu
    monkeypatch.setattr(saved_model_servable.pywrap_tfe, "TF_ListPhysicalDevices", lambda: devices)
    file = tmp_path / "session.conf"
    file.write_text(text)
    found = session_config(ServerConfig("m", tmp_path, tensorflow_session_config_file=file))
    rewriting = found.graph_options.rewrite_options
    assert rewriting.MemOptType.Name(rewriting.memory_optimization) == plan


def test_a_version_that_fails_is_tried_again_a_few_times(tmp_path, until, monkeypatch):
    save(HalfPlusTwo(), tmp_path, 1)
    away = save(HalfPlusTwo(), tmp_path / "away", 2)
    settings = {"file_system_poll_wait_seconds": 0.02, "load_retry_interval_micros": 1000}
    config = ServerConfig("m", tmp_path, port=0, **settings)
    load, tries = Loader.load, []

    def fails_three_times(self, model, version, path):
        tries.append(version)
        if len(tries) < 4:
            raise errors.UnavailableError("the file system is away")
        return load(self, model, version, path)

    with Server(config) as server, Client(server.target, "m") as client:
        monkeypatch.setattr(Loader, "load", fails_three_times)
        away.rename(tmp_path / "2")
        until(lambda: server.models.available() == {"m": [2]})
        assert tries == [2, 2, 2, 2]
        assert client.status()[0].available


def test_a_version_that_goes_on_failing_is_left_alone_until_it_changes(tmp_path, until, monkeypatch):
    save(HalfPlusTwo(), tmp_path, 1)
    away = save(HalfPlusTwo(), tmp_path / "away", 2)
    settings = {"file_system_poll_wait_seconds": 0.02, "load_retry_interval_micros": 1000}
    config = ServerConfig("m", tmp_path, port=0, max_num_load_retries=2, **settings)
    load, tries = Loader.load, []

    def fails(self, model, version, path):
        tries.append(version)
        raise errors.UnavailableError("the file system is away")

    with Server(config) as server:
        monkeypatch.setattr(Loader, "load", fails)
        away.rename(tmp_path / "2")
        until(lambda: len(tries) == 3)
        threading.Event().wait(0.3)
        assert tries == [2, 2, 2]
        monkeypatch.setattr(Loader, "load", load)
        (tmp_path / "2" / "changed").write_text("")
        until(lambda: server.models.available() == {"m": [2]})


@pytest.mark.parametrize(("threads", "at_once"), [(0, 1), (3, 3)])
def test_as_many_versions_are_freed_at_the_same_time_as_there_are_threads(
    tmp_path, until, monkeypatch, threads, at_once
):
    for version in (1, 2, 3, 4):
        save(HalfPlusTwo(), tmp_path, version)
    models = tmp_path / "models.conf"
    listed = "model_version_policy { all {} }"
    models.write_text(
        f'model_config_list {{ config {{ name: "m" base_path: "{tmp_path}" model_platform: "tensorflow" '
        f"{listed} }} }}"
    )
    settings = {"file_system_poll_wait_seconds": 0.02, "num_unload_threads": threads}
    closing_now, may_close = [], threading.Event()
    close = SavedModelServable.close

    def held(self):
        closing_now.append(self.version)
        assert may_close.wait(30)
        close(self)

    with Server(ServerConfig("m", port=0, model_config_file=models, **settings)) as server:
        assert sorted(server.models.available()["m"]) == [1, 2, 3, 4]
        monkeypatch.setattr(SavedModelServable, "close", held)
        for version in (1, 2, 3):
            (tmp_path / str(version)).rename(tmp_path / f"away-{version}")
        until(lambda: len(closing_now) == at_once)
        until(lambda: server.models.available() == {"m": [4]})
        assert len(closing_now) == at_once
        may_close.set()
        until(lambda: len(closing_now) == 3)


class Large(tf.Module):
    """A model of 16 MB."""

    def __init__(self):
        super().__init__()
        self.weights = tf.Variable(tf.random.uniform([4_000_000]))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def serve(self, x):
        return {"y": x + self.weights[0]}


def anonymous_megabytes():
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_versions_that_come_and_go_leave_memory_threads_and_descriptors_as_they_were(tmp_path, until):
    folder = tmp_path / "model"
    path = save(Large(), folder, 1)
    config = ServerConfig("m", folder, port=0, file_system_poll_wait_seconds=0.02)

    def used():
        gc.collect()
        return anonymous_megabytes(), len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    with Server(config) as server, Client(server.target, "m") as client:
        for version in range(2, 32):
            path = path.rename(folder / str(version))
            until(lambda version=version: server.models.available() == {"m": [version]})
            client.predict({"x": np.float32([1])})
            if version == 11:
                before = used()
        after = used()
    # Of 20 versions of 16 MB each; a file or two more or less are the polls, of folders, at work.
    assert (np.subtract(after, before) < (16, 5, 5)).all(), (before, after)
