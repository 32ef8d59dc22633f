"""Versions appear and disappear whole or not at all: after kills, on a full disk, in simultaneous exports."""

import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from film_model import CONFIG, make_model

from keras_selfattn import models
from keras_selfattn.errors import ExportError
from keras_selfattn.export import (
    export_saved_model,
    keep_newest,
    latest_version,
    list_versions,
    remove_versions,
    saved_model,
    versions,
)

# Exports again and again. The check, which only reads, is left out, to come to the writing more often.
EXPORTER = """
import sys
sys.path.insert(0, sys.argv[1])
from keras_selfattn.export import export_saved_model, saved_model
from film_model import make_model
saved_model.try_saved_model = lambda *_: {"load_seconds": 0.0, "request_ms": 0.0}
model = make_model()
print("ready", flush=True)
while True:
    print(export_saved_model(model, sys.argv[2], keep=3), flush=True)
"""


@pytest.fixture(scope="module")
def small():
    """A model that is exported in a second; a text classifier takes ten."""
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


def exporter(base):
    command = [sys.executable, "-c", EXPORTER, str(Path(__file__).parent), str(base)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def assert_whole(version):
    """Every file is there and holds what the card says."""
    from keras_selfattn.export import inspect_saved_model

    inspection = inspect_saved_model(version)
    assert inspection.intact, version
    assert inspection.warmup_requests == 13 + 5 + 24 + 64  # each row of three of them by itself, too
    assert set(inspection.signatures) == {"serving_default", "classify", "tokens", "explain"}
    tf.saved_model.load(str(version))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.process
def test_killed_at_any_moment_an_export_leaves_whole_versions_only(tmp_path, request, unchecked):
    """`pytest tests/export/test_versions.py -k killed --kills 100` is the whole of it."""
    rounds, drafts = request.config.getoption("--kills"), 0
    moments = random.Random(0)
    base = tmp_path / "base"
    for _ in range(rounds):
        process = exporter(base)
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        # An export of the small model takes about three seconds, the first one more.
        time.sleep(moments.uniform(0.05, 6.0))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        for version in list_versions(base):
            assert_whole(base / str(version))
        drafts += any(name.startswith(".") for name in names(base)) if base.exists() else 0
        shown = {name for name in (names(base) if base.exists() else []) if not name.startswith(".")}
        assert shown == {str(version) for version in list_versions(base)}
    print(f"{rounds} kills, {drafts} with a draft left, versions {list_versions(base)}")
    export_saved_model(make_model(), base)
    assert set(names(base)) == {str(version) for version in list_versions(base)}, "the next export cleans up"
    assert rounds < 10 or drafts > rounds / 10, "the kills met no writing"


@pytest.mark.process
def test_the_draft_of_a_living_export_is_left_alone(small, tmp_path, monkeypatch):
    other = []

    def meanwhile(*_):
        # A second export, begun and ended while the first has its draft.
        if not other:
            other.append(None)
            other[0] = export_saved_model(small, tmp_path)
        return {"load_seconds": 0.0, "request_ms": 0.0}

    monkeypatch.setattr(saved_model, "try_saved_model", meanwhile)
    assert export_saved_model(small, tmp_path).name == "2"
    assert other[0].name == "1"
    assert names(tmp_path) == ["1", "2"]


@pytest.mark.process
def test_exports_at_once_get_a_version_each(tmp_path, unchecked):
    processes = [exporter(tmp_path / "base") for _ in range(2)]
    try:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        paths = [process.stdout.readline().strip() for process in processes for _ in range(2)]
    finally:
        for process in processes:
            process.kill()
            process.communicate(timeout=60)
    assert len(set(paths)) == 4, paths
    for version in list_versions(tmp_path / "base"):
        assert_whole(tmp_path / "base" / str(version))


LIMITED = """
import os, resource, signal, sys
sys.path.insert(0, sys.argv[1])
from keras_selfattn.errors import ExportError
from keras_selfattn.export import export_saved_model
from film_model import make_model
model = make_model()
sys.dont_write_bytecode = True  # or Python would leave half of a module's behind
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for limit in map(int, sys.argv[3:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))
    try:
        export_saved_model(model, sys.argv[2])
    except ExportError as error:
        print(error, os.listdir(sys.argv[2]))
"""


@pytest.mark.process
def test_a_disk_that_fills_up_is_an_error_and_leaves_nothing(tmp_path):
    """A limit on the size of a file fails in the calls that a full disk does: at graph, variables or card."""
    limits = ["100", "3000", "100000"]
    command = [sys.executable, "-c", LIMITED, str(Path(__file__).parent), str(tmp_path / "base"), *limits]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    errors = done.stdout.splitlines()
    assert len(errors) == len(limits), done.stdout + done.stderr
    assert all("cannot be written" in error and error.endswith(" []") for error in errors), errors


READ_ONLY = """
import os, sys
sys.path.insert(0, sys.argv[1])
from keras_selfattn.errors import ExportError
from keras_selfattn.export import export_saved_model, remove_versions
from film_model import make_model
model = make_model()
if os.getuid() == 0:
    os.seteuid(65534)  # whom permissions hold back
for what in (lambda: export_saved_model(model, sys.argv[2]), lambda: remove_versions(sys.argv[2], 1)):
    try:
        what()
    except ExportError as error:
        print(error)
"""


@pytest.mark.process
def test_a_read_only_folder_is_an_error_and_keeps_what_it_has(tmp_path):
    base = tmp_path / "base"
    (base / "1").mkdir(parents=True)
    (base / "1" / "saved_model.pb").touch()
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == base.owner() and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o055)
    base.chmod(0o555)
    try:
        command = [sys.executable, "-c", READ_ONLY, str(Path(__file__).parent), str(base)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    finally:
        base.chmod(0o755)
    assert done.stdout.count("ermission denied") == 2, done.stdout + done.stderr
    assert names(base) == ["1"]


@pytest.mark.process
def test_versions_count_up_and_a_given_one_is_never_replaced(small, tmp_path, unchecked):
    base = tmp_path / "deep" / "base"
    assert export_saved_model(small, base).name == "1"
    assert export_saved_model(small, base, version=7).name == "7"
    assert export_saved_model(small, base).name == "8"
    with pytest.raises(ExportError, match="has a version 7 already"):
        export_saved_model(small, base, version=7)
    assert list_versions(base) == [1, 7, 8]
    assert latest_version(base) == 8
    assert names(base) == ["1", "7", "8"]


@pytest.mark.process
def test_a_version_that_another_export_took_meanwhile_is_passed_over(small, tmp_path, monkeypatch):
    def other_export(*_):
        (tmp_path / "1" / "variables").mkdir(parents=True)
        return {}

    monkeypatch.setattr(saved_model, "try_saved_model", other_export)
    assert export_saved_model(small, tmp_path).name == "2"


@pytest.mark.process
def test_old_versions_go_after_the_new_one_is_whole(small, tmp_path, unchecked, monkeypatch):
    for _ in range(3):
        export_saved_model(small, tmp_path)
    seen = []
    remove = versions.remove_directory
    monkeypatch.setattr(
        versions, "remove_directory", lambda path: (seen.append(names(tmp_path)), remove(path))
    )
    assert export_saved_model(small, tmp_path, keep=2).name == "4"
    assert seen[0] == ["1", "2", "3", "4"]
    assert list_versions(tmp_path) == [3, 4]


@pytest.mark.process
def test_keep_never_removes_what_was_just_written(small, tmp_path, unchecked):
    for version in (5, 6):
        export_saved_model(small, tmp_path, version)
    assert export_saved_model(small, tmp_path, 1, keep=1).is_dir()
    assert list_versions(tmp_path) == [1, 6]


def test_versions_that_another_process_removes_meanwhile_are_no_error(tmp_path, monkeypatch):
    for version in range(1, 31):
        (tmp_path / str(version)).mkdir()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: keep_newest(tmp_path, 1), range(8)))
    assert names(tmp_path) == ["30"]


