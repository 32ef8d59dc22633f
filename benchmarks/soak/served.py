"""The server of a soak, as a process: started by the command line, watched from outside, killed."""

import http.client
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc

from benchmarks.process import Child, WorkerError
from benchmarks.serving_servers import HOST, free_ports
from benchmarks.soak.tally import GRPC, REST, Kill
from benchmarks.soak.template import NAME
from benchmarks.usage import PROC, Usage, children, usage
from keras_selfattn.serving.wire import messages_pb2 as pb

_START_SECONDS = 180.0
_STOP_SECONDS = 60.0
_LOOK_SECONDS = 0.1
_SERVE = (sys.executable, "-c", "from keras_selfattn.cli.entry import main; main()", "serve")
_STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
# States in /proc/net/tcp.
_ESTABLISHED, _LISTENS = "01", "0A"


@dataclass(frozen=True)
class _Socket:
    """A line of /proc/net/tcp: the local port, the state, and the socket's inode (0 until it is accepted)."""

    port: int
    state: str
    inode: int


class Served(Child):
    """A server of the soak's model.

    Args:
        base: the model's folder.
        workers: the number of its processes.
    """

    def __init__(self, base: Path, workers: int) -> None:
        self.ports = free_ports(2)
        self.workers = workers
        self._apis = {GRPC: self.ports[0], REST: self.ports[1]}
        self._channel = grpc.insecure_channel(f"{HOST}:{self.ports[0]}")
        flags = {
            "port": self.ports[0],
            "rest_api_port": self.ports[1],
            "model_name": NAME,
            "model_base_path": base,
            "workers": workers,
        }
        super().__init__([*_SERVE, *(f"--{name}={value}" for name, value in flags.items())])

    def wait(self) -> None:
        """Wait until all workers listen and the server is ready.

        Raises:
            WorkerError: the server ended, or took minutes.
        """
        ends = time.monotonic() + _START_SECONDS
        while not (self._is_ready() and len(self.ready_workers()) == self.workers):
            if not self.alive:
                raise WorkerError(f"the server ended: {self.last_words()}")
            if time.monotonic() > ends:
                raise WorkerError(f"the server was not ready within {_START_SECONDS:g} s")
            time.sleep(_LOOK_SECONDS)

    def processes(self) -> dict[int, str]:
        """Return the kind of each of its processes, by its number."""
        if self.workers == 1:
            return {self.pid: "server"}
        return {self.pid: "supervisor", **dict.fromkeys(sorted(children(self.pid)), "worker")}

    def ready_workers(self) -> list[int]:
        """Return the processes that accept connections."""
        listening = {one.inode for one in _sockets() if (one.state, one.port) == (_LISTENS, self.ports[0])}
        serving = (pid for pid, what in self.processes().items() if what != "supervisor")
        return [pid for pid in serving if listening & _inodes(pid)]

    def usage(self, pid: int) -> Usage:
        """Return the resources of a process, without the connections of clients."""
        held = usage(pid)
        return held._replace(descriptors=held.descriptors - sum(self._connections(pid, {*()}).values()))

    def kill_worker(self, pid: int) -> Kill:
        """Kill a worker, and return the connections it had."""
        os.kill(pid, signal.SIGSTOP)  # so that it accepts no more connections after they are counted
        connections = self._connections(pid, {0})
        at = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        return Kill(at, pid, connections)

    def newest_available(self) -> int | None:
        """Return the newest version that answers in all workers; None if the server does not say."""
        request = pb.GetModelStatusRequest(model_spec=pb.ModelSpec(name=NAME)).SerializeToString()
        try:
            data = self._channel.unary_unary(_STATUS)(request, timeout=_STOP_SECONDS)
        except grpc.RpcError:  # the worker was killed
            return None
        states = pb.GetModelStatusResponse.FromString(data).model_version_status
        available = [each.version for each in states if each.state == pb.ModelVersionStatus.AVAILABLE]
        return max(available, default=None)

    def stop(self) -> int | None:
        """Return the exit status after SIGTERM; None if it had to be killed, or left processes behind."""
        self._channel.close()
        started = self.processes()
        if self.alive:
            os.kill(self.pid, signal.SIGTERM)
        try:
            status = self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        return None if any((PROC / str(pid)).exists() for pid in started) else status

    def log(self) -> list[str]:
        """Return the lines that the server wrote; call it when the server has ended."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").splitlines()

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection(HOST, self.ports[1], timeout=_STOP_SECONDS)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _connections(self, pid: int, others: set[int]) -> dict[str, int]:
        """The number of connections of a process, or of `others`, by API."""
        held = _inodes(pid) | others
        mine = [one.port for one in _sockets() if one.state == _ESTABLISHED and one.inode in held]
        return {api: mine.count(port) for api, port in self._apis.items()}


def _sockets() -> list[_Socket]:
    found = []
    for file in (PROC / "net" / "tcp", PROC / "net" / "tcp6"):
        with suppress(OSError):
            for line in file.read_text("utf-8").splitlines()[1:]:
                fields = line.split()
                port = int(fields[1].rpartition(":")[2], 16)
                found.append(_Socket(port, fields[3], int(fields[9])))
    return found


def _inodes(pid: int) -> set[int]:
    """The sockets that a process has open."""
    found = set()
    with suppress(OSError):
        for descriptor in (PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                target = os.readlink(descriptor)
                if target.startswith("socket:["):
                    found.add(int(target[8:-1]))
    return found
