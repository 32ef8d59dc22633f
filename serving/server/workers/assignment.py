"""The messages between the supervisor and its workers."""

from collections.abc import Callable
from dataclasses import dataclass

from ..config import ServerConfig

# The name of the supervisor's message to its workers.
ASK_ALL, STEP, READY, FAILED = "ask_all", "step", "ready", "failed"
# A worker's messages to its supervisor: an action of `Membership`, or this one.
DO, AVAILABLE = "do", "available"


@dataclass(frozen=True)
class Assignment:
    """The settings of a new worker.

    Attributes:
        number: its number, from 1.
        config: the models; the port is shared by all.
        setup: called first, with the number.
        rest_socket: the descriptor of the socket that listens for REST; None without REST.
        listed: the models to serve now, a serialized ModelServerConfig; None for the config's one model.
    """

    number: int
    config: ServerConfig
    setup: Callable[[int], None] | None
    rest_socket: int | None
    listed: bytes | None
