"""`--workers`: several processes are one server to its clients and to its operator."""

import json
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from functools import partial
from pathlib import Path

import late_worker
import pytest
from serving_models import HalfPlusTwo, save

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client, ModelConfig
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.workers.membership import RELOAD
from keras_selfattn.serving.server.workers.supervisor import Supervisor
from keras_selfattn.serving.wire import messages_pb2 as pb

COMMAND = [sys.executable, "-c", "from keras_selfattn.cli.entry import main; main()", "serve", "--workers=2"]


class Served:
    """A server of two workers, as its operator and its clients see it."""

    def __init__(self, *flags):
        self.process = subprocess.Popen(
            [*COMMAND, "--port=0", "--rest_api_port=-1", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.log = []
        self._reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True)
        self._reader.start()
        line = next((line for line in self.process.stdout if line.startswith("Serving '")), "")
        assert line, "".join(self.log)
        self.target = re.search(r"at (\S+) \(gRPC\)", line)[1]
        self.url = re.search(r"and (http://[^/]+)/", line)[1]

    @property
    def workers(self):
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(child) for task in tasks for child in task.read_text().split()]

    def get(self, path):
        with urllib.request.urlopen(f"{self.url}{path}", timeout=20) as response:
            return response.read().decode()

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(timeout=60)

    def close(self):
        self.process.kill()
        self.process.wait()
        self._reader.join(60)  # until the workers, who write there, have ended, too
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def serve():
    started = []

    def start(*flags):
        started.append(Served(*flags))
        return started[-1]

    yield start
    for served in started:
        served.close()


@pytest.fixture(scope="module")
def shared(half_base):
    served = Served("--model_name=half", f"--model_base_path={half_base}", "--page")
    yield served
    assert served.end(signal.SIGTERM) == 0
    served.close()


def ask(target, model="half", timeout=20.0):
    """The answer to x = 2 over a new connection."""
    with Client(target, model, timeout=timeout) as client:
        return client.predict([2.0])["y"].tolist()


