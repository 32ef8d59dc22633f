"""Who may ask a server that has a page: no pages of other sites, by their own or by a borrowed name.

A site can point its name at 127.0.0.1 (DNS rebinding): its page then has the origin of this server, and only
the Host header tells. A page of another origin can send a POST without being asked, although it cannot read
the answer.

Reference: RFC 9110, section 7.4; w3.org/TR/fetch-metadata.
"""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from ..config import ServerConfig
from ..runtime.listening import is_loopback
from .errors import foreign_host, foreign_page

_OWN_SITES = (b"same-origin", b"none")


def check_origin(config: ServerConfig, method: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Check that a request may be answered.

    Args:
        config: the addresses, and whether pages of other origins may call the API.
        method: of the request.
        headers: its names, in lower case, and values.

    Raises:
        HttpError: 421 or 403, a page of another site may have sent it.

    Example:
        >>> config = ServerConfig("half", "models/half", rest_api_port=8501, page=True)
        >>> check_origin(config, "GET", [(b"host", b"localhost:8501")])
        >>> check_origin(config, "GET", [(b"host", b"evil.example:8501")])
        Traceback (most recent call last):
        keras_selfattn.serving.server.rest.errors.HttpError: with the page, ...
    """
    found = dict(headers)
    host = found.get(b"host", b"").decode("latin-1")
    # An address that others reach has names that this server does not know, and with TLS a certificate.
    if host and is_loopback(config.rest_host) and not config.rest_tls and not _is_local(host, config.host):
        raise foreign_host(host)
    if method == "POST" and not config.rest_api_enable_cors_support and not _is_own_page(found, host):
        raise foreign_page()


def _is_local(host: str, configured: str) -> bool:
    """Return True for the Host of this machine: no web site can have it."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name.endswith(".localhost") or name == configured.lower():
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_own_page(headers: dict[bytes, bytes], host: str) -> bool:
    """Return True unless a browser says that a page of another origin sends the request."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:  # no page can set it
        return site in _OWN_SITES
    origin = headers.get(b"origin")
    return origin is None or origin.decode("latin-1").partition("://")[2] == host
