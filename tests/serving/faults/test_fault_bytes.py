"""Bytes that are no requests, on both ports: the server closes the door and answers the next one."""

import random
import socket
import struct

import http2
import numpy as np
import pytest
from served import predict_request

GOOD = predict_request("half", x=np.float32([2]))
LARGEST = 2**24 - 1  # that the length of a frame can say


def exchange(server, port, data):
    """All that comes back for some bytes, after which nothing more is sent."""
    with server.connect(port) as connection:
        received = b""
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(2**16):
                received += chunk
        except TimeoutError:
            raise
        except OSError:  # the server may have hung up before all was sent
            pass
        return received


def refused(received):
    """True if a server sent only HTTP/2 control frames, without an answer."""
    return http2.answered(received) is None


@pytest.mark.shortened
@pytest.mark.parametrize("prefix", [b"", http2.PREFACE, http2.HELLO], ids=["bare", "preface", "hello"])
def test_random_bytes_at_the_grpc_port_get_no_answer(server, prefix, whole):
    dice = random.Random(7)
    for _ in range(2000 if whole else 60):
        assert refused(exchange(server, server.port, prefix + dice.randbytes(dice.randrange(2000))))


@pytest.mark.shortened
def test_random_bytes_at_the_rest_port_are_a_bad_request(server, whole):
    dice = random.Random(8)
    for start in (b"", b"POST /v1/models/half:predict HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
        for _ in range(2000 if whole else 60):
            data = start + b"\0" + dice.randbytes(dice.randrange(2000))
            received = exchange(server, server.rest_port, data)
            assert received.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 404 "))


def test_a_good_call_by_hand_is_answered(server):
    """Or the tests below would prove nothing: their frames are this call's, changed."""
    with server.connect() as connection:
        connection.sendall(http2.HELLO + http2.call(GOOD))
        received = b""
        while http2.answered(received) is None:
            chunk = connection.recv(2**16)
            assert chunk, received
            received += chunk


def test_a_call_cut_short_at_any_byte_is_forgotten(server):
    whole = http2.HELLO + http2.call(GOOD)
    for end in range(0, len(whole), 7):
        assert refused(exchange(server, server.port, whole[:end]))


F, HEADERS = http2.frame, http2.call_headers()
BROKEN_FRAMES = {
    "a length beyond the limit": F(http2.DATA, b"x" * 100, 0, 1, length=LARGEST),
    "a frame larger than allowed": F(http2.DATA, bytes(5 * 2**20), 0, 1),
    "headers on stream 0": F(http2.HEADERS, HEADERS, 5, 0),
    "headers on an even stream": F(http2.HEADERS, HEADERS, 5, 2),
    "data on a stream that nobody opened": F(http2.DATA, b"x", 1, 7),
    "settings of 5 bytes": F(http2.SETTINGS, bytes(5)),
    "settings on a stream": F(http2.SETTINGS, b"", 0, 3),
    "settings with impossible values": F(http2.SETTINGS, struct.pack(">HIHI", 5, 1, 4, 2**32 - 1)),
    "a ping of 7 bytes": F(http2.PING, bytes(7)),
    "a reset of 3 bytes": F(http2.RST_STREAM, bytes(3), 0, 1),
    "a window that does not grow": F(http2.WINDOW_UPDATE, bytes(4)),
    "a window beyond 31 bits": F(http2.WINDOW_UPDATE, struct.pack(">I", 2**31 - 1)) * 2,
    "a continuation of nothing": F(http2.CONTINUATION, HEADERS, 4, 1),
    "a promise to the server": F(http2.PUSH_PROMISE, bytes(4) + HEADERS, 4, 1),
    "padding longer than its frame": F(http2.DATA, b"\xffx", 8, 1),
    "kinds that do not exist": b"".join(F(kind, b"x") for kind in range(10, 256)),
    "headers that refer to nothing": F(http2.HEADERS, b"\xff\xff\xff\xff\x0f", 5, 1),
    "a header longer than its frame": F(http2.HEADERS, b"\0\x7f\xff\xff\xff\x07", 5, 1),
    "a table of headers too large": F(http2.HEADERS, b"\x3f\xff\xff\xff\xff\x0f" + HEADERS, 5, 1),
    "headers without a path": F(http2.HEADERS, http2.header(":method", "POST"), 5, 1),
    "no content type": F(http2.HEADERS, http2.header(":method", "POST") + http2.header(":path", "/x"), 5, 1),
    "goodbye at once": F(http2.GOAWAY, bytes(8)),
    "a message that promises 4 GiB": (
        F(http2.HEADERS, HEADERS, 4, 1) + F(http2.DATA, http2.message(b"x", 2**32 - 1), 1, 1)
    ),
    "a message that says it is compressed": (
        F(http2.HEADERS, HEADERS, 4, 1) + F(http2.DATA, b"\1" + http2.message(b"x")[1:], 1, 1)
    ),
    "an impossible timeout": F(http2.HEADERS, http2.call_headers(**{"grpc-timeout": "1e9S"}), 5, 1),
}


@pytest.mark.parametrize("frames", BROKEN_FRAMES.values(), ids=BROKEN_FRAMES)
def test_frames_that_break_the_protocol_get_no_answer(server, frames):
    assert refused(exchange(server, server.port, http2.HELLO + frames))
    assert refused(exchange(server, server.port, frames))


FLOODS = {
    "pings": F(http2.PING, bytes(8)),
    "settings": F(http2.SETTINGS),
    "empty data": F(http2.DATA, b"", 0, 1),
    "priorities": F(http2.PRIORITY, bytes(5), 0, 1),
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_of_small_frames_is_no_more_than_noise(server, flood):
    exchange(server, server.port, http2.HELLO + http2.frame(http2.HEADERS, HEADERS, 4, 1) + flood * 5000)


def test_calls_that_are_reset_as_soon_as_they_are_made_cost_little(server):
    reset = [
        http2.call(GOOD, stream) + http2.frame(http2.RST_STREAM, struct.pack(">I", 8), 0, stream)
        for stream in range(1, 6001, 2)
    ]
    exchange(server, server.port, http2.HELLO + b"".join(reset))


def test_headers_without_end_are_cut_off(server):
    endless = http2.frame(http2.CONTINUATION, http2.header("x", "y" * 100) * 100, 0, 1) * 500
    assert refused(exchange(server, server.port, http2.HELLO + F(http2.HEADERS, HEADERS, 0, 1) + endless))
