"""JAX keeps what commands compile, where it may."""

import importlib.util
import os
from pathlib import Path

import pytest

from keras_selfattn.cli.shared import backend
from keras_selfattn.cli.shared.backend import use_compile_cache

FOLDER = "JAX_COMPILATION_CACHE_DIR"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home, an environment that says nothing, and all packages."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(FOLDER, "")  # so that it is restored
    monkeypatch.delenv(FOLDER)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_MAX_SIZE", "5")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_MAX_SIZE")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    return tmp_path


def test_a_command_on_jax_keeps_it_in_the_home(home, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    backend.check_backend()
    assert Path(os.environ[FOLDER]).is_dir()
    assert Path(os.environ[FOLDER]).is_relative_to(home / ".cache/keras-selfattn/jax")
    assert os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"] == str(2**30)


def test_another_backend_keeps_nothing(home, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    backend.check_backend()
    assert FOLDER not in os.environ
    assert not (home / ".cache").exists()


@pytest.mark.parametrize("folder", ["", "/elsewhere"])
def test_the_environment_has_its_say(home, monkeypatch, folder):
    monkeypatch.setenv(FOLDER, folder)
    use_compile_cache()
    assert os.environ[FOLDER] == folder
    assert not (home / ".cache").exists()


def test_nothing_is_kept_without_bounds(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    use_compile_cache()
    assert FOLDER not in os.environ


def test_a_home_without_room_for_it_is_no_error(home):
    (home / ".cache").write_text("a file")
    use_compile_cache()
    assert FOLDER not in os.environ


def test_processors_have_folders_of_their_own(home, monkeypatch):
    found = set()
    for flags in ("flags: avx2", "flags: avx2 amx"):
        monkeypatch.setattr(Path, "read_text", lambda path, flags=flags, **_: f"processor: 0\n{flags}\n")
        use_compile_cache()
        found.add(os.environ.pop(FOLDER))
    assert len(found) == 2


def test_a_folder_with_the_lock_of_another_user_is_left_alone(monkeypatch):
    """JAX warns of each function that it cannot keep."""
    use_compile_cache()
    Path(os.environ.pop(FOLDER), ".lockfile").touch()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path.name != ".lockfile" and access(path, mode))
    use_compile_cache()
    assert FOLDER not in os.environ
