"""The server reads versions from an object store: a real S3 server, with faults."""

import dataclasses
import json
import logging
import os
import re
import shutil
import sys
import time

import numpy as np
import pytest
import serving_models as models

from keras_selfattn.export.card import write_card
from keras_selfattn.files.version_files import CARD
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.errors import InvalidArgumentError, ServerStartError
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.models.version_states import State

pytestmark = pytest.mark.slow

POLL = 0.1


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """Folders with y = x / 2 + number: 1 and 2 of others, 3 and 4 with a card of ours."""
    base = tmp_path_factory.mktemp("versions")
    for number in (1, 2, 3, 4):
        module = models.HalfPlusTwo(b=float(number))
        path = models.save(module, base, number, serving_default=module.serve)
        if number > 2:
            write_card(path, {"format": 1})
    return {number: base / str(number) for number in (1, 2, 3, 4)}


@pytest.fixture
def config(bucket, tmp_path):
    return ServerConfig(
        "half",
        f"{bucket}/half",
        port=0,
        object_store_poll_wait_seconds=POLL,
        model_cache_path=tmp_path / "cache",
        load_retry_interval_micros=100_000,
    )


def names(folder):
    """The files of a version in the order in which an export writes them, its card last."""
    files = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
    return sorted(files, key=lambda name: (name == CARD, name == "saved_model.pb"))


def answer(server):
    with Client(server.target, "half") as client:
        return float(client.predict({"x": np.float32([0.0])})["y"][0])


def cached(config):
    folder = config.model_cache_path
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def state(server, version):
    return server.models._models["half"].states.of(version)


def problem(server):
    found = server.models._models["half"].problem
    return found.words if found else ""


def test_versions_are_served_from_a_bucket_and_new_ones_replace_them(config, bucket, put, versions, until):
    put(versions[3], f"{bucket}/half/3")
    with Server(config) as server:
        assert answer(server) == 3.0
        put(versions[4], f"{bucket}/half/4", names(versions[4]))
        until(lambda: server.available() == {"half": [4]})
        assert answer(server) == 4.0
    assert len(cached(config)) == 2
    assert config.model_cache_path.stat().st_mode & 0o777 == 0o700


def test_a_version_of_others_is_taken_when_two_listings_are_the_same(config, bucket, put, versions, until):
    put(versions[1], f"{bucket}/half/1")
    with Server(config) as server:
        assert answer(server) == 1.0
        put(versions[2], f"{bucket}/half/2")
        until(lambda: server.available() == {"half": [2]})


def test_a_version_that_is_half_uploaded_waits(config, bucket, put, versions, until):
    put(versions[1], f"{bucket}/half/1")
    with Server(config) as server:
        order = names(versions[4])
        put(versions[4], f"{bucket}/half/4", order[:-2])
        until(lambda: "lacks saved_model.pb" in problem(server))
        put(versions[4], f"{bucket}/half/4", [CARD, "saved_model.pb"])
        until(lambda: server.available() == {"half": [4]})


def test_a_card_that_comes_before_other_files_does_not_make_a_version_whole(
    config, bucket, put, versions, until
):
    put(versions[1], f"{bucket}/half/1")
    with Server(config) as server:
        put(versions[3], f"{bucket}/half/3", [CARD, "saved_model.pb", "variables/variables.index"])
        until(lambda: "its model card names" in problem(server))
        time.sleep(5 * POLL)  # for several equal listings
        assert server.available() == {"half": [1]}
        put(versions[3], f"{bucket}/half/3")
        until(lambda: server.available() == {"half": [3]})


def test_a_version_of_others_without_all_its_variables_waits(config, bucket, put, versions, until):
    put(versions[1], f"{bucket}/half/1")
    with Server(config) as server:
        put(versions[2], f"{bucket}/half/2", ["saved_model.pb", "variables/variables.index"])
        until(lambda: "lacks variables/variables.data-00000-of-00001" in problem(server))
        put(versions[2], f"{bucket}/half/2")
        until(lambda: server.available() == {"half": [2]})


