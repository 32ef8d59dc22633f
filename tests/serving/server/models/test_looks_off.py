"""With looks off (`file_system_poll_wait_seconds=0`) a reload looks at every folder that it lists."""

import shutil
import threading
import time

import pytest
from serving_models import HalfPlusTwo, save

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client, ModelConfig
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.models.loader import Loader


@pytest.fixture
def base(tmp_path):
    """The folder of the model `late`, beside that of a model with a version."""
    save(HalfPlusTwo(), tmp_path / "there")
    return tmp_path / "late"


@pytest.fixture
def client(base, tmp_path):
    """A client of a server whose looks are off; both models are on its list."""
    file = tmp_path / "models.conf"
    entries = [
        f'config {{ name: "{name}" base_path: "{tmp_path / name}" model_platform: "tensorflow" }}'
        for name in ("there", "late")
    ]
    file.write_text(f"model_config_list {{ {' '.join(entries)} }}")
    config = ServerConfig(model_config_file=file, port=0, file_system_poll_wait_seconds=0)
    server = Server(config).start()
    with Client(server.target, "late") as opened:
        yield opened
    server.stop(grace=0)


def reload(client, base):
    """Asks for the list that is served already."""
    client.reload([ModelConfig(name, str(base.with_name(name))) for name in ("there", "late")], timeout=60)


def answer(client):
    return client.predict([0])["y"].item()


def test_a_folder_that_was_missing_at_the_start_is_served_after_a_reload(base, client):
    with pytest.raises(errors.UnknownError, match="late does not exist"):
        reload(client, base)
    base.mkdir()
    with pytest.raises(errors.UnknownError, match="late has no version"):
        reload(client, base)
    save(HalfPlusTwo(b=5.0), base)
    with pytest.raises(errors.NotFoundError):
        answer(client)  # nobody has looked
    reload(client, base)
    assert answer(client) == 5.0


def test_a_reload_serves_a_new_version_and_unloads_a_removed_one(base, client):
    save(HalfPlusTwo(b=1.0), base, 1)
    reload(client, base)
    save(HalfPlusTwo(b=2.0), base, 2)
    threading.Event().wait(0.2)
    assert answer(client) == 1.0, "looks are off"
    reload(client, base)
    assert answer(client) == 2.0
    shutil.rmtree(base / "2")
    reload(client, base)
    assert answer(client) == 1.0
    shutil.rmtree(base / "1")
    with pytest.raises(errors.UnknownError, match="late has no version"):
        reload(client, base)
    with pytest.raises(errors.NotFoundError):
        answer(client)


def test_a_reload_tries_a_version_again_that_did_not_load(base, client, monkeypatch):
    save(HalfPlusTwo(b=7.0), base)

    def without_memory(*_):
        raise MemoryError("no memory left")

    with monkeypatch.context() as patched:
        patched.setattr(Loader, "load", without_memory)
        with pytest.raises(errors.UnknownError, match="no memory left"):
            reload(client, base)
    reload(client, base)
    assert answer(client) == 7.0


def test_a_reload_of_a_folder_that_is_missing_answers_at_once(base, client):
    started = time.monotonic()
    with pytest.raises(errors.UnknownError, match="does not exist"):
        reload(client, base)
    assert time.monotonic() - started < 5
