"""Files and folders appear whole or not at all."""

import os
import threading

import pytest

from keras_selfattn.export import (
    list_versions,
    versions,
)
from keras_selfattn.files import atomic
from keras_selfattn.files.atomic import draft_directory, new_directory, publish, remove_directory, write_file


def test_a_new_directory_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "folder"
    with pytest.raises(RuntimeError), new_directory(target) as draft:  # noqa: PT012
        (draft / "half").touch()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with new_directory(target) as draft:
        (draft / "whole").touch()
        assert not target.exists()
    assert [path.name for path in target.iterdir()] == ["whole"]
    assert target.stat().st_mode & 0o777 == tmp_path.joinpath("folder").stat().st_mode & 0o777 != 0o700
    with pytest.raises(FileExistsError), new_directory(target):
        pytest.fail("an existing folder is replaced only where asked")


def test_a_removed_directory_is_gone_for_readers_even_if_its_rest_stays_on_the_disk(tmp_path, monkeypatch):
    target = tmp_path / "1"
    target.mkdir()

    def refused(*_, **__):
        raise PermissionError

    monkeypatch.setattr(os, "rmdir", refused)
    remove_directory(target)
    assert not target.exists()


def test_two_writers_of_one_folder_do_not_mix(tmp_path):
    target = tmp_path / "1"
    with draft_directory(target) as first, draft_directory(target) as second:
        (first / "first").touch()
        (second / "second").touch()
        publish(first, target)
        with pytest.raises(FileExistsError, match="exists already"):
            publish(second, target)
    assert [path.name for path in target.iterdir()] == ["first"]
    assert [path.name for path in tmp_path.iterdir()] == ["1"]


def test_a_file_is_replaced_at_once(tmp_path):
    write_file(tmp_path / "new" / "file", b"one")
    write_file(tmp_path / "new" / "file", b"two")
    assert (tmp_path / "new" / "file").read_bytes() == b"two"
    assert len(list((tmp_path / "new").iterdir())) == 1


@pytest.mark.slow
def test_drafts_are_made_and_cleaned_at_once_without_harm(tmp_path):
    """A draft that was taken for a dead one before it was locked is made anew."""
    stop, failures = threading.Event(), []

    def clean():
        while not stop.is_set():
            versions.clean(tmp_path)

    cleaner = threading.Thread(target=clean)
    cleaner.start()
    try:
        for count in range(300):
            with atomic.draft_directory(tmp_path / str(count)) as draft:
                (draft / "file").write_text("x")
                atomic.publish(draft, tmp_path / str(count))
    except OSError as error:
        failures.append(error)
    finally:
        stop.set()
        cleaner.join()
    assert failures == []
    assert len(list_versions(tmp_path)) == 300
