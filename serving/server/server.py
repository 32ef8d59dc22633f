"""The server: its models, its ports, and an orderly end.

The asyncio loop runs in a separate thread, so that a server can run inside a program or a test. Graphs run in
a pool of threads, never on the loop.
"""

import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import Context
from typing import Literal, NamedTuple, Self

import grpc.aio

from keras_selfattn import __version__

from ..errors import InvalidInputError, UnavailableError
from ..wire import messages_pb2 as pb
from .api.admission import Admission
from .api.grpc_server import grpc_server
from .api.grpc_services import GrpcApi, Health, add_reflection
from .api.inference_api import InferenceApi
from .api.management import Management
from .api.open_inference import OpenInference
from .api.request_logs import RequestLogs
from .api.warmup import Warmup
from .batching.graph_runner import GraphRunner
from .config import ServerConfig
from .models.freed_memory import LoadedObjects, limit_arenas
from .models.loader import Loader
from .models.model_config import ConfigWatch, configured_models, listed_models
from .models.model_registry import ModelRegistry
from .page.served_models import ServedModels
from .rest.app import RestApi
from .rest.page_routes import PageRoutes
from .rest.rest_server import RestServer
from .runtime import profiler
from .runtime.batching_parameters import batching_parameters
from .runtime.bearer_tokens import BearerTokens
from .runtime.cpus import limit_tensorflow
from .runtime.deadlines import SIGNAL_SECONDS
from .runtime.encryption import credentials, rest_context
from .runtime.listening import check_addresses, listen, local_rest_url, local_target, server_options
from .runtime.metrics import Metrics, metrics_path
from .runtime.tracing import Tracing
from .workers.membership import LISTENS, LOADED, Membership

_log = logging.getLogger(__name__)

# Windows' own loop cannot report a connection without accepting it.
_LOOP = asyncio.SelectorEventLoop if sys.platform == "win32" else None

# Time after the last answer for calls that watch the health, which never end by themselves.
_WATCHERS_SECONDS = 0.5
# Time for models that are being loaded when the server stops; a shorter wait would lose nothing.
_LOADING_SECONDS = 2.0
# Time for clients that watch the health to move. gRPC's own stop cancels calls, which clients do not retry;
# until that stop, calls get UNAVAILABLE, which clients retry.
_LEAVING_SECONDS = 0.25
# Arenas of the C library for each CPU: with one, threads wait for each other. With eight, the library's
# default, a server takes a tenth more memory, and grows during a minute of new versions.
_ARENAS_PER_CPU = 2


