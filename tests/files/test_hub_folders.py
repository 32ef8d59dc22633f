"""A model of the hub is fetched by its name, whole or not at all; each failure says the next step."""

import importlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from loopback_hub import fetching, loopback_hub, use_hub

from keras_selfattn import extras
from keras_selfattn.errors import MissingExtraError, RunError
from keras_selfattn.files import hub_folders
from keras_selfattn.files.hub_folders import SMALL_FILES, HubFolder, located

pytest.importorskip("huggingface_hub")

NAME = "somebody/film"
WEIGHTS = bytes(range(256)) * 400
FILES = {
    "config.json": b'{"model_type": "bert"}',
    "model.safetensors": WEIGHTS,
    "modules.json": json.dumps([{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Normalize"}]).encode(),
    "1_Pooling/config.json": b"{}",
    "tokenizer.json": b"{}",
    "vocab.txt": b"[PAD]\n",
}
# None of it is ever read.
OTHER_FILES = {
    "README.md": b"-",
    "modeling_film.py": b"raise SystemExit",
    "onnx/config.json": b"{}",
    "onnx/model.onnx": b"-",
    "openvino/openvino_model.xml": b"-",
    "pytorch_model.bin": b"-",
    "rust_model.ot": b"-",
    "tf_model.h5": b"-",
    "training_args.bin": b"-",
    "weights.safetensors": b"-",
}


@pytest.fixture
def hub():
    with loopback_hub() as found:
        yield found


@pytest.fixture
def home(tmp_path, monkeypatch, hub):
    """The folder of the cache, of this process, too; the current folder is another one."""
    use_hub(monkeypatch, hub, tmp_path / "home")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "home"


def add(hub, files=FILES, name=NAME, *tags):
    return hub.add(name, "no folder", *tags, files=files)


def fetched(name=NAME, revision=None):
    place = located(name, revision)
    assert isinstance(place, HubFolder)
    place.fetch_weights()
    return place


def held(place):
    paths = [path for path in Path(place).rglob("*") if path.is_file()]
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in paths}


def wait_for(seen):
    """Wait until something is seen, a minute at most."""
    end = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_name_is_fetched_with_the_files_that_are_read_and_no_others(hub, home):
    commit = add(hub, FILES | OTHER_FILES)
    place = fetched()
    assert held(place) == FILES
    assert str(place) == f"hf://{NAME}@{commit}"
    assert located(place) is place
    assert hub.downloads[-1] == "model.safetensors"  # after all that may be refused


def test_the_weights_wait_until_they_are_asked_for(hub, home):
    add(hub)
    assert held(located(NAME)) == {name: each for name, each in FILES.items() if name != "model.safetensors"}


def test_a_path_asks_nobody(hub, home):
    Path("film").mkdir()
    for path in ("film", "film/no-such", "./a/b", Path("a/b"), "a/b/c"):
        assert located(path) == Path(path)
    assert hub.requests == []


def test_what_is_in_the_cache_is_not_fetched_again_and_a_commit_asks_nobody(hub, home):
    add(hub)
    place = fetched()
    before = len(hub.requests)
    assert fetched() == place
    assert len(hub.requests) == before + 1  # for the newest commit
    assert fetched(str(place)) == place
    assert len(hub.requests) == before + 1


def test_a_revision_is_a_branch_a_tag_or_a_commit(hub, home):
    first = add(hub, FILES, NAME, "v1")
    second = add(hub, FILES | {"vocab.txt": b"[UNK]\n"})
    assert fetched().commit == second
    for revision in ("v1", first):
        old = fetched(NAME, revision)
        assert (old.commit, held(old)["vocab.txt"]) == (first, b"[PAD]\n")
        assert fetched(f"hf://{NAME}@{revision}") == old
    with pytest.raises(RunError, match=rf"{NAME} at v2: the model has no such revision. .* {hub.url}/{NAME}"):
        located(NAME, "v2")
    with pytest.raises(RunError, match="has no such revision"):
        located(NAME, "0" * 40)


def test_shards_are_those_of_the_index(hub, home):
    shards = {f"model-0000{number}-of-00002.safetensors": bytes([number]) * 9 for number in (1, 2)}
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    files = {name: each for name, each in FILES.items() if name != "model.safetensors"}
    add(hub, files | shards | {"model.safetensors.index.json": json.dumps(index).encode()})
    assert {*held(fetched())} == {*files, *shards, "model.safetensors.index.json"}


def test_the_weights_of_modules_are_fetched_with_the_models_own(hub, home):
    modules = [{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Dense"}, {"path": "../3"}]
    layer = {"2_Dense/config.json": b"{}", "2_Dense/model.safetensors": b"layer"}
    add(hub, FILES | OTHER_FILES | layer | {"modules.json": json.dumps(modules).encode()})
    place = located(NAME)
    assert not (Path(place) / "2_Dense" / "model.safetensors").exists()
    place.fetch_weights()
    assert (Path(place) / "2_Dense" / "model.safetensors").read_bytes() == b"layer"
    assert {*held(place)} == {*FILES, *layer}


@pytest.mark.slow
def test_a_broken_download_goes_on_where_it_stopped(hub, home):
    weights = WEIGHTS * 300
    add(hub, FILES | {"model.safetensors": weights})
    hub.cut = [25_000_000]
    assert held(fetched())["model.safetensors"] == weights
    assert hub.ranges == [20 * 2**20]  # it is written in pieces of 10 MiB


@pytest.mark.process
def test_a_download_that_is_killed_leaves_nothing_that_looks_whole(hub, home):
    add(hub)
    hub.held = threading.Event()
    for number in (signal.SIGINT, signal.SIGKILL):
        hub.downloads.clear()
        with fetching(hub, home, NAME) as process:
            wait_for(lambda: "model.safetensors" in hub.downloads)
            process.send_signal(number)
            process.communicate(timeout=60)
        assert process.returncode != 0
        left = home.rglob("model.safetensors")
        assert not list(left)
    hub.held.set()
    assert held(fetched()) == FILES


@pytest.mark.slow
def test_a_server_that_falls_silent_is_left_after_a_while(hub, home, monkeypatch):
    from huggingface_hub import constants

    add(hub)
    place = located(NAME)
    hub.held = threading.Event()
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.3)
    with pytest.raises(RunError, match=rf"{hub.url} does not answer \(.*timed out"):
        place.fetch_weights()
    assert not list(home.rglob("model.safetensors"))


@pytest.mark.process
def test_two_processes_that_fetch_one_name_get_the_same_files(hub, home):
    add(hub)
    processes = [fetching(hub, home, NAME) for _ in range(2)]
    said = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert said[0][0] == said[1][0]
    assert held(said[0][0].strip()) == FILES


@pytest.mark.slow
def test_a_file_of_another_size_than_the_hub_says_is_refused(hub, home):
    add(hub)
    hub.size = len(WEIGHTS) + 1
    with pytest.raises(RunError, match=r"cannot be fetched: Consistency check .* size 102401 .* Try again"):
        fetched()
    assert not list(home.rglob("model.safetensors"))


def test_a_file_of_another_sum_than_the_hub_says_is_refused_each_time(hub, home):
    add(hub)
    hub.sha256 = "0" * 64
    for _ in range(2):
        with pytest.raises(RunError, match="model.safetensors is damaged: its SHA-256 is not") as caught:
            fetched()
    file = Path(re.search(r"Remove (\S+),", str(caught.value))[1])
    assert file.name == "0" * 64
    file.unlink()
    hub.sha256 = None
    for tree in home.rglob("trees/*.json"):  # the hub's own list was wrong
        tree.unlink()
    assert held(fetched()) == FILES


def test_a_file_of_the_cache_that_was_changed_is_refused_until_it_is_removed(hub, home):
    add(hub)
    place = fetched()
    weights = (place.path / "model.safetensors").resolve()
    for content, match in ((WEIGHTS[:-1] + b"!", "its SHA-256"), (WEIGHTS[:-1], "it has 102,399 bytes, the")):
        weights.write_bytes(content)
        with pytest.raises(RunError, match=f"is damaged: {match}.* Remove {weights}, and start again"):
            fetched()
    weights.unlink()
    assert held(fetched()) == FILES


@pytest.mark.parametrize(
    ("files", "match"),
    [
        (
            ("config.json", "pytorch_model.bin"),
            r"pickle \(pytorch_model.bin\), .* `hf download somebody/film ",
        ),
        (("config.json", "pytorch_model.bin"), r"transformers.AutoModel.from_pretrained\(FOLDER\).save"),
        (
            ("config.json", "onnx/model.onnx", "tf_model.h5"),
            r"no model.safetensors .* are in .h5, .onnx. Give",
        ),
        (("config.json",), "are in no known form"),
        (("model.safetensors",), "has no config.json in the hub"),
    ],
)
def test_weights_that_cannot_be_read_are_refused_before_any_is_fetched(hub, home, files, match):
    add(hub, {name: each for name, each in (FILES | OTHER_FILES).items() if name in files})
    with pytest.raises(RunError, match=match):
        located(NAME)
    assert {*hub.downloads} <= {"config.json"}


def test_no_such_name_is_told_with_the_folders_that_are_near(hub, home):
    Path("filn").mkdir()
    with pytest.raises(RunError, match="There is no folder film here. Did you mean filn") as caught:
        located("film")
    assert f"? {hub.url} has no model film, or a private one. Give another name" in str(caught.value)
    assert "log in with `hf auth login`" in str(caught.value)


@pytest.mark.parametrize(
    ("status", "code", "match"),
    [
        (
            403,
            "GatedRepo",
            r"is gated. Accept its terms at \S+/somebody/film, then log in with `hf auth login`",
        ),
        (401, "GatedRepo", "is gated"),
        (401, "RepoNotFound", "has no model somebody/film, or a private one"),
        (403, "", "answers 403 .* If it needs an account, log in"),
        (429, "", "answers 429 .* Try again later"),
    ],
)
def test_a_model_that_is_refused_says_how_to_log_in_and_a_token_opens_it(
    hub, home, monkeypatch, status, code, match
):
    add(hub)
    hub.refused[NAME] = (status, code)
    with pytest.raises(RunError, match=match):
        located(NAME)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert held(fetched()) == FILES


def test_offline_takes_a_whole_copy_of_the_cache_and_nothing_else(hub, home, monkeypatch):
    from huggingface_hub import constants

    add(hub)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        RunError, match="HF_HUB_OFFLINE is set, and the cache .* holds no whole copy of it. Fet"
    ):
        located(NAME)
    assert hub.requests == []
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    located(NAME)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(RunError, match="holds no whole copy"):  # without its weights
        fetched()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    fetched()
    before = len(hub.requests)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert held(fetched()) == FILES
    assert len(hub.requests) == before


def test_files_that_others_have_fetched_are_no_whole_copy(hub, home, monkeypatch):
    """Without its `modules.json` the vectors of a model would be others."""
    from huggingface_hub import constants, hf_hub_download

    add(hub)
    for name in ("config.json", "model.safetensors", "tokenizer.json", "vocab.txt"):
        hf_hub_download(NAME, name)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(RunError, match="holds no whole copy"):
        located(NAME)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    assert held(fetched()) == FILES


@pytest.mark.slow
def test_no_network_is_told_with_the_host_and_a_whole_copy_is_used(hub, home, monkeypatch):
    add(hub)
    place = fetched()
    from huggingface_hub import constants

    nobody = "http://127.0.0.1:9"
    monkeypatch.setattr(constants, "ENDPOINT", nobody)
    assert fetched() == place
    with pytest.raises(
        RunError, match=rf"{nobody} does not answer \(.*refused.*\), and the cache .* or give a f"
    ):
        located("somebody/other")


def test_a_cache_that_cannot_be_written_is_named(hub, home):
    add(hub)
    home.write_text("a file")
    with pytest.raises(
        RunError, match=rf"cannot be written to the cache {home}/hub: .*Not a dir.* Set HF_HOME"
    ):
        located(NAME)


def test_a_full_disk_is_told_before_the_weights_are_fetched(hub, home, monkeypatch):
    add(hub)
    place = located(NAME)
    usage = hub_folders.shutil.disk_usage("/")
    monkeypatch.setattr(hub_folders.shutil, "disk_usage", lambda _: usage._replace(free=5_000))
    with pytest.raises(
        RunError, match=r"0 MB are to be fetched, and the disk of the cache \S+ has 0 MB. Free"
    ):
        place.fetch_weights()
    assert "model.safetensors" not in hub.downloads


def test_without_the_package_the_extra_is_named(hub, home, monkeypatch):
    monkeypatch.setattr(extras, "_is_missing", lambda module: module == "huggingface_hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        MissingExtraError, match="no folder a/b here. Fetching a/b .* needs huggingface_hub"
    ) as caught:
        located("a/b")
    assert "pip install 'keras-selfattn[hub]', or give a folder that is here" in str(caught.value)


def test_all_files_that_are_read_are_fetched():
    rooms = ("pretrained_folders", "subwords")
    root = Path(hub_folders.__file__).parents[1] / "models"
    text = "".join(path.read_text("utf-8") for room in rooms for path in (root / room).glob("*.py"))
    named = {*re.findall(r'"(\w+\.(?:json|txt))"', text)}
    own = {f"{name}_characters.txt" for name in ("bert", "byte_level", "joined")}  # of this package
    assert named - own <= SMALL_FILES
    models = importlib.import_module("keras_selfattn.models.subwords.unigram_files").MODELS
    assert {*models} <= SMALL_FILES
    kinds = importlib.import_module(
        "keras_selfattn.models.pretrained_folders.sentence_settings"
    )._SENTENCE_FILES
    assert {*kinds} <= SMALL_FILES
    assert {"config.json", "modules.json", "vocab.txt", "merges.txt"} <= named


@pytest.mark.process
def test_the_package_is_imported_for_a_name_alone():
    program = (  # without Keras, which imports it where it is installed
        "import sys\n"
        "from keras_selfattn.files.hub_folders import located\n"
        "located('./a')\n"
        "assert 'huggingface_hub' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


@pytest.mark.process
def test_a_mirror_and_the_cache_are_those_of_the_environment(hub, tmp_path):
    add(hub)
    with fetching(hub, tmp_path / "cache", NAME) as process:
        said, logged = process.communicate(timeout=120)
    assert process.returncode == 0, logged
    assert held(said.strip()) == FILES
    assert Path(said).is_relative_to(tmp_path / "cache")