def test_a_graph_that_waits_for_its_variables_does_not_end_a_start(
    config, bucket, put, versions, in_background
):
    put(versions[1], f"{bucket}/half/1", ["saved_model.pb"])
    with pytest.raises(ServerStartError, match="1 in .* lacks variables/variables.index"):
        Server(config).start()
    config = dataclasses.replace(config, startup_wait_seconds=60.0)
    starting = in_background(Server(config).start)
    time.sleep(5 * POLL)
    assert not config.model_cache_path.exists()  # nothing was fetched
    put(versions[1], f"{bucket}/half/1")
    server = starting.result()
    assert answer(server) == 1.0
    server.stop()


def test_a_bucket_without_the_models_folder_is_waited_for(config, bucket, put, versions, in_background):
    config = dataclasses.replace(config, startup_wait_seconds=60.0)
    starting = in_background(Server(config).start)
    time.sleep(5 * POLL)
    put(versions[3], f"{bucket}/half/3")
    server = starting.result()
    assert answer(server) == 3.0
    server.stop()


@pytest.mark.parametrize("number", [1, 3])
def test_a_bucket_that_lists_but_does_not_give_ends_the_start(config, store, bucket, put, versions, number):
    put(versions[number], f"{bucket}/half/{number}")
    store.fault = lambda request: None if "list-type" in request else "denied"
    config = dataclasses.replace(config, startup_wait_seconds=60.0)
    with pytest.raises(ServerStartError, match="refuses the credentials"):
        Server(config).start()


def test_credentials_that_are_refused_for_a_while_lose_no_version(
    config, store, bucket, put, versions, until
):
    put(versions[1], f"{bucket}/half/1")
    config = dataclasses.replace(config, max_num_load_retries=0)
    with Server(config) as server:
        store.fault = lambda request: None if "list-type" in request or "PUT" in request else "denied"
        put(versions[2], f"{bucket}/half/2")
        until(lambda: "refuses the credentials" in problem(server))
        store.fault = lambda request: None
        until(lambda: server.available() == {"half": [2]})


def test_an_outage_is_logged_once_though_its_words_differ(config, bucket, put, versions, monkeypatch, caplog):
    put(versions[1], f"{bucket}/half/1")
    calls = []

    def failing(self, *_, **__):
        calls.append(self)
        raise OSError(f"request {len(calls)} failed")

    with Server(config), caplog.at_level(logging.INFO, "keras_selfattn"):
        monkeypatch.setattr("s3fs.S3FileSystem._ls", failing)
        time.sleep(10 * POLL)
        monkeypatch.undo()
    assert len(calls) > 2
    assert len([record for record in caplog.records if "cannot be reached" in record.message]) == 1


def test_a_full_disk_is_told_before_anything_is_fetched(config, store, bucket, put, versions, monkeypatch):
    put(versions[3], f"{bucket}/half/3")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 0))
    with pytest.raises(ServerStartError, match="model_cache_path .* MB are needed, 0 are free"):
        Server(config).start()
    assert not any("variables.data" in request for request in store.requests if request.startswith("GET"))


def test_a_cache_that_cannot_be_written_ends_the_start(config, bucket, put, versions, tmp_path):
    put(versions[3], f"{bucket}/half/3")
    (tmp_path / "cache").write_text("a file")
    config = dataclasses.replace(config, startup_wait_seconds=60.0)
    with pytest.raises(ServerStartError, match="model_cache_path .*cache cannot be written"):
        Server(config).start()


def test_a_version_whose_files_do_not_have_the_cards_digest_is_not_served(
    config, bucket, put, versions, tmp_path, until
):
    damaged = tmp_path / "3"
    shutil.copytree(versions[3], damaged)
    data = damaged / "variables" / "variables.data-00000-of-00001"
    data.write_bytes(bytes(len(data.read_bytes())))
    put(versions[1], f"{bucket}/half/1")
    with Server(config) as server:
        put(damaged, f"{bucket}/half/3")
        until(lambda: "is damaged" in problem(server))
        assert state(server, 3) == State.END
        assert server.available() == {"half": [1]}
        put(versions[3], f"{bucket}/half/3")  # whole this time
        until(lambda: server.available() == {"half": [3]})


def test_one_listing_a_poll_is_all_that_a_served_model_costs(config, store, bucket, put, versions):
    put(versions[3], f"{bucket}/half/3")
    with Server(config) as server:
        store.requests.clear()
        time.sleep(10 * POLL)
        polls = len(store.requests)
        assert 3 <= polls <= 12
        assert store.count("GET /") == polls
        assert all("list-type=2" in request for request in store.requests)
        assert server.available() == {"half": [3]}


