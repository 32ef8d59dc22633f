"""Encryption of both ports with the key and certificates of ssl_config_file.

Reference: tensorflow_serving/config/ssl_config.proto.
"""

import contextlib
import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from ...errors import ServerStartError
from ..config import LOOPBACK, ServerConfig
from . import flag_files_pb2
from .text_files import read_text_file

# Without the text between certificates, which may be of any language.
_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def credentials(config: ServerConfig) -> grpc.ServerCredentials | None:
    """Key and certificates for gRPC; None without ssl_config_file.

    Raises:
        TextFileError: the file cannot be read.
        ServerStartError: it lacks a key or a certificate, or they cannot be used.
    """
    if not str(config.ssl_config_file):
        return None
    given = _ssl_config(config)
    found = grpc.ssl_server_credentials(
        [(given.server_key.encode(), given.server_cert.encode())],
        root_certificates=given.custom_ca.encode() or None,
        require_client_auth=given.client_verify,
    )
    try:
        # Check the files now: gRPC reads them when it listens, and models may take minutes to load before.
        grpc.server(ThreadPoolExecutor(1)).add_secure_port(f"{LOOPBACK}:0", found)
    except RuntimeError as error:
        raise _unusable(config) from error
    return found


def rest_context(config: ServerConfig) -> ssl.SSLContext | None:
    """Key and certificates for REST; None without rest_tls. Errors are those of `credentials`."""
    if not config.rest_tls:
        return None
    given = _ssl_config(config)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        with _as_file(given.server_cert + "\n" + given.server_key) as pem:
            context.load_cert_chain(pem, password="")  # or it would ask for one
        if given.client_verify:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata="\n".join(_CERTIFICATE.findall(given.custom_ca)))
    except (OSError, ValueError) as error:
        raise _unusable(config) from error
    return context


def _ssl_config(config: ServerConfig) -> flag_files_pb2.SSLConfig:
    given = read_text_file(config.ssl_config_file, flag_files_pb2.SSLConfig, "tensorflow.serving.SSLConfig")
    for name in ("server_key", "server_cert", *(["custom_ca"] if given.client_verify else [])):
        if "-----BEGIN" not in getattr(given, name):
            raise ServerStartError(
                f"{name} in ssl_config_file {config.ssl_config_file} must be a PEM text, which begins with "
                f"'-----BEGIN', and no path"
            )
    return given


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Yield the path of a file with a text that nobody else can read: Python loads keys from files only."""
    if hasattr(os, "memfd_create"):  # no disk, which may be read-only, sees the key
        descriptor = os.memfd_create("key")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "key.pem")
        path.write_text(text, encoding="utf-8")
        yield str(path)


def _unusable(config: ServerConfig) -> ServerStartError:
    return ServerStartError(
        f"the key and certificates in ssl_config_file {config.ssl_config_file} cannot be used: they must be "
        f"PEM texts, and the key the certificate's"
    )
