"""Membership of a server among the workers of one port."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...wire import messages_pb2 as pb

# Actions that all workers of a server do together.
RELOAD, STATUS, METRICS = "reload", "status", "metrics"

# Steps of the first start. No worker begins a step before all have finished the one before: a worker that
# opened its port before the others would get all early connections.
LOADED, LISTENS = "loaded", "listens"

# Runs an action with these arguments in all workers, and returns their results or raises their errors. The
# last argument is the time limit of each worker, in seconds.
AskAll = Callable[[str, tuple[Any, ...], float | None], list[Any]]


@dataclass(frozen=True)
class Membership:
    """A worker's connection to the other workers.

    Attributes:
        ask_all: runs an action in all workers.
        joined: called with this worker's actions when they are ready.
        step: called with a finished step; returns when all workers have finished it.
        rest_socket: listens for REST, in all workers; None without REST.
        listed: the models to serve now, if they come from a list.
    """

    ask_all: AskAll
    joined: Callable[[Mapping[str, Callable[..., Any]]], None]
    step: Callable[[str], None]
    rest_socket: socket.socket | None = None
    listed: pb.ModelServerConfig | None = None
