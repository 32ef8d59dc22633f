"""Clients that are slow, silent, gone, or half gone: nobody else waits for them."""

import json
import socket
import struct
import threading

import http2
import numpy as np
import pytest
from served import SECONDS, predict_request, until

GOOD = predict_request("half", x=np.float32([2]))
BODY = b'{"instances": [2]}'
HEAD = b"POST /v1/models/%s:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
CHUNKED = b"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
# A megabyte of an answer for a few kilobytes: more than any buffer between the two holds.
SIDE = 600
SQUARE = predict_request(
    "half", "matmul", left=np.ones((SIDE, 3), np.float32), right=np.ones((3, SIDE), np.float32)
)


def post(model=b"half", body=BODY):
    return HEAD % (model, len(body)) + body


_SQUARE_BODY = {"signature_name": "matmul", "inputs": {"left": [[1, 1, 1]] * SIDE, "right": [[1] * SIDE] * 3}}
SQUARE_REST = post(body=json.dumps(_SQUARE_BODY).encode())


def read_answer(connection):
    """The status line's code and the body of an answer over REST."""
    with connection.makefile("rb") as file:
        status = int(file.readline().split()[1])
        headers = dict(line.decode().strip().lower().split(": ") for line in iter(file.readline, b"\r\n"))
        return status, file.read(int(headers["content-length"]))


def read_until_closed(connection):
    received = b""
    while chunk := connection.recv(2**16):
        received += chunk
    return received


def reset(connection):
    """Closes a connection with RST, as a process that is killed does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_a_request_over_rest_that_comes_byte_by_byte_is_answered_and_holds_up_nobody(server):
    with server.connect(server.rest_port) as connection:
        for byte in post():
            connection.sendall(bytes([byte]))
        server.assert_answers()
        status, data = read_answer(connection)
        assert (status, json.loads(data)) == (200, {"predictions": [3.0]})


def test_a_call_over_grpc_that_comes_byte_by_byte_is_answered(server):
    with server.connect() as connection:
        for byte in http2.HELLO + http2.call(GOOD):
            connection.sendall(bytes([byte]))
        received = b""
        while http2.answered(received) is None:
            received += connection.recv(2**16)


def test_headers_that_never_end_hold_up_nobody(server):
    connections = [server.connect(server.rest_port) for _ in range(100)]
    for connection in connections:
        connection.sendall(b"POST /v1/models/half:predict HTTP/1.1\r\nX-")
    server.assert_answers()
    for connection in connections:
        connection.sendall(b"Y: z\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
    assert [read_answer(connection)[0] for connection in connections] == [200] * 100
    for connection in connections:
        connection.close()


def test_a_head_larger_than_any_is_refused(server):
    with server.connect(server.rest_port) as connection:
        for _ in range(64):
            try:
                connection.sendall(b"X: " + b"y" * 2**20 + b"\r\n")
            except ConnectionError:
                return
        assert not read_until_closed(connection).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("start", [HEAD % (b"half", 1000), CHUNKED], ids=["length", "chunked"])
def test_a_body_that_never_ends_is_given_up(server, start):
    with server.connect(server.rest_port) as connection:
        stop = threading.Event()
        connection.sendall(start)

        def drip():
            while not stop.wait(0.05):
                try:
                    connection.sendall(b"1\r\n1\r\n" if start is CHUNKED else b"1")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        server.assert_answers()
        status, data = read_answer(connection)
        stop.set()
        dripping.join(SECONDS)
        assert (status, json.loads(data)) == (408, {"error": "the body has not come within 2 s"})


def test_grpc_connections_that_say_hello_and_nothing_more_hold_up_nobody(server):
    connections = [server.connect() for _ in range(100)]
    for number, connection in enumerate(connections):
        connection.sendall([b"", http2.PREFACE[:10], http2.PREFACE, http2.HELLO][number % 4])
    server.assert_answers()
    for connection in connections:
        connection.close()


def test_calls_whose_message_does_not_come_hold_up_nobody(server):
    with server.connect() as connection:
        connection.sendall(http2.HELLO)
        for stream in range(1, 201, 2):
            connection.sendall(http2.frame(http2.HEADERS, http2.call_headers(), http2.END_HEADERS, stream))
            connection.sendall(http2.frame(http2.DATA, http2.message(GOOD)[:-1], 0, stream))
        server.assert_answers()


@pytest.mark.parametrize("leave", [socket.socket.close, reset], ids=["close", "reset"])
def test_clients_that_vanish_take_their_requests_with_them(server, leave):
    """Those that a graph runs already end at their deadline: TensorFlow ends a run for nothing else."""
    slow = predict_request("slow", seconds=np.float32(600))
    asked = {
        server.port: http2.HELLO + http2.call(slow, **{"grpc-timeout": "2S"}),
        server.rest_port: post(b"slow", b'{"inputs": 600}'),
    }
    for port, request in asked.items():
        for end in (len(request) // 2, len(request)):
            for _ in range(20):  # more than graphs run at the same time
                connection = server.connect(port)
                connection.sendall(request[:end])
                leave(connection)
    # Whoever waits for these runs over REST has their deadline, too, and on a busy machine may meet it first.
    until(lambda: server.post("/v1/models/half:predict", BODY)[0] == 200)
    server.assert_answers()


@pytest.mark.parametrize("leave", [socket.socket.close, reset], ids=["close", "reset"])
def test_clients_that_vanish_in_the_middle_of_an_answer_are_forgotten(server, leave):
    for port, request in ((server.port, http2.HELLO + http2.call(SQUARE)), (server.rest_port, SQUARE_REST)):
        for _ in range(8):
            with server.connect(port) as connection:
                connection.sendall(request)
                until(lambda connection=connection: len(connection.recv(2**10)) > 100)
                leave(connection)


def test_large_answers_that_nobody_reads_hold_up_nobody(server):
    connections = [server.connect(server.rest_port) for _ in range(20)]
    for connection in connections:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**10)
        connection.sendall(SQUARE_REST)
    for connection in connections:
        assert connection.recv(1)
    server.assert_answers()
    for connection in connections:
        reset(connection)


def test_a_client_that_has_said_all_it_has_to_say_leaves_no_request_behind(server):
    """Half-closed: the server may answer or hang up, and must do one of them."""
    with server.connect(server.rest_port) as connection:
        connection.sendall(post())
        connection.shutdown(socket.SHUT_WR)
        received = read_until_closed(connection)
        assert not received or received.startswith(b"HTTP/1.1 200 OK")
    with server.connect() as connection:
        connection.sendall(http2.HELLO + http2.call(GOOD))
        connection.shutdown(socket.SHUT_WR)
        until(lambda: not connection.recv(2**16))
