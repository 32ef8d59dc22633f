"""The messages between the supervisor and its workers."""

from collections.abc import Callable
from dataclasses import dataclass

from ..config import ServerConfig

# What a supervisor has for its workers.
ASK_ALL, STEP, READY, FAILED = "ask_all", "step", "ready", "failed"
# What a worker has for its supervisor: to do an action of `Membership`, or this one.
DO, AVAILABLE = "do", "available"


@dataclass(frozen=True)
class Assignment:
    """The settings that a worker is started with.

    Attributes:
        number: its own, from 1.
        config: what to serve; the port is the one that all share.
        setup: called first, with the number.
        rest_socket: the descriptor of the socket that listens for REST; None without REST.
        listed: the models to serve now, a serialized ModelServerConfig; None for the config's one model.
    """

    number: int
    config: ServerConfig
    setup: Callable[[int], None] | None
    rest_socket: int | None
    listed: bytes | None
