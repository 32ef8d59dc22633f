"""Ports for servers that listen on a port chosen before they start."""

import random
import socket

# Below those that the system gives to connections and to whoever asks for port 0: a test beside this one, or
# the client's own attempts to connect, could take such a port while no server listens.
_PORTS = range(20_000, 32_000)


def free_port():
    """A port of 127.0.0.1 that nothing listens on."""
    while True:
        port = random.SystemRandom().choice(_PORTS)  # a seeded one gives parallel tests the same port
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
