"""Processes of one training meet within a time, exchange values, and learn why another one has ended."""

import errno
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from benchmarks.serving_servers import free_ports
from keras_selfattn.errors import ConfigError, OtherProcessError, TrainingError
from keras_selfattn.training.processes.channel import host_and_port, meet


def address():
    (port,) = free_ports(1)
    return f"127.0.0.1:{port}"


def outcome(call, *arguments):
    try:
        return call(*arguments)
    except TrainingError as error:
        return str(error)


def met(count, indexes=None, timeout=20.0, counts=None, at=None):
    """Return what each of the processes, here threads, got of `meet`."""
    at, indexes = at or address(), range(count) if indexes is None else indexes
    counts = counts or [count] * len(indexes)
    with ThreadPoolExecutor(len(indexes)) as pool:
        begun = [
            pool.submit(outcome, meet, at, expected, index, timeout)
            for expected, index in zip(counts, indexes, strict=True)
        ]
        return [each.result() for each in begun]


@pytest.fixture
def three():
    channels = [channel for channel, _ in met(3)]
    yield channels
    for channel in channels:
        channel.close()


def test_all_get_the_same_free_port():
    found = met(3)
    (port,) = {port for _, port in found}
    with socket.create_server(("127.0.0.1", port)):
        pass
    for channel, _ in found:
        channel.close()


def test_values_of_the_first_reach_all_in_their_order(three):
    first, *others = three
    values = [{"loss": 0.1 + 0.2, "missing": float("inf")}, ["a"], None]
    for value in values:
        assert first.from_first(value) == value
    for other in others:
        assert [other.from_first("ignored") for _ in values] == values


def test_the_first_gets_the_values_of_all(three):
    first, *others = three
    assert [other.all_to_first(index) for index, other in enumerate(others)] == [[], []]
    assert first.all_to_first("mine") == ["mine", 0, 1]


def test_who_did_not_come_is_named_to_all_that_did():
    told = met(4, indexes=[0, 2], timeout=0.3)
    assert told[0] == told[1]
    assert told[0].startswith(
        "Within 0.3 s (--timeout) 2 of 4 processes met. These did not come (--process-id): 1, 3."
    )


def test_nobody_at_the_address_of_the_first():
    (told,) = met(2, indexes=[1], timeout=0.2)
    assert "Process 1 found no process 0 at 127.0.0.1:" in told
    assert "Connection refused" in told


def test_a_host_without_an_address():
    for index in (0, 1):
        told = outcome(meet, "nowhere.invalid:1234", 2, index, 0.2)
        assert "nowhere.invalid:1234" in told
        assert "(--coordinator)" in told


def test_a_taken_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = outcome(meet, f"127.0.0.1:{taken.getsockname()[1]}", 2, 0, 1.0)
    assert "Address already in use" in told


@pytest.mark.parametrize(("name", "reached"), [("node1", True), ("localhost", False), ("other", False)])
def test_a_machine_that_knows_its_own_name_as_loopback_is_reached(monkeypatch, name, reached):
    """As Debian's do, whose /etc/hosts has the name at 127.0.1.1."""
    find = socket.getaddrinfo
    monkeypatch.setattr(socket, "gethostname", lambda: "node1.example")
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *given, **more: find("127.0.0.1" if host == name else host, *given, **more),
    )
    listened = []

    def listen(at, **_settings):
        listened.append(at[0])
        raise OSError(errno.EADDRINUSE, "taken")

    monkeypatch.setattr(socket, "create_server", listen)
    assert f"cannot listen at {name}:1234" in outcome(meet, f"{name}:1234", 2, 0, 1.0)
    assert listened == ["" if reached else name]