@pytest.mark.parametrize("fault", ["refused", "denied", 20.0])
def test_a_store_that_is_away_changes_nothing_that_is_served(
    config, store, bucket, put, versions, until, fault, monkeypatch
):
    monkeypatch.setattr("keras_selfattn.files.store_calls.CALL_SECONDS", 0.5)
    put(versions[1], f"{bucket}/half/1")
    with Server(config) as server:
        store.fault = lambda request: fault
        until(lambda: problem(server))
        assert server.available() == {"half": [1]}
        assert answer(server) == 1.0
        store.fault = lambda request: None
        put(versions[3], f"{bucket}/half/3")
        until(lambda: server.available() == {"half": [3]})


@pytest.mark.parametrize("fault", ["refused", "truncated"])
def test_a_fetch_goes_on_after_faults(config, store, bucket, put, versions, fault):
    put(versions[3], f"{bucket}/half/3")
    failed = set()

    def once_for_each_object(request):
        if "list-type" in request or request in failed or request.startswith("PUT"):
            return None
        failed.add(request)
        return fault

    store.fault = once_for_each_object
    with Server(config) as server:
        assert answer(server) == 3.0
    assert len(failed) >= 4


def test_a_fetch_that_fails_again_and_again_leaves_nothing_and_is_tried_at_each_look(
    config, store, bucket, put, versions, until, monkeypatch
):
    monkeypatch.setattr("keras_selfattn.files.object_stores._PAUSES_SECONDS", (0.0,))
    monkeypatch.setattr("keras_selfattn.files.object_stores._PIECE_SECONDS", 1.0)
    put(versions[1], f"{bucket}/half/1")
    with Server(config) as server:
        store.fault = lambda request: "truncated" if "variables.data" in request else None
        put(versions[4], f"{bucket}/half/4")
        until(lambda: re.search("version 4 in .*: .*(cannot be reached|ended early)", problem(server)))
        assert len(cached(config)) == 1
        assert server.available() == {"half": [1]}
        assert state(server, 4) == State.START
        store.fault = lambda request: None
        until(lambda: server.available() == {"half": [4]})
    assert not [path for path in config.model_cache_path.iterdir() if ".tmp-" in path.name]


def test_a_stop_does_not_wait_for_a_slow_store(config, store, bucket, put, versions, until):
    put(versions[1], f"{bucket}/half/1")
    server = Server(config).start()
    store.fault = lambda request: 15.0 if "variables.data" in request else None
    put_requests = len(store.requests)
    put(versions[4], f"{bucket}/half/4", [n for n in names(versions[4]) if "variables.data" not in n])
    store.fault = lambda request: 15.0
    until(lambda: len(store.requests) > put_requests)
    before = time.monotonic()
    server.stop()
    assert time.monotonic() - before < 10


def test_a_folder_that_has_gone_changes_nothing_that_is_served(config, bucket, put, versions, until):
    import fsspec

    put(versions[3], f"{bucket}/half/3")
    with Server(config) as server:
        fsspec.filesystem("s3").rm(f"{bucket.removeprefix('s3://')}/half", recursive=True)
        until(lambda: "has no version" in problem(server))
        time.sleep(3 * POLL)
        assert server.available() == {"half": [3]}
        put(versions[4], f"{bucket}/half/4", names(versions[4]))
        until(lambda: server.available() == {"half": [4]})


def test_a_restart_fetches_nothing_that_it_has(config, store, bucket, put, versions):
    put(versions[3], f"{bucket}/half/3")
    with Server(config):
        pass
    store.requests.clear()
    with Server(config) as server:
        assert answer(server) == 3.0
    fetched = [request for request in store.requests if "list-type" not in request and CARD not in request]
    assert not fetched


def test_two_servers_that_share_a_cache_fetch_a_version_once(
    config, store, bucket, put, versions, in_background
):
    put(versions[3], f"{bucket}/half/3")
    store.requests.clear()
    starts = [in_background(Server(config).start) for _ in range(2)]
    servers = [start.result() for start in starts]
    try:
        assert [answer(server) for server in servers] == [3.0, 3.0]
    finally:
        for server in servers:
            server.stop()
    assert sum("saved_model.pb" in request and "list-type" not in request for request in store.requests) == 1


