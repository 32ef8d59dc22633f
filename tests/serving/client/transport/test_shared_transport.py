"""Several connections to a target: calls go over them in turns, and one that breaks breaks no call."""

import asyncio
import collections
import os
import signal
import threading
import time
from pathlib import Path

import blocking
import grpc
import numpy as np
import pytest
import tensorflow as tf
from shared_port import PREDICT_RESPONSE, shared_port
from stock_serving import StockServing

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import AsyncClient, Client, ModelConfig
from keras_selfattn.serving.client.transport.base import PREDICT, Request
from keras_selfattn.serving.wire import messages_pb2 as pb

X = np.float32([[1, 2]])


class Peers:
    """Answers each Predict; counts them by the connections they come by.

    `refuse(peer, call)` returns a status code to abort the call with, or None.
    """

    def __init__(self, refuse=lambda peer, call: None):
        self.calls, self._refuse, self.trailing = [], refuse, ()

    def __call__(self, data, context):
        self.calls.append(context.peer())
        code = self._refuse(context.peer(), len(self.calls))
        if code is not None:
            context.set_trailing_metadata(self.trailing)
            context.abort(code, "busy")
        return PREDICT_RESPONSE

    @property
    def counts(self):
        return sorted(collections.Counter(self.calls).values())


@pytest.fixture
def served(raw_server):
    """Starts a server of Peers; gives its target. It has no metadata, so that each call is one Predict."""
    return lambda peers: raw_server(peers, without="GetModelMetadata")


@pytest.mark.parametrize(("connections", "counts"), [(1, [40]), (4, [10] * 4)])
def test_calls_go_over_the_connections_in_turns(served, connect, connections, counts):
    peers = Peers()
    client = connect(served(peers), connections=connections)
    client.predict({"x": X})  # asks for metadata, too, which takes a turn
    peers.calls.clear()
    for _ in range(40):
        client.predict({"x": X})
    assert peers.counts == counts


def test_the_parts_of_batches_and_streams_go_over_the_connections(stock_server, connect):
    peers = []
    serving = StockServing(before=lambda rpc, request, context: peers.append(context.peer()))
    client = connect(stock_server(serving), connections=4, max_batch_size=1)
    assert client.predict(np.repeat(X, 8, 0))["y"].tolist() == [[2, 4]] * 8
    assert set(collections.Counter(peers[1:]).values()) == {2}
    peers.clear()
    assert len(list(client.predict_iter([[1, 2]] * 8))) == 8
    assert set(collections.Counter(peers[1:]).values()) == {2}


def test_threads_share_the_connections_evenly(served, connect, in_background):
    peers = Peers()
    client = connect(served(peers), connections=4, timeout=60)
    asking = [in_background(lambda: [client.predict({"x": X}) for _ in range(25)]) for _ in range(16)]
    for each in asking:
        each.result(60)
    assert len(peers.counts) == 4
    assert max(peers.counts) - min(peers.counts) <= 2  # the calls for metadata take turns, too


def test_each_target_has_so_many_connections(stock_server, connect, until):
    several = [set(), set()]
    hooks = [lambda rpc, request, context, peers=peers: peers.add(context.peer()) for peers in several]
    client = connect([stock_server(StockServing(before=hook)) for hook in hooks], connections=2)
    until(lambda: client.predict(X) and [len(peers) for peers in several] == [2, 2])
    for _ in range(20):
        client.predict(X)
    assert [len(peers) for peers in several] == [2, 2]


def test_a_try_goes_to_another_connection_than_the_one_that_failed(served, connect):
    peers = Peers(lambda peer, call: grpc.StatusCode.UNAVAILABLE if call <= 3 else None)
    client = connect(served(peers), connections=4, timeout=30)
    client.predict({"x": X})
    assert peers.counts == [1] * 4


def test_one_bad_connection_fails_no_call_and_gets_few(served, connect):
    peers = Peers(lambda peer, call: grpc.StatusCode.UNAVAILABLE if peer == peers.calls[0] else None)
    client = connect(served(peers), connections=3, timeout=30)
    for _ in range(30):
        client.predict({"x": X})
    bad = peers.calls.count(peers.calls[0])
    assert bad <= 5  # one a second
    assert len(peers.calls) == 30 + bad


