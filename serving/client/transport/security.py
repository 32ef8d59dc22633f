"""Encryption and credentials, which never appear in a repr, a log or an error.

Reference: grpc.io/docs/guides/auth.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from ...errors import InvalidInputError

_PEM = "-----BEGIN"

Pairs = Sequence[tuple[str, str | bytes]]
Metadata = Mapping[str, str | bytes] | Pairs
MetadataSource = Metadata | Callable[[], Metadata | Awaitable[Metadata]]


@dataclass(frozen=True)
class TLS:
    """Encryption of a connection. Files are read once, here.

    Args:
        ca: the certificates (PEM) of the authorities that may sign the server's: a path, or the PEM itself;
            None for gRPC's list of public authorities.
        certificate: the client's own certificate chain (PEM), for servers that ask for one (mTLS).
        key: its private key (PEM).
        server_name: the name in the server's certificate, if it differs from the target's host.

    Raises:
        InvalidInputError: a file cannot be read, or only one of certificate and key is given.

    Example:
        Client("models.example.com:8500", tls=TLS(ca="ca.pem", certificate="me.pem", key="me.key"))
    """

    ca: str | Path | bytes | None = field(default=None, repr=False)
    certificate: str | Path | bytes | None = field(default=None, repr=False)
    key: str | Path | bytes | None = field(default=None, repr=False)
    server_name: str | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise InvalidInputError("TLS needs certificate and key together, or neither")
        for name in ("ca", "certificate", "key"):
            object.__setattr__(self, name, _pem(name, getattr(self, name)))

    def credentials(self) -> grpc.ChannelCredentials:
        """These settings in gRPC's form."""
        pem: dict[str, Any] = {name: getattr(self, name) for name in ("ca", "key", "certificate")}
        return grpc.ssl_channel_credentials(pem["ca"], pem["key"], pem["certificate"])


def pairs_of(metadata: Metadata) -> list[tuple[str, str | bytes]]:
    """Metadata in gRPC's form, with lower-case keys.

    Raises:
        InvalidInputError: a key or value is not a str; the message holds only the key.
    """
    listed: Any = metadata.items() if isinstance(metadata, Mapping) else metadata
    found: list[tuple[str, str | bytes]] = []
    pair: Any
    for pair in listed if isinstance(listed, Iterable) else [None]:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):  # pyright: ignore[reportUnknownArgumentType]
            raise InvalidInputError("metadata must be a dict, or a list of (key, value) pairs, of str")
        key, value = pair[0].lower(), pair[1]  # pyright: ignore[reportUnknownVariableType]
        wanted = bytes if key.endswith("-bin") else str
        if not isinstance(value, wanted) or not _is_header(key, value):
            raise InvalidInputError(
                f"metadata {key!r}: the key must be letters, digits, '-', '_' and '.', and its value "
                f"{'bytes' if wanted is bytes else 'printable ASCII'}"
            )
        found.append((key, value))
    return found


def _is_header(key: str, value: str | bytes) -> bool:
    printable = isinstance(value, bytes) or (value.isascii() and value.isprintable())
    return printable and key.replace("-", "").replace("_", "").replace(".", "").isalnum() and key.isascii()


def _pem(name: str, value: object) -> bytes | None:
    """The PEM that `value` is, or that the file it names holds. No error contains a possible key."""
    if value is None:
        return None
    data = value.encode() if isinstance(value, str) and _PEM in value else value
    if isinstance(data, str | Path):
        try:
            data = Path(data).read_bytes()
        except OSError as error:
            path = f": {value}" if len(str(value)) < 256 else ""  # if longer, it may be a key
            raise InvalidInputError(f"TLS {name} cannot be read: {error.strerror}{path}") from None
    if not isinstance(data, bytes) or _PEM.encode() not in data:
        raise InvalidInputError(f"TLS {name} must be PEM ({_PEM} ...), or the path of a file that holds it")
    return data
