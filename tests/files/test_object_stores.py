"""Folders of stores, by URI: S3 and GCS over HTTP, and a file system that is no store."""

import socket
import threading
import uuid

import pytest

from keras_selfattn.errors import StorageError
from keras_selfattn.files.object_stores import StoredFile, StoreFolder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gcs_server():
    """The URL of an emulator of Google's store."""
    emulator = pytest.importorskip("gcp_storage_emulator.server")
    pytest.importorskip("gcsfs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = emulator.create_server("127.0.0.1", port, in_memory=True)
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture(params=["s3", "gs", "memory"])
def folder(request, monkeypatch):
    """An empty folder of each kind of store."""
    name = f"bucket-{uuid.uuid4()}"
    if request.param == "s3":
        return StoreFolder(f"{request.getfixturevalue('bucket')}/models")
    fsspec = pytest.importorskip("fsspec")
    if request.param == "gs":
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", request.getfixturevalue("gcs_server"))
        fsspec.filesystem("gs", token="anon", use_listings_cache=False).mkdir(name)
    return StoreFolder(f"{request.param}://{name}/models")


def test_files_that_were_written_are_listed_and_read(folder, tmp_path):
    contents = {"1/a.bin": b"0123456789", "1/deep/b.bin": b"b" * 1000, "2/c.bin": b"", "top": b"top"}
    for name, content in contents.items():
        (tmp_path / "file").write_bytes(content)
        folder.write(name, tmp_path / "file")
    assert folder.children() == (["1", "2"], ["top"])
    files = folder.files("1")
    assert {name: file.size for name, file in files.items()} == {"a.bin": 10, "deep/b.bin": 1000}
    assert {*folder.files()} == {*contents}
    assert folder.read("1/a.bin", 2, 5) == b"234"
    assert folder.read("2/c.bin", 0, 0) == b""
    assert folder.files("3") == {}


def test_a_tag_differs_for_different_content_of_one_size(folder, tmp_path):
    tags = []
    for content in (b"one", b"two"):
        (tmp_path / "file").write_bytes(content)
        folder.write("file", tmp_path / "file")
        (found,) = folder.files().values()
        assert isinstance(found, StoredFile)
        assert found.tag
        tags.append(found.tag)
    assert tags[0] != tags[1]


def test_a_new_file_replaces_none(folder, tmp_path):
    (tmp_path / "file").write_bytes(b"one")
    folder.write("file", tmp_path / "file", new=True)
    if not folder.uri.startswith("gs:"):  # the emulator ignores ifGenerationMatch
        with pytest.raises(FileExistsError):
            folder.write("file", tmp_path / "file", new=True)
    folder.remove(["file", "file", "never"])
    folder.write("file", tmp_path / "file", new=True)


def test_a_fetch_in_pieces_has_the_same_bytes(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_selfattn.files.object_stores._PIECE", 7)
    contents = {"a": bytes(range(256)), "deep/b": b"seven77", "empty": b""}
    for name, content in contents.items():
        (tmp_path / "file").write_bytes(content)
        folder.write(f"1/{name}", tmp_path / "file")
    folder.fetch("1", {name: file.size for name, file in folder.files("1").items()}, tmp_path / "copy")
    for name, content in contents.items():
        assert (tmp_path / "copy" / name).read_bytes() == content


def test_a_fetch_of_a_file_that_has_become_shorter_fails(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_selfattn.files.object_stores._PAUSES_SECONDS", ())
    (tmp_path / "file").write_bytes(b"0123")
    folder.write("1/file", tmp_path / "file")
    with pytest.raises(StorageError, match="ended early: 4 of 9 bytes") as caught:
        folder.fetch("1", {"file": 9}, tmp_path / "copy")
    assert caught.value.may_pass


def test_what_is_not_there_is_told(folder):
    with pytest.raises(StorageError, match="models does not exist, or lacks a file"):
        folder.read("no", 0, 1)
    elsewhere = StoreFolder(f"{folder.uri.partition('://')[0]}://no-such-bucket/such")
    with pytest.raises(StorageError, match="such does not exist") as caught:
        elsewhere.children()
    assert not caught.value.may_pass
    if not folder.makes_folders:  # no object store has an empty folder
        assert StoreFolder(f"{folder.uri}/not/yet").children() == ([], [])


def test_calls_that_nothing_can_interrupt_are_few_and_end_in_time(monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    release = threading.Event()

    class Hanging(fsspec.AbstractFileSystem):
        """A file system that does not answer."""

        protocol = "hanging"

        def ls(self, path, detail=True, **kwargs):
            release.wait()
            return []

    fsspec.register_implementation("hanging", Hanging, clobber=True)
    monkeypatch.setattr("keras_selfattn.files.store_calls.CALL_SECONDS", 0.2)
    store = StoreFolder("hanging://m")
    before = threading.active_count()
    try:
        for _ in range(8):
            with pytest.raises(StorageError, match="no answer in 0 s"):
                store.children()
        for _ in range(5):
            with pytest.raises(StorageError, match="earlier calls have no answer yet") as caught:
                store.children()
        assert caught.value.may_pass
        assert threading.active_count() <= before + 8
    finally:
        release.set()


@pytest.mark.parametrize("uri", ["cloud://bucket/m", "hdfs://name/m"])
def test_a_file_system_that_is_missing_is_told(uri):
    pytest.importorskip("fsspec")
    with pytest.raises(StorageError, match=rf"{uri} (cannot be opened|needs a package)"):
        StoreFolder(uri)