@pytest.mark.process
def test_tries_end_as_they_do_on_one_connection(served, connect):
    peers = Peers(lambda peer, call: grpc.StatusCode.UNAVAILABLE)
    client = connect(served(peers), connections=2, timeout=30)
    started = time.monotonic()
    with pytest.raises(errors.UnavailableError, match="busy"):
        client.predict({"x": X})
    assert 1.1 < time.monotonic() - started < 5
    assert len(peers.calls) == 5


@pytest.mark.process
def test_tries_end_at_the_deadline(served, connect):
    peers = Peers(lambda peer, call: grpc.StatusCode.UNAVAILABLE)
    client = connect(served(peers), connections=2)
    with pytest.raises(errors.UnavailableError):
        client.predict({"x": X})
    peers.calls.clear()
    started = time.monotonic()
    with pytest.raises((errors.DeadlineExceededError, errors.UnavailableError)):
        client.predict({"x": X}, timeout=0.2)
    assert time.monotonic() - started < 1
    assert len(peers.calls) < 5


@pytest.mark.parametrize(("pushback", "calls"), [("-1", 1), ("1", 5)])
def test_a_server_says_when_to_try_again(served, connect, pushback, calls):
    peers = Peers(lambda peer, call: grpc.StatusCode.UNAVAILABLE)
    peers.trailing = (("grpc-retry-pushback-ms", pushback),)
    started = time.monotonic()
    with pytest.raises(errors.UnavailableError):
        connect(served(peers), connections=2).predict({"x": X})
    assert len(peers.calls) == calls
    assert time.monotonic() - started < 1.1  # the policy's own pauses are 1.2 seconds at least


def test_what_fails_side_by_side_pauses_side_by_side(stock_server, connect):
    seen = set()

    def fail_once(rpc, request, context):
        if rpc == "Predict" and request.SerializeToString() not in seen:
            seen.add(request.SerializeToString())
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")

    serving = StockServing(before=fail_once)
    client = connect(stock_server(serving), connections=2, concurrency=32, max_batch_size=1)
    client.metadata()
    started = time.monotonic()
    x = np.arange(64).reshape(32, 2)
    assert client.predict(x)["y"].tolist() == (2 * x).tolist()
    assert len(serving.received("Predict")) == 64
    assert time.monotonic() - started < 2.5  # one after the other they would pause for more than 3 seconds


class Hanging:
    """Aborts the first attempt of each Predict but row 0's, and holds up all others until they are ended.

    Row 0 is answered once so many others are held up.
    """

    def __init__(self, others):
        self._others, self._seen, self._held = others, set(), []

    def __call__(self, rpc, request, context):
        if rpc != "Predict":
            return
        row = tf.make_ndarray(request.inputs["x"])[0, 0]
        if row and row not in self._seen:
            self._seen.add(row)
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        if row:
            self._held.append(context)
        while context.is_active() and (row or self.active < self._others):
            threading.Event().wait(0.02)

    @property
    def active(self):
        return sum(context.is_active() for context in self._held)


def retrying():
    return [thread for thread in threading.enumerate() if thread.name == "retry"]


def test_a_stream_that_is_left_ends_the_retries_of_its_calls(stock_server, connect, until):
    hanging = Hanging(3)
    client = connect(stock_server(StockServing(before=hanging)), connections=2, timeout=60)
    rows = client.predict_iter(([n, n] for n in range(10**9)), batch_size=1)
    assert next(rows)["y"].tolist() == [0, 0]
    assert hanging.active == 3
    rows.close()
    until(lambda: not hanging.active and not retrying(), 5)


