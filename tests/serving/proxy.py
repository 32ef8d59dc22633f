"""A TCP proxy on loopback that can cut connections, or let them fall silent."""

import contextlib
import socket
import threading


class Proxy:
    """Passes bytes to `port` and back.

    Args:
        port: of the server behind it.
        cut_after: bytes of answers after which the first connection is cut.
    """

    def __init__(self, port, cut_after=None):
        self._port, self._cut_after = port, cut_after
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.target = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self.silent = set()  # numbers of the connections that pass nothing any more
        self._open = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            number = self.connections
            self.connections += 1
            server = socket.create_connection(("127.0.0.1", self._port))
            self._open += [client, server]
            limit = self._cut_after if number == 0 else None
            for source, sink, most in ((client, server, None), (server, client, limit)):
                threading.Thread(target=self._pass, args=(number, source, sink, most), daemon=True).start()

    def _pass(self, number, source, sink, most):
        passed = 0
        while True:
            try:
                data = source.recv(2**16)
                if number in self.silent:
                    continue
                passed += len(data)
                if not data or (most is not None and passed > most):
                    break
                sink.sendall(data)
            except OSError:
                break
        for each in (source, sink):
            close(each)

    def close(self):
        """Cuts everything."""
        for each in [self._listener, *self._open]:
            close(each)


def close(sock):
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
