"""The one rule of what a version is: exports and the server list the same, in folders and in stores."""

import uuid
from pathlib import Path

import pytest

from keras_selfattn.errors import ExportError
from keras_selfattn.export import latest_version, list_versions, remove_versions
from keras_selfattn.export.versions import formats_of, next_version, read_version, version_folders
from keras_selfattn.files.object_stores import StoreFolder
from keras_selfattn.files.version_listing import list_base_path
from keras_selfattn.serving.server.storage.stored_versions import StoredVersions
from keras_selfattn.serving.server.storage.version_folders import VersionFolders

LARGEST = 2**63 - 1
# Names of folders that TensorFlow Serving takes for a version, and those that it takes for none.
VERSIONS = {"0": 0, "007": 7, "12": 12, str(LARGEST): LARGEST, "0" * 30 + "5": 5}
NONE = ["-1", "1.5", str(2**63), "9" * 200, "best", "１", "1 ", "+3", "v2"]


@pytest.fixture
def base(tmp_path):
    for name in (*VERSIONS, *NONE):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").write_bytes(b"graph of " + name.encode())
    (tmp_path / "3").write_bytes(b"a file")
    return tmp_path


@pytest.fixture
def memory():
    """The URI of an empty folder of fsspec's store in memory, and a function that copies a folder there."""
    fsspec = pytest.importorskip("fsspec")
    name = f"/versions-{uuid.uuid4()}"
    system = fsspec.filesystem("memory")

    def put(folder: Path) -> str:
        for path in folder.rglob("*"):
            if path.is_file():
                system.pipe_file(f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())
        return f"memory:/{name}"

    yield put
    if system.exists(name):
        system.rm(name, recursive=True)


def places(versions):
    """Each version's folder, by number."""
    return {number: version.place.rpartition("/")[2] for number, version in versions.items()}


def test_exports_and_the_server_list_the_same_versions_of_a_folder(base):
    wanted = {number: name for name, number in VERSIONS.items()}
    assert list_base_path(base).versions == wanted
    assert list_versions(base) == sorted(wanted)
    assert latest_version(base) == LARGEST
    assert places(VersionFolders(base).versions()) == wanted


def test_exports_and_the_server_list_the_same_versions_of_a_store(base, memory):
    uri = memory(base)
    wanted = {number: name for name, number in VERSIONS.items()}
    assert list_base_path(StoreFolder(uri)).versions == wanted
    assert list_versions(uri) == sorted(wanted)
    assert places(StoredVersions(uri, None).versions()) == wanted


def test_a_link_to_a_folder_is_a_version_and_one_to_nowhere_is_none(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    base = tmp_path / "base"
    base.mkdir()
    (base / "4").symlink_to(elsewhere)
    (base / "6").symlink_to(tmp_path / "nowhere")
    (base / "8").symlink_to(base / "8")
    assert list_versions(base) == [4]
    assert VersionFolders(base).versions().keys() == {4}
    assert next_version(base) == 9  # whatever has the name


def test_of_two_names_of_one_number_the_same_one_counts_and_both_are_removed(tmp_path, memory):
    for name, size in (("07", 1), ("7", 2), ("007", 4), ("6", 8)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").write_bytes(b"x" * size)
    uri = memory(tmp_path)
    for place, server in ((tmp_path, VersionFolders(tmp_path)), (uri, StoredVersions(uri, None))):
        assert places(server.versions())[7] == "7"
        assert read_version(place, version_folders(place)[7]) == (None, 2)
        remove_versions(place, 7)
        assert list_versions(place) == [6]
        assert server.versions().keys() == {6}


def test_a_version_with_leading_zeros_is_read_and_removed_by_its_number(tmp_path, memory):
    (tmp_path / "007").mkdir()
    (tmp_path / "007" / "model.onnx").write_bytes(b"12345")
    uri = memory(tmp_path)
    for place in (tmp_path, uri):
        assert formats_of(place) == {"onnx"}
        assert read_version(place, version_folders(place)[7]) == (None, 5)
        assert next_version(place) == 8
        remove_versions(place, 7)
        assert list_versions(place) == []


@pytest.mark.parametrize(
    ("version", "reason"), [(2**63, "No server reads its folder"), (3, "Its file 3 is none")]
)
def test_what_a_server_skips_is_not_removed_as_a_version(base, memory, version, reason):
    for place in (base, memory(base)):
        with pytest.raises(ExportError, match=rf"has no version {version}. It has: 0, 5, .*{reason}"):
            remove_versions(place, version)
    assert (base / str(version)).exists()