@pytest.mark.slow
def test_a_stream_that_is_left_makes_no_retry_after_the_pause(stock_server, connect, until):
    def refuse(rpc, request, context):
        if rpc != "Predict":
            return
        if tf.make_ndarray(request.inputs["x"])[0, 0]:
            context.set_trailing_metadata((("grpc-retry-pushback-ms", "2000"),))
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        until(lambda: len(serving.received("Predict")) == 4)
        threading.Event().wait(0.3)  # for the others' failures to arrive

    serving, begun = StockServing(before=refuse), []
    metadata = lambda: begun.append(1) or {}  # noqa: E731
    client = connect(stock_server(serving), connections=2, timeout=60, metadata=metadata)
    rows = client.predict_iter(([n, n] for n in range(10**9)), batch_size=1)
    assert next(rows)["y"].tolist() == [0, 0]
    rows.close()
    until(lambda: not retrying(), 1)
    threading.Event().wait(2)
    assert len(begun) == len(serving.requests)
    assert len(serving.received("Predict")) == 4


def test_an_interrupt_ends_the_call_that_was_waited_for_too(stock_server, in_background, until):
    hanging = Hanging(3)

    def interrupt():
        until(lambda: hanging.active == 3)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    class Interrupt(BaseException):
        pass

    def raise_interrupt(*_):
        raise Interrupt

    before = signal.signal(signal.SIGUSR1, raise_interrupt)
    try:
        with Client(stock_server(StockServing(before=hanging)), connections=2, timeout=60) as client:
            rows = client.predict_iter([[1, 1], [2, 2], [3, 3]], batch_size=1)
            interrupting = in_background(interrupt)
            with pytest.raises(Interrupt):
                next(rows)
            interrupting.result(20)
            until(lambda: not hanging.active and not retrying(), 5)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_an_awaited_stream_has_no_calls_once_it_is_closed(stock_server):
    hanging = Hanging(3)
    target = stock_server(StockServing(before=hanging))

    def calls():
        return [task for task in asyncio.all_tasks() if task.get_coro().__name__ == "asend"]

    async def ask():
        async with AsyncClient(target, connections=2, timeout=60) as client:
            rows = client.predict_iter(([n, n] for n in range(10**9)), batch_size=1)
            await anext(rows)
            assert len(calls()) == 3
            await rows.aclose()
            assert not calls()

    asyncio.run(ask())


