"""The supervisor: it starts workers, replaces those that die, and runs actions in all of them.

Each worker listens on the gRPC port itself (SO_REUSEPORT): the system gives every new connection to one of
them. For REST they share one socket. At the start no port opens before all workers have loaded. The
supervisor owns the list of models: it watches the file, and runs reloads in all workers, one after the other.
"""

import contextlib
import logging
import pickle
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Self

from ...errors import DeadlineExceededError, InvalidInputError, ServerStartError, ServingError
from ...wire import messages_pb2 as pb
from ..config import ServerConfig
from ..models.model_config import ConfigWatch, listed_models, read_model_config
from ..runtime.listening import bind, check_addresses, local_rest_url, local_target, reserve, rest_port
from .membership import AVAILABLE, METRICS, RELOAD, STATUS, Assignment
from .merging import counts_alone, summed_metrics
from .peer import PeerGoneError
from .process import WorkerProcess

_log = logging.getLogger(__name__)

# Seconds from the end of a worker to its replacement; doubled each time, unless the worker lived long.
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
# Seconds after the grace before a worker is killed.
_ENDING_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_PATIENCE_SECONDS = 2.0


class Supervisor:
    """Serve with several processes.

    Args:
        config: the models, the addresses and the number of workers.
        setup: called first in each worker, with its number from 1; pickled.

    Attributes:
        config: the same.

    Raises:
        InvalidInputError: setup cannot be pickled.
        TextFileError: the file of models cannot be read.
        InvalidArgumentError: it lists a model that cannot be served.

    Example:
        supervisor = Supervisor(ServerConfig("default", "models/sentiment", workers=4))
        supervisor.start()
        supervisor.stop()
    """

    def __init__(self, config: ServerConfig, setup: Callable[[int], None] | None = None):
        self.config = config
        self._setup = None if setup is None else _checked(setup)
        self._lock = threading.Lock()
        self._workers: dict[int, WorkerProcess] = {}
        self._stopping = threading.Event()
        self._keepers: list[threading.Thread] = []
        self._reserved: socket.socket | None = None
        self._rest_socket: socket.socket | None = None
        # The counts of replaced workers: without them the sums would fall, as after a restart of all workers.
        self._past_metrics = ""
        self._all_started = False
        # The workers that have finished each step of the first start.
        self._steps: defaultdict[str, set[int]] = defaultdict(set)
        self._stepped = threading.Condition()
        self._reloading = threading.Lock()
        # The current models; None if there is only the config's one.
        self._listed: bytes | None = None
        if str(config.model_config_file):
            listed = read_model_config(config.model_config_file)
            listed_models(listed)
            self._listed = listed.SerializeToString()
        self._config_watch = ConfigWatch(config, self._follow)

    @property
    def target(self) -> str:
        """The "host:port" for a client on this machine."""
        return local_target(self.config.grpc_host, _port(self._reserved))

    @property
    def rest_url(self) -> str:
        """The "http://host:port", or https, for a program on this machine; empty without a REST port."""
        port = _port(self._rest_socket)
        return local_rest_url(self.config, port)

    def available(self) -> dict[str, list[int]]:
        """The versions that answer in all workers, of every model on the list."""
        answers = self._ask_all(AVAILABLE, (), _PATIENCE_SECONDS)
        names = {name for models in answers for name in models}
        return {
            name: sorted(set.intersection(*({*models.get(name, ())} for models in answers)))
            for name in sorted(names)
        }

    def start(self) -> Self:
        """Start the workers. Return when all of them can answer.

        Raises:
            ServerStartError: a worker cannot serve, or the port is in use.
            ServingError: a worker cannot serve, for another reason.
        """
        if not sys.platform.startswith("linux"):
            raise ServerStartError(
                "workers must be 1 here: Linux alone spreads the connections of one port over processes"
            )
        check_addresses(self.config)
        self._reserved = reserve(self.config.grpc_host, self.config.port)
        if self.config.rest_api_port:
            self._rest_socket = bind(
                self.config.rest_host, rest_port(self.config), "rest_api_port", listens=False
            )
        started = [self._start_worker(number) for number in range(1, self.config.workers + 1)]
        while not all(list(map(WorkerProcess.has_started, started))):  # check all: any may have failed
            time.sleep(_LOOK_SECONDS)
        with self._stepped:
            self._all_started = True
            self._stepped.notify_all()
        for worker in started:
            keeper = threading.Thread(target=self._keep, args=(worker,), daemon=True)
            self._keepers.append(keeper)
            keeper.start()
        self._config_watch.start()
        return self

    def stop(self, grace: float | None = None) -> None:
        """Stop all workers as `Server.stop` does, and wait for them.

        Args:
            grace: seconds that running requests get to finish; None for the config's. Workers know only the
                config's: if `grace` is shorter, they are killed soon after it.
        """
        self._config_watch.stop()
        with self._lock:
            self._stopping.set()
            workers = list(self._workers.values())
        with self._stepped:
            self._stepped.notify_all()
        if self._rest_socket is not None:
            # Shut it for all workers: while this process keeps it open, new connections would get no answer.
            with contextlib.suppress(OSError):  # it does not listen yet
                self._rest_socket.shutdown(socket.SHUT_RDWR)
        for worker in workers:
            worker.terminate()
        ends = time.monotonic() + (self.config.shutdown_grace_seconds if grace is None else grace)
        for worker in workers:
            worker.end(max(0.0, ends + _ENDING_SECONDS - time.monotonic()))
        for keeper in self._keepers:
            keeper.join()
        for listening in (self._reserved, self._rest_socket):
            if listening is not None:
                listening.close()

    def abort(self) -> None:
        """Cut a `stop` that is waiting for running requests short. Return at once."""
        for worker in list(self._workers.values()):
            worker.terminate()

    def _start_worker(self, number: int) -> WorkerProcess:
        with self._lock:
            assignment = Assignment(
                number=number,
                config=replace(
                    self.config, port=_port(self._reserved), model_config_file_poll_wait_seconds=0.0
                ),
                setup=self._setup,
                rest_socket=None if self._rest_socket is None else self._rest_socket.fileno(),
                listed=self._listed,
            )
            worker = WorkerProcess(assignment, self._ask_all, self._step)
            if number in self._workers:
                ended = counts_alone(self._workers[number].last_metrics)
                self._past_metrics = summed_metrics([self._past_metrics, ended])
            self._workers[number] = worker
            if self._stopping.is_set():
                worker.terminate()
        return worker

    def _step(self, number: int, step: str) -> None:
        """Return when all workers have finished a step; at once after the first start."""
        with self._stepped:
            self._steps[step].add(number)
            self._stepped.notify_all()
            self._stepped.wait_for(
                lambda: (
                    self._all_started
                    or self._stopping.is_set()
                    or len(self._steps[step]) == self.config.workers
                )
            )

    def _keep(self, worker: WorkerProcess) -> None:
        """Keep a worker with this number running until the server stops."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            worker.wait()
            if self._stopping.is_set():
                return
            pause = _FIRST_PAUSE_SECONDS if worker.age > _LONGEST_PAUSE_SECONDS else pause
            _log.error("worker %d %s; another starts in %g s", worker.number, worker.last_words(), pause)
            replacement = None
            while replacement is None:
                if self._stopping.wait(pause):
                    return
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                replacement = self._started(worker.number)
            worker = replacement

    def _started(self, number: int) -> WorkerProcess | None:
        try:
            return self._start_worker(number)
        except (OSError, RuntimeError, MemoryError):  # no process, descriptor or thread is available now
            _log.exception("worker %d cannot be started", number)
            return None

    def _ask_all(self, action: str, arguments: tuple[Any, ...], timeout: float | None) -> list[Any]:
        """Return the result of an action in each worker, without those that have ended or do not answer.

        Raises:
            ServingError: one of them raised it.
        """
        if action == RELOAD:
            return self._reload(*arguments)
        return self._each(action, arguments, timeout)

    def _follow(self, listed: pb.ModelServerConfig) -> None:
        self._reload(listed.SerializeToString(), None)

    def _reload(self, listed: bytes, timeout: float | None) -> list[Any]:
        """Serve the listed models in all workers, including later ones."""
        started = time.monotonic()
        if not self._reloading.acquire(timeout=-1 if timeout is None else timeout):
            raise DeadlineExceededError("another reload has not finished yet; try again")
        try:
            with self._lock:
                self._listed = listed
            left = None if timeout is None else timeout - (time.monotonic() - started)
            return self._each(RELOAD, (listed, left), left)
        finally:
            self._reloading.release()

    def _each(self, action: str, arguments: tuple[Any, ...], timeout: float | None) -> list[Any]:
        with self._lock:
            workers = list(self._workers.values())
            others = self._for_others(action)

        def ask(worker: WorkerProcess) -> list[Any]:
            return self._asked(worker, action, arguments, timeout)

        with ThreadPoolExecutor(max(1, len(workers))) as executor:
            asked = [executor.submit(ask, worker) for worker in workers]
        failed = [error for each in asked if isinstance(error := each.exception(), ServingError)]
        if failed:
            raise failed[0]
        return [*others, *(answer for each in asked for answer in each.result())]

    def _for_others(self, action: str) -> list[Any]:
        """Return the entries for workers that have ended or not started yet."""
        if action == METRICS:
            return [self._past_metrics]
        if action == STATUS and not self._all_started:
            return [b""]  # of a worker that knows no version yet
        return []

    def _asked(
        self, worker: WorkerProcess, action: str, arguments: tuple[Any, ...], timeout: float | None
    ) -> list[Any]:
        """Return the result of an action in a worker; nothing if it does not answer."""
        untold = [counts_alone(worker.last_metrics)] if action == METRICS else []
        if action != RELOAD and (worker.is_silent or not worker.is_ready):
            return untold
        try:
            answer = worker.do(action, arguments, timeout)
        except (PeerGoneError, DeadlineExceededError) as error:
            if action == RELOAD and not isinstance(error, PeerGoneError):
                raise
            return untold
        if action == METRICS:
            worker.last_metrics = answer
        return [answer]


def _checked(setup: Callable[[int], None]) -> Callable[[int], None]:
    """Return `setup` if it can be sent to workers."""
    function = setup.func if isinstance(setup, partial) else setup
    try:
        pickle.dumps(setup)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        reason = str(error)
    else:
        if getattr(function, "__module__", "") != "__main__":
            return setup
        reason = "it is of the script that is run"
    raise InvalidInputError(
        f"worker_setup must be a function of a module that workers can import. Received {setup!r}: {reason}"
    )


def _port(listening: socket.socket | None) -> int:
    return 0 if listening is None else listening.getsockname()[1]
