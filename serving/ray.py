"""Ray Serve runs this project's server: a server in each replica, as many as the load needs.

Clients ask the replicas' own servers, not Ray's proxy, which would cost more than the request. The replicas
of a node share its ports: the system spreads connections over them. Clients name the nodes, or a balancer in
front of them. On the command line::

    serve run keras_selfattn.serving.ray:app model_name=reviews model_base_path=/models/reviews

Reference: https://docs.ray.io/en/latest/serve/advanced-guides/advanced-autoscaling.html.
"""

import asyncio
import dataclasses
import importlib
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_selfattn.files.object_stores import uri_of

from .errors import InvalidInputError, ServerStartError

if TYPE_CHECKING:
    from .server import ServerConfig

__all__ = ["app", "application"]

_ONGOING = "ongoing_requests"
_POLICY = "keras_selfattn.serving.ray:replicas_for"
# Ray kills a replica that has not ended so many seconds after its drain.
_MARGIN_SECONDS = 10.0
_SCALING = {"min_replicas": int, "max_replicas": int, "target_ongoing_requests": float}
_FLAGS = {"true": True, "false": False}


def application(
    config: "ServerConfig",
    *,
    min_replicas: int = 1,
    max_replicas: int = 1,
    target_ongoing_requests: float = 16.0,
    autoscaling: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Return a Ray Serve application whose replicas each serve the models of a config.

    Args:
        config: the models and the addresses. The replicas of a node share the ports, which must be fixed.
        min_replicas: the lowest number of replicas.
        max_replicas: the highest number.
        target_ongoing_requests: requests without an answer for each replica, by which Ray chooses the number.
            16 keep a replica busy: it computes some while others wait for the next batch.
        autoscaling: more of Ray's AutoscalingConfig, such as {"upscale_delay_s": 5}.
        options: more of Ray's `serve.deployment`, such as ray_actor_options={"num_cpus": 2}.

    Raises:
        InvalidInputError: a port is not fixed, a number is out of its range, the config asks for what
            replicas cannot share, or Ray is not installed.

    Example:
        serve.run(application(ServerConfig("reviews", "/models/reviews"), max_replicas=4))
    """
    _check(config, min_replicas, max_replicas, target_ongoing_requests)
    scaling = {
        "min_replicas": min_replicas,
        "max_replicas": max_replicas,
        "target_ongoing_requests": target_ongoing_requests,
        "policy": {"policy_function": _POLICY},
    }
    settings = {
        "autoscaling_config": scaling | dict(autoscaling or {}),
        "graceful_shutdown_timeout_s": config.shutdown_grace_seconds + _MARGIN_SECONDS,
    }
    return _ray_serve().deployment(Replica, **(settings | options)).bind(_with_absolute_path(config))


def app(arguments: Mapping[str, Any]) -> Any:
    """Return the application that Ray's command line or a config file asks for.

    Args:
        arguments: settings of `ServerConfig`, which are the flags of `keras-selfattn serve`; min_replicas,
            max_replicas and target_ongoing_requests.

    Raises:
        InvalidInputError: an argument is unknown or out of its range.

    Example:
        serve run keras_selfattn.serving.ray:app model_name=reviews model_base_path=/models/reviews
    """
    from .server import ServerConfig

    defaults = {field.name: field.default for field in dataclasses.fields(ServerConfig)}
    unknown = arguments.keys() - defaults.keys() - _SCALING.keys()
    if unknown:
        raise InvalidInputError(
            f"arguments must be settings of ServerConfig, or {', '.join(_SCALING)}. Received "
            f"{', '.join(sorted(unknown))}"
        )
    settings, scaling = {}, {}
    for name, value in arguments.items():
        if name in _SCALING:
            scaling[name] = _typed(name, value, _SCALING[name])
        else:
            settings[name] = _typed(name, value, type(defaults[name]))
    return application(ServerConfig(**settings), **scaling)


class Replica:
    """A server on the ports of its node; Ray makes it.

    Args:
        config: the models and the addresses.

    Raises:
        ServerStartError: there is nothing to serve, or another program or application has a port.
    """

    def __init__(self, config: "ServerConfig"):
        from .server.runtime.lean_tensorflow import import_runtime

        import_runtime()
        from .server import Server  # after TensorFlow has been loaded without its API

        # Held as long as the process lives.
        self._ports = [_take_port(port) for port in (config.port, config.rest_api_port) if port]
        self._server = Server(config, own_process=True, shares_ports=True).start()

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Return the requests without an answer, for `replicas_for`."""
        return {_ONGOING: float(self._server.ongoing_requests)}

    async def check_health(self) -> None:
        """Raise if the server has ended: Ray then starts another replica."""
        if self._server.wait(timeout=0):
            raise RuntimeError("the server has ended")

    async def __del__(self) -> None:
        """Drain, before Ray ends the process."""
        await asyncio.to_thread(self._server.stop)


def _take_port(port: int) -> Any:
    """Take a port of this node for the application of this replica, and return the file that holds it.

    The system would let replicas of two applications share a port, each of which gets half of all requests.

    Raises:
        ServerStartError: another application has it.
    """
    import fcntl

    application = importlib.import_module("ray.serve").get_replica_context().app_name
    path = Path(tempfile.gettempdir(), f"keras-selfattn-port-{port}-of-{os.getuid()}")
    held = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fcntl.flock(held, fcntl.LOCK_SH)
        holder = held.read()
        if holder and holder != application:
            raise ServerStartError(
                f"port {port} of this node is used by the replicas of application {holder!r}. Choose another "
                f"port for {application!r}"
            ) from None
        return held
    held.truncate()
    held.write(application)
    held.flush()
    fcntl.flock(held, fcntl.LOCK_SH)
    return held


def replicas_for(context: Any) -> tuple[int, dict[str, Any]]:
    """Return the number of replicas that the ongoing requests need; Ray applies bounds and delays.

    Args:
        context: Ray's AutoscalingContext.

    Returns:
        The number, and no state.
    """
    ongoing = (context.aggregated_metrics or {}).get(_ONGOING)
    if not ongoing:  # no replica has reported yet
        return context.target_num_replicas, {}
    return math.ceil(sum(ongoing.values()) / context.config.get_target_ongoing_requests()), {}


def _check(config: "ServerConfig", min_replicas: int, max_replicas: int, target: float) -> None:
    ports = (config.port, config.rest_api_port)
    if not config.port or config.rest_api_port < 0 or ports[0] == ports[1]:
        raise InvalidInputError(
            "port must be fixed, because the replicas of a node share it; so must rest_api_port, another "
            f"one, unless 0. Received port={config.port}, rest_api_port={config.rest_api_port}"
        )
    if config.workers > 1:
        raise InvalidInputError(f"workers must be 1: Ray starts the processes. Received {config.workers}")
    if str(config.grpc_socket_path):
        raise InvalidInputError(
            f"grpc_socket_path must be empty: replicas cannot share it. Received {config.grpc_socket_path}"
        )
    counts = (min_replicas, max_replicas)
    # Only replicas report requests: an application without any would never get one.
    if not all(type(count) is int for count in counts) or not 1 <= min_replicas <= max_replicas:
        raise InvalidInputError(
            f"min_replicas must be an integer from 1 to max_replicas. Received {min_replicas!r} and "
            f"{max_replicas!r}"
        )
    if isinstance(target, bool) or not isinstance(target, int | float) or not 0 < target < math.inf:
        raise InvalidInputError(f"target_ongoing_requests must be a positive number. Received {target!r}")


def _with_absolute_path(config: "ServerConfig") -> "ServerConfig":
    """Return a config that means the same in the folder where Ray starts a replica."""
    paths = {}
    for name in ("model_base_path", "model_config_file", "ssl_config_file", "auth_token_file"):
        path = str(getattr(config, name))
        if path and uri_of(path) is None and not path.startswith("file:"):
            paths[name] = str(Path(path).expanduser().absolute())
    return dataclasses.replace(config, **paths)


def _typed(name: str, value: Any, kind: type) -> Any:
    """Return a text of the command line as a setting; values of a config file have their types."""
    if not isinstance(value, str):
        return value
    try:
        return _FLAGS[value.lower()] if kind is bool else kind(value)
    except (KeyError, ValueError):
        raise InvalidInputError(f"{name} must be of type {kind.__name__}. Received {value!r}") from None


def _ray_serve() -> Any:
    try:
        # By name: it is there only with the extra, for the type checker too.
        return importlib.import_module("ray.serve")
    except ImportError as error:
        raise InvalidInputError("Ray Serve is not installed: pip install 'keras-selfattn[ray]'") from error
