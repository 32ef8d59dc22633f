"""Addresses of servers: parsed, checked, joined to one name for gRPC, looked up again; proxies on the way.

gRPC takes a proxy from the environment. Its errors have the proxy's address where the server's is expected,
and not the variable it is from: the proxy is found here as gRPC finds it, for messages.

Reference: http_proxy_mapper.cc in grpc/src/core/handshaker/http_connect, tried with gRPC 1.85.
"""

# Not all callers have a type checker.
# pyright: reportUnnecessaryIsInstance=false

import ipaddress
import logging
import os
import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ...errors import InvalidInputError, UnavailableError

log = logging.getLogger("keras_selfattn.serving.client")

_UNIX = "unix:"

# Seconds between lookups of the names of several servers while calls fail.
_LOOK_AGAIN_SECONDS = 5.0


@dataclass(frozen=True)
class Targets:
    """One or several servers.

    Args:
        addresses: "host:port", or "unix:/path" for a socket on this machine.

    Example:
        >>> Targets.of(["localhost:8500", "127.0.0.1:8501"]).loopback
        True
    """

    addresses: tuple[str, ...]

    @classmethod
    def of(cls, target: str | Sequence[str] | None) -> "Targets":
        """Parse the caller's targets.

        Raises:
            InvalidInputError: one is not an address, such as a URL; or there is none.
        """
        listed: list[Any] = list(target) if isinstance(target, list | tuple) else [target]
        if not listed:
            raise InvalidInputError('target must be "host:port", or a list of them. Received an empty list')
        addresses = tuple(_checked(address) for address in listed)
        if len(addresses) > 1 and any(address.startswith(_UNIX) for address in addresses):
            raise InvalidInputError(f"several targets must all be host:port. Received {list(addresses)!r}")
        return cls(addresses)

    @property
    def loopback(self) -> bool:
        """True if nothing sent there leaves this machine."""
        return all(address.startswith(_UNIX) or _is_loopback(_host(address)) for address in self.addresses)

    @property
    def hosts(self) -> list[str]:
        """The different hosts."""
        return list(dict.fromkeys(_host(address) for address in self.addresses))

    @property
    def several(self) -> bool:
        """True if there is more than one server to choose from."""
        return len(self.addresses) > 1

    @property
    def looked_up(self) -> bool:
        """True if `for_grpc` looks names up: this takes time, and the results can change."""
        return self.several and not all(map(_is_address, self.hosts))

    def for_grpc(self) -> str:
        """The name by which gRPC finds all servers.

        gRPC itself looks up a single name, repeatedly. It accepts several servers only as addresses, so their
        names are looked up here. An unknown name is left out, like a server that is down.

        Raises:
            UnavailableError: all names are unknown.
        """
        if not self.several:
            return self.addresses[0]
        found: dict[int, list[str]] = {socket.AF_INET: [], socket.AF_INET6: []}
        unknown: list[UnavailableError] = []
        for address in self.addresses:
            try:
                for family, place in _looked_up(address):
                    found[family].append(place)
            except UnavailableError as error:
                log.warning("left out: %s", error)
                unknown.append(error)
        if len(unknown) == len(self.addresses):
            raise unknown[0]
        # All addresses of a channel are of one family.
        if len(found[socket.AF_INET]) >= len(found[socket.AF_INET6]):
            return f"ipv4:{','.join(dict.fromkeys(found[socket.AF_INET]))}"
        return f"ipv6:{','.join(dict.fromkeys(found[socket.AF_INET6]))}"

    def __str__(self) -> str:
        return ", ".join(self.addresses)


class Lookup:
    """Addresses of several servers, looked up when a channel is made, and again once calls have failed.

    Args:
        targets: the servers.
    """

    def __init__(self, targets: Targets):
        self._targets = targets
        self._at = 0.0
        self.due = True

    def find(self) -> str:
        """The name by which gRPC finds the servers now."""
        found = self._targets.for_grpc()
        self._at, self.due = time.monotonic(), False
        return found

    @property
    def takes_time(self) -> bool:
        """True if names must be looked up."""
        return self._targets.looked_up

    def failed(self) -> None:
        """Record that a call found no server: the servers may have moved."""
        self.due = self.due or (self.takes_time and time.monotonic() - self._at > _LOOK_AGAIN_SECONDS)


def _checked(address: str) -> str:
    if isinstance(address, str) and re.fullmatch(r"unix:[^\s]+", address):
        return address
    match = re.fullmatch(r"(\[[0-9a-fA-F:.%]+\]|[^\s:/\[\],]+):([0-9]{1,5})", str(address))
    if not match or not 0 < int(match[2]) < 2**16:
        raise InvalidInputError(
            f'target must be "host:port", such as "localhost:8500", without http://; or "unix:/path". '
            f"Received {address!r}"
        )
    return address


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _looked_up(address: str) -> list[tuple[int, str]]:
    """The (family, address with port) pairs of a target."""
    host, port = _host(address), int(address.rpartition(":")[2])
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UnavailableError(
            f"the name {host!r} is not known ({error.strerror}). Check the target {address!r}",
            details=str(error),
            target=address,
        ) from error
    forms = {socket.AF_INET: "{}:{}", socket.AF_INET6: "[{}]:{}"}
    return [
        (family, forms[family].format(*place[:2])) for family, _, _, _, place in places if family in forms
    ]


# Proxies.

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
    if _goes_around(host, _first(variables, _EXCEPTIONS)[1]):
        return ""
    address = _proxy_address(value)
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


def _proxy_address(url: str) -> str | None:
    """Return the host and port of a proxy, without name and password; None if gRPC cannot use it."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme.lower() != "http" or not host:
        return None
    return f"[{host}]:{port or 443}" if ":" in host else f"{host}:{port or 443}"


def _goes_around(host: str, listed: str) -> bool:
    """Return True if a list of names, domains, addresses and networks has a host. gRPC knows no "*"."""
    return any(_matches(host.lower(), entry.strip().lower()) for entry in listed.split(",") if entry.strip())


def _matches(host: str, entry: str) -> bool:
    if host == entry or host.endswith(f".{entry.removeprefix('.')}"):
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:  # one is a name
        return False
