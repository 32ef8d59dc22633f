"""Addresses of servers: read, checked, and put together to one name that gRPC understands."""

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InvalidInputError, UnavailableError

_UNIX = "unix:"


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
    def of(cls, target: str | Sequence[str]) -> "Targets":
        """The targets that a caller named.

        Raises:
            InvalidInputError: one is anything else than an address, such as a URL; or there is none.
        """
        listed = [target] if isinstance(target, str) or target is None else list(target)
        if not listed:
            raise InvalidInputError('target must be "host:port", or a list of them. Received an empty list')
        addresses = tuple(_checked(address) for address in listed)
        if len(addresses) > 1 and any(address.startswith(_UNIX) for address in addresses):
            raise InvalidInputError(f"several targets must all be host:port. Received {list(addresses)!r}")
        return cls(addresses)

    @property
    def loopback(self) -> bool:
        """Whether nothing sent there leaves this machine."""
        return all(address.startswith(_UNIX) or _is_loopback(_host(address)) for address in self.addresses)

    @property
    def hosts(self) -> list[str]:
        """The different hosts."""
        return list(dict.fromkeys(_host(address) for address in self.addresses))

    @property
    def several(self) -> bool:
        """Whether there is more than one server to choose from."""
        return len(self.addresses) > 1

    def for_grpc(self) -> str:
        """The name by which gRPC finds all of them.

        gRPC looks a single name up by itself, again and again. It takes several servers as addresses only:
        their names are looked up here, once for a connection.

        Raises:
            UnavailableError: a name is not known.
        """
        if not self.several:
            return self.addresses[0]
        found = {address: _looked_up(address) for address in self.addresses}
        for family, scheme, form in ((socket.AF_INET, "ipv4", "{}:{}"), (socket.AF_INET6, "ipv6", "[{}]:{}")):
            if all(family in addresses for addresses in found.values()):
                listed = (
                    form.format(*place[:2]) for addresses in found.values() for place in addresses[family]
                )
                return f"{scheme}:{','.join(dict.fromkeys(listed))}"
        raise InvalidInputError(f"several targets must share IPv4 or IPv6. Received {list(self.addresses)!r}")

    def __str__(self) -> str:
        return ", ".join(self.addresses)


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


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _looked_up(address: str) -> dict[int, list[tuple[str, int]]]:
    host, port = _host(address), int(address.rpartition(":")[2])
    found: dict[int, list[tuple[str, int]]] = {}
    try:
        for family, _, _, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            found.setdefault(family, []).append((str(place[0]), int(place[1])))
    except OSError as error:
        raise UnavailableError(
            f"the name {host!r} is not known ({error.strerror}). Check the target {address!r}",
            details=str(error),
            target=address,
        ) from error
    return found
