"""Membership of a server among the workers of one port."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...wire import messages_pb2 as pb

# What the workers of a server do together.
RELOAD, STATUS, METRICS = "reload", "status", "metrics"

# What the workers of a first start do one after the other, and none before all are as far: a port that the
# first of them opened would have all early connections.
LOADED, LISTENS = "loaded", "listens"

# All of them do an action with these arguments; what each returns is returned, and errors are raised. The
# seconds are how long those may take who answer.
AskAll = Callable[[str, tuple[Any, ...], float | None], list[Any]]


@dataclass(frozen=True)
class Membership:
    """The other workers, as one of them sees them.

    Attributes:
        ask_all: has all workers do something.
        joined: is told what this one can do, when it can.
        step: is told which of the above has been done, and returns when all have done it.
        rest_socket: listens for REST, in all workers; None without REST.
        listed: the models to serve now, if they come from a list.
    """

    ask_all: AskAll
    joined: Callable[[Mapping[str, Callable[..., Any]]], None]
    step: Callable[[str], None]
    rest_socket: socket.socket | None = None
    listed: pb.ModelServerConfig | None = None
