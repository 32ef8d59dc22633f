"""Parse and check addresses of servers, join them to one name for gRPC, and look that up again in time."""

# Not all callers have a type checker.
# pyright: reportUnnecessaryIsInstance=false

import ipaddress
import logging
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
