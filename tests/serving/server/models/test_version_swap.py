"""Versions come and go, servers start and stop: no request is lost to it."""

import shutil
import socket
import threading
import time

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from ports import free_port
from serving_models import HalfPlusTwo, RenamedInput, Slow, save

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig

QUICK = 0.05  # seconds between looks at the base path


@pytest.fixture
def base(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    return folder


@pytest.fixture
def serve():
    """Serves a base path, looking at it often; gives the server and a client."""
    opened = []

    def start(base, **settings):
        settings = {"file_system_poll_wait_seconds": QUICK, **settings}
        server = Server(ServerConfig("default", base, port=0, **settings)).start()
        opened.append(server)
        return server, Client(server.target)

    yield start
    for server in opened:
        server.stop(grace=0)


def only_model(server):
    (model,) = server.models._models.values()
    return model


def states(client):
    return [(status.version, status.state) for status in client.status()]


def answer(client, **kwargs):
    return client.predict({"x": np.float32([2])}, **kwargs)["y"].item()


def test_a_new_version_is_picked_up_and_the_old_one_ends(base, serve, until):
    save(HalfPlusTwo(), base, 1)
    _, client = serve(base)
    assert answer(client) == 3.0
    save(HalfPlusTwo(b=10.0), base, 12)  # later by number, not by spelling
    save(HalfPlusTwo(b=5.0), base, 2)
    until(lambda: states(client) == [(12, "AVAILABLE"), (1, "END")])
    assert answer(client) == answer(client, version=12) == 11.0
    with pytest.raises(errors.NotFoundError, match=r"Specific\(default, 1\)"):
        answer(client, version=1)


def test_a_version_that_is_waited_for_is_forgotten_when_a_later_one_serves(base, serve, until):
    save(HalfPlusTwo(), base, 1)
    _, client = serve(base)
    (base / "2").mkdir()  # half a copy
    until(lambda: states(client) == [(2, "START"), (1, "AVAILABLE")])
    save(HalfPlusTwo(b=10.0), base, 3)
    until(lambda: states(client) == [(3, "AVAILABLE"), (1, "END")])


@pytest.mark.slow
def test_no_request_fails_while_versions_change_under_load(base, serve, until, in_background):
    save(HalfPlusTwo(b=1.0), base, 1)
    _, client = serve(base)
    done = threading.Event()

    def load():
        failures, seen = [], set()
        while not done.is_set():
            try:
                seen.add(answer(client))
            except errors.ServingError as error:
                failures.append(error)
        return failures, seen

    callers = [in_background(load) for _ in range(4)]
    for version in (2, 3, 4):
        save(HalfPlusTwo(b=float(version)), base, version)
        until(lambda version=version: (version, "AVAILABLE") in states(client))
    done.set()
    results = [caller.result() for caller in callers]
    assert [failures for failures, _ in results] == [[]] * 4
    assert set.union(*(seen for _, seen in results)) <= {2.0, 3.0, 4.0, 5.0}
    until(lambda: states(client) == [(4, "AVAILABLE"), (3, "END"), (2, "END"), (1, "END")])


@pytest.mark.slow
def test_a_running_request_keeps_its_version_loaded(base, serve, until, in_background, tmp_path):
    save(Slow(), base, 1)
    ready = save(HalfPlusTwo(), tmp_path, 2)  # before: on a busy machine it may take as long as the request
    server, client = serve(base)
    running = in_background(client.predict, {"seconds": np.float32(10)}, timeout=60)
    until(lambda: only_model(server).running == 1)
    ready.rename(base / "2")
    until(lambda: (2, "AVAILABLE") in states(client))
    assert states(client) == [(2, "AVAILABLE"), (1, "UNLOADING")]
    assert running.result()["rounds"] > 0
    until(lambda: states(client) == [(2, "AVAILABLE"), (1, "END")])


def test_the_client_follows_a_version_whose_input_has_another_name_and_type(base, serve, until):
    save(HalfPlusTwo(), base, 1)
    _, client = serve(base)
    assert client.predict([2])["y"].tolist() == [3.0]
    save(RenamedInput(), base, 2)
    until(lambda: (2, "AVAILABLE") in states(client))
    assert client.predict([2])["y"].tolist() == [11.0]


def copy_in_halves(source, target, last):
    """Copies a version without its file `last`; gives a function that copies that too."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(last))
    (missing,) = source.rglob(last)
    return lambda: shutil.copy(missing, target / missing.relative_to(source))


@pytest.mark.parametrize("last", ["saved_model.pb", "variables.index", "variables.data-00000-of-00001"])
def test_a_half_copied_version_is_waited_for(base, serve, until, tmp_path, last):
    save(HalfPlusTwo(), base, 1)
    _, client = serve(base)
    complete = save(HalfPlusTwo(b=10.0), tmp_path, 2)
    finish = copy_in_halves(complete, base / "2", last)
    until(lambda: 2 in dict(states(client)))
    threading.Event().wait(10 * QUICK)
    assert dict(states(client))[1] == "AVAILABLE"
    assert answer(client) == 3.0
    finish()
    until(lambda: dict(states(client))[2] == "AVAILABLE")
    assert answer(client) == 11.0


def test_a_version_that_is_still_growing_is_not_loaded(base, serve, until, tmp_path):
    save(HalfPlusTwo(), base, 1)
    server, client = serve(base, file_system_poll_wait_seconds=3600)
    complete = save(HalfPlusTwo(b=10.0), tmp_path, 2)
    shutil.copytree(complete, base / "2")
    vocabulary = base / "2" / "assets" / "words.txt"
    vocabulary.parent.mkdir(exist_ok=True)
    for lines in range(3):
        vocabulary.write_text("word\n" * lines)
        only_model(server).look()
        assert states(client) == [(2, "START"), (1, "AVAILABLE")]
    only_model(server).look()
    until(lambda: states(client) == [(2, "AVAILABLE"), (1, "END")])


def test_a_broken_version_leaves_the_old_one_serving_and_is_retried_when_it_changes(base, serve, until):
    save(HalfPlusTwo(), base, 1)
    server, client = serve(base)
    (base / "2" / "variables").mkdir(parents=True)
    (base / "2" / "variables" / "variables.index").write_bytes(b"broken")
    (base / "2" / "saved_model.pb").write_bytes(b"broken")
    until(lambda: states(client) == [(2, "END"), (1, "AVAILABLE")])
    assert answer(client) == 3.0
    (ended, _) = client.status()
    assert ended.code is not grpc.StatusCode.OK
    assert ended.message
    assert str(base) not in ended.message
    looks = only_model(server)._failed[2]
    threading.Event().wait(5 * QUICK)
    assert only_model(server)._failed[2] is looks  # not loaded again while it is the same
    save(HalfPlusTwo(b=10.0), base, 2)
    until(lambda: states(client) == [(2, "AVAILABLE"), (1, "END")])
    assert answer(client) == 11.0


def test_removing_the_latest_version_goes_back_to_the_one_before(base, serve, until):
    save(HalfPlusTwo(), base, 1)
    save(HalfPlusTwo(b=10.0), base, 2)
    _, client = serve(base)
    assert answer(client) == 11.0
    shutil.rmtree(base / "2")
    until(lambda: states(client) == [(2, "END"), (1, "AVAILABLE")])
    assert answer(client) == 3.0


def test_without_versions_the_model_is_unloaded_and_unhealthy_until_one_comes(base, serve, until):
    save(HalfPlusTwo(), base, 1)
    server, client = serve(base)
    with grpc.insecure_channel(server.target) as channel:
        health = health_pb2_grpc.HealthStub(channel)

        def healthy():
            return health.Check(health_pb2.HealthCheckRequest(), timeout=20).status == 1

        assert healthy()
        shutil.rmtree(base / "1")
        until(lambda: not healthy())
        with pytest.raises(errors.NotFoundError, match=r"Latest\(default\)"):
            answer(client)
        save(HalfPlusTwo(b=10.0), base, 2)
        until(healthy)
        assert answer(client) == 11.0


def test_a_base_path_that_goes_away_for_a_while_changes_nothing(base, serve, until):
    save(HalfPlusTwo(), base, 1)
    server, client = serve(base, file_system_poll_wait_seconds=3600)
    base.rename(base.with_name("away"))
    only_model(server).look()
    assert answer(client) == 3.0


def test_only_so_many_ended_versions_are_remembered(base, serve):
    save(HalfPlusTwo(), base, 1000)
    server, client = serve(base)
    from keras_selfattn.serving.wire import messages_pb2 as pb

    for version in range(300):
        only_model(server).states.set(version, pb.ModelVersionStatus.END)
    assert len(client.status()) == 101
    assert states(client)[:2] == [(1000, "AVAILABLE"), (299, "END")]


def test_children_that_are_no_versions_are_ignored(base, serve):
    save(HalfPlusTwo(), base, 1)
    for name in ("tmp-2", "2.5", "-3", "readme"):
        (base / name).mkdir()
    (base / "9").write_text("a file")
    (base / "10").mkdir()
    _, client = serve(base)
    assert answer(client) == 3.0


def start_error(base, **settings):
    with pytest.raises(errors.ServerStartError) as caught:
        Server(ServerConfig("m", base, **{"port": 0, **settings})).start()
    return str(caught.value)


def test_a_server_that_cannot_start_says_why_and_what_to_do(base, tmp_path, caplog):
    assert f"{tmp_path / 'none'} does not exist" in start_error(tmp_path / "none", startup_wait_seconds=10)
    assert "waiting" not in caplog.text
    file = tmp_path / "file"
    file.write_text("")
    assert f"{file} is a file, not a folder" in start_error(file)
    assert f"{base} has no version" in start_error(base)
    version = save(HalfPlusTwo(), base, 3)
    assert "Pass its parent folder" in start_error(version)
    (version / "saved_model.pb").write_bytes(b"\xff" * 100)
    message = start_error(base)
    assert f"model 'm': version 3 in {base} does not load" in message
    assert "does not load" in message
    (version / "variables" / "variables.index").unlink()
    assert f"version 3 in {base} lacks variables/variables.index" in start_error(base)
    (version / "saved_model.pb").unlink()
    assert f"version 3 in {base} lacks saved_model.pb" in start_error(base)


def test_an_incomplete_latest_version_does_not_keep_the_server_from_starting(base, serve, until, tmp_path):
    save(HalfPlusTwo(), base, 1)
    complete = save(HalfPlusTwo(b=10.0), tmp_path, 2)
    finish = copy_in_halves(complete, base / "2", "saved_model.pb")
    _, client = serve(base)
    assert answer(client) == 3.0
    finish()
    until(lambda: answer(client) == 11.0)


def test_a_port_in_use_is_an_error_and_not_shared(base, half_base):
    with Server(ServerConfig("half", half_base, port=0)) as first:
        message = start_error(half_base, port=first.port)
        assert f"cannot listen on 127.0.0.1:{first.port}: Address already in use" in message
        assert "0 takes any free one" in message
        with socket.socket() as sharing:  # would succeed if the server shared its port with whoever asks
            sharing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            with pytest.raises(OSError, match="in use"):
                sharing.bind(("127.0.0.1", first.port))
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert "Address already in use" in start_error(half_base, port=other.getsockname()[1])
    assert "cannot listen on 192.0.2.1:0" in start_error(half_base, host="192.0.2.1")


def test_the_session_gets_the_threads_of_the_config(base, serve):
    save(HalfPlusTwo(), base, 1)
    for threads in (1, 3):
        server, _ = serve(base, tensorflow_intra_op_parallelism=threads)
        with only_model(server).loaded.lease(None) as servable:
            session = servable._session
        assert session._config.intra_op_parallelism_threads == threads


@pytest.mark.slow
def test_stopping_lets_running_requests_finish_and_refuses_new_ones(base, serve, until, in_background):
    save(Slow(), base, 1)
    server, client = serve(base)
    running = in_background(client.predict, {"seconds": np.float32(2)})
    until(lambda: only_model(server).running == 1)
    stopping = in_background(server.stop, 30)

    with grpc.insecure_channel(server.target) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        until(lambda: health.Check(health_pb2.HealthCheckRequest(), timeout=20).status == 2)
    with pytest.raises(errors.UnavailableError, match="the server is shutting down"):
        client.status()
    assert not stopping.done()
    assert running.result()["rounds"] > 0
    stopping.result(20)
    assert server.wait(0)


@pytest.mark.slow
def test_the_grace_is_a_limit(base, serve, until, in_background):
    save(Slow(), base, 1)
    server, client = serve(base)
    running = in_background(client.predict, {"seconds": np.float32(120)}, timeout=100)
    until(lambda: only_model(server).running == 1)
    started = time.monotonic()
    server.stop(0.2)
    assert time.monotonic() - started < 20
    assert isinstance(running.exception(20), errors.UnavailableError | errors.CancelledError)


def test_without_grace_nobody_is_given_time_to_leave(half_base, in_background, monkeypatch):
    monkeypatch.setattr("keras_selfattn.serving.server.server._LEAVING_SECONDS", 60)
    with Server(ServerConfig("half", half_base, port=0)) as server:
        in_background(server.stop, 0).result(20)


def test_health_watchers_hear_of_the_end_and_do_not_hold_it_up(base, serve, in_background):
    save(HalfPlusTwo(), base, 1)
    server, _ = serve(base)
    with grpc.insecure_channel(server.target) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert next(watch).status == 1
        started = time.monotonic()
        stopping = in_background(server.stop, 60)
        assert next(watch).status == 2
        stopping.result(20)
        assert time.monotonic() - started < 20


def test_stopping_twice_or_before_the_start_is_fine(half_base):
    server = Server(ServerConfig("half", half_base, port=0))
    with pytest.raises(RuntimeError, match="no port before start"):
        _ = server.port
    server.stop()
    server = Server(ServerConfig("half", half_base, port=0)).start()
    assert not server.wait(0)
    server.stop()
    server.stop()
    assert server.wait()


@pytest.mark.slow
def test_a_client_finds_a_server_that_was_started_again(half_base):
    with Server(ServerConfig("half", half_base, port=free_port())) as first:
        client = Client(first.target, "half")
        assert answer(client) == 3.0
    with pytest.raises(errors.UnavailableError):
        client.status()
    with Server(ServerConfig("half", half_base, port=first.port)):
        client.wait_until_ready(30)
        assert answer(client) == 3.0


@pytest.mark.process
def test_a_server_killed_in_the_middle_of_a_call_is_unavailable_at_once(
    slow_base, spawn_server, in_background
):
    process, target = spawn_server(slow_base)
    with Client(target) as client:
        client.predict({"seconds": np.float32(0)})
        running = in_background(client.predict, {"seconds": np.float32(60)}, timeout=100)
        threading.Event().wait(0.5)
        process.kill()
        with pytest.raises(errors.UnavailableError, match=target):
            running.result(20)
