"""The HTTP proxy that gRPC asks for a connection, found as gRPC finds it, for messages.

gRPC's errors have the proxy's address where the server's is expected, and not the variable it is from.

Reference: http_proxy_mapper.cc in grpc/src/core/handshaker/http_connect, tried with gRPC 1.85.
"""

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from .addresses import Targets

# gRPC takes the first that is set, even if it is empty.
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
_EXCEPTIONS = ("no_grpc_proxy", "no_proxy")


def uses_proxy(targets: Targets) -> bool:
    """Return True if gRPC may ask a proxy: not for this machine, and for one server only.

    Of several servers gRPC would ask a proxy for all their addresses as one name, which is nobody's, and no
    exception would match it.
    """
    return not targets.loopback and not targets.several


def proxy_advice(targets: Targets, environment: Mapping[str, str] | None = None) -> str:
    """Return a sentence on the proxy between this machine and a server; empty if there is none.

    Args:
        targets: the server.
        environment: the variables; by default the process's.

    Example:

        >>> proxy_advice(Targets.of("model.example:8500"), {"http_proxy": "http://proxy:3128"})[:62]
        'The connection goes through the proxy proxy:3128 of http_proxy'
    """
    variables = os.environ if environment is None else environment
    name, value = _first(variables, _PROXIES)
    if not value or not uses_proxy(targets):
        return ""
    (host,) = targets.hosts
    if _is_exception(host, _first(variables, _EXCEPTIONS)[1]):
        return ""
    address = _address(value)
    if address is None:
        return f"gRPC ignores {name}, which is no http://host:port, and connects to {host} directly."
    return (
        f"The connection goes through the proxy {address} of {name}: does it run, and let this port pass? "
        f"With {host} in no_proxy, gRPC connects directly."
    )


def _first(variables: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str]:
    """Return the first variable that is set, and its value; empty if none is."""
    name = next((name for name in names if name in variables), "")
    return name, variables.get(name, "")


def _address(url: str) -> str | None:
    """Return the host and port of a proxy, without name and password; None if gRPC cannot use it."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme.lower() != "http" or not host:
        return None
    return f"[{host}]:{port or 443}" if ":" in host else f"{host}:{port or 443}"


def _is_exception(host: str, listed: str) -> bool:
    """Return True if a list of names, domains, addresses and networks has a host. gRPC knows no "*"."""
    return any(_matches(host.lower(), entry.strip().lower()) for entry in listed.split(",") if entry.strip())


def _matches(host: str, entry: str) -> bool:
    if host == entry or host.endswith(f".{entry.removeprefix('.')}"):
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:  # one is a name
        return False