class Server:
    """Serve models over TensorFlow Serving's gRPC and REST APIs, with health checks and a graceful end.

    A context manager: starts on entry, stops on exit.

    Args:
        config: the models and the addresses.
        own_process: True if this process only serves: loaded objects are then permanently excluded from
            Python's garbage collector.
        membership: the connection to the other workers, if there are several.
        shares_ports: True if other servers may listen on the same ports: the system then spreads connections
            over them, which end after a minute. Linux only.

    Attributes:
        config: the same.
        models: the models.

    Raises:
        TextFileError: a file that the config names cannot be read.
        InvalidArgumentError: model_config_file lists a model that cannot be served.
        InvalidInputError: the config asks for workers; `serve_forever` starts these.
        ServerStartError: the config asks for traces, and OpenTelemetry is not installed.

    Example:
        with Server(ServerConfig("default", "models/sentiment", port=0)) as server:
            Client(server.target).classify(["what a film"])
    """

    def __init__(
        self,
        config: ServerConfig,
        own_process: bool = False,
        membership: Membership | None = None,
        shares_ports: bool = False,
    ):
        if config.workers > 1 and membership is None:
            raise InvalidInputError(
                f"workers must be 1 for a Server, which is one process; serve_forever starts several. "
                f"Received {config.workers}"
            )
        self.config = config
        self._membership = membership
        self._metrics = Metrics(config.metrics_by_version_and_signature)
        self._tracing = Tracing(__version__) if config.enable_tracing else None
        after_load = LoadedObjects().keep if own_process else lambda: None
        if own_process:
            limit_arenas(_ARENAS_PER_CPU * config.cpus)
            limit_tensorflow()
        loader = Loader(config, Warmup(config, self._metrics, after_load))
        self._logs = RequestLogs(config, self._metrics)
        self.models = ModelRegistry(config, loader, self._availability_changed, on_list=self._logs.update)
        ask_all = membership.ask_all if membership else None
        self._shares_ports = shares_ports
        self._management = Management(self.models, self._metrics, ask_all, reloads=not shares_ports)
        # Made before the list is read, so that the watch sees a change in between.
        self._config_watch = ConfigWatch(config, self._reload)
        listed = membership.listed if membership else None
        self._configured = configured_models(config) if listed is None else listed_models(listed)
        self._options = server_options(config, shares_ports)
        self._tls, self._rest_tls = credentials(config), rest_context(config)
        self._tokens = BearerTokens(config.auth_token_file) if str(config.auth_token_file) else None
        self._batching = batching_parameters(config)
        self._metrics_path = metrics_path(config)
        self._rest_port = self._grpc_port = 0
        self._health: Health | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._port: Future[int] = Future()
        self._started = self._stopping = False
        self._stop_requested = asyncio.Event()
        self._abort_requested = asyncio.Event()
        self._grace = config.shutdown_grace_seconds
        self._executor = ThreadPoolExecutor(config.grpc_max_threads, "run")
        self._thread = threading.Thread(target=self._run_loop, name="server", daemon=True)

    @property
    def port(self) -> int:
        """The gRPC port it listens on."""
        if not self._port.done():
            raise RuntimeError("the server has no port before start()")
        return self._port.result()

    @property
    def rest_port(self) -> int:
        """The REST port it listens on; 0 for none."""
        return self._rest_port

    @property
    def rest_url(self) -> str:
        """The "http://host:port", or https, for a program on this machine; empty without a REST port."""
        return local_rest_url(self.config, self.rest_port)

    @property
    def target(self) -> str:
        """The "host:port" for a client on this machine."""
        return local_target(self.config.grpc_host, self.port)

    def start(self) -> Self:
        """Load the models, then open the port. Return when the first request can be answered.

        Raises:
            ServerStartError: there is nothing to serve, no model loads, or the port is in use.
            RuntimeError: it has been started before.
        """
        if self._started:
            raise RuntimeError("a Server starts once; make another one of the same config")
        if self._membership is None:
            check_addresses(self.config, self._shares_ports)
        self._started = True
        try:
            self.models.begin(self._configured)
            if self._membership is not None:
                # Join before the models are loaded: the list may change while they are.
                self._membership.joined(self._management.actions)
            self.models.wait_until_served()
            self._thread.start()
            while not self._port.done() and self._thread.is_alive():
                # Wait in short steps: other workers may load for minutes, and a signal must be handled.
                wait({self._port}, SIGNAL_SECONDS)
            self._port.result()
            self._config_watch.start()
        except BaseException:
            self.stop(grace=0)
            raise
        return self

    @property
    def ongoing_requests(self) -> int:
        """The requests that have no answer yet, of all models."""
        return self._metrics.pending.count()

    def available(self) -> dict[str, list[int]]:
        """The versions that answer, of every model on the list."""
        return self.models.available()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the server has stopped.

        Args:
            timeout: seconds to wait at most; None for no limit.

        Returns:
            True if it has stopped.
        """
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def stop(self, grace: float | None = None) -> None:
        """Stop: report not serving, refuse new requests, let running ones finish, unload the models.

        Args:
            grace: seconds that running requests get to finish; None for the config's.
        """
        self._config_watch.stop()
        self._grace = self.config.shutdown_grace_seconds if grace is None else grace
        self._stopping = True
        if self._thread.is_alive():
            self._on_loop(self._stop_requested.set)
            while not self.wait(SIGNAL_SECONDS):
                pass
        # Closing the sessions ends the remaining runs, and so frees the threads.
        aborted = self._abort_requested.is_set()
        self.models.close(timeout=0.0 if aborted else min(self._grace, _LOADING_SECONDS))
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._logs.close()
        if self._tracing is not None:
            self._tracing.flush()

    def abort(self) -> None:
        """Cut a `stop` that is waiting for running requests short. Return at once."""
        self._on_loop(self._abort_requested.set)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run_loop(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_LOOP) as loop:
                # In a context of its own: a span of the starting thread must not become that of each request.
                loop.run(self._serve(), context=Context())
        except Exception as error:  # noqa: BLE001 - whoever waits for the port must hear of it
            if self._port.done():
                _log.exception("the server ended with an error")
            else:
                self._port.set_exception(error)

    async def _serve(self) -> None:
        """Open the ports, answer until the server is to stop, drain, and close them."""
        self._loop = asyncio.get_running_loop()
        ports = await self._made_ports()
        try:
            await self._open(ports)
            if not self._stopping:  # a stop before this loop existed could not reach it
                await self._stop_requested.wait()
            await self._drain(ports)
        finally:
            await ports.close()

    async def _made_ports(self) -> "_Ports":
        """Return the gRPC and REST servers, with all that answers on them; they do not listen yet."""
        config = self.config
        runner = GraphRunner(self._executor, config, self._batching, self._metrics)
        api = InferenceApi(self.models, runner, self._metrics, self._management, config, self._logs)
        open_inference = OpenInference(api, self.models, self._management, __version__)
        server = grpc_server(self._options, self._tokens, self._tracing)
        grpc_api = GrpcApi(api, open_inference)
        grpc_api.add_to(server)
        self._health = health = Health()
        await health.set(self._healthy())
        health.add_to(server)
        add_reflection(server)
        if config.enable_profiler:
            grpc_api.add_service(server, profiler.SERVICE, profiler.methods())
        rest = None
        if config.rest_api_port:
            served = (api, open_inference, runner, self._management, self._metrics_path, config)
            rest_api = RestApi(*served, self._tokens, page=self._page())
            shared = self._membership.rest_socket if self._membership else None
            rest = RestServer(rest_api, config, shared, self._rest_tls, self._shares_ports, self._tracing)
        return _Ports(server, rest, health, api.admission)

    async def _open(self, ports: "_Ports") -> None:
        """Listen on the ports, step by step with the other workers of a first start."""
        await self._step(LOADED)
        self._grpc_port = port = listen(ports.grpc, self.config, self._tls)
        await ports.grpc.start()
        await self._step(LISTENS)
        if ports.rest is not None:
            await ports.rest.start()
            self._rest_port = ports.rest.port
        self._port.set_result(port)

    def _page(self) -> PageRoutes | None:
        if not self.config.page:
            return None
        told = (self.models, self._management, self.config, self._metrics_path)
        return PageRoutes(ServedModels(*told, grpc_port=lambda: self._grpc_port), self.config)

    async def _step(self, step: str) -> None:
        """Wait until the other workers of a first start have done this step, or this one must stop."""
        membership = self._membership
        if membership is None or self._stopping:
            return
        done = asyncio.Event()

        def tell() -> None:
            with contextlib.suppress(UnavailableError):  # the supervisor is gone, and this process ends
                membership.step(step)
            self._on_loop(done.set)

        threading.Thread(target=tell, name="step", daemon=True).start()
        stopping = asyncio.ensure_future(self._stop_requested.wait())
        going_on = asyncio.ensure_future(done.wait())
        await asyncio.wait({stopping, going_on}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        going_on.cancel()

    async def _drain(self, ports: "_Ports") -> None:
        """Refuse new requests, let running ones finish within the grace, and stop the servers."""
        _log.info("stopping; running requests have %g s to finish", self._grace)
        ends = time.monotonic() + self._grace
        await ports.health.leave()
        if ports.rest is not None:
            await ports.rest.leave()
        leaving: asyncio.Future[None] | None = None
        if self._shares_ports:
            # Others listen on the ports: this server's close first, so that new connections go to them. Calls
            # that are here are answered, instead of refused for another try. gRPC cancels a call that arrives
            # in the moment in which it closes, so clients that watch the health have time to move before it.
            await asyncio.sleep(min(self._grace, _LEAVING_SECONDS))
            leaving = asyncio.ensure_future(ports.grpc.stop(self._grace))
            draining = asyncio.ensure_future(_answered(ports.admission))
        else:
            draining = asyncio.ensure_future(ports.admission.drain())
        aborting = asyncio.ensure_future(self._abort_requested.wait())
        await asyncio.wait({draining, aborting}, timeout=self._grace, return_when=asyncio.FIRST_COMPLETED)
        if self._grace > 0 and not aborting.done():
            await asyncio.wait({aborting}, timeout=_LEAVING_SECONDS)
        if ports.rest is not None:
            await _stop_rest(ports.rest, max(0.0, ends - time.monotonic()), aborting)
        await ports.grpc.stop(_WATCHERS_SECONDS if draining.done() else None)
        if leaving is not None:
            await leaving
        # Calls that gRPC has just cancelled end by themselves, without a traceback when the loop is closed.
        await asyncio.wait({draining}, timeout=_WATCHERS_SECONDS)
        draining.cancel()
        aborting.cancel()

    def _healthy(self) -> dict[str, bool]:
        return {name: bool(versions) for name, versions in self.models.available().items()}

    def _reload(self, listed: pb.ModelServerConfig) -> None:
        self.models.reload(listed_models(listed), timeout=None)

    def _availability_changed(self, name: str, available: bool) -> None:
        if self._health is not None and self._loop is not None and not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._tell_health(), self._loop)

    async def _tell_health(self) -> None:
        # The current state, because several changes may arrive here in any order.
        if self._health is not None:
            await self._health.set(self._healthy())

    def _on_loop(self, callback: Callable[[], None]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)


class _Ports(NamedTuple):
    """The servers of both protocols, their health, and the door that their requests come in by."""

    grpc: grpc.aio.Server
    rest: RestServer | None
    health: Health
    admission: Admission

    async def close(self) -> None:
        """Close the ports and all connections at once."""
        if self.rest is not None:
            await self.rest.abort()
        # A running server that is dropped keeps its port, and its garbage collection waits for ever.
        await self.grpc.stop(None)


async def _stop_rest(rest: RestServer, seconds: float, aborting: "asyncio.Future[Literal[True]]") -> None:
    """Close REST when its answers are written; cut them off after some seconds, or when told to."""
    closing = asyncio.ensure_future(rest.stop(seconds))
    await asyncio.wait({closing, aborting}, return_when=asyncio.FIRST_COMPLETED)
    if not closing.done():
        await rest.abort()
        await closing


async def _answered(admission: Admission) -> None:
    # Calls that were on their way when the ports closed arrive within the pause.
    for _ in range(2):
        await admission.idle()
        await asyncio.sleep(_LEAVING_SECONDS)
