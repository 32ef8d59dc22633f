"""A server whose descriptors run out, or are about to: it answers whom it can, and says so once."""

import http.client
import resource
import socket

import pytest
from served import SECONDS, until

HALF = b"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\nContent-"
FEW, MANY = 256, 400
_LINES = 5


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, FEW))


def half_open(port, said):
    """So many connections that begin and do not go on."""
    connections = []
    for _ in range(MANY):
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex(("127.0.0.1", port))
        connections.append(connection)
    for connection in connections:
        try:
            connection.send(said)
        except OSError:  # refused, or not there yet
            continue
    return connections


@pytest.mark.shortened
@pytest.mark.parametrize("port", ["rest_port", "port"])
def test_half_open_connections_beyond_the_limit_of_descriptors_keep_nobody_out_for_long(serve, bases, port):
    server = serve({"half": bases["half"]}, preexec_fn=few_descriptors).wait()
    server.assert_answers()
    lines = len(server.log().splitlines())
    half_opened = half_open(getattr(server, port), HALF if port == "rest_port" else b"PRI")
    until(lambda: answers(server))
    assert len(server.log().splitlines()) <= lines + _LINES
    assert server.unexpected() == []
    for connection in half_opened:
        connection.close()


def answers(server):
    try:
        server.assert_answers()
    except (AssertionError, OSError):
        assert server.process.poll() is None
        return False
    return True


def test_at_the_limit_of_descriptors_those_who_are_there_are_answered_and_the_log_says_it_once(serve, bases):
    server = serve({"half": bases["half"]}, "--file_system_poll_wait_seconds=0").wait()
    server.assert_answers()
    kept = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=SECONDS)
    assert server.post("/v1/models/half:predict", b'{"instances": [2]}', kept)[0] == 200
    lines = len(server.log().splitlines())
    limits = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (server.open_files(), limits[1]))
    more = [server.connect(server.rest_port) for _ in range(20)]
    until(lambda: len(server.log().splitlines()) > lines)
    for _ in range(50):
        assert server.post("/v1/models/half:predict", b'{"instances": [2]}', kept)[0] == 200
    said = server.log().splitlines()[lines:]
    assert len(said) == 1, said[:10]
    assert "a connection cannot be accepted: Too many open files; new ones wait" in said[0]
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, limits)
    until(lambda: answers(server))
    for each in more:
        each.close()
    kept.close()


def test_the_soft_limit_of_descriptors_is_raised_to_the_hard_one(serve, bases):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))}
    server = serve({"half": bases["half"]}, **low).wait()
    assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)


def test_a_server_inside_a_program_leaves_the_programs_limit_alone(bases):
    from keras_selfattn.serving.server import Server, ServerConfig

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = (limits[0] // 2, limits[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, low)
    try:
        with Server(ServerConfig("half", bases["half"], port=0)):
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == low
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
