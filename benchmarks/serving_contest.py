"""Contestants of `bench serving`, and a measurement of one: start, wait for health, send requests, stop."""

import contextlib
import json
import os
import socket
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.served_model import EXPECTED, NAME
from benchmarks.process import Child, Worker, WorkerError
from benchmarks.rounds import Contestant, Settings, refusal
from benchmarks.serving_servers import HEALTH_PATH, HOST, free_ports
from benchmarks.usage import anonymous_bytes, cpu_seconds

START_UP = "start-up"
BATCHES = {f"in process, batch of {count}": count for count in (1, 64)}  # by row
_CLIENTS = "benchmarks.serving_worker"
_MODEL = "benchmarks.peers.served_model"
_LOOK = 0.02  # seconds between two looks at a starting server
_HEALTH_TIMEOUT = 1.0  # seconds

SERVE = (sys.executable, "-c", "from keras_selfattn.cli.entry import main; main()", "serve")
_OURS = (*SERVE, f"--model_name={NAME}", f"--model_base_path={{folder}}/{NAME}")
_OTHERS = (sys.executable, "-m", "benchmarks.serving_servers")


@dataclass(frozen=True)
class Server:
    """A server that competes.

    Args:
        name: its name in the table.
        command: the command that starts it; `{folder}`, `{port}` and `{health_port}` are filled in.
        protocol: that of requests, on `port`: one of the clients' `CONNECTIONS`.
        path: the path of requests over HTTP.
        health: "grpc" or "http": the protocol of its health check, on `health_port`.
        one_port: True if the two ports are the same.
        target: the address for clients, if it is not `port`.
    """

    name: str
    command: tuple[str, ...]
    protocol: str = "grpc"
    path: str = ""
    health: str = "grpc"
    one_port: bool = True
    target: str = f"{HOST}:{{port}}"


OURS = Server("ours, gRPC", (*_OURS, "--port={port}"))
OURS_REST = Server(
    "ours, REST",
    (*_OURS, "--port={health_port}", "--rest_api_port={port}"),
    protocol="http",
    path=f"/v1/models/{NAME}:predict",
    one_port=False,
)
OURS_OPEN = Server("ours, Open Inference gRPC", OURS.command, protocol="open inference, grpc")
OURS_OPEN_REST = Server(
    "ours, Open Inference REST",
    OURS_REST.command,
    protocol="open inference, http",
    path=f"/v2/models/{NAME}/infer",
    one_port=False,
)
CPUS = os.cpu_count() or 1
OURS_WORKERS = Server(f"ours, gRPC, {CPUS} workers", (*_OURS, "--port={port}", f"--workers={CPUS}"))
TWO_OF_OURS = Server(
    "ours, gRPC, 2 replicas",
    (*_OTHERS, "two-of-ours", "{folder}", "{port}", "{health_port}"),
    one_port=False,
    target=f"ipv4:{HOST}:{{port}},{HOST}:{{health_port}}",
)
PLAIN = Server("grpc.server, 8 threads", (*_OTHERS, "plain", "{folder}", "{port}"))
NO_MODEL = Server("grpc.aio, no model", (*_OTHERS, "no-model", "{folder}", "{port}"))


def _fastapi(name: str, server: str) -> Server:
    command = (*_OTHERS, server, "{folder}", "{port}")
    return Server(name, command, protocol="http", path="/predict", health="http")


def _on_ray(name: str, server: str) -> Server:
    """The health port answers when all replicas run."""
    command = (*_OTHERS, server, "{folder}", "{port}", "{health_port}")
    return Server(name, command, health="http", one_port=False)


SERVERS = (
    OURS,
    OURS_REST,
    OURS_OPEN,
    OURS_OPEN_REST,
    OURS_WORKERS,
    TWO_OF_OURS,
    _on_ray("ours on Ray Serve, gRPC", "ours-on-ray"),
    _on_ray("ours on Ray Serve, gRPC, 2 replicas", "ours-on-ray-2"),
    _on_ray("ours on Ray Serve, gRPC, 4 replicas", "ours-on-ray-4"),
    PLAIN,
    _fastapi("FastAPI, SavedModel", "fastapi-saved-model"),
    _fastapi("FastAPI, model.predict", "fastapi-keras"),
    _on_ray("Ray Serve, gRPC", "ray-serve"),
    _on_ray("Ray Serve, gRPC, 2 replicas", "ray-serve-2"),
    _on_ray("Ray Serve, gRPC, 4 replicas", "ray-serve-4"),
    NO_MODEL,
)
IN_PROCESS = (
    Contestant("TensorFlow's default threads", f"{_MODEL}:in_process"),
    Contestant("1 thread an operation", f"{_MODEL}:in_process", {"TF_NUM_INTRAOP_THREADS": "1"}),
)


@dataclass(frozen=True)
class Measured:
    """The outcome of one round for a contestant in a row; `note` has the first failure, if there was one."""

    figures: dict[str, float]
    note: str = ""


