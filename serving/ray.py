"""Ray Serve runs this project's server: a server in each replica, as many as the load needs.

Clients ask the replicas' own servers, not Ray's proxy, which would cost more than the request. The replicas
of a node share its ports: the system spreads connections over them. Clients name the nodes, or a balancer in
front of them.

    serve run keras_selfattn.serving.ray:app model_name=reviews model_base_path=/models/reviews

Reference: https://docs.ray.io/en/latest/serve/advanced-guides/advanced-autoscaling.html.
"""

import asyncio
import dataclasses
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import InvalidInputError

if TYPE_CHECKING:
    from .server import ServerConfig

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
        InvalidInputError: a port is not fixed, the config asks for workers, or Ray is not installed.

    Example:
        serve.run(application(ServerConfig("reviews", "/models/reviews"), max_replicas=4))
    """
    _check(config)
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
    return _ray_serve().deployment(Replica, **(settings | options)).bind(config)


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
        ServerStartError: there is nothing to serve, or another program has a port.
    """

    def __init__(self, config: "ServerConfig"):
        from .server.runtime.lean_tensorflow import import_runtime

        import_runtime()
        from .server import Server  # after TensorFlow has been loaded without its API

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


def replicas_for(context: Any) -> tuple[float, dict[str, Any]]:
    """Return the number of replicas that the ongoing requests need; Ray applies bounds and delays.

    Args:
        context: Ray's AutoscalingContext.

    Returns:
        The number, and no state.
    """
    ongoing = (context.aggregated_metrics or {}).get(_ONGOING)
    if not ongoing:  # no replica has reported yet
        return context.target_num_replicas, {}
    return sum(ongoing.values()) / context.config.get_target_ongoing_requests(), {}


def _check(config: "ServerConfig") -> None:
    if not config.port or config.rest_api_port < 0:
        raise InvalidInputError(
            "port must be fixed, because the replicas of a node share it; so must rest_api_port, unless 0. "
            f"Received port={config.port}, rest_api_port={config.rest_api_port}"
        )
    if config.workers > 1:
        raise InvalidInputError(f"workers must be 1: Ray starts the processes. Received {config.workers}")


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