def test_the_cache_keeps_what_was_loaded_last_within_its_bound(config, bucket, put, versions, until):
    size = sum(path.stat().st_size for path in versions[3].rglob("*"))
    config = dataclasses.replace(config, model_cache_max_bytes=int(1.5 * size))
    put(versions[3], f"{bucket}/half/3")
    with Server(config) as server:
        (first,) = cached(config)
        put(versions[4], f"{bucket}/half/4", names(versions[4]))
        until(lambda: server.available() == {"half": [4]})
        until(lambda: len(cached(config)) == 1)
        assert first not in cached(config)
        assert answer(server) == 4.0


def test_a_bucket_that_is_not_there_ends_the_start(config):
    config = dataclasses.replace(config, model_base_path="s3://no-such-bucket/half")
    with pytest.raises(ServerStartError, match="s3://no-such-bucket/half does not exist"):
        Server(config).start()


def test_a_store_without_credentials_ends_the_start_and_the_secret_is_never_told(
    config, store, monkeypatch, caplog
):
    import s3fs

    with caplog.at_level(logging.DEBUG, "keras_selfattn"):
        store.fault = lambda request: "denied"
        with pytest.raises(ServerStartError, match="refuses the credentials"):
            Server(config).start()
        assert "not-to-be-seen" not in caplog.text
    store.fault = lambda request: None
    s3fs.S3FileSystem.clear_instance_cache()
    for name in [name for name in os.environ if name.startswith("AWS_") and name != "AWS_ENDPOINT_URL"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/no/such/file")
    try:
        with pytest.raises(ServerStartError, match="found none"):
            Server(config).start()
    finally:
        s3fs.S3FileSystem.clear_instance_cache()


def test_a_base_path_that_is_a_version_is_told(config, bucket, put, versions):
    put(versions[3], f"{bucket}/half/3")
    config = dataclasses.replace(config, model_base_path=f"{bucket}/half/3")
    with pytest.raises(ServerStartError, match="half/3 is a version, and not the folder"):
        Server(config).start()


def test_a_start_waits_for_the_first_version(config, bucket, put, versions, in_background):
    put(versions[1], f"{bucket}/half/readme", ["saved_model.pb"])
    config = dataclasses.replace(config, startup_wait_seconds=60.0)
    starting = in_background(Server(config).start)
    put(versions[3], f"{bucket}/half/3")
    server = starting.result()
    assert answer(server) == 3.0
    server.stop()


def test_an_object_whose_name_leads_out_of_its_folder_is_not_fetched(
    config, bucket, put, versions, tmp_path, until
):
    import fsspec

    put(versions[1], f"{bucket}/half/1")
    with Server(config) as server:
        put(versions[3], f"{bucket}/half/3")
        until(lambda: server.available() == {"half": [3]})
        bad = f"{bucket.removeprefix('s3://')}/half/4/../../../../out"
        fsspec.filesystem("s3").pipe_file(bad, b"out")
        put(versions[4], f"{bucket}/half/4")
        until(lambda: "holds a file that no folder can hold" in problem(server))
        assert server.available() == {"half": [3]}


def test_a_missing_package_or_scheme_is_told_at_once(monkeypatch):
    pytest.importorskip("fsspec")
    with pytest.raises(InvalidArgumentError, match="oss://bucket/m needs a package"):
        Server(ServerConfig("m", "oss://bucket/m"))
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(InvalidArgumentError, match=r"pip install 'keras-selfattn\[stores\]'"):
        Server(ServerConfig("m", "s3://bucket/m"))


def test_a_models_list_names_buckets(config, bucket, put, versions, tmp_path):
    put(versions[3], f"{bucket}/half/3")
    listed = tmp_path / "models.txt"
    entry = {"name": "half", "base_path": f"{bucket}/half/"}
    fields = " ".join(f"{name}: {json.dumps(value)}" for name, value in entry.items())
    listed.write_text(f"model_config_list {{ config {{ {fields} model_platform: 'tensorflow' }} }}")
    config = dataclasses.replace(config, model_base_path="", model_config_file=listed)
    with Server(config) as server:
        assert answer(server) == 3.0