@pytest.mark.process
def test_hidden_folders_of_others_are_not_taken_for_drafts(small, tmp_path, unchecked):
    (tmp_path / ".notes.tmp-mine1234").mkdir()
    (tmp_path / ".3.tmp-abcd1234").mkdir()
    export_saved_model(small, tmp_path)
    assert names(tmp_path) == [".notes.tmp-mine1234", "1"]


@pytest.mark.process
def test_the_highest_number_there_is_does_not_lead_beyond_it(small, tmp_path, unchecked):
    (tmp_path / str(2**63 - 1)).mkdir()
    assert export_saved_model(small, tmp_path).name == "1"


def test_versions_are_removed_all_or_none(tmp_path):
    for version in (1, 2, 3, 10):
        (tmp_path / str(version) / "variables").mkdir(parents=True)
    with pytest.raises(ExportError, match="has no version 4. It has: 1, 2, 3, 10"):
        remove_versions(tmp_path, 1, 4)
    assert list_versions(tmp_path) == [1, 2, 3, 10]
    remove_versions(tmp_path, 2, 2)
    assert keep_newest(tmp_path, 2) == [1]
    assert keep_newest(tmp_path, 5) == []
    assert names(tmp_path) == ["10", "3"]


@pytest.mark.process
def test_a_graph_that_answers_differently_is_refused_and_nothing_is_left(model, tmp_path, monkeypatch):
    real = saved_model.live_answers

    def others(contract, **settings):
        cases = real(contract, **settings)
        cases[0].outputs["probabilities"] = cases[0].outputs["probabilities"] + np.float32(1e-3)
        return cases

    monkeypatch.setattr(saved_model, "live_answers", others)
    reason = (
        r"failed its check, nothing was written: serving_default: probabilities differs from the model's by"
    )
    with pytest.raises(ExportError, match=reason):
        export_saved_model(model, tmp_path)
    assert names(tmp_path) == []


