"""Calls between processes: results, errors, waits and ends."""

import socket
import threading
from multiprocessing import Pipe

import pytest

from keras_selfattn.serving import errors
from keras_selfattn.serving.server.workers.peer import Peer, PeerGoneError


@pytest.fixture
def peers():
    """Two ends of a pipe: the first asks, the second does what it is told."""
    release = threading.Event()

    def fail():
        raise errors.NotFoundError("no such thing")

    actions = {
        "double": lambda x: 2 * x,
        "fail": fail,
        "wait": lambda: release.wait(30),
        "break": lambda: 1 / 0,
    }
    ours, theirs = Pipe()
    ended = threading.Event()
    near, far = Peer(ours, {}, on_end=ended.set), Peer(theirs, actions, on_end=lambda: None)
    near.start()
    far.start()
    yield near, ours, theirs, ended
    release.set()


def test_a_peer_gives_results_and_errors(peers, caplog):
    near, *_ = peers
    assert [near.call("double", number, timeout=10) for number in (1, 2)] == [2, 4]
    with pytest.raises(errors.NotFoundError, match="no such thing"):
        near.call("fail", timeout=10)
    with pytest.raises(errors.InternalError, match="the log has the cause"):
        near.call("break", timeout=10)
    assert "ZeroDivisionError" in caplog.text


def test_a_peer_that_does_not_answer_is_waited_for_as_long_as_told(peers):
    near, *_ = peers
    with pytest.raises(errors.DeadlineExceededError, match=r"no answer within 0\.05 s"):
        near.call("wait", timeout=0.05)
    assert near.call("double", 3, timeout=10) == 6


def test_whoever_waits_for_a_peer_that_ends_is_told(peers, in_background, until):
    near, _, theirs, ended = peers
    waiting = in_background(near.call, "wait", timeout=30)
    until(lambda: near._waiting)
    shutdown(theirs)
    with pytest.raises(PeerGoneError):
        waiting.result(timeout=10)
    assert ended.wait(10)
    with pytest.raises(PeerGoneError):
        near.call("double", 1, timeout=10)


def shutdown(connection):
    import os

    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