def test_a_cancelled_task_ends_the_retries_of_its_calls(stock_server, until):
    hanging = Hanging(3)
    target = stock_server(StockServing(before=hanging))

    async def ask():
        async with AsyncClient(target, connections=2, max_batch_size=1, timeout=60) as client:
            task = asyncio.ensure_future(client.predict(np.ones((3, 2)) * [[1], [2], [3]]))
            await asyncio.to_thread(until, lambda: hanging.active == 3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(until, lambda: not hanging.active, 5)

    asyncio.run(ask())


@pytest.mark.parametrize("connections", [1, 2])
@pytest.mark.parametrize("times", [0, 1])  # that its attempts have failed before one hangs
def test_a_call_under_way_that_is_cancelled_says_so(raw_server, in_background, until, connections, times):
    arrived = []

    def answer(data, context):
        arrived.append(context)
        if len(arrived) <= times:
            context.abort(grpc.StatusCode.UNAVAILABLE, "stream removed")  # what one connection repeats, too
        while context.is_active():
            threading.Event().wait(0.02)
        return b""

    with Client(raw_server(answer), connections=connections) as client:
        call = client._runner.transport.begin(Request(PREDICT, b""), 60)
        result = in_background(call.result)
        until(lambda: len(arrived) > times)
        call.cancel()
        with pytest.raises(errors.CancelledError, match="the call was cancelled"):
            result.result(5)
        until(lambda: not arrived[-1].is_active(), 5)


def test_a_retry_that_begins_while_it_is_cancelled_ends(raw_server, until):
    arrived, asked, release = [], [], threading.Event()

    def answer(data, context):
        arrived.append(context)
        if len(arrived) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        while context.is_active():
            threading.Event().wait(0.02)
        return b""

    def metadata():
        asked.append(threading.current_thread().name)
        assert len(asked) == 1 or release.wait(20)
        return {}

    with Client(raw_server(answer), connections=2, metadata=metadata) as client:
        call = client._runner.transport.begin(Request(PREDICT, b""), 60)
        until(lambda: "retry" in asked)
        call.cancel()
        release.set()
        until(lambda: not retrying(), 5)
        with pytest.raises(errors.CancelledError):
            call.result()
        until(lambda: not any(context.is_active() for context in arrived), 5)


def test_where_no_thread_is_to_be_had_a_call_fails_and_hangs_not(served, monkeypatch):
    start = threading.Thread.start

    def started(thread):
        if thread.name == "retry":
            raise RuntimeError("can't start new thread")
        start(thread)

    target = served(Peers(lambda peer, call: grpc.StatusCode.UNAVAILABLE))
    with Client(target, connections=2) as client:
        rows = client.predict_iter([{"x": 1.0}])
        monkeypatch.setattr(threading.Thread, "start", started)
        with pytest.raises(RuntimeError, match="new thread"):
            next(rows)


def test_tries_are_throttled_while_everything_fails(served, connect, monkeypatch):
    from keras_selfattn.serving.client.transport import retries

    monkeypatch.setitem(retries.THROTTLING, "maxTokens", 20)
    peers = Peers(lambda peer, call: grpc.StatusCode.UNAVAILABLE)
    peers.trailing = (("grpc-retry-pushback-ms", "0"),)
    client = connect(served(peers), connections=2)
    for _ in range(20):
        with pytest.raises(errors.UnavailableError):
            client.predict({"x": X})
    assert 20 <= len(peers.calls) <= 30


UNSAFE = [grpc.StatusCode.INTERNAL, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED]


@pytest.mark.parametrize("code", UNSAFE)
def test_other_codes_are_not_tried_again(served, connect, code):
    peers = Peers(lambda peer, call: code)
    with pytest.raises(errors.ERROR_OF_CODE[code]):
        connect(served(peers), connections=4).predict({"x": X})
    assert len(peers.calls) == 1


def test_a_reload_is_never_sent_twice(served, connect):
    peers = Peers(lambda peer, call: grpc.StatusCode.UNAVAILABLE)
    with pytest.raises(errors.UnavailableError):
        connect(served(peers), connections=4).reload([])
    assert len(peers.calls) == 1


def test_a_worker_that_dies_under_load_fails_no_call(connect, in_background, until, tmp_path):
    with shared_port(2, tmp_path / "reloads") as shared:
        client = connect(shared.target, connections=24, timeout=30)
        stop, answered = threading.Event(), []

        def ask():
            while not stop.is_set():
                answered.append(client.predict({"x": X}).version)

        asking = [in_background(ask) for _ in range(8)]
        until(lambda: len(answered) > 200)
        assert set(answered) == {1, 2}  # the kernel deals connections out by chance: so it is but for 2^-23
        shared.kill(0)
        before = len(answered)
        until(lambda: len(answered) > before + 500)
        stop.set()
        for each in asking:
            each.result(30)
        assert set(answered[-200:]) == {2}


def test_a_reload_arrives_once_at_most_where_a_worker_dies(connect, in_background, until, tmp_path):
    reloads = tmp_path / "reloads"
    with shared_port(2, reloads) as shared:
        client = connect(shared.target, connections=8, timeout=30)
        stop, done = threading.Event(), []

        def reload(thread):
            while not stop.is_set():
                name = f"model-{thread}-{len(done)}-{time.monotonic_ns()}"
                try:
                    client.reload([ModelConfig(name, "/models")])
                except errors.UnavailableError:
                    continue
                done.append(name)

        reloading = [in_background(reload, thread) for thread in range(8)]
        until(lambda: len(done) > 100)
        shared.kill(0)
        before = len(done)
        until(lambda: len(done) > before + 100)
        stop.set()
        for each in reloading:
            each.result(30)
        arrived = collections.Counter(reloads.read_text().split())
        assert set(arrived.values()) == {1}
        assert set(done) <= arrived.keys()


def statuses(peers, first):
    """Answers GetModelStatus: AVAILABLE, but by the connection that asked first only from call `first` on."""

    def answer(data, context):
        peers.append(context.peer())
        late = context.peer() == peers[0] and len(peers) < first
        state = pb.ModelVersionStatus.LOADING if late else pb.ModelVersionStatus.AVAILABLE
        version = pb.ModelVersionStatus(version=3, state=state)
        return pb.GetModelStatusResponse(model_version_status=[version]).SerializeToString()

    return answer


def test_ready_means_ready_by_every_connection(raw_server, connect):
    peers = []
    client = connect(raw_server(statuses(peers, 4)), connections=3)
    assert [status.version for status in client.wait_until_ready(20)] == [3]
    assert len(set(peers)) == 3
    assert peers.count(peers[0]) == 4


def test_not_ready_by_one_connection_is_not_ready(raw_server, connect):
    client = connect(raw_server(statuses([], 10**9)), connections=2)
    with pytest.raises(errors.DeadlineExceededError, match="LOADING"):
        client.wait_until_ready(0.5)


def open_files():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc")
def test_close_closes_all_connections(served, until):
    target = served(Peers())

    async def ask(client):
        async with client:
            await asyncio.gather(*(client.predict({"x": X}) for _ in range(20)))
            return opened(target)

    def ask_all(connections):
        with Client(target, connections=connections) as client:
            for _ in range(20):
                client.predict({"x": X})
            during = opened(target)
        until(lambda: opened(target) == 0)
        return during, asyncio.run(ask(AsyncClient(target, connections=connections)))

    ask_all(1)  # what gRPC opens once
    before = open_files()
    assert ask_all(5) == (5, 5)
    until(lambda: opened(target) == 0)
    until(lambda: open_files() <= before)


def opened(target):
    """The number of connections from this machine to a port."""
    port = int(target.rpartition(":")[2])
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()
    ]
    return sum(words[3] == "01" and words[2].endswith(f":{port:04X}") for words in lines)


