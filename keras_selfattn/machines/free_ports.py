"""A free port of this machine."""

import socket


def free_port(host: str) -> int:
    """Return a port that is free at an address of this machine; another program can take it any time.

    Example:

        >>> 0 < free_port("127.0.0.1") < 65536
        True
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as found:
        found.bind((host, 0))
        return found.getsockname()[1]
