"""Files of records: drafts, locks, and other servers in the folder."""

import fcntl

import pytest
import tensorflow as tf

from keras_selfattn.serving.server.runtime import record_files


@pytest.fixture
def logs(tmp_path):
    return tmp_path / "logs"


def read(path):
    return [record.numpy() for record in tf.data.TFRecordDataset(str(path))]


def test_a_dead_draft_without_a_record_is_removed_and_other_files_stay(logs):
    logs.mkdir()
    name = "-20260101T000000.000000Z-7-1.tfrecord.tmp"
    for prefix in (".half", ".other", "half"):
        (logs / f"{prefix}{name}").write_bytes(bytes(1000))
    locked = logs / f".half{name.replace('-7-', '-8-')}"
    with locked.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert record_files.publish_dead_drafts(str(logs / "half")) == []
    assert sorted(path.name for path in logs.iterdir()) == sorted(
        [f".other{name}", f"half{name}", locked.name]
    )


def test_a_draft_that_another_server_removes_is_made_again(logs, monkeypatch):
    lock = fcntl.flock

    def remove_and_lock(descriptor, how):
        monkeypatch.setattr(fcntl, "flock", lock)
        (draft,) = logs.iterdir()
        assert record_files.publish_dead_drafts(str(logs / "half")) == []
        assert not draft.exists()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", remove_and_lock)
    file = record_files.RecordFile(str(logs / "half"))
    file.write(b"a record")
    file.publish()
    (path,) = logs.iterdir()
    assert read(path) == [b"a record"]


def test_a_folder_without_locks_is_refused(logs, monkeypatch):
    def refuse(*_):
        raise OSError("No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="No locks"):
        record_files.check_prefix(str(logs / "half"))
    assert list(logs.iterdir()) == []