def test_a_closed_client_says_so_by_every_connection(served, connect):
    client = connect(served(Peers()), connections=3)
    client.predict({"x": X})
    client.close()
    for _ in range(4):
        with pytest.raises(errors.ClientClosedError):
            client.predict({"x": X})


def test_close_ends_the_calls_of_all_connections(raw_server, connect, in_background, until):
    arrived, release = [], threading.Event()
    answer = lambda data, context: (arrived.append(context.peer()), release.wait(60), b"")[-1]  # noqa: E731
    client = connect(raw_server(answer, without="GetModelMetadata"), connections=3, timeout=30)
    calls = [in_background(client.predict, {"x": X}) for _ in range(3)]
    try:
        until(lambda: len(set(arrived)) == 3)
        client.close()
        for call in calls:
            with pytest.raises(errors.CancelledError):
                call.result(20)
    finally:
        release.set()


def test_a_client_of_several_connections_works_on_in_a_forked_process(served):
    peers = Peers()
    client = Client(served(peers), connections=3)
    for _ in range(3):
        client.predict({"x": X})
    child = os.fork()
    if child == 0:
        for _ in range(6):
            client.predict({"x": X}, timeout=20)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    for _ in range(3):
        client.predict({"x": X})
    client.close()
    assert len(set(peers.calls)) == 6


def test_connections_serve_one_event_loop_after_the_other(served):
    client = AsyncClient(served(Peers()), connections=2)
    for _ in range(2):
        asyncio.run(client.predict({"x": X}))
    loop = blocking.Loop()
    loop.run(client.predict({"x": X}))
    with pytest.raises(errors.ClientClosedError, match="belongs to another event loop, which still runs"):
        asyncio.run(client.predict({"x": X}))
    loop.run(client.close())
    loop.stop()


@pytest.mark.parametrize("connections", [0, -1, 2.0, "2", True, None])
def test_connections_that_are_no_count_are_refused(connect, connections):
    with pytest.raises(errors.InvalidInputError, match="connections must be a positive integer. Received"):
        connect("localhost:1", connections=connections)
