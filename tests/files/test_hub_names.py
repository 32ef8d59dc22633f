"""Only what can be no path here, and what the hub takes as a name, is a name of the hub."""

from pathlib import Path

import pytest

from keras_selfattn.errors import ConfigError
from keras_selfattn.files.hub_names import HubName, hub_name, near


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("runs/base", "google/electra", "film"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "notes.txt").write_text("")


@pytest.mark.parametrize(
    "name",
    ["sentence-transformers/all-MiniLM-L6-v2", "bert-base-uncased", "gpt2", "a/b", "a_b/c.d_2", "x" * 96],
)
def test_an_owner_and_a_name_or_a_name_alone_are_names(name):
    assert hub_name(name) == HubName(name)
    assert hub_name(name, "v1.0") == HubName(name, "v1.0")


@pytest.mark.parametrize(
    "path",
    [
        *("./a/b", "../a", "/a/b", "~/a", ".", "~", "a/b/c", "a//b", "a/", "/a", "a b/c", "a/b:c"),
        *("a--b/c", "a..b/c", "a/b.git", "model.keras", "a/model.keras", "s3://a/b", "a/b@main", "-a/b"),
        *("ä/b", "x" * 97, "a/" + "x" * 97, "", "a\\b", "a/b\n", "a/.b", "a/b."),
        # All that is here, and what begins with a folder or a file that is.
        *("runs/base", "runs/bsae", "google/electra-small", "film", "notes.txt", "notes.txt/a"),
    ],
)
def test_whatever_else_there_is_is_a_path(path):
    assert hub_name(path) is None


def test_a_path_of_pathlib_is_a_path_however_it_reads():
    assert hub_name(Path("sentence-transformers/all-MiniLM-L6-v2")) is None


def test_a_prefix_makes_a_name_of_what_is_a_folder_here_too():
    assert hub_name("hf://google/electra") == HubName("google/electra")
    assert hub_name("hf://film@refs/pr/1") == HubName("film", "refs/pr/1")
    assert hub_name("hf://film", "v2") == HubName("film", "v2")


@pytest.mark.parametrize(
    ("given", "revision", "match"),
    [
        ("hf://", None, "stands before the name of a model, such as sent.* Received 'hf://'"),
        ("hf://a/b/c", None, "stands before the name"),
        ("hf://../secret", None, "stands before the name"),
        ("hf://a/b@", None, "A revision is a branch, .* Received ''"),
        ("hf://a/b@../c", None, "A revision is a branch"),
        ("hf://a/b@v1", "v2", "names a revision, and so does 'v2'. Leave one of them out"),
        ("a/b", "a b", "A revision is a branch"),
        ("a/b", "a/../b", "A revision is a branch"),
        ("runs/base", "v1", "runs/base is a path here. Leave it out, or write hf://NAME"),
        (Path("a/b"), "v1", "a/b is a path here"),
    ],
)
def test_what_contradicts_itself_is_refused(given, revision, match):
    with pytest.raises(ConfigError, match=match):
        hub_name(given, revision)


def test_the_nearest_entries_of_the_deepest_folder_are_suggested():
    assert near("runs/bsae") == " Did you mean runs/base?"
    assert near("rns/base") == " Did you mean runs?"
    assert near("goggle") == " Did you mean google?"
    assert near("/nowhere-at-all/x") == ""
    assert near("notes.txt/a") == ""
    assert near("runs/base") == ""