@pytest.mark.process
@pytest.mark.slow
def test_a_model_that_answers_nan_is_exported(tmp_path):
    """Such as a logarithm of what is negative: the served graph answers as the model does."""
    inputs = keras.Input((2,), name="values")
    model = keras.Model(inputs, keras.ops.log(inputs))
    samples = {"values": np.float32([[-1.0, 1.0], [0.0, np.inf]])}
    folder = export_saved_model(model, tmp_path, samples=samples)
    answer = tf.saved_model.load(str(folder)).signatures["serving_default"](values=samples["values"])
    np.testing.assert_array_equal(next(iter(answer.values())), model(samples["values"]))


@pytest.mark.process
def test_odd_answers_of_the_live_model_are_asked_for_again(small, tmp_path, monkeypatch):
    real, asked = saved_model.live_answers, []

    def first_odd(contract, **settings):
        cases = real(contract, **settings)
        asked.append(None)
        if len(asked) == 1:
            for name, values in cases[0].outputs.items():
                cases[0].outputs[name] = values + np.float32(1)
        return cases

    monkeypatch.setattr(saved_model, "live_answers", first_odd)
    assert export_saved_model(small, tmp_path).name == "1"
    assert len(asked) == 2


@pytest.mark.process
def test_an_interrupt_while_checking_leaves_nothing(small, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(saved_model, "try_saved_model", interrupt)
    with pytest.raises(KeyboardInterrupt):
        export_saved_model(small, tmp_path)
    assert names(tmp_path) == []


def test_weights_that_are_not_finite_are_refused(tmp_path):
    broken = models.TextClassifier(CONFIG, vocabulary=["good"], labels=["+", "-"])
    kernel = broken.core.get_layer("logits").kernel
    kernel.assign(np.full(kernel.shape, np.nan))
    with pytest.raises(ExportError, match="is not finite everywhere"):
        export_saved_model(broken, tmp_path)


@pytest.mark.process
@pytest.mark.parametrize("version", [0, -1, "1", True, 1.0, 2**63])
def test_a_bad_version_is_named(small, tmp_path, version):
    with pytest.raises(ExportError, match=f"positive integer below .* Received {version!r}"):
        export_saved_model(small, tmp_path, version)


@pytest.mark.process
def test_a_base_path_that_is_a_file_or_below_one_is_refused(small, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ExportError, match="is a file; choose another name"):
        export_saved_model(small, tmp_path / "file")
    with pytest.raises(ExportError, match="cannot be written"):
        export_saved_model(small, tmp_path / "file" / "base")


def test_a_path_that_tensorflow_cannot_load_from_is_refused(model, tmp_path):
    for name in ("a[b]", "a\\b"):
        with pytest.raises(ExportError, match="must hold no brackets or backslashes"):
            export_saved_model(model, tmp_path / name)
    with pytest.raises(ExportError, match="cloud://bucket/model (needs fsspec|cannot be opened)"):
        export_saved_model(model, "cloud://bucket/model")


@pytest.mark.process
def test_files_are_no_versions_but_never_overwritten(small, tmp_path, unchecked):
    (tmp_path / "3").touch()
    (tmp_path / "7").symlink_to("nowhere")
    (tmp_path / "0005").mkdir()
    (tmp_path / "2").mkdir()
    assert list_versions(tmp_path) == [2, 5]
    for version in (3, 7):
        with pytest.raises(ExportError, match=f"holds '{version}', which is no folder: servers skip it"):
            export_saved_model(small, tmp_path, version)
    with pytest.raises(ExportError, match="has a version 5 already, in the folder 0005. Leave"):
        export_saved_model(small, tmp_path, 5)
    assert export_saved_model(small, tmp_path).name == "8"


def test_a_model_without_a_vocabulary_is_refused(tmp_path):
    with pytest.raises(ExportError, match="has no weights yet. Train it"):
        export_saved_model(models.TextClassifier(CONFIG), tmp_path)
