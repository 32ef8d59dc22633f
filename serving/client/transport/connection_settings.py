"""Settings of a client's connections for both transports: servers, encryption, secrets, limits.

Credentials never appear in a repr, a log or an error.

Reference: grpc.io/docs/guides/{auth,service-config,health-checking,keepalive}; the service config's fields
are those of grpc/service_config/service_config.proto.
"""

# Not all callers have a type checker.
# pyright: reportUnnecessaryIsInstance=false

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from ...errors import InvalidInputError
from .addresses import Targets, uses_proxy
from .retries import GRPC_RETRIES

_PEM = "-----BEGIN"

Pairs = Sequence[tuple[str, str | bytes]]
Metadata = Mapping[str, str | bytes] | Pairs
MetadataSource = Metadata | Callable[[], Metadata | Awaitable[Metadata]]

_NO_LIMIT = -1
_INT_MAX = 2**31 - 1

# Servers disconnect clients that ping too often while they say nothing. gRPC's own allow one in five minutes,
# and two that come earlier; its clients send two and then one a minute, so a call ends after 140 seconds.
_KEEPALIVE_MS = 10_000
_LONG_KEEPALIVE_MS = 310_000
LONG_CALL_SECONDS = 120.0
"""Calls that may take longer have connections of their own, with fewer pings."""
_KEEPALIVE_TIMEOUT_MS = 5_000

_INTERCEPTORS = (grpc.UnaryUnaryClientInterceptor, grpc.aio.ClientInterceptor)


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


@dataclass(frozen=True)
class ConnectionSettings:
    """The settings of a client's connection, checked once.

    Args:
        targets: the servers.
        tls: the encryption; gRPC's own ChannelCredentials for anything that TLS does not cover.
        insecure: True allows clear text to other machines.
        metadata: sent with every call, or a function that is called for each.
        credentials: gRPC's own per-call credentials; they need `tls`.
        interceptors: gRPC's client interceptors, outermost first. They see messages as bytes.
        connections: the number to each target, each on a separate channel.
        for_long_calls: True for connections whose calls may take longer than LONG_CALL_SECONDS.

    Raises:
        InvalidInputError: they contradict each other, or would use clear text without `insecure`.
    """

    targets: Targets
    tls: TLS | grpc.ChannelCredentials | None = None
    insecure: bool = False
    metadata: MetadataSource | None = field(default=None, repr=False)
    credentials: grpc.CallCredentials | None = field(default=None, repr=False)
    interceptors: Sequence[Any] = ()
    connections: int = 1
    for_long_calls: bool = False

    def __post_init__(self) -> None:
        self._check_kinds()
        self._check_secrecy()
        if self.metadata is not None and not callable(self.metadata):
            object.__setattr__(self, "metadata", pairs_of(self.metadata))

    def _check_kinds(self) -> None:
        if self.tls is not None and not isinstance(self.tls, TLS | grpc.ChannelCredentials):
            raise InvalidInputError(
                f"tls must be a TLS(...) or grpc.ChannelCredentials. Received {type(self.tls).__name__}"
            )
        if self.credentials is not None and not isinstance(self.credentials, grpc.CallCredentials):
            raise InvalidInputError(
                "credentials must be grpc.CallCredentials, such as grpc.access_token_call_credentials(token)"
            )
        listed = isinstance(self.interceptors, Sequence)
        if not listed or not all(isinstance(each, _INTERCEPTORS) for each in self.interceptors):
            raise InvalidInputError(
                f"interceptors must be a list of gRPC's client interceptors. Received "
                f"{self.interceptors!r:.60}"
            )

    def _check_secrecy(self) -> None:
        if self.tls is not None and self.insecure:
            raise InvalidInputError("give tls= or insecure=True, not both")
        if self.tls is None and not self.insecure and not self.targets.loopback:
            raise InvalidInputError(
                f"{self.targets} is another machine: pass tls=TLS(...) (--tls) to encrypt the connection, "
                f"or insecure=True (--insecure) to send everything in clear text"
            )
        if self.credentials is not None and self.tls is None:
            raise InvalidInputError("credentials= are sent over encrypted connections only: pass tls= too")
        if isinstance(self.tls, TLS) and len(self.targets.hosts) > 1 and not self.tls.server_name:
            raise InvalidInputError(
                "several hosts with TLS need TLS(server_name=...): the one name that all of their "
                "certificates have"
            )

    def call_metadata(self) -> Any:
        """Return the metadata of the next call, unchecked; for a coroutine function, an awaitable."""
        return self.metadata() if callable(self.metadata) else self.metadata or ()

    def channel_credentials(self) -> grpc.ChannelCredentials | None:
        """The credentials of the channel and the calls; None for clear text."""
        if self.tls is None:
            return None
        channel = self.tls.credentials() if isinstance(self.tls, TLS) else self.tls
        if self.credentials is None:
            return channel
        return grpc.composite_channel_credentials(channel, self.credentials)

    def options(self) -> list[tuple[str, Any]]:
        """The channel's arguments."""
        options: list[tuple[str, Any]] = [
            ("grpc.service_config", json.dumps(service_config(self.targets.several, self.connections))),
            # gRPC receives at most 4 MiB unless told otherwise: less than one batch of attention weights.
            ("grpc.max_receive_message_length", _NO_LIMIT),
            ("grpc.max_send_message_length", _NO_LIMIT),
            # gRPC silently does not retry a call with more bytes than this; its default is 256 KiB.
            ("grpc.per_rpc_retry_buffer_size", _INT_MAX),
            # Find a server that starts a moment later within that moment, not after gRPC's growing back-off.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
            # Notice a silently dead connection (a cable, a firewall) while calls wait on it.
            ("grpc.keepalive_time_ms", _LONG_KEEPALIVE_MS if self.for_long_calls else _KEEPALIVE_MS),
            ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
            ("grpc.http2.ping_timeout_ms", _KEEPALIVE_TIMEOUT_MS),  # gRPC's default is a minute
        ]
        if self.connections > 1:
            options.append(("grpc.use_local_subchannel_pool", 1))  # channels share connections otherwise
        if not uses_proxy(self.targets):
            options.append(("grpc.enable_http_proxy", 0))
        if isinstance(self.tls, TLS) and (self.tls.server_name or self.targets.several):
            name = self.tls.server_name or self.targets.hosts[0]
            options += [("grpc.ssl_target_name_override", name), ("grpc.default_authority", name)]
        return options


def service_config(several: bool, connections: int = 1) -> dict[str, Any]:
    """The retries, and the spread of calls over all healthy servers.

    Args:
        several: True if there are several servers. Only then is their health watched: with one server it
            changes nothing, and gRPC writes a line to stderr for a server without the health service.
        connections: the number to each server. With several, the transports retry; see `retries`.
    """
    config: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
    if several:
        config["healthCheckConfig"] = {"serviceName": ""}
    if connections == 1:
        config |= GRPC_RETRIES
    return config


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
