"""The addresses on which the server listens for gRPC: port, Unix socket, and the core's options.

Reference: tensorflow_serving/model_servers/server.cc.
"""

import ipaddress
import os
import re
import socket
import stat
from pathlib import Path

import grpc
import grpc.aio

from ...errors import InvalidInputError, ServerStartError
from ..config import ServerConfig
from .descriptors import connections_of_a_port

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_UNIX = "unix:"
_FREE_REST_PORT = -1  # 0 turns REST off, as in TensorFlow Serving
_BACKLOG = 2048

# The age of a connection if workers share the ports, so that a replacement worker gets its part.
CONNECTION_SECONDS = 60
# Seconds from a connection to its first settings frame; gRPC's default is two minutes.
_HANDSHAKE_SECONDS = 10
# Longest time without a call; the client's library connects again for its next call.
_IDLE_SECONDS = 300
# Seconds until a client that says nothing gets a ping, and seconds until it must have answered.
_KEEPALIVE_SECONDS = 60
_KEEPALIVE_TIMEOUT_SECONDS = 20
# Clients may ping this often, with and without calls. gRPC's libraries send one in a second at most; its own
# servers allow one in five minutes, and end the connection, with its calls, at the third that comes earlier.
_LEAST_PING_SECONDS = 0.5


def server_options(config: ServerConfig, shared: bool = False) -> list[tuple[str, int | str]]:
    """The options of gRPC's core: this server's, overridden by the operator's.

    Args:
        config: the addresses and limits.
        shared: True if other processes than workers listen on the same ports, too.

    Raises:
        InvalidInputError: grpc_channel_arguments is not a list of name=value.
    """
    shared = shared or config.workers > 1
    options: dict[str, int | str] = {
        "grpc.max_receive_message_length": -1,  # up to protobuf's own 2 GiB, as in TensorFlow Serving
        "grpc.max_send_message_length": -1,
        "grpc.max_concurrent_streams": config.max_concurrent_streams,
        # With SO_REUSEPORT a second server would silently share the port and answer half of the requests.
        "grpc.so_reuseport": int(shared),
        "grpc.server_handshake_timeout_ms": _HANDSHAKE_SECONDS * 1000,
        "grpc.max_connection_idle_ms": _IDLE_SECONDS * 1000,
        "grpc.keepalive_time_ms": _KEEPALIVE_SECONDS * 1000,
        "grpc.keepalive_timeout_ms": _KEEPALIVE_TIMEOUT_SECONDS * 1000,
        "grpc.http2.ping_timeout_ms": _KEEPALIVE_TIMEOUT_SECONDS * 1000,  # gRPC's default is a minute
        "grpc.http2.min_ping_interval_without_data_ms": int(_LEAST_PING_SECONDS * 1000),
        "grpc.keepalive_permit_without_calls": 1,
        # For each address. Without a descriptor left, gRPC itself would write a line each second.
        "grpc.max_allowed_incoming_connections": max(
            1, connections_of_a_port() // (2 if str(config.grpc_socket_path) else 1)
        ),
    }
    if shared:
        # After this time, new calls go to another connection; running calls may end here, however long.
        options["grpc.max_connection_age_ms"] = CONNECTION_SECONDS * 1000
    for argument in filter(None, config.grpc_channel_arguments.split(",")):
        name, separator, value = argument.partition("=")
        if not separator:
            raise InvalidInputError(
                f"grpc_channel_arguments must be name=value, comma-separated. Received {argument!r}"
            )
        options[name] = int(value) if re.fullmatch(r"-?[0-9]{1,10}", value) else value
    return list(options.items())


def check_addresses(config: ServerConfig, shared: bool = False) -> None:
    """Check the addresses before models are loaded, and raise the system's reason, which gRPC only logs.

    Args:
        config: the addresses.
        shared: True if other processes may listen on them.

    Raises:
        ServerStartError: the port is in use, the host is not this machine's, or the socket's path is taken.
    """
    bind(config.grpc_host, config.port, "port", listens=not shared, shared=shared).close()
    if config.rest_api_port:
        port = rest_port(config)
        bind(config.rest_host, port, "rest_api_port", listens=not shared, shared=shared).close()
    if str(config.grpc_socket_path):
        _check_socket_path(Path(config.grpc_socket_path))


def reserve(host: str, port: int) -> socket.socket:
    """A socket that reserves a port for workers and does not listen: connections go to the workers' sockets.

    Args:
        host: an address of this machine.
        port: 0 for any free one.

    Raises:
        ServerStartError: the port is not available, with the system's reason.
    """
    reserved = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind((host, port))
    except OSError as error:
        reserved.close()
        raise _cannot_listen(_host_port(host, port), error.strerror or str(error), "port") from error
    return reserved


def rest_port(config: ServerConfig) -> int:
    """The REST port to request from the system; 0 for any free one."""
    return 0 if config.rest_api_port == _FREE_REST_PORT else config.rest_api_port


def bind(host: str, port: int, setting: str, listens: bool = True, shared: bool = False) -> socket.socket:
    """A listening socket.

    Args:
        host: an address of this machine.
        port: 0 for any free one.
        setting: the setting of the port.
        listens: True to listen already.
        shared: True if other processes may listen on the port, too.

    Raises:
        ServerStartError: no socket is available, with the system's reason.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Name the protocol: otherwise asyncio leaves Nagle's algorithm on, which delays the second part of an
    # answer by 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind((host, port))
        if listens:
            listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise _cannot_listen(_host_port(host, port), error.strerror or str(error), setting) from error
    return listening


def listen(server: grpc.aio.Server, config: ServerConfig, tls: grpc.ServerCredentials | None) -> int:
    """Open the port, and the Unix socket if there is one. Return the port.

    Raises:
        ServerStartError: one of them cannot be opened.
    """
    port = _open(server, _address(config), tls)
    if str(config.grpc_socket_path):
        # The socket file of an earlier server blocks the next one; gRPC's core removes it.
        _open(server, f"{_UNIX}{os.path.abspath(config.grpc_socket_path)}", tls)
    return port


def local_target(host: str, port: int) -> str:
    """The "host:port" for a client on this machine."""
    return _host_port(_ANY_ADDRESS.get(host, host), port)


def local_rest_url(config: ServerConfig, port: int) -> str:
    """The address of a REST port for a program on this machine; empty for port 0, which is none."""
    scheme = "https" if config.rest_tls else "http"
    return f"{scheme}://{local_target(config.rest_host, port)}" if port else ""


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches an address.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
        (True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _open(server: grpc.aio.Server, address: str, tls: grpc.ServerCredentials | None) -> int:
    try:
        if tls is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, tls)
    except RuntimeError as error:
        raise _cannot_listen(address, str(error)) from error


def _address(config: ServerConfig) -> str:
    return _host_port(config.grpc_host, config.port)


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _check_socket_path(path: Path) -> None:
    if not path.absolute().parent.is_dir():
        raise _cannot_listen(f"{_UNIX}{path}", "its folder does not exist")
    if path.exists() and not stat.S_ISSOCK(path.stat().st_mode):
        raise _cannot_listen(f"{_UNIX}{path}", "it is a file, and no socket")


def _cannot_listen(address: str, reason: str, setting: str = "port") -> ServerStartError:
    free = _FREE_REST_PORT if setting == "rest_api_port" else 0
    advice = (
        "Choose another path"
        if address.startswith(_UNIX)
        else f"Stop what uses the port, or choose another {setting} ({free} takes any free one) or host"
    )
    return ServerStartError(f"cannot listen on {address}: {reason}. {advice}")
