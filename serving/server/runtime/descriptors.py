"""The descriptors that a process may have, and how many of them its connections get."""

import contextlib

try:
    import resource
except ImportError:  # Windows, where sockets are not counted
    resource = None

# What a system without a limit, or one that names no limit, certainly allows.
_PLENTY = 10_240
# A port's part of the limit: two ports leave a quarter to models, logs and what libraries open.
_PART_OF_A_PORT = 3 / 8


def raise_limit() -> None:
    """Raise the soft limit of descriptors to the hard one, for a process that does nothing but serve.

    The soft limit is low for the sake of programs that call select(), which cannot name a descriptor above
    1023.
    """
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _PLENTY if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def limit() -> int:
    """The descriptors that this process may have."""
    if resource is None:
        return _PLENTY
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _PLENTY if soft == resource.RLIM_INFINITY else soft


def connections_of_a_port() -> int:
    """The connections that one of the server's two ports may have at the same time."""
    return max(1, int(limit() * _PART_OF_A_PORT))