def test_something_else_at_the_address(monkeypatch):
    monkeypatch.setattr("keras_selfattn.training.processes.channel._HELLO_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as other:
        told = outcome(meet, f"127.0.0.1:{other.getsockname()[1]}", 2, 1, 0.3)
    assert "found no process 0" in told


def test_strangers_at_the_port_do_not_keep_anybody_out():
    at = address()
    host, port = host_and_port(at)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(outcome, meet, at, 2, 0, 20.0)
        of_json = b'{"index": "x"}\n', b'{"index": [1], "count": 2}\n', b'{"index": 7, "count": 2}\n'
        for words in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"[1]\n",
            *of_json,
            b"[" * 9_000 + b"\n",
            b"\xff\xfe\n",
            b"",
        ):
            with _connected(host, port) as stranger:
                stranger.sendall(words)
        second = pool.submit(outcome, meet, at, 2, 1, 20.0)
        for channel, _ in (first.result(), second.result()):
            channel.close()


@pytest.mark.parametrize("sent", [b"a", b"a" * 20_000])
def test_a_stranger_that_goes_on_without_a_line_is_left(sent):
    """A deadline of each byte, or a line without end, would let it hold process 0."""
    at = address()
    host, port = host_and_port(at)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(outcome, meet, at, 2, 0, 0.5)
        with _connected(host, port) as stranger, suppress(OSError):
            for _ in range(100):
                stranger.sendall(sent)
                time.sleep(0.05)
        assert "did not come (--process-id): 1" in first.result(20)


def _connected(host, port):
    while True:
        try:
            return socket.create_connection((host, port))
        except ConnectionRefusedError:
            time.sleep(0.01)  # many tries at once can connect to themselves


def test_another_count_and_a_second_of_one_number_are_refused():
    at = address()
    told = met(2, indexes=[0, 1], counts=[2, 3], timeout=0.4, at=at)
    assert told[1] == ("Process 1 expects 3 processes, and process 0 2 (--process-count). Give all the same.")
    assert "did not come (--process-id): 1" in told[0]
    told = met(3, indexes=[0, 1, 1], timeout=0.4)
    assert "Two processes are number 1 (--process-id)." in " ".join(told)


def test_one_that_died_before_all_met_can_come_again():
    at = address()
    host, port = host_and_port(at)
    with ThreadPoolExecutor(3) as pool:
        begun = [pool.submit(outcome, meet, at, 3, 0, 20.0)]
        with _connected(host, port) as died:
            died.sendall(json.dumps({"index": 1, "count": 3}).encode() + b"\n")
        begun += [pool.submit(outcome, meet, at, 3, index, 20.0) for index in (1, 2)]
        for channel, _ in [each.result() for each in begun]:
            channel.close()


def test_the_reason_of_a_failure_reaches_all(three):
    three[1].tell_failure("rows.csv: line 7 has no label")
    for other in (three[0], three[2]):
        assert other.failed.wait(10)
        assert other.failure == "Process 1 failed: rows.csv: line 7 has no label"
    with pytest.raises(OtherProcessError, match="line 7 has no label"):
        three[2].from_first(None)


@pytest.mark.parametrize("dead", [0, 2])
def test_one_that_goes_without_a_word_is_missed_by_all(three, dead):
    three[dead]._closing = True  # it does not miss the others
    for lines in three[dead]._lines.values():
        lines.close()
    for index, other in enumerate(three):
        if index != dead:
            assert other.failed.wait(10)
            assert f"Process {dead} has gone without a word" in other.failure


def test_the_first_is_told_why_a_value_cannot_be_sent(three):
    three[1].tell_failure("out of memory")
    assert three[0].failed.wait(10)
    three[1].close()
    told = {outcome(three[0].from_first, "x" * 10_000) for _ in range(100)}  # the first may go into a buffer
    assert any(each.startswith("Process 1 failed: out of memory") for each in told)


def test_the_end_of_a_training_is_no_failure(three):
    closing = [threading.Thread(target=channel.close) for channel in three]
    for each in closing:
        each.start()
    for each in closing:
        each.join()
    assert not any(channel.failed.wait(0.1) for channel in three)


@pytest.mark.parametrize("wrong", ["here", "here:", ":1", "here:0", "here:70000", "here:x", None])
def test_an_address_is_a_host_and_a_port(wrong):
    with pytest.raises(ConfigError, match=r"`coordinator` \(--coordinator\) must be HOST:PORT"):
        host_and_port(wrong)
