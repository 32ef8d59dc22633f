"""The limit of a process's descriptors, and the share of its connections."""

import contextlib

try:
    import resource
except ImportError:  # Windows, where sockets are not counted
    resource = None

# A safe number for a system without a known limit.
_PLENTY = 10_240
# A port's part of the limit: two ports leave a quarter to models, logs and libraries.
_PART_OF_A_PORT = 3 / 8


def raise_limit() -> None:
    """Raise the soft limit of descriptors to the hard one, for a process that only serves.

    The soft limit is low for the sake of programs that call select(), which cannot name a descriptor above
    1023.
    """
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _PLENTY if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # some systems allow less than they report
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def limit() -> int:
    """The largest number of descriptors of this process."""
    if resource is None:
        return _PLENTY
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _PLENTY if soft == resource.RLIM_INFINITY else soft


def connections_of_a_port() -> int:
    """The largest number of simultaneous connections of one of the server's two ports."""
    return max(1, int(limit() * _PART_OF_A_PORT))