@dataclass(frozen=True)
class Place:
    """The place where contestants are measured.

    Args:
        folder: the model's.
        settings: the settings of the measurement.
        clients: the process of the clients.
        loads: the number of connections by row.
    """

    folder: Path
    settings: Settings
    clients: Worker
    loads: dict[str, int]


def clients(settings: Settings) -> Worker:
    """Start the process of the clients."""
    return Worker(one_thread=False, deadline=settings.deadline, program=_CLIENTS)


def write_model(folder: Path, settings: Settings, sleep: float) -> None:
    """Write the model that all contestants serve; each of its runs sleeps for `sleep` seconds first.

    Raises:
        WorkerError: the model cannot be written.
    """
    with Worker(f"{_MODEL}:write", one_thread=False, deadline=settings.deadline) as worker:
        worker.ask("prepare", case={"folder": str(folder), "quick": settings.quick, "sleep": sleep})


def measure_in_process(contestant: Contestant, rows: list[str], place: Place) -> dict[str, Measured]:
    """Return, for each row with batches, examples per second and CPU milliseconds per example.

    Raises:
        WorkerError: the contestant failed.
    """
    found = {}
    deadline, environment = place.settings.deadline, contestant.environment
    with Worker(contestant.build, one_thread=False, environment=environment, deadline=deadline) as worker:
        for row in rows:
            worker.ask("prepare", case={"folder": str(place.folder), "batch": BATCHES[row]})
            calls = worker.ask("warm", seconds=place.settings.seconds / 2)["calls"]
            taken = worker.ask("time", calls=calls)["wall"]  # warms up, and measures the speed after that
            calls = max(1, round(place.settings.seconds / taken))
            took = worker.ask("time", calls=calls)
            count = BATCHES[row]
            found[row] = Measured(
                {"examples/s": count / took["wall"], "cpu ms of one": 1e3 * took["cpu"] / count}
            )
    return found


def measure_served(server: Server, rows: list[str], place: Place) -> dict[str, Measured]:
    """Return the cost of a server's start, and the figures of each load.

    Raises:
        WorkerError: the server does not start, ends, answers wrongly, or fails every request.
    """
    port, health_port = free_ports(2)
    if server.one_port:
        health_port = port
    known = {"folder": str(place.folder), "port": str(port), "health_port": str(health_port)}
    with Child([argument.format_map(known) for argument in server.command]) as child:
        found = {START_UP: started(child, server.health, f"{HOST}:{health_port}", place.settings.deadline)}
        asked = {"protocol": server.protocol, "address": server.target.format_map(known), "path": server.path}
        _check(place, asked)
        for row in rows:
            if row in place.loads:
                load = {"connections": place.loads[row], "seconds": place.settings.seconds}
                answer = place.clients.ask("load", **asked, **load, server=child.pid)
                found[row] = Measured(answer["figures"], answer["reason"])
    return {row: measured for row, measured in found.items() if row in rows}


def started(child: Child, health: str, address: str, deadline: float) -> Measured:
    """Wait for the first good health check, and return the cost of the start.

    Args:
        child: the server's process.
        health: "grpc" or "http", as in `Server`.
        address: "host:port" of the health check.
        deadline: seconds to wait.

    Raises:
        WorkerError: the server ended, or was not healthy in time.
    """
    healthy = {"grpc": _grpc_health, "http": _http_health}[health]
    start = time.perf_counter()
    while not healthy(address):
        if not child.alive:
            raise WorkerError(child.last_words())
        if time.perf_counter() - start > deadline:
            raise WorkerError(f"was not healthy within {deadline:g} s")
        time.sleep(_LOOK)
    passed = time.perf_counter() - start
    cpu, memory = cpu_seconds(child.pid), anonymous_bytes(child.pid) / 1e6
    return Measured({"seconds": passed, "cpu s": cpu, "memory MB": memory})


def _grpc_health(address: str) -> bool:
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    if not _listens(address):  # gRPC would wait a second before its next look
        return False
    with grpc.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest()
        try:
            answer = stub.Check(request, timeout=_HEALTH_TIMEOUT)
        except grpc.RpcError:
            return False
    return answer.status == health_pb2.HealthCheckResponse.SERVING


def _http_health(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}{HEALTH_PATH}", timeout=_HEALTH_TIMEOUT) as answer:
            return answer.status == 200
    except OSError:
        return False


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):
        socket.create_connection((host, int(port)), timeout=_HEALTH_TIMEOUT).close()
        return True
    return False


def _check(place: Place, asked: dict[str, str]) -> None:
    """Refuse to measure a contestant that computes something different."""
    expected = json.loads((place.folder / EXPECTED).read_text(encoding="utf-8"))
    answered = place.clients.ask("check", **asked)["probabilities"]
    pairs = zip(answered, expected, strict=True)
    refused = refusal({"difference": max(abs(one - other) for one, other in pairs)}, "float32")
    if refused:
        raise WorkerError(refused)
