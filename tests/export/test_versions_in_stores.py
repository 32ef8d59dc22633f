"""Exports to an object store: a real S3 server, with faults."""

import threading

import numpy as np
import pytest
from click.testing import CliRunner
from film_model import TRAINING, make_model

from keras_selfattn.cli.main import main
from keras_selfattn.errors import ExportError, StorageError
from keras_selfattn.export import (
    export_saved_model,
    keep_newest,
    latest_version,
    list_versions,
    remove_versions,
    saved_model,
)
from keras_selfattn.export.publishing import upload
from keras_selfattn.files.object_stores import StoreFolder, uri_of
from keras_selfattn.files.version_files import CARD
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def small():
    return make_model()


@pytest.fixture
def unchecked(monkeypatch):
    """Leaves the check in a fresh process out, which has its own tests."""
    measured = {"load_seconds": 0.0, "request_ms": 0.0}
    monkeypatch.setattr(saved_model, "try_saved_model", lambda *_: measured)


def test_an_export_to_a_bucket_is_served_from_there(small, bucket, store, tmp_path):
    stages = []
    uri = export_saved_model(small, f"{bucket}/film/", training=TRAINING, progress=stages.append)
    assert uri == f"{bucket}/film/1"
    assert stages[-1] == "uploading"
    written = [request.partition("?")[0] for request in store.requests if request.startswith("PUT")]
    assert written[-2:] == [f"PUT /{uri.removeprefix('s3://')}/{name}" for name in ("saved_model.pb", CARD)]
    config = ServerConfig("film", f"{bucket}/film", port=0, model_cache_path=tmp_path)
    with Server(config) as server, Client(server.target, "film") as client:
        answers = client.classify(["good film", "bad film"])
    expected = small.predict(np.array(["good film", "bad film"]), verbose=0)
    assert [answer.score for answer in answers] == pytest.approx(expected.max(axis=1), abs=1e-5)


def test_versions_in_a_bucket_count_up_and_are_never_replaced(small, bucket, unchecked):
    base = f"{bucket}/film"
    assert list_versions(base) == []
    assert latest_version(base) is None
    assert export_saved_model(small, base) == f"{base}/1"
    assert export_saved_model(small, base, version=7) == f"{base}/7"
    with pytest.raises(ExportError, match=f"{base} has a version 7 already"):
        export_saved_model(small, base, version=7)
    assert export_saved_model(small, base, keep=2) == f"{base}/8"
    assert list_versions(base) == [7, 8]
    remove_versions(base, 7)
    assert list_versions(base) == [8]
    with pytest.raises(ExportError, match="has no version 7. It has: 8"):
        remove_versions(base, 7)
    assert keep_newest(base, 1) == []


def test_what_a_killed_upload_left_is_no_version_but_can_be_removed(small, bucket, put, unchecked, tmp_path):
    base = f"{bucket}/film"
    (tmp_path / "fingerprint.pb").write_bytes(b"x")
    assert export_saved_model(small, base) == f"{base}/1"
    put(tmp_path, f"{base}/5")
    assert (list_versions(base), latest_version(base)) == ([1], 1)
    assert keep_newest(base, 1) == []
    assert export_saved_model(small, base) == f"{base}/6"
    remove_versions(base, 5)
    assert {name.partition("/")[0] for name in StoreFolder(base).files()} == {"1", "6"}


def test_two_uploads_at_the_same_time_get_two_numbers(bucket, tmp_path):
    (tmp_path / "variables").mkdir()
    for name in ("saved_model.pb", "fingerprint.pb", "variables/variables.index"):
        (tmp_path / name).write_bytes(name.encode())
    together, uris = threading.Barrier(4), []

    def numbers():
        together.wait()  # all have seen the same next number
        yield from range(1, 10)

    threads = [
        threading.Thread(target=lambda: uris.append(upload(tmp_path, f"{bucket}/m", numbers())))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(uris) == [f"{bucket}/m/{number}" for number in (1, 2, 3, 4)]
    assert len(StoreFolder(bucket).files("m")) == 4 * 3


def test_an_upload_that_fails_leaves_nothing(small, bucket, store, unchecked):
    store.fault = lambda request: (
        "denied" if request.startswith("PUT") and "saved_model.pb" in request else None
    )
    with pytest.raises(ExportError, match="film cannot be written: .* refuses the credentials"):
        export_saved_model(small, f"{bucket}/film")
    store.fault = lambda request: None
    assert StoreFolder(bucket).files() == {}


def test_an_upload_whose_first_write_fails_removes_nothing_of_another_one(bucket, store, put, tmp_path):
    (tmp_path / "fingerprint.pb").write_bytes(b"x")
    put(tmp_path, f"{bucket}/m/1")  # another export was faster
    store.fault = lambda request: "denied" if request.startswith("PUT") else None
    with pytest.raises(StorageError, match="refuses the credentials"):
        upload(tmp_path, f"{bucket}/m", iter([1]))
    assert [*StoreFolder(bucket).files()] == ["m/1/fingerprint.pb"]


def test_a_graph_goes_first_when_a_version_is_removed(bucket, store, put, tmp_path):
    for name in ("1/saved_model.pb", f"1/{CARD}", "1/fingerprint.pb"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    put(tmp_path, f"{bucket}/m")
    store.requests.clear()
    remove_versions(f"{bucket}/m", 1)
    removed = [request.partition("?")[0] for request in store.requests if request.startswith("DELETE")]
    assert [name.partition("/m/1/")[2] for name in removed] == ["saved_model.pb", CARD, "fingerprint.pb"]


def test_a_bucket_that_is_not_there_is_told_before_any_work(small, store):
    stages = []
    with pytest.raises(ExportError, match="s3://no-such-bucket/film does not exist"):
        export_saved_model(small, "s3://no-such-bucket/film", progress=stages.append)
    assert stages == []


def test_the_command_lists_and_removes_versions_in_a_bucket(small, bucket, unchecked):
    base = f"{bucket}/film"
    export_saved_model(small, base, training=TRAINING)
    export_saved_model(small, base, training=TRAINING)
    listed = CliRunner().invoke(main, ["versions", base])
    assert listed.exit_code == 0, listed.output
    assert listed.output.count("75.0%") == 2
    kept = CliRunner().invoke(main, ["versions", base, "--keep", "1", "--latest"])
    assert kept.output.strip().endswith("2")
    assert list_versions(base) == [2]


def test_a_uri_survives_a_path():
    from pathlib import Path

    assert uri_of(Path("s3://bucket/m")) == uri_of("s3://bucket/m/") == "s3://bucket/m"
    assert uri_of("abfs://c@account.dfs.core.windows.net/m") == "abfs://c@account.dfs.core.windows.net/m"
    for local in ("/srv/m", "srv/m", "file:///srv/m", "C:/m", r"C:\m"):
        assert uri_of(local) is None
