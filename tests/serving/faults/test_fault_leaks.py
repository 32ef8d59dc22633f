"""Requests of every kind, again and again: no thread, descriptor or memory stays behind."""

import http.client
import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import grpc
import http2
import numpy as np
import pytest
from served import OWN_CONNECTION, SECONDS, predict_request, until

CODE = grpc.StatusCode
CLIENTS = 4
ROWS = np.arange(2000, dtype=np.float32)
LARGE = predict_request("half", x=ROWS)  # that a request kept by mistake would be seen
LARGE_BODY = json.dumps({"instances": ROWS.tolist()}).encode()
SMALL = predict_request("half", x=ROWS[:1])
HANGING = predict_request("slow", seconds=np.float32(60))
# A graph that runs goes on when its client leaves without a deadline, so it must end by itself.
SLOW = predict_request("slow", seconds=np.float32(0.02))
MEGABYTES = 2**10  # of the KiB of /proc
# Allocators keep some of what was freed, Python's collector waits before it looks, and TensorFlow never gives
# back 0.8 KB of each run that it stops at a deadline. If each request of 8 KB stayed, that would be 7 MB in
# the second half of the shortened form.
SPARE = {"RssAnon": 4 * MEGABYTES, "Threads": 4, "files": 8}
SPARE_WHOLE = {**SPARE, "RssAnon": 16 * MEGABYTES}


class Asking:
    """One client: each method is a request, checked."""

    def __init__(self, server, number):
        self._server = server
        self._names = (f"unknown-{number}-{count}" for count in itertools.count())
        self._channel = grpc.insecure_channel(server.target, OWN_CONNECTION)
        self._connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=SECONDS)

    def close(self):
        self._channel.close()
        self._connection.close()

    def over_grpc(self):
        assert self._server.call(LARGE, channel=self._channel)[0] is CODE.OK

    def over_rest(self):
        assert self._server.post("/v1/models/half:predict", LARGE_BODY, self._connection)[0] == 200

    def refused(self):
        request = predict_request(next(self._names), x=ROWS)
        assert self._server.call(request, channel=self._channel)[0] is CODE.NOT_FOUND
        path = f"/v1/models/{next(self._names)}:predict"
        assert self._server.post(path, LARGE_BODY, self._connection)[0] == 404

    def on_a_new_grpc_connection(self):
        with self._server.connect() as connection:
            connection.sendall(http2.HELLO + http2.call(SMALL))
            received = b""
            while http2.answered(received) is None:
                chunk = connection.recv(2**16)
                assert chunk
                received += chunk

    def on_a_new_rest_connection(self):
        assert self._server.post("/v1/models/half:predict", b'{"instances": [1]}')[0] == 200

    def expired(self):
        assert self._server.call(HANGING, channel=self._channel, timeout=0.01)[0] is CODE.DEADLINE_EXCEEDED

    def cancelled(self):
        self._channel.unary_unary(f"{http2.PREDICT}").future(SLOW, timeout=SECONDS).cancel()

    def gone(self):
        with self._server.connect() as connection:
            connection.sendall(http2.HELLO + http2.call(SLOW))

    def ask(self, requests):
        often = [self.over_grpc] * 8 + [self.over_rest] * 4
        seldom = [self.refused, self.on_a_new_grpc_connection, self.on_a_new_rest_connection]
        turns = itertools.cycle([*often, *seldom, *often, self.expired, self.cancelled, self.gone])
        for turn in itertools.islice(turns, requests):
            turn()


def used(server):
    """The process's use of each resource when nothing runs."""
    server.assert_answers()
    found = {name: server.status(name) for name in ("RssAnon", "Threads")}
    return {**found, "files": server.open_files()}


@pytest.mark.shortened
def test_nothing_leaks(server, whole):
    parts, requests = 8, 100_000 if whole else 3_000
    history = []
    with ExitStack() as stack, ThreadPoolExecutor(CLIENTS) as executor:
        clients = [stack.enter_context(closing(Asking(server, number))) for number in range(CLIENTS)]
        for _ in range(parts):
            list(executor.map(lambda client: client.ask(requests // parts // CLIENTS), clients))
            history.append(used(server))
    for name in ("RssAnon", "Threads", "files"):
        print(name, [each[name] for each in history])
    spare = SPARE_WHOLE if whole else SPARE
    most = {name: max(each[name] for each in history[: parts // 2]) + spare[name] for name in spare}
    until(lambda: all(number <= most[name] for name, number in used(server).items()))