def established(pid, port=None):
    """The number of incoming connections of a process, or of one of its ports."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(str(descriptor.readlink()))
        except OSError:
            continue
    tables = [Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6")]
    lines = [line for table in tables for line in table.splitlines()[1:]]
    fields = [line.split() for line in lines]
    ours = [each for each in fields if each[3] == "01" and f"socket:[{each[9]}]" in inodes]
    return sum(port is None or int(each[1].rpartition(":")[2], 16) == port for each in ours)


@pytest.mark.process
def test_connections_are_spread_over_the_workers(shared):
    with Client(shared.target, "half", connections=40) as client:
        assert [client.predict([2.0])["y"].tolist() for _ in range(40)] == [[3.0]] * 40
        counts = [established(pid) for pid in shared.workers]
    assert len(counts) == 2
    assert min(counts) > 0
    assert sum(counts) == 40


@pytest.mark.process
def test_no_port_opens_before_all_workers_can_answer(half_base, tmp_path, in_background, until):
    config = ServerConfig("half", half_base, port=0, rest_api_port=-1, workers=2)
    release = tmp_path / "release"
    supervisor = Supervisor(config, partial(late_worker.wait_for, release))
    starting = in_background(supervisor.start)
    try:
        until(lambda: supervisor._steps["loaded"] == {1}, seconds=60)
        ports = [int(each.rpartition(":")[2]) for each in (supervisor.target, supervisor.rest_url)]
        time.sleep(0.5)
        assert [accepts(port) for port in ports] == [False, False]
        release.touch()
        until(lambda: accepts(ports[1]), seconds=60)
        # As soon as REST answers, gRPC's connections go to both workers, and REST's do.
        opened = [socket.create_connection(("127.0.0.1", port)) for port in ports for _ in range(40)]
        starting.result(60)
        until(lambda: sum(established(each._process.pid) for each in supervisor._workers.values()) == 80)
        counts = [established(each._process.pid, ports[0]) for each in supervisor._workers.values()]
        for each in opened:
            each.close()
        assert sum(counts) == 40
        assert min(counts) > 5
    finally:
        release.touch()
        supervisor.stop(grace=0)


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except (ConnectionRefusedError, ConnectionResetError):  # reset if it closes while we connect
        return False
    return True


@pytest.mark.process
def test_while_workers_drain_rest_accepts_nobody(serve, slow_base, in_background, until):
    served = serve("--model_name=slow", f"--model_base_path={slow_base}")
    with Client(served.target, "slow", timeout=30) as client:
        client.metadata()
        running = in_background(client.predict, {"seconds": 8})
        time.sleep(1)  # for the request to be there
        served.process.send_signal(signal.SIGTERM)
        until(lambda: not accepts(int(served.url.rpartition(":")[2])))
        assert not running.done()
        assert running.result(30)["rounds"] > 0
    assert served.process.wait(60) == 0


@pytest.mark.process
def test_what_is_counted_is_the_sum_of_all_workers(shared):
    def requests():
        found = re.search(r'request_count\{model_name="half",status="OK"\} (\d+)', metrics())
        return int(found[1]) if found else 0

    def metrics():
        return shared.get("/monitoring/prometheus/metrics")

    before = requests()
    for _ in range(20):
        ask(shared.target)
    # Each look is one more connection, to any worker, and sees the same.
    assert {requests() - before for _ in range(5)} == {20}


@pytest.mark.process
def test_each_worker_serves_the_page_and_knows_the_models_of_all(shared):
    assert "<title>keras-selfattn</title>" in shared.get("/")
    told = [json.loads(shared.get("/page/models")) for _ in range(6)]  # over connections of their own
    assert {each["grpc_port"] for each in told} == {int(shared.target.rpartition(":")[2])}
    (model,) = told[0]["models"]
    assert model["versions"] == [{"version": "3", "state": "AVAILABLE", "error": ""}]
    assert json.loads(shared.get("/page/models/half/versions/3/card")) == {"card": None}


def test_the_supervisor_loads_no_tensorflow(shared):
    libraries = Path(f"/proc/{shared.process.pid}/maps").read_text()
    assert "libtensorflow" not in libraries
    assert all("libtensorflow" in Path(f"/proc/{pid}/maps").read_text() for pid in shared.workers)


@pytest.mark.process
def test_a_second_server_on_the_port_is_an_error(shared, half_base):
    for workers in (1, 2):
        port = shared.target.rpartition(":")[2]
        command = [*COMMAND[:-1], f"--workers={workers}", f"--port={port}", f"--model_base_path={half_base}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 255
        assert "Address already in use" in done.stderr
    assert ask(shared.target) == [3.0]


@pytest.mark.process
def test_a_reload_reaches_all_workers_and_those_that_come_later(serve, tmp_path, until):
    for name in ("a", "b"):
        save(HalfPlusTwo(), tmp_path / name)
    served = serve("--model_name=a", f"--model_base_path={tmp_path / 'a'}")
    with Client(served.target) as client:
        client.reload([ModelConfig("b", str(tmp_path / "b"))], timeout=30)
    for _ in range(10):
        assert ask(served.target, "b") == [3.0]
        with pytest.raises(errors.NotFoundError):
            ask(served.target, "a")
    with Client(served.target) as client, pytest.raises(errors.InvalidArgumentError, match="absolute path"):
        client.reload([ModelConfig("b", "relative")])
    killed = served.workers
    for pid in killed:
        subprocess.run(["kill", "-9", str(pid)], check=True)
    until(lambda: any("worker 1 was ended by SIGKILL" in line for line in served.log))
    until(lambda: len(served.workers) == 2 and not {*killed} & {*served.workers}, seconds=60)
    with Client(served.target, "b", timeout=60) as client:
        client.wait_until_ready(timeout=60)
    models = json.loads(served.get("/v1/models"))["models"]
    assert [model["name"] for model in models] == ["b"]


@pytest.mark.process
def test_a_worker_that_is_killed_under_load_costs_no_request_of_a_client_that_tries_again(
    serve, half_base, until
):
    served = serve("--model_name=half", f"--model_base_path={half_base}")
    stop, failures, answers = threading.Event(), [], []

    def load(client):
        while not stop.is_set():
            try:
                answers.append(client.predict([2.0])["y"].tolist())
            except errors.ServingError as error:
                failures.append(error)

    with Client(served.target, "half", timeout=60, connections=8) as client:
        threads = [threading.Thread(target=load, args=(client,)) for _ in range(16)]
        for thread in threads:
            thread.start()
        until(lambda: len(answers) > 200)
        victim = served.workers[0]
        subprocess.run(["kill", "-9", str(victim)], check=True)
        until(lambda: sum("is available" in line for line in served.log) == 3, seconds=60)
        count = len(answers)
        until(lambda: len(answers) > count + 200)
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert {tuple(answer) for answer in answers} == {(3.0,)}
    assert victim not in served.workers


@pytest.mark.process
def test_running_requests_of_all_workers_finish_before_the_end(serve, slow_base, in_background, until):
    served = serve("--model_name=slow", f"--model_base_path={slow_base}")

    with Client(served.target, "slow", timeout=30, connections=8) as client:
        client.metadata()
        answers = [in_background(client.predict, {"seconds": 1.5}) for _ in range(8)]
        until(lambda: sum(established(pid) for pid in served.workers) == 8)
        time.sleep(1)  # for the requests, which go after the connections
        workers = served.workers
        assert served.end(signal.SIGINT) == 0
        assert all(answer.result()["rounds"] > 0 for answer in answers)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


@pytest.mark.process
def test_workers_whose_supervisor_is_killed_end_by_themselves(serve, half_base, until):
    served = serve("--model_name=half", f"--model_base_path={half_base}")
    workers = served.workers
    served.process.kill()
    until(lambda: not any(is_alive(pid) for pid in workers), seconds=30)


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.process
def test_a_new_version_takes_over_in_all_workers_and_is_available_only_then(serve, tmp_path, until):
    save(HalfPlusTwo(), tmp_path, 1)
    flags = ("--model_name=half", f"--model_base_path={tmp_path}", "--file_system_poll_wait_seconds=0.2")
    served = serve(*flags)
    save(HalfPlusTwo(), tmp_path, 2)

    def states():
        told = json.loads(served.get("/v1/models/half"))["model_version_status"]
        return {each["version"]: each["state"] for each in told}

    until(lambda: states() == {"2": "AVAILABLE", "1": "END"})
    for _ in range(10):
        with Client(served.target, "half") as client:
            assert client.predict([2.0]).version == 2
    shutil.rmtree(tmp_path / "1")


@pytest.mark.process
def test_what_keeps_workers_from_serving_is_said_as_of_one(tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"no model")
    (tmp_path / "1" / "variables").mkdir()
    (tmp_path / "1" / "variables" / "variables.index").touch()
    command = [*COMMAND, "--port=0", f"--model_base_path={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 255
    assert (
        "Failed to start server. Error: FAILED_PRECONDITION: nothing to serve: model 'default'" in done.stderr
    )


def test_workers_are_refused_where_they_cannot_be(half_base):
    with pytest.raises(errors.InvalidInputError, match="workers must be 1 for a Server"):
        Server(ServerConfig("half", half_base, workers=2))
    with pytest.raises(errors.InvalidInputError, match="workers must be 1 with grpc_socket_path"):
        ServerConfig("half", half_base, workers=2, grpc_socket_path="server.sock")


def response(**states):
    told = pb.GetModelStatusResponse()
    for version, state in states.items():
        told.model_version_status.add(version=int(version[1:]), state=state)
    return told


@pytest.mark.process
def test_two_reloads_at_once_leave_all_workers_with_the_same_models(serve, tmp_path):
    for name in ("a", "b"):
        save(HalfPlusTwo(), tmp_path / name)
    served = serve("--model_name=a", f"--model_base_path={tmp_path / 'a'}")

    def reload(name, number):
        with Client(served.target) as client:
            client.reload([ModelConfig(f"{name}{number}", str(tmp_path / name))], timeout=60)

    for number in range(8):
        threads = [threading.Thread(target=reload, args=(name, number)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told = {served.get("/v1/models") for _ in range(8)}
        assert len(told) == 1, told
        assert len(json.loads(told.pop())["models"]) == 1


def test_a_reload_that_waited_for_another_has_only_the_rest_of_its_time(half_base):
    supervisor = Supervisor(ServerConfig("half", half_base, workers=2))
    given = []

    class Worker:
        def do(self, action, arguments, timeout):
            given.extend([arguments[1], timeout])

    supervisor._workers = {1: Worker()}
    supervisor._reloading.acquire()
    threading.Timer(0.2, supervisor._reloading.release).start()
    supervisor._ask_all(RELOAD, (b"", 10.0), None)
    assert given == [given[0]] * 2
    assert given[0] < 9.9  # 10 without the wait of 0.2


@pytest.mark.process
def test_a_worker_that_waits_for_a_version_takes_the_models_of_a_reload(serve, tmp_path, until):
    for name in ("a", "b"):
        save(HalfPlusTwo(), tmp_path / name)
    served = serve("--model_name=a", f"--model_base_path={tmp_path / 'a'}")
    shutil.rmtree(tmp_path / "a" / "1")
    subprocess.run(["kill", "-9", str(served.workers[0])], check=True)
    until(lambda: any("nothing to serve yet" in line for line in served.log), seconds=60)
    with Client(served.target) as client:
        client.reload([ModelConfig("b", str(tmp_path / "b"))], timeout=30)
    assert [ask(served.target, "b") for _ in range(10)] == [[3.0]] * 10


def listed(folder, name):
    """A file of models with one, which is saved."""
    save(HalfPlusTwo(), folder / name)
    return (
        f'model_config_list {{ config {{ name: "{name}" base_path: "{folder / name}" '
        'model_platform: "tensorflow" } }'
    )


@pytest.mark.process
@pytest.mark.parametrize("is_there", [True, False])
def test_a_worker_that_comes_later_serves_what_the_others_do_whatever_the_file_says(
    serve, tmp_path, until, is_there
):
    file = tmp_path / "models.conf"
    file.write_text(listed(tmp_path, "a"))
    served = serve(f"--model_config_file={file}")
    file.write_text(listed(tmp_path, "b"))  # read once, as told
    if not is_there:
        file.unlink()
    subprocess.run(["kill", "-9", str(served.workers[0])], check=True)
    until(lambda: sum("model a is available" in line for line in served.log) == 3, seconds=60)
    for _ in range(10):
        names = [model["name"] for model in json.loads(served.get("/v1/models"))["models"]]
        assert names == ["a"]


@pytest.mark.process
def test_the_file_of_models_is_followed_by_all_workers(serve, tmp_path, until):
    file = tmp_path / "models.conf"
    file.write_text(listed(tmp_path, "a"))
    served = serve(f"--model_config_file={file}", "--model_config_file_poll_wait_seconds=0.2")
    draft = tmp_path / "draft"
    draft.write_text(listed(tmp_path, "b"))
    draft.rename(file)
    until(lambda: sum("model b is available" in line for line in served.log) == 2, seconds=60)
    until(lambda: "model a is not on the list any more" in "".join(served.log))
    assert [ask(served.target, "b") for _ in range(10)] == [[3.0]] * 10


@pytest.mark.process
def test_a_worker_that_hangs_holds_up_neither_status_nor_metrics_for_long(serve, half_base, until):
    served = serve("--model_name=half", f"--model_base_path={half_base}")

    def requests():
        found = re.search(r'request_count\{model_name="half",status="OK"\} (\d+)', metrics())
        return int(found[1]) if found else 0

    def metrics():
        while True:
            try:
                return served.get("/monitoring/prometheus/metrics")
            except OSError:  # the worker that hangs took the connection
                continue

    with Client(served.target, "half", connections=16) as client:
        for _ in range(32):
            client.predict([2.0])
    until(lambda: requests() >= 32)
    victim = served.workers[0]
    subprocess.run(["kill", "-STOP", str(victim)], check=True)
    try:
        found = [requests() for _ in range(6)]
    finally:
        subprocess.run(["kill", "-CONT", str(victim)], check=True)
    assert min(found) >= 32


@pytest.mark.process
def test_what_a_worker_that_died_had_counted_stays_in_the_sum(serve, half_base, until):
    served = serve("--model_name=half", f"--model_base_path={half_base}")
    with Client(served.target, "half", connections=16) as client:
        for _ in range(32):
            client.predict([2.0])

    def requests():
        text = served.get("/monitoring/prometheus/metrics")
        return int(re.search(r'request_count\{model_name="half",status="OK"\} (\d+)', text)[1])

    assert requests() >= 32
    for pid in served.workers:
        subprocess.run(["kill", "-9", str(pid)], check=True)
    until(lambda: sum("is available" in line for line in served.log) == 4, seconds=60)
    assert requests() >= 32


@pytest.mark.process
def test_two_signals_while_workers_load_end_it_without_a_traceback(tmp_path, until):
    command = [*COMMAND, "--port=0", f"--model_base_path={tmp_path}"]
    (tmp_path / "1").mkdir()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "nothing to serve yet" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        lines += process.stderr
        assert process.wait(timeout=60) == 0
    assert "Traceback" not in "".join(lines)


@pytest.mark.parametrize("setup", [lambda _: None, "main"])
def test_a_setup_that_workers_cannot_be_given_is_refused(half_base, setup):
    if setup == "main":
        setup = type("Setup", (), {"__module__": "__main__"})
    with pytest.raises(errors.InvalidInputError, match="worker_setup must be a function of a module"):
        Supervisor(ServerConfig("half", half_base, workers=2), setup)


@pytest.mark.process
def test_a_worker_that_cannot_be_started_now_is_tried_again(serve, half_base, until):
    served = serve("--model_name=half", f"--model_base_path={half_base}")
    limits = resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (4, limits[1]))
    subprocess.run(["kill", "-9", str(served.workers[0])], check=True)
    until(lambda: any("cannot be started" in line for line in served.log))
    resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, limits)
    until(lambda: sum("is available" in line for line in served.log) == 3, seconds=60)
    assert len(served.workers) == 2
