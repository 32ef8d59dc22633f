"""Ports for servers that listen on a port chosen before they start."""

import random
import socket

# Below those that the system gives to connections and to whoever asks for port 0: a test beside this one, or
# the client's own attempts to connect, could take such a port while no server listens.
_PORTS = range(20_000, 32_000)
_given = set()


def free_port():
    """A port of 127.0.0.1 that nothing listens on, another one each time: a server may take two."""
    while True:
        port = random.SystemRandom().choice(_PORTS)  # a seeded one gives parallel tests the same port
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        if port not in _given:
            _given.add(port)
            return port
